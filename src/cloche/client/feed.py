"""Server-sent events in order; after a broken connection they continue, and none is lost or comes twice."""

from __future__ import annotations

from _collections import deque  # type: ignore[import-not-found]  # `collections` takes two milliseconds to import
from json import loads
from time import monotonic

from cloche.client.connection import AsyncAnswer, Broken
from cloche.client.server import AsyncServer
from cloche.errors import SandboxFailed
from cloche.io.tasks import pause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SILENCE_S = 60.0  # a server that is silent for this long counts as lost: it sends a heartbeat every 15 seconds
_MOST_BREAKS = 10  # in a row, without an event between them


class AsyncFeed:
    """The events of a run, a command or a watched folder."""

    def __init__(self, server: AsyncServer, answer: AsyncAnswer | None = None, again: str = "") -> None:
        self._server, self._answer = server, answer
        self.again = again  # the path from which the events can be read again, after a number
        self.run = "" if answer is None else answer.headers.get("cloche-run", "")  # the id of the run, if any
        self._last = 0  # the number of the last event
        self._lines = Lines()
        self._events: deque[tuple[int, str, Any]] = deque()
        self._breaks = 0
        self._closed = False

    async def next(self, timeout: float | None = None) -> tuple[str, Any] | None:
        """Wait for the next event; return its kind and fields; None after `close`.  TimeoutError if nothing comes."""
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            while self._events:
                number, kind, fields = self._events.popleft()
                if number > self._last or not number:
                    self._last = number or self._last
                    self._breaks = 0
                    return kind, fields
            if self._closed:
                return None
            await self._more(deadline)

    def end(self) -> None:
        """Note that no more events come, so that the connection can serve other requests."""
        answer, self._answer, self._closed = self._answer, None, True
        if answer is not None:
            self._server.done_with(answer)

    def close(self) -> None:
        """Stop; a task that waits for an event gets None."""
        answer, self._answer, self._closed = self._answer, None, True
        if answer is not None:
            answer.connection.close()

    async def _more(self, deadline: float | None) -> None:
        if self._answer is None:
            await self._attach()
        answer = self._answer
        assert answer is not None
        left = SILENCE_S if deadline is None else max(deadline - monotonic(), 0)
        try:
            piece = await answer.piece(min(left, SILENCE_S))
            if piece:
                self._events.extend(self._lines.feed(piece))
            else:
                await self._broke("it ended too soon")
        except TimeoutError:
            if left <= SILENCE_S and deadline is not None:
                raise
            await self._broke("nothing was heard for a minute")
        except Broken as problem:
            await self._broke(problem)

    async def _broke(self, why: object) -> None:
        if self._closed:
            return
        if self._answer is not None:
            self._answer.connection.close()
            self._answer = None
        self._breaks += 1
        if not self.again or self._breaks > _MOST_BREAKS:
            self._closed = True
            raise SandboxFailed(f"The connection to {self._server.url} broke: {why}.", "Look at the server's log.")
        if self._breaks > 1:
            await pause(0.05 * 2 ** min(self._breaks, 6))

    async def _attach(self) -> None:
        separator = "&" if "?" in self.again else "?"
        path = f"{self.again}{separator}after={self._last}"
        answer = await self._server.ask("GET", path, accept="text/event-stream")
        self._lines = Lines()
        self._answer = answer
        if self._closed:  # closed while the request was sent
            self.close()


class Lines:
    """Assembles events from lines.  It works on bytes, because an event may be large, and each copy of it as well."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._searched = 0  # bytes of the rest that contain no newline
        self._number, self._kind = 0, ""
        self._data = b""

    def feed(self, piece: bytes) -> list[tuple[int, str, Any]]:
        """Take bytes; return the events that are complete now."""
        self._rest += piece
        events = []
        begin = 0
        while (end := self._rest.find(b"\n", max(begin, self._searched))) >= 0:
            if end == begin or (end == begin + 1 and self._rest[begin] == ord("\r")):
                event = self._event()
                if event is not None:
                    events.append(event)
            else:
                self._line(begin, end)
            begin = end + 1
        del self._rest[:begin]
        self._searched = len(self._rest)
        return events

    def _line(self, begin: int, end: int) -> None:
        if self._rest.startswith(b"data:", begin):
            with memoryview(self._rest) as rest:
                more = bytes(rest[begin + 5 : end])  # JSON allows a space before it and a \r after it
            self._data = self._data + b"\n" + more if self._data else more
            return
        field, _, value = self._rest[begin:end].decode(errors="replace").partition(":")
        if field == "event":
            self._kind = value.strip()
        elif field == "id" and value.strip().isdecimal():
            self._number = int(value)

    def _event(self) -> tuple[int, str, Any] | None:
        number, kind, data = self._number, self._kind, self._data
        self._number, self._kind, self._data = 0, "", b""
        if not data:
            return None  # a heartbeat
        try:
            return number, kind or "message", loads(data)
        except ValueError as problem:
            raise Broken(f"an event is no JSON: {problem}", True) from problem
