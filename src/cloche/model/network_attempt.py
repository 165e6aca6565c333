"""The record of an attempt to reach a host."""

from __future__ import annotations

from cloche.model.plain import Plain


class NetworkAttempt(Plain):
    """A program's attempt to reach a host."""

    host: str  # the name, or the address if the program used one
    port: int
    verdict: str  # "allowed" or "refused"
    rule: str  # the rule that decided; empty where no rule covers the host
    reason: str = ""  # why it was refused, what went wrong, ended it later or slowed it down; empty: nothing did
    bytes_up: int = 0
    bytes_down: int = 0
    duration: float = 0.0  # seconds
    time: float = 0.0  # seconds since the epoch
    number: int = 0  # counts the attempts of a sandbox from 1
    allow: str = ""  # the rule that would allow it; empty if it is allowed, or if no rule in `allow` can
