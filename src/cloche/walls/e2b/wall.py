"""A wall that somebody else keeps up: a service that speaks E2B's protocol, another Cloche or a cloud.

What separates its sandboxes, and how much memory, processors and disk each has, is the service's affair: the limits of
an order that concern these are not enforced, and not measured either.  The engine's own are: time and output.
"""

from __future__ import annotations

from time import monotonic

from cloche.errors import Misconfigured, Refused, SandboxFailed
from cloche.model.order import Order
from cloche.walls.e2b.remote import Account
from cloche.walls.jail.standing_claims import connections
from cloche.walls.jail.wall import AsyncJailed

_MAKE_S = 120.0  # the client gives up before
_INSTALL = "Install it beside Cloche: pip install 'cloche[e2b]'."


class AsyncE2B:
    """Sandboxes on a service; what is not said here is as the client's own variables say (E2B_API_KEY …)."""

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

    async def hold(self, order: Order, first: bytes = b"") -> AsyncLodged:
        """Ask for a sandbox, and wait until it is there: that takes longer than many a program may run."""
        from cloche.walls.e2b.carrier import of_this_process

        if order.mounts:
            raise Refused(
                "Folders of this host cannot be mounted into a sandbox that is elsewhere.",
                hint="Write the files into it: box.files.write.",
            )
        carrier = of_this_process()
        try:
            stream, agents_end, leash, carriers_end = connections(first)
        except OSError as problem:
            raise SandboxFailed(f"No sandbox can be started: {problem.strerror}.") from problem
        carrier.carry(self._account, order.lifetime_s, agents_end, carriers_end)
        lodged = AsyncLodged(carrier, stream, leash)
        try:
            await lodged.settle()
        except BaseException:
            lodged.abandon()
            raise
        return lodged


class AsyncLodged(AsyncJailed):
    """A sandbox on the service, held by a leash whose other end the carrier has."""

    async def settle(self) -> None:
        """Wait until its agent has been started."""
        heard = await self._hear(monotonic() + _MAKE_S)
        if heard != "ready":
            raise SandboxFailed("The service did not make a sandbox in time.", hint="Try again, or use the jail.")

    async def pause(self) -> None:
        """Not to be had: the conversation with the agent would not outlive it."""
        raise Refused("A sandbox behind isolation='e2b' cannot be paused.", hint="Keep it, or close it.")
