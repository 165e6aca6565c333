# Generated from src/cloche/sandbox/ports.py by scripts/blocking.py: edit that file instead.
"""`box.ports`: servers inside a sandbox, and connections to them."""

from __future__ import annotations

from cloche.model.files import Port
from cloche.model.limits import within
from cloche.sandbox.checks import checked_data, checked_port

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from cloche.blocking.sandbox.backend import PortsBackend, Tunnel
    from cloche.sandbox.checks import Data

MAX_WAIT_S = 7 * 86400.0


class Ports:
    """`box.ports`: TCP on the sandbox's own loopback interface, which cannot be reached in any other way."""

    def __init__(self, backend: PortsBackend) -> None:
        self._backend = backend

    def list(self) -> list[Port]:
        """List the ports on which servers listen, in order."""
        return self._backend.list()

    def connect(self, port: int) -> Connection:
        """Connect to a server inside, and return the connection, which you must close."""
        return Connection(self._backend.connect(checked_port(port)))

    def wait(self, port: int, timeout: float | None = 30) -> Port:
        """Wait until a server on this port accepts connections; raise Gone if none does in time."""
        number = checked_port(port)
        if timeout is not None:
            timeout = within("timeout", timeout, 0, MAX_WAIT_S, "seconds")
        return self._backend.wait(number, timeout)


class Connection:
    """A connection to a server inside a sandbox.

    Both ends may send at the same time; a sender waits for a slow receiver.
    """

    def __init__(self, tunnel: Tunnel) -> None:
        self._tunnel = tunnel

    def receive(self) -> bytes:
        """Wait for the next bytes; `b""` at the end."""
        return self._tunnel.receive()

    def send(self, data: str | Data) -> None:
        """Send all of the data; wait while the server does not read."""
        self._tunnel.send(memoryview(checked_data("data", data)))

    def send_eof(self) -> None:
        """End the sending direction; data from the server can still be received."""
        self._tunnel.send_eof()

    def close(self) -> None:
        """Close the connection at once, in both directions."""
        self._tunnel.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        data = self.receive()
        if not data:
            raise StopIteration
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
