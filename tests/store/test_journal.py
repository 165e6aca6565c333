"""Facts that are noted reach the database once, whatever happens to the process, the database or the file."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.store import noter
from tests.store.facts import audit, run, sandbox
from tests.store.postgresql import PostgreSQL
from tests.waiting import eventually_async

from cloche.errors import Misconfigured
from cloche.model.records import Fact
from cloche.store import journal as journals
from cloche.store import journal_lines
from cloche.store.database import DatabaseAway
from cloche.store.journal import Journal
from cloche.store.journal_files import Unrecorded
from cloche.store.store import Store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
async def journal(folder: Path, store: Store) -> AsyncIterator[Journal]:
    started = Journal(folder, store)
    await started.start()
    yield started
    await started.stop()


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("journal-*"))


def leave(folder: Path, content: bytes, number: int = 1) -> None:
    """Leave what a process that was killed leaves."""
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / f"journal-{number:012}.jsonl").write_bytes(content)


async def names(store: Store) -> list[str]:
    return sorted(found.id for found in (await store.runs("ada", limit=100_000))[0])


async def test_what_is_noted_is_in_the_file_at_once_and_in_the_database_after_a_flush(
    journal: Journal, folder: Path, store: Store
) -> None:
    facts: list[Fact] = [run("r1"), sandbox("s1", metadata={"a": "b"}), audit("a1"), run("r1", "done", result="{}")]
    for fact in facts:
        journal.note(fact)
    (file,) = files(folder)
    assert [journal_lines.decode(line) for line in file.read_bytes().splitlines(keepends=True)] == facts
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    await journal.flush()
    assert await store.run("ada", "r1") == facts[3]
    assert await store.sandbox("ada", "s1") == facts[1]
    assert facts[2] in (await store.audit(limit=5))[0]


async def test_facts_arrive_without_anybody_waiting_for_them(journal: Journal, store: Store) -> None:
    journal.note(run("r1"))
    await eventually_async(lambda: store.run("ada", "r1"))


async def test_stopping_leaves_nothing_but_the_lock_and_notes_no_more(folder: Path, store: Store) -> None:
    journal = Journal(folder, store)
    await journal.start()
    journal.note(run("r1"))
    await journal.stop()
    assert [entry.name for entry in folder.iterdir()] == ["lock"]
    assert await names(store) == ["r1"]
    with pytest.raises(Unrecorded):
        journal.note(run("r2"))
    again = Journal(folder, store)
    await again.start()
    await again.stop()


async def test_a_torn_last_line_and_damaged_ones_are_skipped(folder: Path, store: Store) -> None:
    torn = journal_lines.encode(run("torn", "done"))
    damaged = [
        b"\0" * 100,
        b"{",
        b"[]",
        b"null",
        b'{"fact":"run"}',
        b'{"fact":"king","id":"x"}',
        b"\xff\xfe",
        b"[" * 9999,
    ]
    content = (
        journal_lines.encode(run("r1"))
        + b"".join(line + b"\n" for line in damaged)
        + journal_lines.encode(run("r1", "done"))
    )
    leave(folder, content + torn[:-20])
    leave(folder, b"", 2)
    leave(folder, torn[:-1], 3)
    leave(folder, journal_lines.encode(run("r2", "done")), 4)
    journal = Journal(folder, store)
    await journal.start()
    assert journal.garbage == len(damaged)
    assert len(files(folder)) == 1
    assert await names(store) == ["r1", "r2"]
    assert (await store.run("ada", "r1")).state == "done"
    await journal.stop()


async def test_a_journal_replayed_again_changes_nothing(folder: Path, store: Store) -> None:
    facts: list[Fact] = [run("r1"), sandbox("s1"), run("r1", "done", cpu_time=2.0), audit("a1")]
    content = b"".join(map(journal_lines.encode, facts))
    for _ in range(2):
        leave(folder, content)
        journal = Journal(folder, store)
        await journal.start()
        await journal.stop()
        assert [each.cpu_time for each in (await store.runs("ada", limit=9))[0]] == [2.0]
        assert sorted(entry.id for entry in (await store.audit(limit=9))[0]) == ["a1", "audit_r1"]
        await store.recover(2000.0)
    assert (await store.sandbox("ada", "s1")).state == "lost"


def killed(folder: Path, url: str, prefix: str, after: int) -> tuple[set[str], set[str]]:
    """Have a process note, kill it after so many words, and give back which runs it acknowledged, begun and ended."""
    command = [sys.executable, noter.__file__, str(folder), url, prefix]
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert child.stdout is not None
    said = [child.stdout.readline() for _ in range(after)]
    child.send_signal(signal.SIGKILL)
    said += child.stdout.readlines()
    child.stdout.close()
    child.wait()
    words = [line.decode().split() for line in said if line.endswith(b"\n")]
    return {name for kind, name in words if kind == "b"}, {name for kind, name in words if kind == "e"}


async def test_what_a_killed_server_acknowledged_is_there_exactly_once(folder: Path, url: str) -> None:
    begun, ended = set[str](), set[str]()
    for turn, after in enumerate((1, 501, 3000, 6000)):
        acknowledged = killed(folder, url, f"t{turn}", after)
        begun |= acknowledged[0]
        ended |= acknowledged[1]
    assert len(ended) > 4000
    store = await Store.open(url)
    journal = Journal(folder, store)
    await journal.start()
    await store.recover(2000.0)
    there = {found.id: found for found in (await store.runs("ada", limit=100_000))[0]}
    assert begun <= there.keys()
    assert {there[name].state for name in ended} == {"done"}
    assert all(there[name].exit_code == int(name.split("-")[1]) for name in ended)
    assert {found.state for found in there.values()} <= {"done", "interrupted"}
    assert ended <= {entry.id for entry in (await store.audit(limit=100_000))[0]}
    done = [found for found in there.values() if found.state == "done"]
    assert (await store.usage("ada", 0)).cpu_time == len(done)
    assert len(done) - len(ended) <= 4  # one for each kill, between the line and the word
    assert journal.garbage == 0
    await journal.stop()
    assert files(folder) == []
    await store.close()


@contextmanager
def away(url: str, request: pytest.FixtureRequest) -> Iterator[None]:
    """Take the database away: PostgreSQL crashes, or another process holds SQLite's lock."""
    if url.startswith("sqlite"):
        holder = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            holder.close()
        return
    server: PostgreSQL = request.getfixturevalue("postgresql")
    server.stop()
    try:
        yield
    finally:
        server.start()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite does not wait ten seconds for a lock."""
    monkeypatch.setattr("cloche.store.database._BUSY_S", 0.2)


async def test_facts_wait_for_a_database_that_is_away(
    impatient: None,
    journal: Journal,
    folder: Path,
    url: str,
    store: Store,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "cloche.store")
    journal.note(run("r0000"))
    await journal.flush()
    with away(url, request):
        # More than the queue holds, so that the rest comes from the file.
        for number in range(1, journals.QUEUE + 1000):
            journal.note(run(f"r{number:04}"))
            journal.note(run(f"r{number:04}", "done", exit_code=number))
        with pytest.raises(journals.Late):
            await journal.flush(timeout=1)
        was_away = journal.is_away
        assert len(journal._queue) <= journals.QUEUE
        with pytest.raises(DatabaseAway):
            await store.write([run("direct")])
    await journal.flush()
    assert (was_away, journal.is_away) == (True, False)
    assert await names(store) == [f"r{number:04}" for number in range(journals.QUEUE + 1000)]
    assert (await store.run("ada", "r2999")).exit_code == 2999
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    journal.note(run("after"))
    await journal.flush()
    assert await store.run("ada", "after") is not None
    assert sum(file.stat().st_size for file in files(folder)) < journals.TIDY_BYTES


async def test_reads_go_on_when_the_database_is_back(store: Store, url: str, request: pytest.FixtureRequest) -> None:
    await store.write([run("r1")])
    with away(url, request):
        pass
    assert (await store.run("ada", "r1")).id == "r1"
    if url.startswith("postgresql"):
        with away(url, request), pytest.raises(DatabaseAway, match="does not answer"):
            await store.run("ada", "r1")
    assert (await store.run("ada", "r1")).id == "r1"


async def test_stopping_while_the_database_is_away_leaves_the_facts_to_the_next_start(
    impatient: None,
    folder: Path,
    store: Store,
    url: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    journal = Journal(folder, store)
    await journal.start()
    with away(url, request):
        journal.note(run("r1", "done"))
        await journal.stop(timeout=0.5)
        assert files(folder)
        monkeypatch.setattr(journals, "FLUSH_S", 0.5)
        with pytest.raises(Misconfigured, match="Nothing is lost"):
            await Journal(folder, store).start()
        monkeypatch.undo()
    again = Journal(folder, store)
    await again.start()
    assert await names(store) == ["r1"]
    await again.stop()
    assert files(folder) == []


async def test_files_are_replaced_and_removed_as_the_database_takes_what_is_in_them(
    journal: Journal, folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "SEGMENT_BYTES", 100_000)
    monkeypatch.setattr(journals, "TIDY_BYTES", 1000)
    for number in range(100):
        journal.note(run(f"r{number}", "done", result="x" * 10_000))
    assert len(files(folder)) > 10
    await journal.flush()
    assert [file.stat().st_size for file in files(folder)] == [0]
    journal.note(run("last", "done"))
    await journal.flush()
    assert len(await names(store)) == 101


async def test_a_queue_that_overflows_is_read_from_the_files(
    journal: Journal, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "SEGMENT_BYTES", 5_000)
    monkeypatch.setattr(journals, "QUEUE", 10)
    monkeypatch.setattr(journals, "BATCH", 4)
    monkeypatch.setattr(journals, "LINGER_S", 0)
    for turn in range(10):
        for number in range(30):
            journal.note(run(f"r{turn}-{number:02}"))
        stored = journal._stored
        while journal._stored == stored:  # the writer gets on, so that there is room in the queue, but not to the end
            await asyncio.sleep(0)
    await journal.flush()
    assert len(await names(store)) == 300


async def test_results_of_a_megabyte_do_not_pile_up_in_memory(journal: Journal, store: Store) -> None:
    for number in range(40):
        journal.note(run(f"r{number}", "done", result="x" * 1_000_000))
        assert journal._queue_bytes < journals.QUEUE_BYTES + 2_000_000
    await journal.flush()
    assert len(await names(store)) == 40
    assert len((await store.run("ada", "r39")).result or "") == 1_000_000


async def test_a_fact_that_no_database_takes_is_set_aside_and_the_others_arrive(
    journal: Journal, folder: Path, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(20):
        journal.note(run(f"r{number:02}", "done", memory_peak=1 << 80 if number == 7 else 0))
    await journal.flush()
    assert await names(store) == [f"r{number:02}" for number in range(20) if number != 7]
    aside = (folder / "unstorable.jsonl").read_bytes()
    assert journal_lines.decode(aside) == run("r07", "done", memory_peak=1 << 80)
    assert "unstorable.jsonl" in caplog.text


async def test_a_full_disk_refuses_and_leaves_no_part_of_a_line(journal: Journal, folder: Path, store: Store) -> None:
    journal.note(run("before"))
    (file,) = files(folder)
    size = file.stat().st_size
    # A limit on the size of files fails in the middle of a line, as a full disk does.
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, hard))
    try:
        with pytest.raises(Unrecorded, match="disk is full") as caught:
            journal.note(run("refused"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert caught.value.hint
    assert file.stat().st_size == size
    journal.note(run("after"))
    await journal.flush()
    assert await names(store) == ["after", "before"]


async def test_a_journal_that_waits_for_too_much_refuses(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "MAX_BYTES", 2000)
    journal.note(run("r1"))
    with pytest.raises(Unrecorded, match="too long"):
        journal.note(run("r2", result="x" * 2000))


async def test_a_second_process_is_refused_and_told_which_has_the_folder(
    journal: Journal, folder: Path, url: str
) -> None:
    command = [sys.executable, noter.__file__, str(folder), url, "second"]
    second = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
    assert second.returncode != 0
    assert f"Misconfigured: The folder {folder} is in use by another Cloche server, process {os.getpid()}." in (
        second.stderr
    )
    assert second.stdout == ""


async def test_a_folder_that_cannot_be_made_is_said(store: Store) -> None:
    with pytest.raises(Misconfigured, match="cannot be used"):
        await Journal(Path("/proc/nothing/journal"), store).start()
