"""The journal: a fact is durable as soon as it is in a file, and goes to the database when that suits.

A kill of the process loses nothing: the system has the lines, and the next process replays them.  The file, not the
queue in memory, is what is true; the queue only spares reading the file while the database keeps up.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from pathlib import Path

from cloche.errors import Misconfigured
from cloche.model.records import Fact
from cloche.store import journal_files, journal_lines
from cloche.store.database import DatabaseAway, Unstorable
from cloche.store.journal_files import Segment, Unrecorded
from cloche.store.store import Store

LINGER_S = 0.25  # facts that come within it share a transaction, and a run that ends within it needs one row
BATCH = 250
BATCH_BYTES = 8 << 20
QUEUE = 2000  # facts in memory; past it they are read from the file again
QUEUE_BYTES = 16 << 20
SEGMENT_BYTES = 16 << 20  # where a file ends and the next begins
TIDY_BYTES = 1 << 20  # a file of this size is replaced as soon as nothing in it is needed
MAX_BYTES = 2 << 30  # what may wait for a database that is away
FLUSH_S = 30.0  # for the database to take everything, at the start and at the end
ASKED_S = 10.0  # the same while somebody waits for an answer
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0

_log = logging.getLogger("cloche.store")

Position = tuple[int, int]  # a segment's number, and an offset in it


class Late(DatabaseAway, TimeoutError):
    """The database has not taken everything in time."""


class Journal:
    """Facts on their way to the database; all but `start` and `stop` belong to the loop that has started it."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.garbage = 0  # lines that were no facts, in what earlier processes left
        self._folder, self._store = folder, store
        self._lock = -1
        self._segments: deque[Segment] = deque()  # oldest first; the last is being written
        self._bytes = 0  # in all of them
        self._stored: Position = (0, 0)  # what comes before it is in the database
        self._queue: deque[tuple[Fact, Position, int]] = deque()  # what comes after it, without a gap
        self._queue_bytes = 0
        self._is_spilled = False  # there is more in the files than in the queue
        self._more, self._hurry = asyncio.Event(), asyncio.Event()
        self._waiting: list[tuple[Position, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None
        self.is_away = False  # the database did not answer when it was last asked

    async def start(self) -> None:
        """Bring what earlier processes left to the database, then be ready."""
        self._lock = journal_files.lock(self._folder)
        try:
            self._segments = deque(journal_files.left_in(self._folder))
            self._bytes = sum(segment.size for segment in self._segments)
            self._is_spilled = bool(self._segments)
            number = self._segments[-1].number + 1 if self._segments else 1
            self._segments.append(Segment.create(self._folder, number))
            self._stored = (self._segments[0].number, 0)
            self._writer = asyncio.create_task(self._write(), name="journal")
            await self.flush(FLUSH_S)
        except BaseException as problem:
            await self._end()
            if isinstance(problem, TimeoutError):
                raise Misconfigured(
                    "What the last server left cannot be brought to the database, which does not answer.",
                    hint="Nothing is lost: start again when the database is there.",
                ) from problem
            raise
        if self.garbage:
            _log.warning("%d lines of the journal were damaged, and were skipped", self.garbage)

    def note(self, fact: Fact) -> None:
        """Make a fact durable, now; `Unrecorded` means that it is not, and must not be acknowledged."""
        if self._writer is None:
            raise Unrecorded("The journal is closed.", hint="The server is stopping; try again when it is back.")
        line = journal_lines.encode(fact)
        if self._bytes + len(line) > MAX_BYTES:
            raise Unrecorded("The database is away for too long.", hint="Try again when it is back.")
        current = self._segments[-1]
        if current.size and current.size + len(line) > SEGMENT_BYTES:
            current = self._begin_segment()
        before = current.size
        current.append(line)
        self._bytes += current.size - before
        if self._is_spilled or len(self._queue) >= QUEUE or self._queue_bytes >= QUEUE_BYTES:
            self._is_spilled = True
        else:
            self._queue.append((fact, (current.number, current.size), len(line)))
            self._queue_bytes += len(line)
        self._more.set()

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until the database has everything that was noted so far; `Late` when it takes too long."""
        if self._is_all_stored():
            return
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._end_position(), arrived))
        self._hurry.set()
        self._more.set()
        try:
            async with asyncio.timeout(ASKED_S if timeout is None else timeout):
                await arrived
        except TimeoutError:
            raise Late(
                "The database does not take what happened last.", hint="It is tried again; wait a moment."
            ) from None
        finally:
            self._waiting = [each for each in self._waiting if each[1] is not arrived]

    async def stop(self, timeout: float | None = None) -> None:
        """Bring everything to the database and remove the files; what it does not take in time, the next start does."""
        if self._writer is None:
            return
        try:
            await self.flush(FLUSH_S if timeout is None else timeout)
        except Late:
            _log.warning("The database does not answer; %s keeps what it lacks until the next start", self._folder)
        finally:
            await self._end()

    async def _end(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.cancel()
            await asyncio.wait([writer])
        if self._segments and self._is_all_stored():
            self._segments[-1].remove()
        for segment in self._segments:
            segment.close()
        self._segments.clear()
        self._queue.clear()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    # The writer

    async def _write(self) -> None:
        while True:
            await self._more.wait()
            try:
                async with asyncio.timeout(LINGER_S):
                    await self._hurry.wait()
            except TimeoutError:
                pass
            try:
                await self._drain()
            except Exception:
                _log.exception("The journal in %s cannot be read or tidied; it is tried again", self._folder)
                self._forget_queue()
                await asyncio.sleep(_LONGEST_PAUSE_S)

    async def _drain(self) -> None:
        goal = self._end_position()  # what comes meanwhile may wait for company
        while self._stored < goal and not self._is_all_stored():
            facts, end = await self._next_batch()
            await self._deliver(facts)
            self._move_to(end)
        if self._is_all_stored():
            self._more.clear()
        if not self._waiting:
            self._hurry.clear()

    def _forget_queue(self) -> None:
        """Read everything again from the files: a batch may have been taken from the queue and not arrived."""
        self._queue.clear()
        self._queue_bytes = 0
        self._is_spilled = True

    async def _next_batch(self) -> tuple[list[Fact], Position]:
        """What comes next, from memory or else from the file."""
        facts: list[Fact] = []
        end, size = self._stored, 0
        while self._queue and len(facts) < BATCH and size < BATCH_BYTES:
            fact, end, length = self._queue.popleft()
            facts.append(fact)
            size += length
        self._queue_bytes -= size
        if facts:
            return facts, end
        segment = self._segments[0]
        number, offset = self._stored
        facts, offset, garbage = await asyncio.to_thread(segment.read, offset, BATCH, BATCH_BYTES)
        self.garbage += garbage
        return facts, (number, offset)

    async def _deliver(self, facts: list[Fact]) -> None:
        """Write them to the database, however long it takes to come back."""
        pause = _FIRST_PAUSE_S
        while facts:
            try:
                await self._store.write(facts)
            except Unstorable as problem:
                await self._deliver_apart(facts, problem)
                return
            except Exception as problem:
                self._say_away(problem)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            else:
                self._say_back()
                return

    async def _deliver_apart(self, facts: list[Fact], problem: Unstorable) -> None:
        """One of them the database will never take: it is set aside, so that the others arrive."""
        if len(facts) > 1:
            half = len(facts) // 2
            await self._deliver(facts[:half])
            await self._deliver(facts[half:])
            return
        path = self._folder / "unstorable.jsonl"
        _log.error("A fact is kept in %s: %s", path, problem)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, journal_lines.encode(facts[0]))
        finally:
            os.close(fd)

    def _say_away(self, problem: Exception) -> None:
        if not self.is_away:
            unexpected = None if isinstance(problem, DatabaseAway) else problem
            _log.warning("What happens is kept in %s for now: %s", self._folder, problem, exc_info=unexpected)
        self.is_away = True

    def _say_back(self) -> None:
        if self.is_away:
            _log.info("The database answers again")
        self.is_away = False

    # Positions

    def _end_position(self) -> Position:
        return self._segments[-1].number, self._segments[-1].size

    def _is_all_stored(self) -> bool:
        return not self._segments or self._stored == self._end_position()

    def _begin_segment(self) -> Segment:
        segment = Segment.create(self._folder, self._segments[-1].number + 1)
        self._segments[-1].close()
        self._segments.append(segment)
        return segment

    def _move_to(self, position: Position) -> None:
        """The database has what comes before this: remove the files that are not needed any more."""
        self._stored = position
        if position == self._end_position():
            self._is_spilled = False
            if self._segments[-1].size >= TIDY_BYTES:
                try:
                    self._begin_segment()
                except Unrecorded:
                    pass  # a full disk: the old file will do
        while len(self._segments) > 1 and self._stored >= (self._segments[0].number, self._segments[0].size):
            done = self._segments.popleft()
            done.remove()
            self._bytes -= done.size
            self._stored = max(self._stored, (self._segments[0].number, 0))
        for target, arrived in self._waiting:
            if target <= self._stored and not arrived.done():
                arrived.set_result(None)
