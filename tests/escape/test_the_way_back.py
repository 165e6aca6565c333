"""T13, T14: what comes back from a sandbox is never followed outside, never blocks, and is bounded."""

from __future__ import annotations

import os
import resource
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

import cloche
from cloche.blocking.io.streams import Stream
from cloche.blocking.sandbox.files import Files
from cloche.model.order import Listener, Spent
from cloche.sandbox.requests import Command


@pytest.fixture
def box() -> Iterator[cloche.Sandbox]:
    with cloche.Sandbox() as box:
        yield box


def test_a_link_leads_to_nothing_of_the_host(box, planted):
    box.commands.run(
        f"ln -s {planted} out; ln -s /etc/passwd passwd; ln -s / up; ln -s /proc/1/root/x deep; ln -s loop loop"
    )
    with pytest.raises(cloche.FileMissing):
        box.files.read("out")
    assert planted.read_text() == "a secret of the host"  # the proof: here it can be read
    assert b"root:x:0:0:root:/nonexistent" in box.files.read("passwd")
    for path in ("deep", "loop", "up/root/.bashrc", "up" + str(planted)):
        with pytest.raises((cloche.FileProblem, cloche.FileMissing)):
            box.files.read(path)
    with pytest.raises((cloche.FileProblem, cloche.FileMissing)):
        box.files.write("out", b"overwritten")
    kinds = {entry.name: entry.kind for entry in box.files.list(depth=3)}
    assert kinds["up"] == kinds["out"] == kinds["loop"] == "symlink"  # and none was walked into


def test_a_hard_link_to_what_is_not_its_own_cannot_be_made(box):
    assert box.commands.run("ln /etc/passwd here").exit_code != 0
    assert box.commands.run("ln /usr/bin/env here").exit_code != 0


@pytest.mark.parametrize("what", ["fifo", "socket", "device", "directory", "terminal"])
def test_what_is_no_file_is_refused_at_once(box: cloche.Sandbox, what: str) -> None:
    box.run_program(
        "import os, socket; os.mkfifo('fifo'); socket.socket(socket.AF_UNIX).bind('socket'); os.mkdir('directory')"
    )
    path = {"device": "/dev/zero", "terminal": "/dev/tty"}.get(what, what)
    begin = time.monotonic()
    for attempt in (lambda: box.files.read(path), lambda: box.files.write(path, b"x")):
        with pytest.raises((cloche.FileProblem, cloche.FileMissing)):
            attempt()
    assert time.monotonic() - begin < 15
    assert box.run_program("print(1)").stdout == "1\n"


@pytest.mark.parametrize("how", ["mkfifo", "mkdir", "ln -s /dev/full", "ln -s /dev/ptmx", "ln -s main.py"])
def test_what_lies_where_a_program_is_written_holds_up_nobody(box: cloche.Sandbox, how: str) -> None:
    box.commands.run(f"mkdir -p code; rm -rf code/main.py; {how} code/main.py")
    with pytest.raises(cloche.FileProblem):
        box.run_program("print(1)")
    box.commands.run("rm -rf code/main.py")
    assert box.run_program("print(1)").stdout == "1\n"


def test_a_sparse_giant_costs_the_engine_nothing(box):
    box.commands.run("truncate -s 8E giant || truncate -s 4T giant; truncate -s 3G large")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size = box.files.stat("giant").size
    assert size > 1 << 40
    assert box.files.read("giant", offset=size - 10, length=100) == bytes(10)
    assert box.files.list()[0].size >= 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 << 10  # kilobytes


def test_a_tree_deeper_than_any_path_is_listed_and_removed(box):
    result = box.run_program("""
import os
os.mkdir("deep"); os.chdir("deep")
for _ in range(3000):
    os.mkdir("d"); os.chdir("d")
""")
    assert result.error is None
    begin = time.monotonic()
    try:
        box.files.list("deep", depth=100_000)
    except cloche.FileProblem:
        pass
    try:
        box.files.remove("deep")
    except cloche.FileProblem:
        pass
    assert time.monotonic() - begin < 20
    assert box.run_program("print(1)").stdout == "1\n"


NAMES = [b"new\nline", b"\xff\xfe", b"\x1b[31mred", b"-rf", b" ", b"a\\b", b"\xe2\x80\xae", b"'\"", b"%s{}", b"x" * 255]


def test_hostile_names_come_back_as_they_are(box):
    box.run_program(f"import os\nfor name in {NAMES!r}: open(b'/sandbox/output/' + name, 'w').close()")
    told = {entry.path for entry in box.files.list("output")}
    assert {os.fsencode(path) for path in told} == {b"/sandbox/output/" + name for name in NAMES}
    for path in told:
        assert box.files.read(path) == b""


def test_a_folder_of_very_many_names_is_bounded(box):
    box.run_program("import os\nfor n in range(50_000): open(f'/sandbox/output/{n:0200}', 'w').close()", timeout=30)
    entries = box.files.list("output")
    assert 0 < len(entries) <= 50_000
    assert sum(len(entry.path) for entry in entries) < 4 << 20


# A wall behind which nobody but the attacker is: what the engine does when every frame is forged.


def frame(operation: int, kind: int, payload: bytes) -> bytes:
    return struct.pack(">IIB", len(payload), operation, kind) + payload


class Forger:
    """A wall, and the hold of its one sandbox, whose agent says whatever the test wants."""

    name = "forger"

    def __init__(self, speak: Callable[[socket.socket], None]) -> None:
        ours, self._theirs = socket.socketpair()
        self.stream = Stream(ours)
        self._thread = threading.Thread(target=self._run, args=(speak,), daemon=True)
        self._thread.start()

    def _run(self, speak: Callable[[socket.socket], None]) -> None:
        try:
            speak(self._theirs)
        except OSError:
            pass

    def hold(self, order: object, first: bytes = b"") -> Forger:
        self.stream._socket.sendall(first)
        return self

    def usage(self) -> Spent:
        return Spent()

    def set_lifetime(self, seconds: float | None) -> None:
        pass

    def listen(self, ports: Sequence[int]) -> list[Listener]:
        return []

    def mount_layer(self, folder: str, identity: tuple[int, int], number: int) -> None:
        """It has no layers."""

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def end(self) -> Spent:
        self._theirs.close()
        return Spent()

    def gone(self) -> None:
        self._thread.join(5)

    def ended(self) -> str:
        self.gone()
        return "lost"

    def abandon(self) -> None:
        self._theirs.close()
        self.stream.close()


STARTED, STDOUT, EXIT, REPLY, FAIL, DATA, EVENT = 16, 17, 19, 20, 21, 22, 23
FORGED = {
    "no JSON": frame(1, EXIT, b"\xff{"),
    "no object": frame(1, EXIT, b"[]"),
    "no code": frame(1, EXIT, b"{}"),
    "an endless code": frame(1, EXIT, b'{"code": 1e999}'),
    "infinity": frame(1, EXIT, b'{"code": Infinity}'),
    "a list for a disk": frame(1, EXIT, b'{"code": 1, "disk": [1]}'),
    "text for numbers": frame(
        1, EXIT, b'{"code": 1, "disk": {"free": "x", "inodes_free": []}, "cpu": "x", "peak": {}}'
    ),
    "an endless peak": frame(1, EXIT, b'{"code": 0, "peak": 1e999, "cpu": 1e999}'),
    "nesting": frame(1, EXIT, b'{"code":' + b"[" * 200_000),
    "a giant number": frame(1, EXIT, b'{"code": ' + b"9" * 100_000 + b"}"),
    "a pid that is none": frame(1, STARTED, b'{"pid": {}}'),
    "a refusal without reason": frame(1, FAIL, b"{}"),
    "a refusal of nonsense": frame(1, FAIL, b'{"errno": "x", "message": {}}'),
    "a frame too long": struct.pack(">IIB", 1 << 30, 1, STDOUT),
    "a kind that is none": frame(1, 99, b""),
    "the engine's own kind": frame(1, 1, b"{}"),
    "credit beyond measure": frame(1, 8, b"\xff" * 100),
    "the end at once": b"",
}


@pytest.mark.parametrize("what", FORGED)
def test_forged_frames_end_in_an_error_of_ours(what):
    def speak(agent: socket.socket) -> None:
        agent.recv(1 << 20)
        agent.sendall(FORGED[what])
        agent.shutdown(socket.SHUT_WR)

    for use in (
        lambda wall: cloche.run("print(1)", wall=wall, timeout=5),
        lambda wall: cloche.Sandbox(wall=wall).files.list(),
        lambda wall: cloche.Sandbox(wall=wall).files.stat("x"),
        lambda wall: cloche.Sandbox(wall=wall).files.read("x"),
    ):
        try:
            use(Forger(speak))
        except cloche.ClocheError:
            pass


ENTRIES = {
    "nothing": b"{}",
    "entries of nonsense": b'{"entries": [1, null]}',
    "an entry of nonsense": b'{"entries": [{"path": 1, "kind": [], "size": "x", "mode": 1e999, "modified": "y"}]}',
    "infinite": b'{"entries": [{"path": "p", "kind": "file", "size": 1e999, "mode": 0, "modified": 0}], "entry": 3}',
}


@pytest.mark.parametrize("what", ENTRIES)
def test_forged_answers_about_files_end_in_an_error_of_ours(what):
    def speak(agent: socket.socket) -> None:
        agent.recv(1 << 20)
        agent.sendall(frame(1, REPLY, ENTRIES[what]))
        agent.recv(1 << 20)

    uses: tuple[Callable[[Files], object], ...] = (
        lambda files: files.list(),
        lambda files: files.stat("x"),
        lambda files: files.mkdir("x"),
        lambda files: files.disk(),
    )
    for use in uses:
        try:
            use(cloche.Sandbox(wall=Forger(speak)).files)
        except cloche.ClocheError:
            pass


@pytest.mark.parametrize("kind", [STDOUT, REPLY, EVENT, STARTED])
def test_a_flood_of_frames_costs_bounded_memory(kind):
    def speak(agent: socket.socket) -> None:
        agent.recv(1 << 20)
        # Of a megabyte each: for an operation that nobody waits for, and for one that is none.
        for number in range(300):
            agent.sendall(frame(1 + number % 2 * 7, kind, bytes(1 << 20)))
        agent.close()

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    box = cloche.Sandbox(wall=Forger(speak), timeout=3)
    waiting = box.backend.programs.start_command(Command(["x"], timeout=3))
    try:
        box.files.stat("x")
    except cloche.ClocheError:
        pass
    assert waiting is not None
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # kilobytes
