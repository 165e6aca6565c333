"""Disks that are full, in memory, or somebody else's: each in a process with mounts of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PROLOGUE = """
import os, sys
from cloche.agent.versions import Versions
def opened(path): return os.open(path, os.O_RDONLY | os.O_DIRECTORY)
def write(path, content):
    with open(path, "wb") as file: file.write(content)
def read(path):
    with open(path, "rb") as file: return file.read()
os.chdir(sys.argv[1])
os.makedirs("disk/top"); os.makedirs("disk/store")
"""


def with_disk(folder: Path, code: str, options: str = "size=10m") -> None:
    """Run code in a folder `disk` that is a small tmpfs."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("mounts of one's own are not allowed here")
    (folder / "disk").mkdir()
    (folder / "other").mkdir()
    script = f'mount -t tmpfs -o {options} t "$1/disk" && mount -t tmpfs t "$1/other" && exec "$2" -c "$3" "$1"'
    program = PROLOGUE + 'versions = Versions(opened("disk/top"), opened("disk/store"))\n' + textwrap.dedent(code)
    command = ["unshare", "-m", "sh", "-c", script, "sh", str(folder), sys.executable, program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_version_without_room_is_withdrawn_and_says_what_it_needs(tmp_path: Path) -> None:
    with_disk(
        tmp_path,
        """
        write("disk/top/small", b"s")
        os.utime("disk/top/small", ns=(1, 1))
        versions.take("before")
        used = versions.size()
        for number in range(6): write(f"disk/top/{number}", os.urandom(1 << 20))
        listing = sorted(os.listdir("disk/store/objects"))
        try:
            versions.take("too much")
        except OSError as problem:
            assert problem.errno == 28, problem
            assert "needs about 6,291,456 bytes and 7 files more" in problem.strerror, problem
        else:
            raise AssertionError("there was no room for it")
        assert sorted(os.listdir("disk/store/objects")) == listing
        assert sorted(os.listdir("disk/store")) == ["index", "objects", "versions"]
        assert versions.size() == used
        for number in range(6): os.unlink(f"disk/top/{number}")
        write("disk/top/small", b"t")
        versions.restore("before")
        assert read("disk/top/small") == b"s"
        """,
    )


def test_content_that_is_stored_already_needs_no_room(tmp_path: Path) -> None:
    with_disk(
        tmp_path,
        """
        content = os.urandom(4 << 20)
        write("disk/top/a", content)
        versions.take("a")
        os.utime("disk/top/a", ns=(5, 5))
        assert versions.take("b")["added"] == 0
        """,
    )


def test_a_version_without_inodes_is_withdrawn(tmp_path: Path) -> None:
    with_disk(
        tmp_path,
        """
        for number in range(60): write(f"disk/top/{number}", b"%d" % number)
        try:
            versions.take("too many")
        except OSError as problem:
            assert problem.errno == 28 and "61 files more" in problem.strerror, problem
        else:
            raise AssertionError("there was no room for it")
        assert os.listdir("disk/store/objects") == []
        """,
        "size=10m,nr_inodes=100",
    )


def test_a_restore_on_a_full_disk_makes_its_room_first(tmp_path: Path) -> None:
    with_disk(
        tmp_path,
        """
        content = os.urandom(4 << 20)
        write("disk/top/a", content)
        os.mkdir("disk/top/z")
        versions.take("v")
        write("disk/top/a", os.urandom(2 << 20))
        try:
            write("disk/top/z/garbage", bytes(20 << 20))
        except OSError:
            pass
        result = versions.restore("v")
        assert result["problem"] is None, result
        assert (result["written"], result["removed"], result["unchanged"]) == (1, 1, 1), result
        assert read("disk/top/a") == content
        """,
    )


def test_what_has_no_room_is_reported_and_the_rest_restored(tmp_path: Path) -> None:
    with_disk(
        tmp_path,
        """
        write("disk/top/big", os.urandom(4 << 20))
        write("disk/top/small", b"small")
        versions.take("v")
        os.unlink("disk/top/big")
        write("disk/top/small", b"changed")
        write("disk/in the way", bytes(5 << 20))
        result = versions.restore("v")
        assert result["problem"] == "big: No space left on device", result
        assert os.listdir("disk/top") == ["small"]
        assert read("disk/top/small") == b"small"
        os.unlink("disk/in the way")
        assert versions.restore("v")["problem"] is None
        assert sorted(os.listdir("disk/top")) == ["big", "small"]
        """,
    )


def test_a_file_changed_through_memory_is_restored_though_its_status_says_nothing(tmp_path: Path) -> None:
    with_disk(
        tmp_path,
        """
        import mmap
        from cloche.agent.versions import mapped
        top, store = opened("disk/top"), opened("disk/store")
        write("disk/top/a", b"before"); write("disk/top/b", b"b"); write("other/c", b"c")
        os.utime("disk/top/a", ns=(1, 1))
        versions.take("v")
        with open("disk/top/a", "r+b") as file, open("other/c", "r+b") as other, open("disk/top/b", "r+b") as reader:
            memory, elsewhere = mmap.mmap(file.fileno(), 6), mmap.mmap(other.fileno(), 1)
            unwritten = mmap.mmap(reader.fileno(), 1, prot=mmap.PROT_READ)
        before = os.stat("disk/top/a")
        memory[:]  # a page that was read can be written without the kernel's knowledge
        memory[:] = b"during"
        assert os.stat("disk/top/a").st_mtime_ns == before.st_mtime_ns
        found = mapped(top)
        assert found == {before.st_ino}, found
        assert Versions(top, store, found).changes("v")["changed"] == ["a"]
        assert Versions(top, store, found).take("w")["added"] == 6
        assert Versions(top, store, found).restore("v")["written"] == 1
        assert read("disk/top/a") == b"before"
        with open("disk/top/a", "r+b") as file: memory = mmap.mmap(file.fileno(), 6)
        versions.take("w")
        memory[:]
        memory[:] = b"during"
        Versions(top, store, mapped(top)).take("while mapped")
        memory.close()
        assert versions.changes("w")["changed"] == ["a"]  # what was known before is not believed afterwards
        """,
    )


def test_other_file_systems_are_neither_taken_nor_touched(tmp_path: Path) -> None:
    with_disk(
        tmp_path,
        """
        os.makedirs("disk/top/kept/host"); os.makedirs("disk/top/made later/host")
        write("disk/top/kept/mine", b"1")
        write("disk/top/file", b"")
        write("other/theirs", b"theirs")
        assert os.system("mount --bind other disk/top/kept/host && mount --bind other/theirs disk/top/file") == 0
        os.rename("disk/top/made later", "disk/aside")
        taken = versions.take("v")
        assert (taken["files"], taken["folders"]) == (1, 1), taken
        os.rename("disk/aside", "disk/top/made later")
        assert os.system("mount --bind other 'disk/top/made later/host'") == 0
        write("disk/top/made later/mine", b"2")
        write("disk/top/kept/mine", b"changed")
        assert versions.changes("v")["totals"] == {"created": 2, "changed": 1, "removed": 0}
        result = versions.restore("v")
        assert result["problem"] is None, result
        assert read("disk/top/kept/mine") == b"1"
        assert os.listdir("disk/top/made later") == ["host"]
        assert read("disk/top/made later/host/theirs") == read("disk/top/kept/host/theirs") == b"theirs"
        assert read("disk/top/file") == b"theirs"
        """,
    )
