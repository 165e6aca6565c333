"""A bounded log of events that any number of readers follow, from any place in it.

The log keeps the events themselves.  A door turns them into its own format, and keeps the text here while the log has
readers, so that each event is encoded once, no matter how many clients listen.
"""

from __future__ import annotations

import asyncio
from codecs import getincrementaldecoder
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from time import time
from typing import Any, Self

from cloche.model.events import Exit, Failed, Output, Shown
from cloche.model.result import Result
from cloche.service.events import (
    AttemptEnded,
    ContestEnded,
    Gap,
    LoggedEvent,
    NoResult,
    Notice,
    OfCommand,
    OfRun,
    OutputPiece,
    RunEnded,
    ScoreRequested,
    ToolRequested,
)

STUCK_S = 30.0  # the writer waits no longer than this for a reader that reads nothing
_ENCODED = 8  # the part of a log's bound that encoded texts may take beside the events: an eighth
_ENTRY = 64  # least number of characters that an event counts for
_PARENT = 128  # characters that the name of its run or command counts for
_LAST = (Failed, Exit, RunEnded, AttemptEnded, ContestEnded, NoResult)  # no output comes after these
_utf8 = getincrementaldecoder("utf-8")


class LogEntry:
    """An event in a log: its number, the time, and its size in characters, which is an estimate."""

    __slots__ = ("event", "number", "size", "time")

    def __init__(self, number: int, event: LoggedEvent, size: int) -> None:
        self.number, self.event, self.size, self.time = number, event, size, time()

    @property
    def kind(self) -> str:
        return self.event.kind


class EventLog:
    """Events, numbered from 1.

    Past `most` characters the oldest events are dropped, and a reader that wanted them gets a Gap instead.
    `on_add` is called with every entry.
    """

    def __init__(self, most: int, on_add: Callable[[LogEntry], None] | None = None) -> None:
        self._most, self._on_add = most, on_add
        self._entries: deque[LogEntry] = deque()
        self._characters = _Characters()
        self._waiting: set[asyncio.Future[None]] = set()
        self._readers: set[LogReader] = set()
        self._encoded: OrderedDict[tuple[str, int], tuple[object, str]] = OrderedDict()
        self._encoded_size = 0
        self.size = 0  # size of the events that are kept
        self.added = 0  # total size of all events so far
        self.last = 0  # number of the newest event
        self.over = False

    # --- writing

    def add(self, event: LoggedEvent | Output, size: int = 0) -> None:
        """Append an event; `size` is for callers that know it."""
        if isinstance(event, Output):
            event = self._characters.join(event)
        elif isinstance(event, _LAST):
            self.flush()
        self._append(event, size or _size_of(event))

    def flush(self) -> None:
        """Append incomplete characters whose other bytes never came."""
        for printed in self._characters.rest():
            self._append(printed, _size_of(printed))

    def _append(self, event: LoggedEvent, size: int) -> None:
        self.last += 1
        entry = LogEntry(self.last, event, size)
        self._entries.append(entry)
        self.size += size
        self.added += size
        while self.size > self._most and len(self._entries) > 1:
            self.size -= self._entries.popleft().size
        if self._on_add is not None:
            self._on_add(entry)
        self.wake()

    async def keep_pace(self) -> None:
        """Wait while a reader is so far behind that it would miss events.

        A reader that reads nothing for a while is given up, unless it is awaited.
        """
        while self._readers and not self.over:
            behind = [reader for reader in self._readers if self.added - reader.seen > self._most // 2]
            if not behind:
                return
            patience_s = None if any(reader.is_awaited for reader in behind) else STUCK_S
            if not await self.change(patience_s):
                return

    def end(self) -> None:
        """Note that nothing more will be added."""
        self.over = True
        self.wake()

    # --- reading

    def reader(self, after: int = 0, *, is_awaited: bool = False) -> LogReader:
        """Return a reader of the events after number `after`; the writer waits without limit for one that `is_awaited`.

        Close it, or use it as a context manager.
        """
        return LogReader(self, min(after, self.last), is_awaited)

    async def batches(self, after: int = 0, patience_s: float | None = None) -> AsyncIterator[list[LogEntry]]:
        """Yield the events after number `after`, as many at a time as there are, until the log ends.

        An empty list means that nothing was added for `patience_s` seconds.
        """
        with self.reader(after) as reader:
            while True:
                batch = await reader.next(patience_s)
                if not batch and reader.over:
                    return
                yield batch

    def encoded(self, value: object, form: str, encode: Callable[[], str]) -> str:
        """Return an event, or a large part of one, as text in one `form`; `encode` is called when no text is kept.

        Texts are kept only while the log has readers: they can be made again, and a finished run should not take
        twice its size.
        """
        key = form, id(value)
        cached = self._encoded.get(key)
        if cached is not None:
            return cached[1]
        text = encode()
        if self._readers:
            self._encoded[key] = value, text  # keep the value too: after its end, another object may get its id
            self._encoded_size += len(text)
            while self._encoded_size > self._most // _ENCODED and len(self._encoded) > 1:
                _, (_, oldest) = self._encoded.popitem(last=False)
                self._encoded_size -= len(oldest)
        return text

    # --- for readers

    def enter(self, reader: LogReader) -> None:
        self._readers.add(reader)

    def leave(self, reader: LogReader) -> None:
        self._readers.discard(reader)
        if not self._readers:
            self._encoded.clear()
            self._encoded_size = 0
        self.wake()  # the writer may have waited for this reader

    def since(self, after: int) -> list[LogEntry]:
        """Return the events that are kept after number `after`; a Gap stands for those that were dropped."""
        first = self._entries[0].number if self._entries else self.last + 1
        if after + 1 < first:
            return [LogEntry(first - 1, Gap(after + 1, first - 1), _ENTRY), *self._entries]
        return [self._entries[index] for index in range(after + 1 - first, len(self._entries))]

    async def change(self, patience_s: float | None) -> bool:
        """Wait until an event is added or read; return False when none was in time."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            async with asyncio.timeout(patience_s):
                await future
        except TimeoutError:
            return False
        finally:
            self._waiting.discard(future)
        return True

    def wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)


class LogReader:
    """One reader's place in a log.  A call of `next` confirms that the reader has handled the events before."""

    def __init__(self, log: EventLog, after: int, is_awaited: bool) -> None:
        self._log, self._after, self.is_awaited = log, after, is_awaited
        self.seen = self._taken = log.added
        self._closed = False
        log.enter(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def over(self) -> bool:
        """Whether no more events come: the log has ended and everything was read, or the reader is closed."""
        return self._closed or (self._log.over and self._after >= self._log.last)

    async def next(self, patience_s: float | None = None) -> list[LogEntry]:
        """Wait for the events since the last call; return none when nothing was added in time, or when it is `over`."""
        log = self._log
        if self.seen != self._taken:
            self.seen = self._taken
            log.wake()  # the writer may be keeping pace with this reader
        while not self._closed:
            batch = log.since(self._after)
            if batch:
                self._after, self._taken = batch[-1].number, log.added
                return batch
            if log.over or not await log.change(patience_s):
                break
        return []

    def close(self) -> None:
        """Stop reading; wakes a task that waits in `next`."""
        self._closed = True
        self._log.leave(self)


class _Characters:
    """Joins pieces of output, so that no reader of text gets half a character."""

    def __init__(self) -> None:
        self._unfinished = {"stdout": b"", "stderr": b""}

    def join(self, output: Output) -> OutputPiece:
        data = output.data
        before = self._unfinished[output.kind]
        whole = before + data if before else data
        decoder = _utf8("replace")
        decoder.decode(whole)
        rest = decoder.getstate()[0]
        self._unfinished[output.kind] = rest
        return OutputPiece(output.kind, data, whole[: -len(rest)] if rest else whole)

    def rest(self) -> list[OutputPiece]:
        left = [OutputPiece(stream, b"", rest) for stream, rest in self._unfinished.items() if rest]
        if left:
            self._unfinished = {"stdout": b"", "stderr": b""}
        return left


def characters_in(value: Any, most: float = float("inf")) -> int:
    """Estimate the size of a JSON value as text, without writing it; counting stops past `most`."""
    size = len(value) if isinstance(value, str) else 0
    rest = [value] if isinstance(value, dict | list | tuple) else []
    while rest and size <= most:
        part = rest.pop()
        size += 8 * len(part) + (sum(map(len, part)) if isinstance(part, dict) else 0)
        for each in part.values() if isinstance(part, dict) else part:
            if isinstance(each, str):
                size += len(each)
            elif isinstance(each, dict | list | tuple):
                rest.append(each)
    return size


def characters_of(result: Result, most: float = float("inf")) -> int:
    """Estimate the size of a result as text; counting stops past `most`."""
    size = len(result.stdout) + len(result.stderr) + sum(len(log.text) for log in result.logs)
    for shown in result.results:
        if size > most:
            break
        size += characters_in(shown.mime, most - size)
    return size


# Functions that estimate the characters of an event, by its kind; a kind that is missing here is small.
_SIZES: dict[type, Callable[[Any], int]] = {
    OutputPiece: lambda event: max(len(event.data), len(event.whole)),
    Shown: lambda event: characters_in(event.result.mime) + characters_in(event.result.metadata),
    Failed: lambda event: characters_in([event.error.message, event.error.traceback, event.error.traceback_ansi]),
    Exit: lambda event: characters_of(event.result),
    RunEnded: lambda event: len(event.recorded) or characters_of(event.result),
    AttemptEnded: lambda event: characters_of(event.result),
    ContestEnded: lambda event: sum(len(one.code) + characters_of(one.result) for one in event.best.candidates),
    ToolRequested: lambda event: characters_in([event.args, event.kwargs]),
    ScoreRequested: lambda event: characters_of(event.result),
    Notice: lambda event: characters_in(event.fields),
    OfRun: lambda event: _PARENT + len(event.code) + _size_of(event.event),
    OfCommand: lambda event: _PARENT + _size_of(event.event),
}


def _size_of(event: LoggedEvent) -> int:
    characters = _SIZES.get(type(event))
    return _ENTRY if characters is None else _ENTRY + characters(event)
