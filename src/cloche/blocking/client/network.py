# Generated from src/cloche/client/network.py by scripts/blocking.py: edit that file instead.
"""The network of a sandbox on a server: its policy, a new policy, and the record of attempts."""

from __future__ import annotations

from cloche.client import shapes
from cloche.model.network import Network, NetworkPolicy
from cloche.model.network_attempt import NetworkAttempt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.blocking.client.sandbox import ServerSandbox

_PAGE = 1000


class ServerNetwork:
    """What a sandbox on a server may reach, and what it tried to reach."""

    def __init__(self, sandbox: ServerSandbox) -> None:
        self._sandbox = sandbox

    def policy(self) -> NetworkPolicy:
        """Return the policy; a server returns no values of secrets, and keeps those that it is not sent."""
        return shapes.network_policy(self._sandbox.call("GET", "/network"))

    def replace(self, network: Network) -> NetworkPolicy:
        """Replace the policy."""
        return shapes.network_policy(self._sandbox.call("PUT", "/network", network.with_values()))

    def log(self, since: int) -> list[NetworkAttempt]:
        """Return the attempts after the one with the number `since`."""
        found: list[NetworkAttempt] = []
        while True:
            path = f"/network/log?since={found[-1].number if found else since}&limit={_PAGE}"
            page = (self._sandbox.call("GET", path))["items"]
            found += (NetworkAttempt(**shapes.fields_of(NetworkAttempt, one)) for one in page)
            if len(page) < _PAGE:
                return found
