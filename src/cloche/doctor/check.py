"""One row of the survey."""

from __future__ import annotations

from cloche.model.plain import Plain

OK, WEAKER, MISSING = "ok", "weaker", "missing"


class Check(Plain):
    """A thing, its state (ok, weaker or missing), what that means, and how to get it."""

    name: str
    state: str
    meaning: str
    remedy: str = ""
