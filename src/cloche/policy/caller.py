"""The caller of a verb: which key, whose it is, its scopes and its policy."""

from __future__ import annotations

from dataclasses import dataclass, field

from cloche.policy.key_policy import KeyPolicy

SCOPES = ("run", "read", "admin")
_IMPLIED_BY = {"run": {"run", "admin"}, "read": {"read", "run", "admin"}, "admin": {"admin"}}


@dataclass(frozen=True, slots=True)
class Caller:
    """Identifies the key behind a request and what that key grants."""

    key_id: str
    owner: str
    scopes: frozenset[str]
    policy: KeyPolicy = field(default_factory=KeyPolicy, hash=False)

    def may(self, scope: str) -> bool:
        """Return whether the key grants this scope.  `admin` includes `run`, and `run` includes `read`."""
        return not self.scopes.isdisjoint(_IMPLIED_BY[scope])


# The caller of a server that asks for no key (`--no-auth`).
ANYBODY = Caller("no-auth", "admin", frozenset({"admin"}))
