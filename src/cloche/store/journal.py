"""The journal: a fact is durable as soon as it is in a file, and reaches the database a little later.

Killing the process loses nothing: the operating system has the lines, and the next process replays them.  The file is
authoritative, not the queue in memory; the queue only saves reading the file while the database keeps up.
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

LINGER_S = 0.25  # facts that arrive within this time share a transaction; a run that ends within it is one row
BATCH = 250
BATCH_BYTES = 8 << 20
QUEUE = 2000  # facts kept in memory; further ones are read back from the file
QUEUE_BYTES = 16 << 20
SEGMENT_BYTES = 16 << 20  # the size at which a new file is begun
TIDY_BYTES = 1 << 20  # a file of this size is replaced as soon as the database has all of it
MAX_BYTES = 2 << 30  # the most that may wait for a database that does not answer
FLUSH_S = 30.0  # how long the database may take for everything, at the start and at the end
REQUEST_FLUSH_S = 10.0  # the same while a request waits for it
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0
AWAY_FLUSH_S = _LONGEST_PAUSE_S + 1  # the same when the database did not answer the last time: one more attempt

_log = logging.getLogger("cloche.store")

Position = tuple[int, int]  # a segment's number, and an offset in it


class Late(DatabaseAway, TimeoutError):
    """The database has not accepted everything in time."""


class Journal:
    """Facts on their way to the database; after `start`, call everything from the event loop that called it."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.garbage = 0  # damaged lines in the files of earlier processes
        self._folder, self._store = folder, store
        self._lock = -1
        self._segments: deque[Segment] = deque()  # oldest first; the last is being written
        self._bytes = 0  # in all segments
        self._stored: Position = (0, 0)  # the database has everything before this position
        self._queue: deque[tuple[Fact, Position, int]] = deque()  # the facts right after it, without a gap
        self._queue_bytes = 0
        self._is_spilled = False  # the files hold more than the queue
        self._more, self._hurry = asyncio.Event(), asyncio.Event()
        self._waiting: list[tuple[Position, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None
        self.is_away = False  # the database did not answer the last time

    async def start(self) -> None:
        """Replay what earlier processes left behind, then accept facts."""
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
                    "The database does not answer, so the journal of the last server cannot be replayed.",
                    hint="Nothing is lost. Start again when the database is available.",
                ) from problem
            raise
        if self.garbage:
            _log.warning("skipped %d damaged lines of the journal", self.garbage)

    def note(self, fact: Fact) -> None:
        """Make a fact durable now.  `Unrecorded` means that it is not durable, so it must not be acknowledged."""
        if self._writer is None:
            raise Unrecorded("The server is stopping.", hint="Try again when it is running again.")
        line = journal_lines.encode(fact)
        if self._bytes + len(line) > MAX_BYTES:
            raise Unrecorded("The database has been unavailable for too long.", hint="Try again when it is back.")
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
        """Wait until the database has everything noted so far; raise `Late` if that takes too long."""
        if self._is_all_stored():
            return
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._end_position(), arrived))
        self._hurry.set()
        self._more.set()
        try:
            usual = AWAY_FLUSH_S if self.is_away else REQUEST_FLUSH_S
            async with asyncio.timeout(usual if timeout is None else timeout):
                await arrived
        except TimeoutError:
            raise Late(
                "The database has not stored the latest events yet.",
                hint="The server keeps trying. Wait a moment, then try again.",
            ) from None
        finally:
            self._waiting = [each for each in self._waiting if each[1] is not arrived]

    async def stop(self, timeout: float | None = None) -> None:
        """Flush to the database and remove the files; what is not stored in time is left for the next start."""
        if self._writer is None:
            return
        try:
            await self.flush(FLUSH_S if timeout is None else timeout)
        except Late:
            _log.warning("The database does not answer; the next start replays the rest from %s", self._folder)
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
                _log.exception("Cannot read or tidy the journal in %s; trying again", self._folder)
                self._forget_queue()
                await asyncio.sleep(_LONGEST_PAUSE_S)

    async def _drain(self) -> None:
        goal = self._end_position()  # facts that arrive from now on wait for the next batch
        while self._stored < goal and not self._is_all_stored():
            facts, end = await self._next_batch()
            await self._deliver(facts)
            self._move_to(end)
        if self._is_all_stored():
            self._more.clear()
        if not self._waiting:
            self._hurry.clear()

    def _forget_queue(self) -> None:
        """Drop the queue and read from the files again: a batch may have left the queue without being stored."""
        self._queue.clear()
        self._queue_bytes = 0
        self._is_spilled = True

    async def _next_batch(self) -> tuple[list[Fact], Position]:
        """Take the next facts from the queue, or from the file if the queue is empty."""
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
        """Write facts to the database; retry for as long as it does not answer."""
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
        """Find the fact that the database rejects and set it aside, so that the others are stored."""
        if len(facts) > 1:
            half = len(facts) // 2
            await self._deliver(facts[:half])
            await self._deliver(facts[half:])
            return
        path = self._folder / "unstorable.jsonl"
        _log.error("The database rejects a fact; it was appended to %s: %s", path, problem)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, journal_lines.encode(facts[0]))
        finally:
            os.close(fd)

    def _say_away(self, problem: Exception) -> None:
        if not self.is_away:
            unexpected = None if isinstance(problem, DatabaseAway) else problem
            _log.warning("Keeping events in %s for now: %s", self._folder, problem, exc_info=unexpected)
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
        """Record that the database has everything before this position, and remove the files that are done."""
        self._stored = position
        if position == self._end_position():
            self._is_spilled = False
            if self._segments[-1].size >= TIDY_BYTES:
                try:
                    self._begin_segment()
                except Unrecorded:
                    pass  # the disk is full: go on with the old file
        while len(self._segments) > 1 and self._stored >= (self._segments[0].number, self._segments[0].size):
            done = self._segments.popleft()
            done.remove()
            self._bytes -= done.size
            self._stored = max(self._stored, (self._segments[0].number, 0))
        for target, arrived in self._waiting:
            if target <= self._stored and not arrived.done():
                arrived.set_result(None)
