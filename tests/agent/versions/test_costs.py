"""What versions cost: each content is stored once, and what did not change is not read again."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.agent.versions.conftest import Workspace


def test_equal_content_is_stored_once(space: Workspace) -> None:
    for number in range(20):
        space.write(f"{number}/same", b"x" * 300_000)
    assert space.versions.take("a")["added"] == 300_000
    space.write("more/same", b"x" * 300_000)
    assert space.versions.take("b")["added"] == 0
    assert space.objects() == 1


def test_a_file_that_did_not_change_is_not_read_again(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        space.write(f"{number}", f"{number}")
    space.settle()
    space.versions.take("a")
    space.write("3", "changed")
    read = space.files_read(monkeypatch)
    space.versions.take("b")
    assert read == ["3"]


def test_taking_right_after_a_restore_reads_nothing(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        space.write(f"{number}", f"{number}")
    space.settle()
    space.versions.take("a")
    for number in range(5):
        space.write(f"{number}", "changed")
    space.versions.restore("a")
    read = space.files_read(monkeypatch)
    space.versions.take("b")
    assert space.versions.restore("a")["unchanged"] == 10
    assert read == []


def test_a_file_as_young_as_the_clock_is_not_trusted(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    # Kernels before 6.13 stamp all writes within some milliseconds alike; the next one could not be told from the last.
    path = space.write("a", "1")
    monkeypatch.setattr(time, "clock_gettime_ns", lambda clock: path.stat().st_mtime_ns)
    space.versions.take("v")
    space.versions.restore("v")
    read = space.files_read(monkeypatch)
    space.versions.take("w")
    assert read == ["a"]


def test_a_change_right_after_taking_is_noticed_though_the_clock_stood_still(space: Workspace) -> None:
    # Same size, and often within one tick of the kernel's clock: only the content tells.
    path = space.write("a", "0" * 8)
    for number in range(300):
        content = f"{number:08}"
        path.write_text(content)
        space.versions.take("v")
        path.write_text("x" * 8)
        space.versions.restore("v")
        assert path.read_text() == content


def test_an_unchanged_file_keeps_its_inode_and_a_changed_one_gets_another(space: Workspace) -> None:
    same, other = space.write("same", "s"), space.write("other", "o")
    space.versions.take("v")
    inodes = same.stat().st_ino, other.stat().st_ino
    with open(other, "r+") as handle:
        other.write_text("changed")
        space.versions.restore("v")
        assert handle.read() == "changed"  # whoever has it open keeps what they had
    assert other.read_text() == "o"
    assert (same.stat().st_ino == inodes[0], other.stat().st_ino == inodes[1]) == (True, False)


def test_mode_and_time_are_mended_without_writing_the_content(space: Workspace) -> None:
    path = space.write("a", b"x" * 1_000_000)
    before = path.stat()
    space.versions.take("v")
    path.chmod(0o600)
    os.utime(path)
    result = space.versions.restore("v")
    after = path.stat()
    assert (result["written"], result["bytes"]) == (1, 0)
    assert (after.st_ino, after.st_mode, after.st_mtime_ns) == (before.st_ino, before.st_mode, before.st_mtime_ns)


def test_forgetting_removes_only_what_no_other_version_has(space: Workspace) -> None:
    space.write("shared", "s")
    space.write("a", "only in a")
    space.versions.take("a")
    (space.top / "a").unlink()
    space.write("b", "only in b")
    space.versions.take("b")
    before = space.versions.size()
    space.versions.forget("a")
    assert space.objects() == 2
    assert space.versions.size() < before
    space.versions.forget("b")
    assert space.objects() == 0
    assert space.versions.take("c")["added"] == len("s" + "only in b")  # what is known of a file does not replace it
