"""A bounded log of events that any number of readers follow, from any place in it.

The log keeps the events themselves.  A reader costs a cursor: it takes a few events at a time and holds no others, so
readers that stop reading keep nothing alive that the log has dropped.  A door turns events into its own format, and
keeps small texts here while the log has readers, so that each is encoded once, no matter how many clients listen.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from codecs import getincrementaldecoder
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from operator import attrgetter
from sys import getsizeof
from time import time
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakValueDictionary

from cloche.model.events import Exit, Failed, Output, Shown
from cloche.model.result import Display, Result
from cloche.results.fields import plain
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

if TYPE_CHECKING:
    from cloche.service.log_space import LogSpace

PIECE = 64 << 10  # characters of events that a reader takes at a time, and bytes of output in one event
STUCK_S = 30.0  # the writer waits no longer than this for a reader that reads nothing
_ENCODED = 8  # the part of a log's bound that encoded texts may take beside the events: an eighth
_ENTRY = 64  # least number of characters that an event counts for
_PARENT = 128  # characters that the name of its run or command counts for
_LAST = (Failed, Exit, RunEnded, AttemptEnded, ContestEnded, NoResult)  # no output comes after these
_utf8 = getincrementaldecoder("utf-8")


class LogEntry:
    """An event in a log: its number, the time, and its size in characters, which is an estimate.

    `end` is the total size of all events up to this one.  `weight` is the part of the size that the log is the only one
    to keep: the result in a last event belongs to its run or command.
    """

    __slots__ = ("end", "event", "number", "size", "time", "weight")

    def __init__(self, number: int, event: LoggedEvent, size: int, end: int) -> None:
        self.number, self.event, self.size, self.end, self.time = number, event, size, end, time()
        self.weight = size
        if isinstance(event, RunEnded):
            self.weight = _ENTRY + len(event.recorded)
        elif isinstance(event, Exit):
            self.weight = _ENTRY

    @property
    def kind(self) -> str:
        return self.event.kind


class Encoded:
    """The text of a value.  The value is kept, too: after its end, another object might get its id."""

    __slots__ = ("__weakref__", "text", "value")

    def __init__(self, value: object, text: str) -> None:
        self.value, self.text = value, text


class EventLog:
    """Events, numbered from 1.

    Past `most` characters the oldest events are dropped, and a reader that wanted them gets a Gap instead.
    `on_add` is called with every entry.  Logs with a common `space` have a common bound as well, until they end.
    """

    def __init__(
        self, most: int, on_add: Callable[[LogEntry], None] | None = None, space: LogSpace | None = None
    ) -> None:
        self._most, self._on_add, self._space = most, on_add, space
        self._entries: list[LogEntry] = []
        self._dropped = 0  # entries at the beginning of the list that are not kept any more
        self._characters = _Characters()
        self._waiting: set[asyncio.Future[None]] = set()
        self._readers: set[LogReader] = set()
        self._encoded: OrderedDict[tuple[str, int], Encoded] = OrderedDict()
        self._shared: WeakValueDictionary[tuple[str, int], Encoded] = WeakValueDictionary()
        self._encoded_size = 0
        self.size = 0  # weight of the events that are kept
        self.added = 0  # total size of all events so far
        self.last = 0  # number of the newest event
        self.over = False

    # --- writing

    def add(self, event: LoggedEvent | Output, size: int = 0) -> None:
        """Append an event; `size` is for callers that know it.  Output that is long becomes several events."""
        if isinstance(event, Output):
            for start in range(0, len(event.data) or 1, PIECE):
                part = event if len(event.data) <= PIECE else Output(event.kind, event.data[start : start + PIECE])
                piece = self._characters.join(part)
                self._append(piece, size or _size_of(piece))
            return
        if isinstance(event, _LAST):
            self.flush()
        self._append(event, size or _size_of(event))

    def flush(self) -> None:
        """Append incomplete characters whose other bytes never came."""
        for printed in self._characters.rest():
            self._append(printed, _size_of(printed))

    def _append(self, event: LoggedEvent, size: int) -> None:
        self.last += 1
        self.added += size
        entry = LogEntry(self.last, event, size, self.added)
        self._entries.append(entry)
        self.size += entry.weight
        if self.size > self._most:
            self.shrink(self._most)
        if self._space is not None:
            self._space.grew(self, entry.weight)
        if self._on_add is not None:
            self._on_add(entry)
        self.wake()

    def shrink(self, most: int) -> int:
        """Drop the oldest events until the others have at most this size; keep the newest one.  Return the rest."""
        entries, index, before = self._entries, self._dropped, self.size
        while self.size > most and index < len(entries) - 1:
            self.size -= entries[index].weight
            entries[index] = _NO_ENTRY
            index += 1
        self._dropped = index
        if index > len(entries) // 2:  # rarely, so that dropping an event takes the same time however long the log is
            del entries[:index]
            self._dropped = 0
        if self._space is not None:
            self._space.shrank(before - self.size)
        return self.size

    def forget(self, last: LoggedEvent | None = None) -> None:
        """Drop all events of a log that has ended; readers that are not at the end get a Gap, and then the end.

        `last` takes the place of the last event.
        """
        self._entries, self._dropped, self.size = [], 0, 0
        if last is not None and self.last:
            entry = LogEntry(self.last, last, _size_of(last), self.added)
            self._entries, self.size = [entry], entry.weight
        self._encoded.clear()
        self._encoded_size = 0
        self.wake()

    async def keep_pace(self) -> None:
        """Wait while a reader is so far behind that it would miss events.

        A reader that reads nothing for a while is given up until it reads again, unless it is awaited.
        """
        while self._readers and not self.over:
            far = self.added - self._most // 2
            behind = [reader for reader in self._readers if reader.seen < far and not reader.is_given_up]
            if not behind:
                return
            patience_s = None if any(reader.is_awaited for reader in behind) else STUCK_S
            if not await self.change(patience_s):
                for reader in behind:
                    reader.is_given_up = True
                return

    def end(self) -> None:
        """Note that nothing more will be added."""
        if self._space is not None:
            self._space.leave(self)
            self._space = None
        self.over = True
        self.wake()

    # --- reading

    def reader(self, after: int = 0, *, is_awaited: bool = False) -> LogReader:
        """Return a reader of the events after number `after`; the writer waits without limit for one that `is_awaited`.

        Close it, or use it as a context manager.
        """
        return LogReader(self, min(after, self.last), is_awaited)

    async def batches(self, after: int = 0, patience_s: float | None = None) -> AsyncIterator[list[LogEntry]]:
        """Yield the events after number `after`, a few at a time, until the log ends.

        An empty list means that nothing was added for `patience_s` seconds.
        """
        with self.reader(after) as reader:
            while True:
                batch = await reader.next(patience_s)
                if not batch and reader.over:
                    return
                yield batch

    def last_output(self, size: int) -> tuple[int, int]:
        """Return after which event the last `size` bytes of output begin, and how many bytes to leave out there."""
        found = 0
        for index in range(len(self._entries) - 1, self._dropped - 1, -1):
            entry = self._entries[index]
            if isinstance(entry.event, OutputPiece):
                found += len(entry.event.data)
                if found >= size:
                    return entry.number - 1, found - size
        return 0, 0

    @property
    def is_read(self) -> bool:
        """Whether the log has a reader."""
        return bool(self._readers)

    def encoded(self, value: object, form: str, encode: Callable[[], str]) -> Encoded:
        """Return an event, or a large part of one, as text in one `form`; `encode` is called when there is no text.

        Texts are kept only while the log has readers, and within a bound: they can be made again, and a finished run
        should not take twice its size.  A text that a reader still holds is shared with others in any case.
        """
        key = form, id(value)
        found = self._shared.get(key)
        if found is not None:
            return found
        made = self._shared[key] = Encoded(value, encode())
        if self._readers:
            self._encoded[key] = made
            self._encoded_size += len(made.text)
            while self._encoded_size > self._most // _ENCODED and len(self._encoded) > 1:
                _, oldest = self._encoded.popitem(last=False)
                self._encoded_size -= len(oldest.text)
        return made

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
        """Return the first events that are kept after number `after`; a Gap stands for those that were dropped.

        They have at most PIECE characters together, unless the first alone has more.
        """
        entries = self._entries
        first = entries[self._dropped].number if entries else self.last + 1
        if after + 1 < first:
            end = entries[self._dropped].end - entries[self._dropped].size if entries else self.added
            return [LogEntry(first - 1, Gap(after + 1, first - 1), _ENTRY, end)]
        start = self._dropped + after + 1 - first
        if start >= len(entries):
            return []
        most = entries[start].end - entries[start].size + PIECE
        stop = max(start + 1, bisect_right(entries, most, lo=start, key=_end))
        return entries[start:stop]

    def seen_until(self, after: int) -> int:
        """Return the total size of the events up to number `after`."""
        entries = self._entries
        if after >= self.last or not entries:
            return self.added
        entry = entries[self._dropped + max(0, after + 1 - entries[self._dropped].number)]
        return entry.end - entry.size

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


_end = attrgetter("end")
_NO_ENTRY = LogEntry(0, Gap(0, 0), 0, 0)  # in place of an entry that is not kept any more


class LogReader:
    """One reader's place in a log.  A call of `next` confirms that the reader has handled the events before."""

    def __init__(self, log: EventLog, after: int, is_awaited: bool) -> None:
        self._log, self._after, self.is_awaited = log, after, is_awaited
        self.seen = self._taken = log.seen_until(after)
        self.is_given_up = False  # the writer waits no longer
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
            self.is_given_up = False
            log.wake()  # the writer may be keeping pace with this reader
        while not self._closed:
            batch = log.since(self._after)
            if batch:
                self._after, self._taken = batch[-1].number, batch[-1].end
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
        size += 8 * len(part)
        if size > most:
            break
        size += sum(map(len, part)) if isinstance(part, dict) else 0
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
        size += shown_size(shown, most - size)
    return size


def shown_size(display: Display, most: float = float("inf")) -> int:
    """Estimate the size of a display as text."""
    if display.size is not None:
        return display.size
    return characters_in(display.mime, most) + characters_in(display.metadata, most)


def size_of(result: Result) -> int:
    """Estimate the bytes of memory that a result takes."""
    texts = (result.stdout, result.stderr, *(log.text for log in result.logs))
    printed = len(result.stdout_bytes) + len(result.stderr_bytes)
    return printed + sum(map(getsizeof, texts)) + sum(map(shown_size, result.results))


# Functions that estimate the characters of an event, by its kind; a kind that is missing here is small.
_SIZES: dict[type, Callable[[Any], int]] = {
    OutputPiece: lambda event: max(len(event.data), len(event.whole)),
    Shown: lambda event: shown_size(event.result),
    Failed: lambda event: characters_in(plain(event.error)),
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
