"""`box.files`: every operation, on every kind of thing that can be at a path."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest

import cloche
from cloche.model.files import Change, Entry

# --- writing and reading


def test_what_is_written_is_read(box: cloche.Sandbox) -> None:
    for data in (b"", b"x", bytes(range(256)) * 100, "grüße", bytearray(b"a"), memoryview(b"b")):
        box.files.write("file", data)
        assert box.files.read("file") == (data.encode() if isinstance(data, str) else bytes(data))


def test_a_file_that_a_program_wrote_is_read_and_the_other_way_round(box: cloche.Sandbox) -> None:
    box.files.write("in", "given")
    box.run_program("open('out', 'w').write(open('in').read().upper())")
    assert box.files.read("out") == b"GIVEN"


def test_writing_tells_what_there_is_now(box: cloche.Sandbox) -> None:
    entry = box.files.write("data/a/b.txt", b"12345", mode=0o640)
    assert (entry.path, entry.name, entry.kind, entry.size) == ("/sandbox/data/a/b.txt", "b.txt", "file", 5)
    assert entry.mode == 0o640
    assert abs(entry.modified - time.time()) < 60
    assert entry == box.files.stat("data/a/b.txt")


def test_folders_on_the_way_are_made(box: cloche.Sandbox) -> None:
    box.files.write("a/b/c/d", "x")
    assert box.files.stat("a/b/c").kind == "directory"


def test_writing_replaces_and_appending_appends(box: cloche.Sandbox) -> None:
    box.files.write("f", "long text")
    box.files.write("f", "one")
    box.files.write("f", " two", append=True)
    assert box.files.read("f") == b"one two"


def test_parts_are_read(box: cloche.Sandbox) -> None:
    box.files.write("f", b"0123456789")
    assert box.files.read("f", offset=3) == b"3456789"
    assert box.files.read("f", offset=3, length=2) == b"34"
    assert box.files.read("f", length=0) == b""
    assert box.files.read("f", offset=99) == b""
    assert box.files.read("f", offset=8, length=99) == b"89"


def test_a_hundred_megabytes_go_there_and_back(box: cloche.Sandbox) -> None:
    data = os.urandom(1 << 20) * 100
    assert box.files.write("big", data).size == len(data)
    assert box.files.read("big") == data


def test_text_that_is_not_utf_8_is_read_with_replacements(box: cloche.Sandbox) -> None:
    box.files.write("f", b"a\xff")
    assert box.files.read_text("f") == "a\ufffd"


def test_a_sparse_file_of_any_size_is_read_in_parts(jail: None) -> None:
    with cloche.Sandbox(disk="10M") as box:
        box.commands.run("truncate -s 5M f && printf x >> f")
        assert box.files.read("f", offset=(5 << 20) - 1) == b"\0x"


def test_an_empty_file_of_the_kernel_is_read_to_its_end(box: cloche.Sandbox) -> None:
    assert b"Linux" in box.files.read("/proc/version")


def test_paths_are_relative_to_the_workspace(box: cloche.Sandbox) -> None:
    box.files.write("f", "x")
    for path in ("f", "./f", "/sandbox/f", "~/f", "/home/user/f", "data/../f", "//sandbox//f"):
        assert box.files.read(path) == b"x"
    box.files.write("data/g", "y")
    assert box.files.read("/data/g") == b"y"


NAMES = [
    "with space",
    "new\nline",
    "ü世🎉",
    "'\"$`\\",
    "-rf",
    os.fsdecode(b"\xff\xfe"),
    "x" * 255,
    "\x01\x7f",
    " ",
    "\u202e",
]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_any_name_is_possible(box: cloche.Sandbox, name: str) -> None:
    box.files.write(f"names/{name}", "x")
    assert [entry.name for entry in box.files.list("names")] == [name]
    assert box.files.read(f"names/{name}") == b"x"
    assert box.run_program("import os; print(os.listdir(b'names')[0])").stdout == f"{os.fsencode(name)!r}\n"
    assert box.files.rename(f"names/{name}", f"names/{name[:-1]}2").name == f"{name[:-1]}2"
    box.files.remove(f"names/{name[:-1]}2")
    assert box.files.list("names") == []


# --- looking


def test_a_folder_is_listed_in_order(box: cloche.Sandbox) -> None:
    assert [entry.name for entry in box.files.list()] == ["code", "data", "output", "temp"]
    for name in ("b", "a", "C"):
        box.files.write(f"data/{name}", name)
    assert [entry.path for entry in box.files.list("data")] == [f"/sandbox/data/{n}" for n in "Cab"]


def test_folders_below_are_listed_as_deep_as_wanted(box: cloche.Sandbox) -> None:
    box.files.write("data/a/b/c", "")
    names = [[e.path.removeprefix("/sandbox/data/") for e in box.files.list("data", depth=d)] for d in (1, 2, 9)]
    assert names == [["a"], ["a", "a/b"], ["a", "a/b", "a/b/c"]]


def test_five_thousand_entries_are_listed(box: cloche.Sandbox) -> None:
    box.run_program("import os\nos.mkdir('many')\nfor n in range(5000): open(f'many/{n:04}-{\"x\" * 40}', 'w').close()")
    entries = box.files.list("many")
    assert len(entries) == 5000
    assert [entry.name[:4] for entry in entries] == [f"{n:04}" for n in range(5000)]


def test_a_link_is_told_as_a_link(box: cloche.Sandbox) -> None:
    box.files.write("real", "x")
    box.commands.run("ln -s real link; ln -s nowhere broken; ln -s /sandbox/data folder; ln -s loop loop")
    told = {entry.name: (entry.kind, entry.target) for entry in box.files.list() if entry.kind == "symlink"}
    assert told == {
        "link": ("symlink", "real"),
        "broken": ("symlink", "nowhere"),
        "folder": ("symlink", "/sandbox/data"),
        "loop": ("symlink", "loop"),
    }
    assert box.files.stat("broken").kind == "symlink"
    assert box.files.exists("broken")
    assert box.files.read("link") == b"x"
    assert box.files.list("folder") == []


def test_a_link_out_of_the_workspace_leads_to_the_sandboxs_own_files(box: cloche.Sandbox) -> None:
    box.commands.run("ln -s /etc/passwd p")
    assert b"user:x:1000" in box.files.read("p")
    assert Path("/etc/passwd").read_bytes() != box.files.read("p")


def test_other_things_are_told_as_other(box: cloche.Sandbox) -> None:
    box.commands.run("mkfifo fifo")
    assert box.files.stat("fifo").kind == "other"
    assert box.files.stat("/dev/null").kind == "other"


def test_existence_is_told(box: cloche.Sandbox) -> None:
    assert box.files.exists("data")
    assert not box.files.exists("nothing")
    assert not box.files.exists("nothing/below")


def test_the_disk_is_told(jail: None) -> None:
    with cloche.Sandbox(disk="50M") as box:
        before = box.files.disk()
        box.files.write("f", bytes(10 << 20))
        after = box.files.disk()
        assert before["total"] == after["total"] == 50 << 20
        assert before["free"] - after["free"] == 10 << 20
        assert before["inodes_free"] - after["inodes_free"] == 1


# --- changing


def test_folders_are_made_once(box: cloche.Sandbox) -> None:
    assert box.files.mkdir("a/b")
    assert not box.files.mkdir("a/b")
    assert box.files.stat("a/b").kind == "directory"


def test_renaming_moves(box: cloche.Sandbox) -> None:
    box.files.write("a/f", "x")
    assert box.files.rename("a", "new/place") == box.files.stat("new/place")
    assert box.files.read("new/place/f") == b"x"
    assert not box.files.exists("a")


def test_renaming_replaces_a_file(box: cloche.Sandbox) -> None:
    box.files.write("a", "a")
    box.files.write("b", "b")
    box.files.rename("a", "b")
    assert box.files.read("b") == b"a"


def test_removing_removes_files_links_and_whole_folders(box: cloche.Sandbox) -> None:
    box.files.write("outside/f", "x")
    box.files.write("folder/a/b", "x")
    box.commands.run("ln -s ../outside folder/link; mkfifo folder/fifo")
    box.files.remove("folder")
    assert not box.files.exists("folder")
    assert box.files.read("outside/f") == b"x"
    box.commands.run("ln -s outside link")
    box.files.remove("link")
    assert box.files.exists("outside/f")


@pytest.mark.parametrize("path", [".", "/sandbox", "/tmp", "~"])
def test_a_folder_that_has_to_stay_keeps_what_is_in_it(box: cloche.Sandbox, path: str) -> None:
    box.files.write("kept", "x")
    box.files.write("/tmp/kept", "x")
    with pytest.raises(cloche.FileProblem):
        box.files.remove(path)
    assert box.files.read("kept") == box.files.read("/tmp/kept") == b"x"


# --- what goes wrong


def test_a_missing_file_is_told(box: cloche.Sandbox) -> None:
    for call in (box.files.read, box.files.stat, box.files.remove, box.files.list, box.files.watch):
        with pytest.raises(cloche.FileMissing, match="nothing") as caught:
            call("nothing")
        assert isinstance(caught.value, FileNotFoundError)
        assert isinstance(caught.value, cloche.Gone)
        assert caught.value.errno == errno.ENOENT
    with pytest.raises(cloche.FileMissing):
        box.files.rename("nothing", "x")


def problem(number: int) -> Any:
    """The call fails with this error number."""
    return pytest.raises(cloche.FileProblem, check=lambda e: e.errno == number)


def test_a_folder_is_no_file_and_a_file_no_folder(box: cloche.Sandbox) -> None:
    box.files.write("file", "x")
    with problem(errno.EISDIR):
        box.files.read("data")
    with problem(errno.EISDIR):
        box.files.write("data", "x")
    with problem(errno.ENOTDIR):
        box.files.list("file")
    with problem(errno.ENOTDIR):
        box.files.watch("file")
    with pytest.raises(cloche.FileProblem):
        box.files.write("file/below", "x")
    with pytest.raises(cloche.FileProblem):
        box.files.mkdir("file")
    with problem(errno.ENOTDIR):
        box.files.rename("data", "file")


def test_fifos_and_devices_never_hold_anybody_up(box: cloche.Sandbox) -> None:
    box.commands.run("mkfifo fifo; ln -s fifo link")
    for path in ("fifo", "link", "/dev/zero", "/dev/tty", "/dev/null"):
        with pytest.raises(cloche.FileProblem):
            box.files.read(path)
        with pytest.raises(cloche.FileProblem):
            box.files.write(path, "x")
    assert box.commands.run("echo alive").stdout == "alive\n"


def test_what_may_not_be_written_is_told(box: cloche.Sandbox) -> None:
    for path in ("/etc/passwd", "/usr/bin/new", "/opt/new", "/proc/sys/kernel/hostname"):
        with pytest.raises(cloche.FileProblem):
            box.files.write(path, "x")
    box.files.write("f", "x", mode=0o000)
    with problem(errno.EACCES):
        box.files.read("f")


def test_loops_and_long_names_are_told(box: cloche.Sandbox) -> None:
    box.commands.run("ln -s loop loop")
    with problem(errno.ELOOP):
        box.files.read("loop")
    with problem(errno.ENAMETOOLONG):
        box.files.write("x" * 256, "")


def test_a_full_disk_is_told_with_a_hint_and_the_sandbox_lives_on(jail: None) -> None:
    with cloche.Sandbox(disk="5M") as box:
        free = box.files.disk()["free"]
        with pytest.raises(cloche.FileProblem, match="disk=") as caught:
            box.files.write("big", bytes(20 << 20))
        assert caught.value.errno == errno.ENOSPC
        assert not box.files.exists("big")
        assert box.files.disk()["free"] == free
        box.files.write("small", "x")
        assert box.files.read("small") == b"x"


BAD_PATHS: list[Any] = [5, None, "", "a\0b", b"bytes", "x" * 5000, "\ud800", ["a"]]


@pytest.mark.parametrize("path", BAD_PATHS, ids=range(len(BAD_PATHS)))
def test_what_is_no_path_is_refused(box: cloche.Sandbox, path: Any) -> None:
    files = box.files
    calls: list[Any] = [files.read, files.stat, files.exists, files.list, files.mkdir, files.remove, files.watch]
    for call in [*calls, lambda p: files.write(p, ""), lambda p: files.rename(p, "x"), lambda p: files.rename("x", p)]:
        with pytest.raises(cloche.InvalidRun, match="path"):
            call(path)


@pytest.mark.parametrize("data", [5, None, ["a"], object(), "\ud800"], ids=["5", "None", "list", "object", "surrogate"])
def test_what_is_no_data_is_refused_and_nothing_is_written(box: cloche.Sandbox, data: Any) -> None:
    with pytest.raises(cloche.InvalidRun, match="data"):
        box.files.write("f", data)
    assert not box.files.exists("f")


def test_bad_options_are_refused(box: cloche.Sandbox) -> None:
    box.files.write("f", "x")
    for bad in (-1, 1.5, "1", True, 1 << 70):
        with pytest.raises(cloche.InvalidRun, match="offset"):
            box.files.read("f", offset=bad)  # type: ignore[arg-type]
        with pytest.raises(cloche.InvalidRun, match="length"):
            box.files.read("f", length=bad)  # type: ignore[arg-type]
    depths: list[Any] = [0, -1, 1.5, "1", None]
    for depth in depths:
        with pytest.raises(cloche.InvalidRun, match="depth"):
            box.files.list("data", depth=depth)
    modes: list[Any] = [-1, 0o1777, "644", True]
    for mode in modes:
        with pytest.raises(cloche.InvalidRun, match="mode"):
            box.files.write("f", "", mode=mode)


# --- watching


def changes(watch: Any, last: Change) -> list[Change]:
    """What has been told until this."""
    told: list[Change] = []
    while not told or told[-1] != last:
        change = watch.next_change(timeout=20)
        assert change is not None, told
        told.append(change)
    return told


def test_changes_are_told_in_order(box: cloche.Sandbox) -> None:
    with box.files.watch("data") as watch:
        box.commands.run("echo x > data/a; chmod 600 data/a; mv data/a data/b; rm data/b; mkdir data/c; rmdir data/c")
        told = changes(watch, Change("remove", "/sandbox/data/c"))
    kinds = [(change.kind, change.path.removeprefix("/sandbox/data/")) for change in told]
    expected = [
        ("create", "a"), ("write", "a"), ("chmod", "a"), ("rename", "a"), ("rename", "b"), ("remove", "b"),
        ("create", "c"), ("remove", "c"),
    ]  # fmt: skip
    assert [kind for kind in kinds if kind in expected] == expected


def test_folders_below_are_watched_only_when_asked(box: cloche.Sandbox) -> None:
    box.files.mkdir("data/old")
    with box.files.watch("data") as flat, box.files.watch("data", recursive=True) as deep:
        box.files.write("data/old/f", "x")
        box.files.mkdir("data/new")
        told = changes(deep, Change("create", "/sandbox/data/new"))
        assert Change("create", "/sandbox/data/old/f") in told
        box.files.write("data/new/g", "x")
        changes(deep, Change("create", "/sandbox/data/new/g"))
        box.files.write("data/end", "x")
        told = changes(flat, Change("create", "/sandbox/data/end"))
        assert not [change for change in told if change.path.endswith(("/f", "/g"))]


def test_no_change_in_time_is_none(box: cloche.Sandbox) -> None:
    with box.files.watch("data") as watch:
        assert watch.next_change(timeout=0.05) is None
        box.files.write("data/f", "")
        assert watch.next_change(timeout=20) == Change("create", "/sandbox/data/f")


def test_a_closed_watch_tells_nothing(box: cloche.Sandbox) -> None:
    watch = box.files.watch("data")
    watch.close()
    watch.close()
    box.files.write("data/f", "")
    assert watch.next_change(timeout=0.05) is None
    assert list(watch) == []


@pytest.mark.embedded  # a server reads them
def test_a_flood_of_changes_that_nobody_reads_ends_in_an_overflow(box: cloche.Sandbox) -> None:
    watch = box.files.watch("data")
    result = box.run_program("for n in range(60_000): open(f'data/{n % 50}', 'w').close()", timeout=60)
    assert result.ok
    assert box.commands.run("echo alive").stdout == "alive\n"
    kinds: set[str] = set()
    while "overflow" not in kinds:
        change = watch.next_change(timeout=20)
        assert change is not None, kinds
        kinds.add(change.kind)
    watch.close()
    assert box.commands.run("echo alive").stdout == "alive\n"


def test_a_watch_ends_with_its_sandbox(jail: None) -> None:
    with cloche.Sandbox() as box:
        watch = box.files.watch("data")
    assert list(watch) == []


def test_a_write_is_told_as_a_write_and_nothing_of_how_it_is_done(box: cloche.Sandbox) -> None:
    with box.files.watch("data") as watch:
        box.files.write("data/f", "x")
        box.files.write("data/f", "y")
        box.files.write("data/f", "")
        with box.files.write_stream("data/g") as writing:
            writing.write("half")
            writing.abort()
        box.files.write("data/empty", "")
        told = changes(watch, Change("create", "/sandbox/data/empty"))
    kinds = [(change.kind, change.path.removeprefix("/sandbox/data/")) for change in told]
    assert kinds == [("create", "f"), ("write", "f"), ("write", "f"), ("write", "f"), ("create", "empty")]


# --- piece by piece


def everything(box: cloche.Sandbox, folder: str = "/sandbox") -> str:
    """All that programs see in a folder."""
    return box.commands.run(["find", folder, "-mindepth", "1"]).stdout


def test_a_file_is_written_and_read_in_pieces(box: cloche.Sandbox) -> None:
    pieces = [os.urandom(size) for size in (1, 0, 200_000, 3 << 20, 5)]
    writing = box.files.write_stream("a/b", mode=0o600)
    for piece in pieces:
        writing.write(piece)
    entry = writing.finish()
    assert (entry.path, entry.size, entry.mode) == ("/sandbox/a/b", sum(map(len, pieces)), 0o600)
    with box.files.read_stream("a/b") as reading:
        assert reading.size == entry.size
        read = list(reading)
    assert b"".join(read) == b"".join(pieces)
    assert max(map(len, read)) <= 128 << 10
    assert list(reading) == []
    assert b"".join(box.files.read_stream("a/b", offset=1, length=3)) == b"".join(pieces)[1:4]


def test_the_size_is_known_when_the_reading_has_begun(box: cloche.Sandbox) -> None:
    box.files.write("f", "12345")
    reading = box.files.read_stream("f", offset=4)
    with pytest.raises(cloche.Gone, match="begin"):
        _ = reading.size
    assert reading.begin().size == 5
    assert list(reading) == [b"5"]


def test_problems_are_told_when_a_stream_begins_or_ends(box: cloche.Sandbox) -> None:
    with pytest.raises(cloche.FileMissing, match="nothing"):
        box.files.read_stream("nothing").begin()
    with pytest.raises(cloche.FileMissing):
        list(box.files.read_stream("nothing"))
    with problem(errno.EISDIR):
        box.files.write_stream("data").finish()
    writing = box.files.write_stream("data")
    with problem(errno.EISDIR):
        for _ in range(100):
            writing.write(bytes(1 << 20))
    with pytest.raises(cloche.Gone):
        writing.write("more")


@pytest.mark.embedded
def test_thousands_of_small_files_are_read_and_written(box: cloche.Sandbox) -> None:
    box.files.write("f", "x")
    for number in range(4200):  # more than an agent takes at a time
        assert box.files.read("f") == b"x"
        if number % 10 == 0:
            box.files.write("f", "x")
            box.files.write_stream("g").begin().abort()
    assert box.files.read("f") == b"x"


def test_a_reading_that_is_given_up_leaves_the_sandbox_free(box: cloche.Sandbox) -> None:
    box.files.write("big", bytes(50 << 20))
    for _ in range(20):
        with box.files.read_stream("big") as reading:
            assert next(reading)
        assert box.files.read_stream("big").begin().size == 50 << 20  # forgotten
    assert box.commands.run("echo alive").stdout == "alive\n"
    assert box.files.read("big", offset=(50 << 20) - 1) == b"\0"


@pytest.mark.embedded  # a server notices a moment later
def test_an_aborted_upload_leaves_all_as_it_was(box: cloche.Sandbox) -> None:
    box.files.write("old", "as it was", mode=0o640)
    before = everything(box)
    for path in ("old", "new", "folder/new"):
        writing = box.files.write_stream(path)
        writing.write(bytes(5 << 20))
        assert box.files.read("old") == b"as it was"
        writing.abort()
        writing.abort()
        with pytest.raises(cloche.Gone):
            writing.finish()
        broken = box.files.write_stream(path)
        broken.write("half")
        with pytest.raises(ZeroDivisionError), broken:
            broken.write(bytes(1 // 0))
        forgotten = box.files.write_stream(path)
        forgotten.write("half")
        del forgotten
    assert everything(box) == before
    assert (box.files.read("old"), box.files.stat("old").mode) == (b"as it was", 0o640)
    assert box.files.disk()["total"] - box.files.disk()["free"] < 1 << 20


def test_nobody_sees_an_upload_before_it_is_finished(box: cloche.Sandbox) -> None:
    box.files.write("output/f", "old")
    writing = box.files.write_stream("output/f")
    writing.write("new")
    assert [entry.name for entry in box.files.list("output")] == ["f"]
    assert box.run("open('output/f').read()").text == "'old'"
    result = box.run("open('output/g', 'w').close()")
    assert [file.path for file in result.artifacts] == ["/sandbox/output/g"]
    writing.finish()
    assert box.run("open('output/f').read()").text == "'new'"


def test_a_checkpoint_neither_has_nor_ends_an_upload(box: cloche.Sandbox) -> None:
    box.files.write("f", "old")
    writing = box.files.write_stream("f")
    writing.write("new")
    checkpoint = box.checkpoint()
    box.restore(checkpoint)
    writing.finish()
    assert box.files.read("f") == b"new"
    box.restore(checkpoint)
    assert box.files.read("f") == b"old"
    assert sorted(everything(box).split()) == [f"/sandbox/{name}" for name in ("code", "data", "f", "output", "temp")]


def test_a_full_disk_leaves_the_old_file(jail: None) -> None:
    with cloche.Sandbox(disk="5M") as box:
        box.files.write("f", "old")
        before = everything(box)
        with problem(errno.ENOSPC):
            box.files.write("f", bytes(20 << 20))
        assert box.files.read("f") == b"old"
        assert everything(box) == before


def test_a_link_is_written_through(box: cloche.Sandbox) -> None:
    box.files.write("data/real", "old", mode=0o600)
    box.commands.run("ln -s data/real link; ln -s data/coming broken; ln data/real data/other")
    box.files.write("broken", "made")
    assert (box.files.stat("broken").kind, box.files.read("data/coming")) == ("symlink", b"made")
    box.files.write("link", "new")
    assert (box.files.stat("link").kind, box.files.read("data/real")) == ("symlink", b"new")
    assert box.files.read("data/other") == b"new"  # a second name of the same file stays one
    box.files.remove("data/other")
    box.files.write("link", "newer")
    assert (box.files.read("data/real"), box.files.stat("data/real").mode) == (b"newer", 0o600)


def test_a_file_keeps_its_mode_and_gets_a_new_one_when_told(box: cloche.Sandbox) -> None:
    box.files.write("f", "#!/bin/sh\necho one", mode=0o755)
    assert box.files.write("f", "#!/bin/sh\necho two").mode == 0o755
    assert box.commands.run("./f").stdout == "two\n"
    assert box.files.write("f", "x", mode=0o400).mode == 0o400
    with problem(errno.EACCES):
        box.files.write("f", "y")


def test_a_file_in_a_folder_that_takes_no_others_is_written_in_place(box: cloche.Sandbox) -> None:
    box.files.write("folder/f", "old and long")
    box.commands.run("chmod 555 folder")
    assert box.files.write("folder/f", "new").size == 3
    assert box.files.read("folder/f") == b"new"
    with problem(errno.EACCES):
        box.files.write("folder/g", "x")


def test_a_mounted_file_is_written_where_it_is(jail: None, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    with cloche.Sandbox(mounts={str(file): "/sandbox/data/file:rw"}) as box:
        box.files.write("data/file", "new")
        assert box.files.read("data/file") == b"new"
    assert file.read_text() == "new"


def test_two_uploads_of_one_file_do_not_mix(box: cloche.Sandbox) -> None:
    first, second = box.files.write_stream("f"), box.files.write_stream("f")
    for _ in range(10):
        first.write("1" * 1000)
        second.write("2" * 1000)
    second.finish()
    assert box.files.read("f") == b"2" * 10_000
    first.finish()
    assert box.files.read("f") == b"1" * 10_000


def test_appending_in_pieces_appends_in_place(box: cloche.Sandbox) -> None:
    box.files.write("f", "one")
    with box.files.write_stream("f", append=True) as writing:
        writing.write(" two")
        writing.write(" three")
    assert box.files.read("f") == b"one two three"


def test_a_listing_says_when_it_is_cut(box: cloche.Sandbox) -> None:
    assert box.files.list().truncated is False
    box.run_program("import os\nos.mkdir('many')\nfor n in range(12000): open(f'many/{n}-{\"x\" * 90}', 'w').close()")
    listing = box.files.list("many")
    assert listing.truncated
    assert 1000 < len(listing) < 12000


# --- asyncio


async def test_a_cancelled_reader_loses_nothing(async_box: cloche.AsyncSandbox) -> None:
    data = os.urandom(20 << 20)
    await async_box.files.write("big", data)
    read, ended = bytearray(), False
    async with async_box.files.read_stream("big") as reading:
        while not ended:
            try:
                read += await asyncio.wait_for(anext(reading), 0.0002)
            except TimeoutError:
                continue
            except StopAsyncIteration:
                ended = True
    assert read == data


async def test_a_task_that_is_cancelled_leaves_the_old_file(async_box: cloche.AsyncSandbox) -> None:
    await async_box.files.write("f", "old")
    half = asyncio.Event()

    async def upload() -> None:
        async with async_box.files.write_stream("f") as writing:
            await writing.write("new")
            half.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(upload())
    await half.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await async_box.files.read("f") == b"old"
    assert [entry.name for entry in await async_box.files.list()] == ["code", "data", "f", "output", "temp"]


async def test_the_same_with_await(async_box: cloche.AsyncSandbox) -> None:
    files = async_box.files
    entry = await files.write("a/f", "x", mode=0o600, append=True)
    assert isinstance(entry, Entry)
    assert await files.read("a/f", offset=0, length=1) == b"x"
    assert await files.read_text("a/f") == "x"
    assert [e.name for e in await files.list("a", depth=2)] == ["f"]
    assert (await files.stat("a/f")).size == 1
    assert await files.exists("a/f")
    assert await files.mkdir("b")
    assert (await files.rename("a/f", "b/g")).name == "g"
    async with await files.watch("b", recursive=True) as watch:
        await files.remove("b/g")
        async for change in watch:
            if change == Change("remove", "/sandbox/b/g"):
                break
    with pytest.raises(cloche.FileMissing):
        await files.read("b/g")


async def test_a_watch_that_is_asked_often_loses_nothing(async_box: cloche.AsyncSandbox) -> None:
    told: list[str] = []
    async with await async_box.files.watch("data") as watch:
        process = await async_box.commands.start("for i in $(seq 300); do mkdir data/$i; done")
        while len(told) < 300:
            change = await watch.next_change(timeout=0.001)
            if change is not None:
                told.append(change.path.rpartition("/")[2])
        await process.wait()
    assert told == [str(n) for n in range(1, 301)]


def test_a_file_that_a_program_removes_at_once_was_written(box: cloche.Sandbox) -> None:
    """The program waits for the file without a pause, so that it is often faster than the agent's look at the file."""
    removing = (
        "import os\nprint(1, flush=True)\nwhile True:\n    try: os.remove('/sandbox/brief')\n    except OSError: pass"
    )
    process = box.commands.start(["python3", "-c", removing])
    next(event for event in process if event.kind == "stdout")
    for _ in range(300):
        assert box.files.write("brief", b"here").size == 4
    process.kill()


# --- outside of the workspace


def test_files_outside_of_the_workspace_are_like_all_others(box: cloche.Sandbox) -> None:
    with box.files.watch("/", recursive=False) as changes:
        box.files.write("/workspace/deep/a.txt", "a")
        assert next(iter(changes)).path == "/workspace"
    assert box.commands.run("cat /workspace/deep/a.txt; mkdir /app /logs; mv /workspace/deep/a.txt /logs").stdout == "a"
    assert box.files.read("/logs/a.txt") == b"a"
    assert {"/app", "/logs", "/workspace", "/usr"} <= {entry.path for entry in box.files.list("/")}
    box.files.rename("/logs/a.txt", "moved.txt")
    box.files.remove("/workspace")
    assert not box.files.exists("/workspace")
    box.files.write("/mnt/data/seen.txt", "x")
    assert box.files.read("data/seen.txt") == box.files.read("/data/seen.txt") == b"x"
