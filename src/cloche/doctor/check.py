"""One row of the survey."""

from __future__ import annotations

from cloche.model.plain import Plain

OK, WEAKER, MISSING = "ok", "weaker", "missing"


class Check(Plain):
    """One subject, its state (ok, weaker or missing), the meaning of that state, and how to improve it."""

    name: str
    state: str
    meaning: str
    remedy: str = ""
