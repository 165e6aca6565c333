"""A wall that somebody else keeps up: a service that speaks E2B's protocol, such as another Cloche or a cloud.

The service decides what separates its sandboxes, and how much memory, processor time and disk each one has.  An order
with limits of its own for these is refused.  The engine enforces the limits of time and output, as behind every wall.
"""

from __future__ import annotations

from cloche.errors import Misconfigured, Refused, SandboxFailed
from cloche.model.limits import Limits
from cloche.model.order import Order
from cloche.walls import sockets
from cloche.walls.e2b.remote_sandbox import Account
from cloche.walls.leash import AsyncLeashHold

_MAKE_S = 120.0  # E2B's client gives up before
_INSTALL = "Install it beside Cloche: pip install 'cloche[e2b]'."
_USUAL = Limits()


class AsyncE2B:
    """Sandboxes on a service.  E2B's client reads what is not given here from its own variables (E2B_API_KEY …)."""

    name = "e2b"

    def __init__(
        self,
        api_key: str | None = None,
        *,
        api_url: str | None = None,
        sandbox_url: str | None = None,
        template: str | None = None,
    ) -> None:
        from importlib.util import find_spec

        if find_spec("e2b") is None:
            raise Misconfigured("isolation='e2b' needs E2B's client, which is not installed.", hint=_INSTALL)
        account = Account(api_key, api_url, sandbox_url)
        self._account = account._replace(template=template) if template else account

    async def hold(self, order: Order, first: bytes = b"") -> AsyncLeashHold:
        """Ask for a sandbox and wait until its agent runs, which takes longer than many programs do."""
        from cloche.walls.e2b.carrier import of_this_process

        _check(order)
        carrier = of_this_process()
        try:
            stream, agents_end, leash, carriers_end = sockets.stream_and_leash(first)
        except OSError as problem:
            raise SandboxFailed(f"No sandbox can be started: {problem.strerror}.") from problem
        carrier.carry(self._account, order.lifetime_s, agents_end, carriers_end)
        hold = AsyncLeashHold(carrier, stream, leash)
        try:
            await hold.ready(_MAKE_S)
        except BaseException:
            hold.abandon()
            raise
        return hold


def _check(order: Order) -> None:
    """Refuse what the service cannot do."""
    if order.mounts:
        raise Refused(
            "Folders of this host cannot be mounted into a sandbox behind isolation='e2b', which is on another host.",
            hint="Write the files into it: box.files.write.",
        )
    limits = {
        "memory": order.limits.memory_bytes != _USUAL.memory_bytes,
        "cpu": order.limits.cpu != _USUAL.cpu,
        "disk": order.limits.disk_bytes != _USUAL.disk_bytes,
        "processes": order.limits.processes != _USUAL.processes,
    }
    for name, is_set in limits.items():
        if is_set:
            raise Refused(
                f"{name} cannot be limited behind isolation='e2b': the service's template decides it.",
                hint=f"Leave {name} out, or choose another template with CLOCHE_E2B_TEMPLATE.",
            )
