"""Trees as a hostile program would leave them."""

from __future__ import annotations

import os
import socket
import stat
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.agent.versions.conftest import Workspace


def test_a_link_is_never_followed_nor_written_through(space: Workspace) -> None:
    secret = space.outside / "secret"
    secret.write_text("secret")
    space.write("file", "mine")
    space.write("folder/file", "mine too")
    space.versions.take("v")
    outside = space.snapshot(space.outside)
    (space.top / "file").unlink()
    (space.top / "file").symlink_to(secret)
    (space.top / "folder/file").unlink()
    (space.top / "folder").rmdir()
    (space.top / "folder").symlink_to(space.outside)
    taken = space.versions.take("links")
    space.versions.changes("v")
    space.versions.restore("v")
    assert taken["added"] == 0
    assert space.snapshot(space.outside) == outside
    assert (space.top / "file").read_text() == "mine"
    assert not (space.top / "folder").is_symlink()
    space.versions.restore("links")
    assert os.readlink(space.top / "folder") == str(space.outside)
    assert space.snapshot(space.outside) == outside


def test_a_folder_full_of_links_is_removed_and_their_targets_are_not(space: Workspace) -> None:
    (space.outside / "kept").write_text("kept")
    space.versions.take("empty")
    (space.top / "a/b").mkdir(parents=True)
    (space.top / "a/b/out").symlink_to(space.outside)
    (space.top / "a/out").symlink_to(space.outside / "kept")
    space.versions.restore("empty")
    assert os.listdir(space.top) == []
    assert (space.outside / "kept").read_text() == "kept"


def test_fifos_and_sockets_do_not_block_and_stay(space: Workspace) -> None:
    os.mkfifo(space.top / "fifo")
    (space.top / "fifo").chmod(0o640)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{space.top_fd}/socket")
    assert space.versions.take("v")["bytes"] == 0
    assert space.versions.restore("v") == {"written": 0, "removed": 0, "unchanged": 2, "bytes": 0, "problem": None}
    (space.top / "fifo").unlink()
    space.write("fifo", "a file now")
    assert space.versions.changes("v")["changed"] == ["fifo"]
    space.versions.restore("v")
    assert stat.S_ISFIFO((space.top / "fifo").stat().st_mode)
    assert stat.S_IMODE((space.top / "fifo").stat().st_mode) == 0o640


def test_a_fifo_where_a_file_was_does_not_block_the_restore(space: Workspace) -> None:
    path = space.write("a", "")
    space.versions.take("v")
    path.unlink()
    os.mkfifo(path)
    space.versions.restore("v")
    assert path.is_file()


def test_any_name_a_file_can_have_is_kept(space: Workspace) -> None:
    top = os.fsencode(space.top)
    names = [b"new\nline", b"\xff\xfe\x80", b" ", b"-rf", b"\\", b"x" * 255, "é\u202e".encode(), b"...", b"\x1b[31m"]
    for name in names:
        with open(os.path.join(top, name), "wb") as file:
            file.write(name)
    os.symlink(b"\xff/../target", os.path.join(top, b"link"))
    before = space.snapshot(space.top)
    space.versions.take("v")
    for name in names:
        os.unlink(os.path.join(top, name))
    removed = space.versions.changes("v")["removed"]
    assert {os.fsencode(path) for path in removed} == set(names)
    space.versions.restore("v")
    assert space.snapshot(space.top) == before


def deepen(space: Workspace, levels: int, name: str = "d" * 50) -> None:
    """Folders in folders, deeper than any path reaches, with a file at the bottom."""
    fd = space.opened(space.top)
    for _ in range(levels):
        os.mkdir(name, dir_fd=fd)
        below = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)


def depth(space: Workspace) -> int:
    fd, levels = space.opened(space.top), 0
    while True:
        folders = [name for name in os.listdir(fd) if name != "bottom"]
        if not folders:
            bottom = os.listdir(fd) == ["bottom"]
            os.close(fd)
            return levels if bottom else -1
        below = os.open(folders[0], os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        fd, levels = below, levels + 1


def test_folders_nested_3000_deep_are_taken_removed_and_restored(space: Workspace) -> None:
    space.versions.take("empty")
    deepen(space, 3000)
    assert space.versions.take("deep") == {
        "files": 1,
        "folders": 3000,
        "bytes": 0,
        "added": 0,
        "unsteady": 0,
        "unread": 0,
    }
    changes = space.versions.changes("empty")
    assert changes["totals"]["created"] == 3001
    assert max(len(path) for path in changes["created"]) < 5000
    assert space.versions.restore("empty")["removed"] == 3001
    assert os.listdir(space.top) == []
    assert space.versions.restore("deep")["problem"] is None
    assert depth(space) == 3000
    assert space.versions.changes("deep")["totals"] == {"created": 0, "changed": 0, "removed": 0}
    assert (space.store / "versions").stat().st_size < 1 << 20


def test_a_sparse_terabyte_costs_what_is_in_it(space: Workspace) -> None:
    path = space.write("giant")
    with open(path, "r+b") as file:
        try:
            file.truncate(1 << 40)
        except OSError:
            pytest.skip("this file system has no files of a terabyte")
        file.seek(1 << 39)
        file.write(b"in the middle")
    taken = space.versions.take("v")
    assert taken["bytes"] == 1 << 40
    assert taken["added"] <= 1 << 20
    assert space.versions.size() < 1 << 20
    with open(path, "r+b") as file:
        file.seek(1 << 39)
        file.write(b"IN")
    assert space.versions.changes("v")["changed"] == ["giant"]
    space.versions.restore("v")
    assert path.stat().st_size == 1 << 40
    assert path.stat().st_blocks * 512 < 1 << 20
    with open(path, "rb") as file:
        file.seek(1 << 39)
        assert file.read(13) == b"in the middle"


def test_the_same_data_at_another_place_in_a_sparse_file_is_another_content(space: Workspace) -> None:
    for number in range(3):
        with open(space.top / f"{number}", "wb") as file:
            file.seek((number + 1) << 20)
            file.write(b"x" * 4096)
            file.seek(8 << 20)
            file.write(b"the same end")
    space.versions.take("v")
    assert space.objects() == 3
    before = space.snapshot(space.top)
    for number in range(3):
        (space.top / f"{number}").unlink()
    space.versions.restore("v")
    assert space.snapshot(space.top) == before


def test_a_hard_link_to_the_outside_is_cut_and_the_outside_left_as_it_is(space: Workspace) -> None:
    path = space.write("a", "one")
    space.write("b", "two")
    space.versions.take("v")
    for name in ("a", "b"):
        os.unlink(space.top / name)
        (space.outside / name).write_text({"a": "OUT", "b": "two"}[name])
        (space.outside / name).chmod(0o600)
        os.link(space.outside / name, space.top / name)
    outside = space.snapshot(space.outside)
    space.versions.restore("v")
    assert space.snapshot(space.outside) == outside
    assert path.read_text() == "one"


def test_hard_links_within_the_tree_are_read_once_and_stay_while_unchanged(space: Workspace) -> None:
    one = space.write("one", b"x" * 500_000)
    os.link(one, space.top / "two")
    space.settle()
    assert space.versions.take("v")["added"] == 500_000
    assert space.versions.restore("v")["unchanged"] == 2
    assert one.stat().st_nlink == 2
    one.write_bytes(b"y")
    space.versions.restore("v")
    assert one.read_bytes() == (space.top / "two").read_bytes() == b"x" * 500_000


def test_a_file_that_became_a_folder_and_a_folder_that_became_a_file_change_back(space: Workspace) -> None:
    space.write("file", "f")
    space.write("folder/below/file", "g")
    before = space.snapshot(space.top)
    space.versions.take("v")
    (space.top / "file").unlink()
    space.write("file/below/file", "x")
    os.rename(space.top / "folder", space.outside / "folder")
    space.write("folder", "x")
    changes = space.versions.changes("v")
    assert changes["changed"] == ["file/", "folder"]
    assert changes["created"] == ["file/below/", "file/below/file"]
    assert changes["removed"] == ["folder/below/", "folder/below/file"]
    space.versions.restore("v")
    assert space.snapshot(space.top) == before


def test_the_name_that_we_write_under_can_be_the_programs_too(
    space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "urandom", lambda count: b"\0" * count)
    name = f".cloche-{'00' * 8}"
    space.write("a", "1")
    space.versions.take("v")
    space.write("a", "2")
    (space.top / name).symlink_to(space.outside / "new")
    assert space.versions.restore("v")["problem"] is None
    assert os.listdir(space.top) == ["a"]
    assert os.listdir(space.outside) == []
