"""The log of a run: numbered events, readers at any place in it, and bounds."""

from __future__ import annotations

import asyncio

import pytest

from cloche.errors import Gone
from cloche.model.events import Output, Started
from cloche.service.event_log import EventLog, LogEntry, characters_in
from cloche.service.events import Gap, NoResult, Notice, OutputPiece


async def all_of(log: EventLog, after: int = 0) -> list[LogEntry]:
    return [entry async for batch in log.batches(after) for entry in batch]


def printed(entries: list[LogEntry]) -> list[tuple[bytes, bytes]]:
    return [(entry.event.data, entry.event.whole) for entry in entries if isinstance(entry.event, OutputPiece)]


async def test_events_are_numbered_and_can_be_read_from_any_place() -> None:
    log = EventLog(10_000)
    for pid in range(5):
        log.add(Started(pid))
    log.end()

    assert [entry.number for entry in await all_of(log)] == [1, 2, 3, 4, 5]
    assert [entry.event for entry in await all_of(log, 3)] == [Started(3), Started(4)]
    assert await all_of(log, 99) == []


async def test_dropped_events_leave_a_gap() -> None:
    log = EventLog(1000)
    for _ in range(10):
        log.add(Output("stdout", b"x" * 200))
    log.end()

    first, *rest = await all_of(log)
    assert first.event == Gap(1, rest[0].number - 1)
    assert log.size <= 1000
    assert rest[-1].number == 10


async def test_a_character_is_whole_in_one_event_and_its_bytes_come_as_they_came() -> None:
    log = EventLog(10_000)
    for piece in (b"a\xe2\x82", b"\xac", b"\xff", b"\xe2"):
        log.add(Output("stdout", piece))
    log.add(NoResult(Gone("The sandbox has ended.")))
    log.end()

    found = printed(await all_of(log))
    assert found == [(b"a\xe2\x82", b"a"), (b"\xac", "€".encode()), (b"\xff", b"\xff"), (b"\xe2", b""), (b"", b"\xe2")]


async def test_the_writer_waits_for_a_slow_reader_and_goes_on_when_it_leaves() -> None:
    log = EventLog(1000)

    async def write() -> None:
        for _ in range(20):
            log.add(Output("stdout", b"x" * 100))
            await log.keep_pace()

    with log.reader(is_awaited=True) as reader:
        writing = asyncio.create_task(write())
        entries = await reader.next()
        while len(entries) < 8:
            assert not writing.done()
            entries += await reader.next()
        assert [entry.number for entry in entries] == list(range(1, len(entries) + 1))
        await asyncio.sleep(0)
    await writing
    assert log.last == 20


async def test_a_reader_that_takes_nothing_is_given_up_unless_it_asked_to_be_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cloche.service.event_log.STUCK_S", 0.01)
    log = EventLog(1000)
    with log.reader():
        log.add(Output("stdout", b"x" * 900))
        await log.keep_pace()
    with log.reader(is_awaited=True) as reader:
        log.add(Output("stdout", b"x" * 900))
        waiting = asyncio.create_task(log.keep_pace())
        await asyncio.wait({waiting}, timeout=0.1)
        assert not waiting.done()
        reader.close()
        await waiting


async def test_closing_a_reader_ends_its_wait() -> None:
    log = EventLog(1000)
    reader = log.reader()
    waiting = asyncio.create_task(reader.next())
    await asyncio.sleep(0)
    reader.close()
    assert await waiting == []
    assert reader.over


async def test_texts_are_kept_for_other_readers_within_a_bound_and_only_while_there_are_any() -> None:
    log = EventLog(800)
    made: list[str] = []

    def text(value: Notice) -> str:
        def make() -> str:
            made.append(value.kind)
            return "x" * 40

        return log.encoded(value, "json", make).text

    notices = [Notice(str(number), {}) for number in range(4)]
    with log.reader(), log.reader():
        for notice in (notices[0], notices[0], notices[1], notices[0]):
            text(notice)
        assert made == ["0", "1"]
        for notice in notices:
            text(notice)
        assert made == ["0", "1", "2", "3"]
        text(notices[0])  # the oldest texts made room for others
        assert made[4:] == ["0"]
    text(notices[0])
    assert made[5:] == ["0"]


def test_sizes_are_estimated_without_writing_anything() -> None:
    assert characters_in("x" * 100) == 100
    assert 1000 < characters_in({"a": ["x" * 500, {"b": "y" * 500}]}) < 1100
    assert characters_in([["x" * 10] * 10] * 1000, most=50) < 100_000
