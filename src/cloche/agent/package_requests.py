"""Passes requests for packages on to the engine: `pip install polars` in a cell, a command or a terminal.

The programs in walls/jail/package_programs.py connect to a socket that the agent has opened before anybody's code ran,
and send one line of JSON.  The engine's answers, lines of text and an exit code, go back the same way.  The socket has
no path, so no file in the workspace shows it; only processes in the sandbox's network namespace can reach it.
"""

from __future__ import annotations

from _socket import AF_UNIX, MSG_DONTWAIT, MSG_NOSIGNAL, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_STREAM, socket

from cloche.wire import frames
from cloche.wire.light_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.agent.main import Agent

ADDRESS = "\0cloche-packages"
_MAX_CLIENTS = 16
_MAX_REQUEST = 768 << 10  # with the manifests of a project; the engine takes no larger frame
_MAX_UNSENT = 256 << 10  # bytes of answers that a client does not read


def listen() -> socket | None:
    """Open the socket; while nobody's code runs, nobody else can have taken its name.

    None where a sandbox has no network namespace of its own, which tests of the walls try: then another has the name.
    """
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC)
    try:
        listener.bind(ADDRESS)
    except OSError:
        listener.close()
        return None
    listener.listen(_MAX_CLIENTS)
    return listener


class PackageRequests:
    """The clients that wait for packages."""

    def __init__(self, agent: Agent, listener: socket) -> None:
        self._agent, self._listener = agent, listener
        self._clients: dict[int, _Client] = {}
        self._last = 0
        agent.package_requests = self
        agent.watch(listener.fileno(), self._accept)

    def receive(self, payload: bytes) -> None:
        """Pass an answer of the engine on."""
        answer = frames.decode_json(payload)
        client = self._clients.get(answer.pop("call", 0))
        if client is not None:
            client.send(answer)

    def _accept(self) -> None:
        try:
            descriptor, _ = self._listener._accept()  # type: ignore[attr-defined]
        except OSError:
            return
        connection = socket(AF_UNIX, SOCK_STREAM, 0, descriptor)
        connection.setblocking(False)
        if len(self._clients) >= _MAX_CLIENTS:
            connection.close()
            return
        self._last += 1
        self._clients[self._last] = client = _Client(self, self._last, connection)
        self._agent.watch(connection.fileno(), client.read)

    def forward(self, number: int, request: dict[str, Any]) -> None:
        """Send a client's request to the engine."""
        request["call"] = number
        self._agent.send(frames.encode_json(frames.REQUESTS, frames.EVENT, request))

    def drop(self, number: int, connection: socket) -> None:
        """Forget a client."""
        if self._clients.pop(number, None) is not None:
            self._agent.unwatch(connection.fileno())
            connection.close()


class _Client:
    """A program in the sandbox that has connected."""

    def __init__(self, requests: PackageRequests, number: int, connection: socket) -> None:
        self._requests, self._number, self._connection = requests, number, connection
        self._line, self._unsent = bytearray(), bytearray()
        self._has_asked = False

    def read(self) -> None:
        """Read a part of the request, or notice that the client has left."""
        try:
            data = self._connection.recv(_MAX_REQUEST, MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._line += data
        if not data or self._has_asked or len(self._line) > _MAX_REQUEST:
            self._leave()
        elif b"\n" in self._line:
            self._has_asked = True
            try:
                request = loads(self._line.decode().strip())
                if not isinstance(request, dict):
                    raise ValueError("not an object")
                self._requests.forward(self._number, request)
            except (ValueError, RecursionError):
                self.send({"err": "Cloche does not understand this request for packages.\n", "exit": 2})

    def send(self, answer: dict[str, Any]) -> None:
        """Send an answer; after an exit code the client is done."""
        self._unsent += dumps(answer).encode() + b"\n"
        try:
            sent = self._connection.send(self._unsent, MSG_DONTWAIT | MSG_NOSIGNAL)
            del self._unsent[:sent]
        except BlockingIOError:
            pass  # the next answer takes the rest along
        except OSError:
            return self._leave()
        if "exit" in answer or len(self._unsent) > _MAX_UNSENT:
            if self._unsent:  # little, and the client reads: it waits for nothing else
                self._connection.settimeout(1.0)
                try:
                    self._connection.sendall(self._unsent)
                except OSError:
                    pass  # it does not read after all
            self._leave()

    def _leave(self) -> None:
        self._requests.drop(self._number, self._connection)
