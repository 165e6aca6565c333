"""A sandbox on a server: its lifetime, and requests about it."""

from __future__ import annotations

from _collections_abc import Mapping
from uuid import uuid4

from cloche.client import shapes
from cloche.client.feed import AsyncFeed
from cloche.client.files import AsyncServerFiles
from cloche.client.programs import AsyncServerPrograms
from cloche.errors import Gone
from cloche.io.tasks import AsyncLock, pause
from cloche.model.result import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.client.checkpoints import AsyncServerCheckpoints
    from cloche.client.network import AsyncServerNetwork
    from cloche.client.packages import AsyncServerPackages
    from cloche.client.ports import AsyncServerPorts
    from cloche.client.server import AsyncServer
    from cloche.client.sessions import AsyncServerSessions
    from cloche.sandbox.backend import AsyncSession
    from cloche.sandbox.requests import SandboxRequest

_REASONS = {"its time was up": "timeout", "it needed too much memory": "memory", "it was ended by its owner": "closed"}


class AsyncServerSandbox:
    """A sandbox on a server, made by this client or by another."""

    def __init__(
        self, server: AsyncServer, request: SandboxRequest, isolation: str, session: AsyncSession | None = None
    ) -> None:
        options: Mapping[str, Any] = request.server_options
        self.server, self._session, self.tools = server, session, request.tools
        self.limits, self.env, self.wall = request.limits, request.env, ""
        self.id: str | None = options.get("id")
        self.workspace: str | None = options.get("workspace")
        self.metadata: Mapping[str, str] = dict(options.get("metadata") or {})
        self._request = {
            **shapes.limits_fields(self.limits),
            "env": self.env,
            "mounts": shapes.mounts(request.mounts),
            "network": shapes.network_fields(request.network),
            "packages": shapes.packages_fields(request.packages),
            "environment": request.environment,
            "ttl": request.lifetime,
            "idle_timeout": options.get("idle_timeout"),
            "metadata": self.metadata,
            "tools": [] if request.tools is None else request.tools.names(),
            "undo": request.undo,
            "checkpoints": request.checkpoints,
            "persistent": bool(options.get("persistent")),
            "workspace": self.workspace,
            "isolation": isolation,
        }
        self._idempotency_key = uuid4().hex
        self._is_guest = self.id is not None  # another client has made the sandbox, and will end it
        self._is_open = self._ended = self.closed = self.paused = self._is_strange = False
        self._opening = AsyncLock()
        self.files, self.programs = AsyncServerFiles(self), AsyncServerPrograms(self)
        self._sessions: AsyncServerSessions | None = None
        self._checkpoints: AsyncServerCheckpoints | None = None

    # --- parts

    @property
    def sessions(self) -> AsyncServerSessions:
        """The sandbox's contexts."""
        if self._sessions is None:
            from cloche.client.sessions import AsyncServerSessions

            self._sessions = AsyncServerSessions(self)
        return self._sessions

    @property
    def checkpoints(self) -> AsyncServerCheckpoints:
        """The sandbox's checkpoints."""
        if self._checkpoints is None:
            from cloche.client.checkpoints import AsyncServerCheckpoints

            self._checkpoints = AsyncServerCheckpoints(self)
        return self._checkpoints

    @property
    def ports(self) -> AsyncServerPorts:
        """The servers inside the sandbox."""
        from cloche.client.ports import AsyncServerPorts  # imported late, because it imports a WebSocket library

        return AsyncServerPorts(self)

    @property
    def network(self) -> AsyncServerNetwork:
        """What the sandbox may reach."""
        from cloche.client.network import AsyncServerNetwork

        return AsyncServerNetwork(self)

    @property
    def packages(self) -> AsyncServerPackages:
        """The sandbox's packages."""
        from cloche.client.packages import AsyncServerPackages

        return AsyncServerPackages(self)

    # --- lifetime

    async def open(self) -> None:
        """Create the sandbox, or connect to the one that was named."""
        if self._ended:
            raise Gone("This sandbox has ended.", hint="Make a new one.")
        if not self._is_open:
            async with self._opening:
                if not self._is_open:
                    await self._open()

    async def _open(self) -> None:
        if self.id is None:
            key = f"Idempotency-Key: {self._idempotency_key}\r\n"
            takes_long = self._request["packages"] or self._request["environment"]  # minutes, if they are new
            patience = {"timeout": None} if takes_long else {}
            answer = await self.server.call("POST", "/v1/sandboxes", self._request, headers=key, safe=True, **patience)
        else:
            answer = await self.server.call("GET", f"/v1/sandboxes/{shapes.quoted(self.id)}")
            if answer["state"] != "alive":
                raise Gone(f"The sandbox has ended: {answer['reason'] or answer['state']}.", hint="Make a new one.")
        self.id, self.workspace = answer["id"], answer["workspace"]
        self.limits, self.wall, self.metadata = shapes.limits(answer["limits"]), answer["wall"], answer["metadata"]
        self.paused = bool(answer.get("paused"))
        self._is_open = True
        self._is_strange = self._is_guest
        await self._look_around()

    async def _look_around(self) -> None:
        """List the contexts of a sandbox that another client has made; a paused sandbox does not answer."""
        if self._is_strange and not self.paused and self._session is not None:
            self._is_strange = False
            await self._session.refresh()

    async def close(self) -> None:
        """End the sandbox and wait until it is removed.  A sandbox that was named by its id lives on."""
        if self._is_guest:
            self._ended = self.closed = True
        else:
            await self.kill()

    async def kill(self) -> None:
        """End the sandbox, even if another client has made it."""
        self._ended = self.closed = True
        if self.id is not None:
            await self.server.call("DELETE", self.path(""), timeout=None)

    async def let_go(self) -> None:
        """End the sandbox, if it was made; the server removes it afterwards."""
        if self.id is not None and not self._ended:
            await self.kill()

    async def pause(self) -> None:
        """Stop everything inside until `resume`."""
        await self.call("POST", "/pause", safe=True)
        self.paused = True

    async def resume(self) -> None:
        """Continue a paused sandbox."""
        await self.call("POST", "/resume", safe=True)
        self.paused = False
        await self._look_around()

    async def set_lifetime(self, seconds: float | None) -> None:
        """End the sandbox this many seconds from now; None: as late as the server allows."""
        await self.call("PATCH", "", {"ttl": seconds}, safe=True)

    async def usage(self) -> Usage:
        """Measure the resources that the sandbox uses now."""
        return shapes.usage(await self.call("GET", "/usage"))

    async def ended(self) -> str:
        """Wait until the sandbox has ended; return the reason, as one word."""
        if self.id is None:
            if self.closed:
                return "closed"
            await self.open()
        feed = AsyncFeed(self.server, again=self.path("/events"))
        try:
            while True:
                event = await feed.next()
                if event is None or event[0] == "sandbox.ended":
                    break
        except Gone:
            pass  # the sandbox has ended already
        finally:
            feed.close()
        while (answer := await self.server.call("GET", self.path("")))["state"] == "alive":
            await pause(0.02)  # the sandbox is about to end
        return _REASONS.get(answer["reason"], str(answer["reason"]))

    # --- requests

    def path(self, rest: str) -> str:
        """Return the address of something in this sandbox."""
        assert self.id is not None
        return f"/v1/sandboxes/{self.id}{rest}"

    async def call(self, method: str, path: str, body: Any = None, **how: Any) -> Any:
        """Send a request, by default about this sandbox; return its answer, parsed from JSON."""
        await self.open()
        return await self.server.call(method, self._whole(path), body, **how)

    async def items(self, path: str) -> list[dict[str, Any]]:
        """Return all items of a list."""
        await self.open()
        return await self.server.items(self._whole(path))

    async def feed(self, method: str, path: str, body: Any = None) -> AsyncFeed:
        """Send a request that is answered with events."""
        await self.open()
        data = b"" if body is None else shapes.json(body)
        answer = await self.server.ask(method, self._whole(path), data, accept="text/event-stream", timeout=None)
        return AsyncFeed(self.server, answer)

    def post_soon(self, method: str, path: str) -> None:
        """Send a request from code that cannot await."""
        if not self._ended:
            self.server.post(method, path)

    def _whole(self, path: str) -> str:
        return path if path.startswith("/v1/") else self.path(path)
