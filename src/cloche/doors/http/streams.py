"""Answers that take long: server-sent events, and waiting while the client may leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from itertools import chain
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from cloche.doors.gate.answering import Sending
from cloche.doors.gate.identity import caller_of
from cloche.doors.http.problems import RequestRefused
from cloche.doors.shapes import event_pieces, wrapped
from cloche.doors.unread import UNREAD, Unsent, moving
from cloche.errors import ClocheError, InvalidRun
from cloche.json_text import to_json
from cloche.model.result import Result
from cloche.service.event_log import PIECE, EventLog, LogEntry
from cloche.service.run import Run
from cloche.service.service import Service

T = TypeVar("T")

HEARTBEAT_S = 15.0
_BRIEF_S = 0.05
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
MEDIA_TYPE = "text/event-stream"
# For the OpenAPI description.  It has no type: some tools check the type against one event, which is an object, others
# against the whole stream, which is text.
_EVENTS = "server-sent events: `id` counts from 1, `event` is the kind, `data` is JSON"
STREAMED: dict[str, Any] = {MEDIA_TYPE: {"schema": {"description": _EVENTS}}}
# JSON comes first: generated clients take the first content type for the only one.
JSON_OR_STREAMED: dict[str, Any] = {"application/json": {}, **STREAMED}


def wants_events(request: Request) -> bool:
    """Return whether the client accepts server-sent events."""
    return MEDIA_TYPE in request.headers.get("accept", "")


def position(request: Request, after: int | None) -> int:
    """Return the number of the last event that the client has seen."""
    if after is not None:
        return after
    text = request.headers.get("last-event-id", "0")
    if not text.isdecimal() or len(text) > 15:
        raise InvalidRun(
            "Last-Event-ID has to be the number of an event.", hint="Leave it out to begin at the first event."
        )
    return int(text)


class LargeAnswer(StreamingResponse):
    """An answer that is written while it is sent; `size` is about the number of bytes that are kept meanwhile."""

    def __init__(self, pieces: Iterator[str], size: int, media_type: str | None) -> None:
        super().__init__(self._encoded(pieces), media_type=media_type)
        self._size = size
        self._unsent: Unsent | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with UNREAD.hold(self._size, scope["state"]["abort"]) as self._unsent:
            await super().__call__(scope, receive, send)

    async def _encoded(self, pieces: Iterator[str]) -> AsyncIterator[bytes]:
        assert self._unsent is not None
        for piece in moving(pieces, self._unsent):
            yield piece.encode()


class LongAnswer(StreamingResponse):
    """An answer that is made while it is sent.  A problem on the way cuts it off: nobody takes a part for the whole.

    Its source is closed when the client leaves, too.  The garbage collector would do that later, and in any order.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = Sending(send)
        try:
            await super().__call__(scope, receive, sending)
        except ClocheError:
            if not sending.begun:
                raise
            scope["state"]["abort"]()
        finally:
            await _close(self.body_iterator)


class EventStream(LongAnswer):
    """Server-sent events; `on_leave` is called after the last event, or when the client leaves earlier."""

    def __init__(
        self, lines: AsyncIterator[bytes], on_leave: Callable[[], Awaitable[None]] | None = None, run_id: str = ""
    ) -> None:
        # The run's id is in a header: a client that leaves before the first event can still cancel or follow the run.
        headers = {**HEADERS, "Cloche-Run": run_id} if run_id else HEADERS
        super().__init__(self._noted(lines), media_type=MEDIA_TYPE, headers=headers)
        self._on_leave = on_leave
        self._is_within = False  # an event was begun and not completed
        self.abort: Callable[[], None] = _nothing  # ends the connection

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert "reader" in scope["state"], "the route does not declare its `stream`, so that nothing bounds its readers"
        self.abort = scope["state"]["abort"]
        scope["state"]["last_words"] = self._last_words
        try:
            await super().__call__(scope, receive, send)
        finally:
            if self._on_leave is not None:
                await asyncio.shield(self._on_leave())

    async def _noted(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        try:
            async for piece in lines:
                is_whole = piece.endswith(b"\n\n")
                yield piece  # if the connection refuses the piece, the state is that of the piece before
                self._is_within = not is_whole
        finally:
            await _close(lines)

    def _last_words(self, problem: ClocheError) -> bytes:
        """The event that says why the stream ends; nothing within another event, which stays incomplete."""
        error = {"kind": "limit", "message": problem.message, "hint": problem.hint}
        return b"" if self._is_within else f"event: refused\ndata: {to_json({'error': error})}\n\n".encode()


def of_log(
    log: EventLog, after: int = 0, on_leave: Callable[[], Awaitable[None]] | None = None, run_id: str = ""
) -> EventStream:
    """Stream the events of a log after number `after`, until the log ends."""

    async def lines() -> AsyncIterator[bytes]:
        yield b": cloche\n\n"
        async for batch in log.batches(after, HEARTBEAT_S):
            if not batch:
                yield b": \n\n"
            for text in _texts(log, batch, answer):
                yield text.encode()

    answer = EventStream(lines(), on_leave, run_id)
    return answer


def _texts(log: EventLog, batch: list[LogEntry], answer: EventStream) -> Iterator[str]:
    """Some events as server-sent events: small ones together, a large one piece by piece."""
    lines = (
        wrapped(f"id: {entry.number}\nevent: {entry.kind}\ndata: ", event_pieces(log, entry), "\n\n") for entry in batch
    )
    if sum(entry.size for entry in batch) <= 2 * PIECE:
        yield "".join(chain.from_iterable(lines))
        return
    # Alone in its batch.  The log may forget it while the client reads, but then it is still kept here.
    with UNREAD.hold(batch[0].size, answer.abort) as unsent:
        yield from moving(chain.from_iterable(lines), unsent)


async def _close(source: object) -> None:
    if isinstance(source, AsyncGenerator):
        await source.aclose()


def _nothing() -> None:
    pass


def event(number: int, kind: str, fields: dict[str, Any]) -> bytes:
    """Encode an event that is in no log."""
    return f"id: {number}\nevent: {kind}\ndata: {to_json(fields)}\n\n".encode()


async def unless_left(request: Request, waiting: Awaitable[Any], on_leave: Callable[[], Awaitable[None]]) -> Any:
    """Wait on a client's behalf; if the client leaves, call `on_leave` and keep waiting."""
    task = asyncio.ensure_future(waiting)
    gone = asyncio.ensure_future(_left(request))
    try:
        done, _ = await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if task not in done:
            await on_leave()
        return await task
    finally:
        gone.cancel()


async def outcome(request: Request, run: Run, on_leave: Callable[[], Awaitable[None]]) -> Result:
    """Wait for a run's outcome on a client's behalf; watch for the client's leaving only if that takes long."""
    try:
        async with asyncio.timeout(_BRIEF_S):
            return await run.outcome()
    except TimeoutError:
        result: Result = await unless_left(request, run.outcome(), on_leave)
        return result


async def accepted(request: Request, service: Service, starting: Coroutine[Any, Any, T]) -> T:
    """Wait until a run is admitted; a client that leaves earlier gives up its place in the queue."""
    if not service.runs.is_full(caller_of(request.scope)):
        return await starting
    task = asyncio.ensure_future(starting)

    async def give_up() -> None:
        task.cancel()

    try:
        found: T = await unless_left(request, task, give_up)
    except asyncio.CancelledError:
        if task.cancelled():
            raise RequestRefused(499, "gone", "The client has left.") from None  # nobody reads this
        raise
    return found


async def _left(request: Request) -> None:
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return
