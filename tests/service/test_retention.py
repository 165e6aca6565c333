"""What the server keeps of runs and commands: one bound for those that have ended, one for those under way."""

from __future__ import annotations

import asyncio

import pytest

from cloche.doors import unread
from cloche.doors.unread import Unread
from cloche.model.events import Output
from cloche.model.result import Result
from cloche.service.event_log import PIECE, EventLog, size_of
from cloche.service.events import Gap, Notice, OutputPiece, RunEnded
from cloche.service.log_space import LogSpace
from cloche.service.retention import Retention


class Item:
    def __init__(self, owner: str, size: int, is_read: bool = False) -> None:
        self.owner, self.size, self.is_read = owner, size, is_read
        self.forgotten = False

    def forget(self) -> None:
        self.forgotten = True


def test_who_keeps_the_most_loses_the_oldest_that_nobody_reads() -> None:
    kept = Retention(most_bytes=1000)
    small = Item("ada", 100)
    items = [Item("eve", 300, is_read=number == 0) for number in range(5)]
    for item in (small, *items):
        kept.add(item)

    assert [item.forgotten for item in items] == [False, True, True, False, False]
    assert not small.forgotten
    assert kept.size <= 1000
    for item in (small, *items):
        kept.drop(item)
    assert (kept.size, kept.count) == (0, 0)


def test_readers_cannot_keep_everything() -> None:
    kept = Retention(most_bytes=1000)
    items = [Item("eve", 400, is_read=True) for _ in range(5)]
    for item in items:
        kept.add(item)
    assert [item.forgotten for item in items] == [True, True, True, False, False]


def test_there_are_only_so_many() -> None:
    kept = Retention(most_items=3)
    items = [Item("eve", 1) for _ in range(5)]
    for item in (Item("ada", 1), *items):
        kept.add(item)
    assert [item.forgotten for item in items] == [True, True, True, False, False]


def test_the_longest_log_makes_room_for_others() -> None:
    space = LogSpace(10_000)
    quiet, loud = EventLog(1 << 30, space=space), EventLog(1 << 30, space=space)
    quiet.add(Notice("small", {}))
    for _ in range(1000):
        loud.add(Output("stdout", b"x" * 1000))
    assert space.used <= 10_000
    assert space.used == quiet.size + loud.size
    assert [entry.number for entry in quiet.since(0)] == [1]
    loud.end()
    quiet.end()
    assert space.used == 0


async def test_a_reader_takes_pieces_and_holds_no_others() -> None:
    log = EventLog(1 << 30)
    for _ in range(64):
        log.add(Output("stdout", b"x" * (PIECE // 4)))
    log.add(Output("stdout", b"x" * 3 * PIECE))  # becomes several events
    log.end()
    with log.reader() as reader:
        sizes = []
        while batch := await reader.next():
            assert all(isinstance(entry.event, OutputPiece) for entry in batch)
            sizes.append(sum(entry.size for entry in batch))
    assert sum(sizes) == log.added
    assert max(sizes) <= PIECE + 100


async def test_reading_a_long_log_takes_time_in_proportion() -> None:
    """A reader takes each event once, wherever it is in the log: 200,000 events would take minutes otherwise."""
    log = EventLog(1 << 30)
    for _ in range(200_000):
        log.add(Output("stdout", b"x"))
    log.end()
    with log.reader() as reader:
        count = 0
        while batch := await reader.next():
            count += len(batch)
    assert count == 200_000


async def test_what_is_forgotten_leaves_a_gap_and_the_end() -> None:
    log = EventLog(1 << 30)
    result = Result("x" * 1000, "", 0, 0.0, 0.0, 0, stdout_bytes=b"x" * 1000)
    for _ in range(9):
        log.add(Output("stdout", b"x"))
    log.add(RunEnded("run", "", result))
    log.end()
    with log.reader(2) as reader:
        log.forget(RunEnded("run", "", result.replace(stdout="", stdout_bytes=b""), "{}"))
        assert [entry.event for entry in await reader.next()] == [Gap(3, 9)]
        assert [entry.number for entry in await reader.next()] == [10]
        assert await reader.next() == []
    assert log.size < 200


def test_a_text_counts_for_the_memory_that_it_takes() -> None:
    plain, wide = Result("x" * 1000, "", 0, 0.0, 0.0, 0), Result("x" * 999 + "\N{SNAKE}", "", 0, 0.0, 0.0, 0)
    assert size_of(wide) > 3 * size_of(plain)


async def test_a_silent_reader_stops_no_writer_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloche.service.event_log.STUCK_S", 0.05)
    log = EventLog(1000)
    with log.reader():
        for _ in range(200):  # each would wait again if the reader were not given up
            log.add(Output("stdout", b"x" * 100))
            await asyncio.wait_for(log.keep_pace(), 5)
    assert log.last == 200


async def test_answers_that_nobody_reads_are_cut_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "LOOK_S", 0.01)
    waiting = Unread(most=1000)
    cut: list[str] = []
    with waiting.hold(600, lambda: cut.append("silent")), waiting.hold(600, lambda: cut.append("reading")) as reading:
        while not cut:
            reading.move()
            await asyncio.sleep(0)
        assert waiting.size == 600
        await asyncio.sleep(0.1)
    assert cut == ["silent"]
    assert waiting.size == 0
