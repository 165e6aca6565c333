# Generated from src/cloche/sandbox/network.py by scripts/blocking.py: edit that file instead.
"""A sandbox's access to the network: `box.network`."""

from __future__ import annotations

from _collections_abc import Iterable, Mapping

from cloche.errors import InvalidRun
from cloche.model.network import Network, NetworkPolicy, network_of
from cloche.model.network_attempt import NetworkAttempt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.blocking.sandbox.backend import NetworkBackend


class NetworkAccess:
    """The network policy of a sandbox, and the log of its attempts to reach hosts."""

    def __init__(self, backend: NetworkBackend) -> None:
        self._backend = backend

    def policy(self) -> NetworkPolicy:
        """Return the policy as it was requested, the bound on it, and the policy in force."""
        return self._backend.policy()

    def allow(self, *rules: str) -> NetworkPolicy:
        """Allow more hosts, also for programs that are running; the policy stays as it is otherwise."""
        current = (self._backend.policy()).requested
        return self._backend.replace(current.replace(allow=(*current.allow, *rules)))

    def deny(self, *rules: str) -> NetworkPolicy:
        """Deny hosts that other rules allow; open connections to them end."""
        current = (self._backend.policy()).requested
        return self._backend.replace(current.replace(deny=(*current.deny, *rules)))

    def replace(self, network: str | Iterable[str] | Mapping[str, Any] | Network | None) -> NetworkPolicy:
        """Put another policy in force; open connections that it does not allow end."""
        return self._backend.replace(network_of(network))

    def log(self, since: int = 0) -> list[NetworkAttempt]:
        """Return the attempts to reach hosts, the oldest first: those with a number above `since`."""
        if type(since) is not int or since < 0:
            raise InvalidRun(f"since is the number of an attempt, not {since!r:.100}.")
        return self._backend.log(since)
