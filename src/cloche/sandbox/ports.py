"""`box.ports`: servers inside a sandbox, and connections to them."""

from __future__ import annotations

from cloche.model.files import Port
from cloche.model.limits import within
from cloche.sandbox.checks import checked_data, checked_port

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from cloche.sandbox.backend import AsyncPortsBackend, AsyncTunnel
    from cloche.sandbox.checks import Data

MAX_WAIT_S = 7 * 86400.0


class AsyncPorts:
    """`box.ports`: TCP on the sandbox's own loopback interface, which cannot be reached in any other way."""

    def __init__(self, backend: AsyncPortsBackend) -> None:
        self._backend = backend

    async def list(self) -> list[Port]:
        """List the ports on which servers listen, in order."""
        return await self._backend.list()

    async def connect(self, port: int) -> AsyncConnection:
        """Connect to a server inside, and return the connection, which you must close."""
        return AsyncConnection(await self._backend.connect(checked_port(port)))

    async def wait(self, port: int, timeout: float | None = 30) -> Port:
        """Wait until a server on this port accepts connections; raise Gone if none does in time."""
        number = checked_port(port)
        if timeout is not None:
            timeout = within("timeout", timeout, 0, MAX_WAIT_S, "seconds")
        return await self._backend.wait(number, timeout)


class AsyncConnection:
    """A connection to a server inside a sandbox.

    Both ends may send at the same time; a sender waits for a slow receiver.
    """

    def __init__(self, tunnel: AsyncTunnel) -> None:
        self._tunnel = tunnel

    async def receive(self) -> bytes:
        """Wait for the next bytes; `b""` at the end."""
        return await self._tunnel.receive()

    async def send(self, data: str | Data) -> None:
        """Send all of the data; wait while the server does not read."""
        await self._tunnel.send(memoryview(checked_data("data", data)))

    async def send_eof(self) -> None:
        """End the sending direction; data from the server can still be received."""
        await self._tunnel.send_eof()

    async def close(self) -> None:
        """Close the connection at once, in both directions."""
        await self._tunnel.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        data = await self.receive()
        if not data:
            raise StopAsyncIteration
        return data

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
