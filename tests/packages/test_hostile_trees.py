"""What a sandbox leaves is taken over as a layer only if it is plain files and folders that nobody can change."""

from __future__ import annotations

import mmap
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.packages.made_layers import NAME, left, make, make_spoilt

from cloche.errors import Refused
from cloche.packages import trees
from cloche.packages.layers import LayerStore


@pytest.fixture
def store(tmp_path: Path) -> LayerStore:
    return LayerStore(str(tmp_path / "store"))


def symlink(tree: Path) -> None:
    (tree / "lib/link").symlink_to("/etc/passwd")


def folder_link(tree: Path) -> None:
    (tree / "lib/link").symlink_to("/etc")


def hard_link(tree: Path) -> None:
    os.link(tree / "tool", tree.parent / "outside")


def fifo(tree: Path) -> None:
    os.mkfifo(tree / "lib/pipe")


def unix_socket(tree: Path) -> None:
    before = os.getcwd()
    os.chdir(tree)  # the path of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("socket")
    finally:
        os.chdir(before)


def deep(tree: Path) -> None:
    at = os.open(tree, os.O_RDONLY)
    for _ in range(2000):  # deeper than Python's stack, and longer than a path may be
        os.mkdir("d" * 10, dir_fd=at)
        below = os.open("d" * 10, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)


def newline(tree: Path) -> None:
    (tree / "lib/a\nb").write_text("")


def not_utf8(tree: Path) -> None:
    Path(os.fsdecode(os.fsencode(tree) + b"/\xff")).write_text("")


def sparse(tree: Path) -> None:
    with open(tree / "giant", "wb") as file:
        file.truncate(2**40)


def no_tree(tree: Path) -> None:
    tree.rename(tree.with_name("other"))


def linked_tree(tree: Path) -> None:
    tree.rename(tree.with_name("other"))
    tree.symlink_to("other")


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (symlink, "lib/link is a symbolic link"),
        (folder_link, "lib/link is a symbolic link"),
        (hard_link, "tool has a second name"),
        (fifo, "lib/pipe is a pipe"),
        (unix_socket, "socket is a socket"),
        (deep, "is more than 64 folders deep"),
        (newline, "has a name with control characters"),
        (not_utf8, "has a name that is not UTF-8"),
        (sparse, "take more than 10 GB"),
        (no_tree, "has left no folder of files"),
        (linked_tree, "has left no folder of files"),
    ],
)
def test_a_hostile_tree_is_refused_and_removed(store: LayerStore, spoil: Callable[[Path], None], sentence: str) -> None:
    with pytest.raises(Refused, match=sentence) as refusal:
        make_spoilt(store, spoil)
    assert refusal.value.message.isprintable()
    assert store.names() == left(store) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make devices")
def test_a_device_is_refused(store: LayerStore) -> None:
    with pytest.raises(Refused, match="null is a device"):
        make_spoilt(store, lambda tree: os.mknod(tree / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3)))


def test_a_file_that_is_still_open_for_writing_is_refused(store: LayerStore) -> None:
    def mapped(tree: Path) -> mmap.mmap:
        with open(tree / "tool", "r+b") as file:
            return mmap.mmap(file.fileno(), 0)

    for spoil in (lambda tree: open(tree / "tool", "r+b"), mapped):
        with pytest.raises(Refused, match="tool is still open for writing"):
            make_spoilt(store, spoil)
    assert make_spoilt(store, lambda tree: open(tree / "tool", "rb")).name == NAME


def test_too_many_files_are_refused(store: LayerStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "_MOST_ENTRIES", 4)
    with pytest.raises(Refused, match="more than 4 files"):
        make(store)
