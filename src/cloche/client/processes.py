"""A running program in a sandbox on a server."""

from __future__ import annotations

from time import monotonic

from cloche.client import shapes
from cloche.client.feed import AsyncFeed
from cloche.errors import Gone
from cloche.model.events import Event, Exit, Output, Started
from cloche.model.result import Error, Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.client.sandbox import AsyncServerSandbox
    from cloche.sandbox.checks import Data

_SIGKILL = 9
_BYTES = "application/octet-stream"
# How a sandbox ended, and the program with it, by a phrase in the server's message.
_ENDS = {
    "its time was up": Error(
        "timeout", "The sandbox's time was up while the program ran.", "Give it a longer lifetime."
    ),
    "it needed too much memory": Error(
        "memory",
        "The sandbox needed more memory than it has.",
        "Work on less data at a time, or allow more with memory=.",
    ),
    "ended by its owner": Error(
        "killed", "The sandbox was closed while the program ran.", "Run it again in a new sandbox."
    ),
}
_LOST = Error("lost", "The sandbox ended before the program did.", "Run it again in a new sandbox; its files are gone.")


class AsyncServerProcess:
    """A running program in a sandbox on a server."""

    is_building = False  # not tracked here: the server answers once the program runs, or its build has begun

    def __init__(self, box: AsyncServerSandbox, command: dict[str, Any]) -> None:
        self._box, self._path = box, f"/commands/{command['id']}"
        self._feed = AsyncFeed(box.server, again=box.path(f"{self._path}/events"))
        self._received = 0  # bytes of output
        self._began = monotonic()
        self.pid: int | None = command["pid"]
        self.is_output_cut = False
        self.result: Result | None = None
        self.status: int | None = None

    async def advance(self) -> tuple[Event, ...]:
        """Wait for the next event."""
        try:
            found = await self._feed.next()
        except Gone as problem:
            return self._lost(problem)
        if found is None:
            return self._lost(Gone("it was closed"))
        kind, fields = found
        if kind == "error":
            self._feed.close()
            raise shapes.error(500, fields)
        event = shapes.command_event(kind, fields)
        if isinstance(event, Output):
            self._received += len(event.data)
            self.is_output_cut = self._received > self._box.limits.output_bytes
        elif isinstance(event, Started):
            self.pid = event.pid
        elif isinstance(event, Exit):
            self.result, self.status = event.result, _status(event.result)
            self._feed.end()
        return () if event is None else (event,)

    async def feed(self, data: Data) -> None:
        """Send the whole standard input."""
        await self._ask("POST", "/stdin?eof=true", data)

    async def send_input(self, data: memoryview) -> memoryview:
        """Send all of the data; the server answers when the program has read it, or never will."""
        await self._ask("POST", "/stdin", data)
        return data[:0]

    def has_room(self) -> bool:
        """Return True: the server waits for room."""
        return True

    async def await_room(self) -> bool:
        """Return whether the program still runs; the server waits for room."""
        return self.result is None

    async def close_stdin(self) -> None:
        """Close the standard input."""
        await self._ask("POST", "/stdin?eof=true")

    async def resize(self, columns: int, rows: int) -> None:
        """Change the size of the terminal."""
        await self._call("/resize", {"columns": columns, "rows": rows})

    async def signal(self, number: int) -> None:
        """Send a signal to the program."""
        await self._call("/signal", {"signal": number})

    async def kill(self) -> None:
        """Kill the program and all processes that it has started."""
        await self._ask("DELETE", "")

    async def give_up(self) -> None:
        """Kill the program; its result is not wanted any more."""
        if self.result is None:
            await self.kill()
            self._feed.close()

    async def _call(self, path: str, body: dict[str, Any]) -> None:
        if self.result is None:
            try:
                await self._box.call("POST", self._path + path, body)
            except Gone:
                pass  # the program has ended, and its events report how

    async def _ask(self, method: str, path: str, data: Data = b"") -> None:
        if self.result is None:
            server, where = self._box.server, self._box.path(self._path + path)
            try:
                await server.read(await server.ask(method, where, data, timeout=None, content_type=_BYTES))
            except Gone:
                pass

    def _lost(self, problem: Gone) -> tuple[Event, ...]:
        """End the program with its sandbox; its events already carried its output."""
        sign = next((sign for sign in _ENDS if sign in problem.message), "")
        error = _ENDS["ended by its owner"] if self._box.closed else _ENDS.get(sign, _LOST)
        code = 124 if error.kind == "timeout" else 128 + _SIGKILL
        self.result = Result("", "", code, monotonic() - self._began, 0.0, 0, error, wall=self._box.wall)
        self._feed.close()
        return (Exit(self.result),)

    def __del__(self) -> None:
        self._feed.close()


def _status(result: Result) -> int | None:
    """Return the exit code, or minus the signal, as far as the result shows it."""
    kind = None if result.error is None else result.error.kind
    if kind == "lost":
        return None
    if kind == "timeout":
        return -_SIGKILL
    return 128 - result.exit_code if kind is not None and result.exit_code > 128 else result.exit_code
