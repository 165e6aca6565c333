"""Trees that a program changes while they are taken and restored."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from cloche.agent.versions import content_store, sparse_data

if TYPE_CHECKING:
    from tests.agent.versions.conftest import Workspace


def test_folders_moved_under_our_hands_end_nothing_and_lead_nowhere(space: Workspace) -> None:
    (space.outside / "kept").write_text("kept")
    for number in range(40):
        space.write(f"tree/{number % 5}/a/b/c/{number}", "x" * number)
    before = space.snapshot(space.top)
    space.versions.take("v")
    over = threading.Event()

    def juggle() -> None:
        chance = random.Random(1)
        while not over.is_set():
            try:
                one, other = chance.sample(range(5), 2)
                os.rename(space.top / f"tree/{one}/a", space.outside / f"{chance.random()}")
                (space.top / f"tree/{other}/a").symlink_to(space.outside)
                os.rename(space.top / f"tree/{other}/a/b/c", space.top / f"tree/{one}")
            except OSError:
                pass

    juggler = threading.Thread(target=juggle)
    juggler.start()
    try:
        for number in range(50):
            space.versions.take(f"w{number % 3}")
            space.versions.restore("v")
    finally:
        over.set()
        juggler.join()
    assert (space.outside / "kept").read_text() == "kept"
    assert space.versions.restore("v")["problem"] is None
    assert space.snapshot(space.top) == before


@pytest.mark.parametrize(("times", "unsteady"), [(1, 0), (2, 0), (99, 1)])
def test_a_file_that_changes_while_it_is_read_is_read_again_and_in_the_end_said_to_be_unsteady(
    space: Workspace, monkeypatch: pytest.MonkeyPatch, times: int, unsteady: int
) -> None:
    path = space.write("a", b"0" * 600_000)
    original = sparse_data.pieces
    changes: list[int] = []

    def disturbed(fd: int, size: int) -> Iterator[tuple[int, memoryview]]:
        for offset, piece in original(fd, size):
            yield offset, piece
            if offset == 0 and len(changes) < times:
                changes.append(1)
                with open(path, "r+b") as file:
                    file.write(b"%d" % len(changes))
                    file.seek(550_000)
                    file.write(b"%d" % len(changes))

    monkeypatch.setattr(content_store, "pieces", disturbed)
    assert space.versions.take("v")["unsteady"] == unsteady
    assert space.objects() == 1  # what was read in vain is gone
    monkeypatch.undo()
    found = space.versions.changes("v")["changed"]
    assert found == (["a"] if unsteady else [])
    space.versions.restore("v")
    assert space.versions.changes("v")["changed"] == []


def test_a_file_written_to_all_the_time_ends_nothing(space: Workspace) -> None:
    path = space.write("a", b"\0" * 400_000)
    over = threading.Event()

    def scribble() -> None:
        fd = os.open(path, os.O_WRONLY)
        number = 0
        while not over.is_set():
            number += 1
            os.pwrite(fd, bytes([number % 256]) * 400_000, 0)
            os.ftruncate(fd, 300_000 + number % 100_000)
        os.close(fd)

    scribbler = threading.Thread(target=scribble)
    scribbler.start()
    try:
        for _ in range(20):
            space.versions.take("v")
        for _ in range(20):
            space.versions.restore("v")
            space.versions.changes("v")
    finally:
        over.set()
        scribbler.join()
    space.versions.restore("v")
    assert 300_000 <= path.stat().st_size <= 400_000
    assert space.versions.changes("v")["totals"] == {"created": 0, "changed": 0, "removed": 0}
