"""What Landlock withholds, each beside the same attempt without it; and what must go on working."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import stat
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.walls.jail.forked import in_child

from cloche.walls.jail import landlock

pytestmark = pytest.mark.skipif(not landlock.abi(), reason="this kernel has no Landlock")

# What programs need in order to start, and this Python in order to import what it has not imported yet.
PLACES = ("/usr", "/bin", "/lib", "/lib64", "/etc", "/proc", sys.prefix, sys.base_prefix)
SYSTEM = [path for path in PLACES if os.path.exists(path)]
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root could do this without Landlock")


def since(version: int) -> pytest.MarkDecorator:
    return pytest.mark.skipif(landlock.abi() < version, reason=f"needs version {version} of Landlock")


class Tree:
    """A folder to read, one to write and one that no list names, each with a file in it."""

    def __init__(self, root: Path) -> None:
        self.readable, self.writable, self.hidden = root / "readable", root / "writable", root / "hidden"
        for folder in (self.readable, self.writable, self.hidden):
            folder.mkdir()
            (folder / "file").write_text("text")

    def restrict(self, *more: str, devices: tuple[str, ...] = ()) -> None:
        landlock.restrict([str(self.readable), *SYSTEM], [str(self.writable), *more], devices)


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def test_what_no_list_names_cannot_be_read(tree):
    hidden = tree.hidden / "file"
    assert in_child(hidden.read_text) == "'text'"
    assert in_child(hidden.read_text, tree.restrict) == "EACCES"
    assert in_child(lambda: os.listdir(tree.hidden), tree.restrict) == "EACCES"


def test_what_is_readable_can_be_read_and_listed(tree):
    assert in_child((tree.readable / "file").read_text, tree.restrict) == "'text'"
    assert in_child(lambda: os.listdir(tree.readable), tree.restrict) == "['file']"


CHANGES: dict[str, Callable[[Path], object]] = {
    "write": lambda folder: (folder / "file").write_text("other"),
    "append": lambda folder: os.open(folder / "file", os.O_WRONLY | os.O_APPEND),
    "create": lambda folder: (folder / "new").write_text("new"),
    "mkdir": lambda folder: (folder / "new").mkdir(),
    "remove": lambda folder: (folder / "file").unlink(),
    "rename": lambda folder: (folder / "file").rename(folder / "new"),
    "symlink": lambda folder: (folder / "new").symlink_to("file"),
    "link": lambda folder: (folder / "new").hardlink_to(folder / "file"),
    "fifo": lambda folder: os.mkfifo(folder / "new"),
    "socket": lambda folder: socket.socket(socket.AF_UNIX).bind(str(folder / "new")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_readable_cannot_be_changed(change, tree):
    assert in_child(lambda: CHANGES[change](tree.readable), tree.restrict) in ("EACCES", "EPERM")
    assert os.listdir(tree.readable) == ["file"]
    assert (tree.readable / "file").read_text() == "text"
    assert not in_child(lambda: CHANGES[change](tree.readable)).startswith("E")


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_writable_can_be_changed(change, tree):
    answer = in_child(lambda: CHANGES[change](tree.writable), tree.restrict)
    assert not answer.startswith(("E", "Traceback"))


@since(2)
def test_files_move_between_writable_folders(tree):
    def move() -> str:
        (tree.writable / "a").mkdir()
        (tree.writable / "file").rename(tree.writable / "a" / "file")
        return str((tree.writable / "a" / "file").read_text())

    assert in_child(move, tree.restrict) == "'text'"


@since(2)
def test_what_is_readable_cannot_be_linked_to_where_it_would_be_writable(tree):
    def link() -> None:
        (tree.writable / "mine").hardlink_to(tree.readable / "file")

    assert in_child(link, tree.restrict) in ("EXDEV", "EACCES")
    assert in_child(link) == "None"


@since(3)
def test_what_is_readable_cannot_be_truncated(tree):
    assert in_child(lambda: os.truncate(tree.readable / "file", 0), tree.restrict) == "EACCES"
    assert in_child(lambda: os.truncate(tree.writable / "file", 0), tree.restrict) == "None"
    assert in_child(lambda: os.truncate(tree.readable / "file", 0)) == "None"


def test_programs_run_from_what_is_readable_or_writable_only(tree):
    for folder in (tree.readable, tree.writable, tree.hidden):
        program = folder / "program"
        program.write_text("#!/bin/sh\nexit 0\n")
        program.chmod(0o755)

    def start(folder: Path) -> int:
        return subprocess.run([folder / "program"], check=False).returncode

    assert in_child(lambda: start(tree.readable), tree.restrict) == "0"
    assert in_child(lambda: start(tree.writable), tree.restrict) == "0"
    assert in_child(lambda: start(tree.hidden), tree.restrict) == "EACCES"
    assert in_child(lambda: start(tree.hidden)) == "0"


def test_a_single_file_can_be_named(tree):
    def restrict() -> None:
        landlock.restrict([str(tree.hidden / "file")], [str(tree.writable), "/dev/null"])

    (tree.hidden / "other").write_text("other")
    assert in_child((tree.hidden / "file").read_text, restrict) == "'text'"
    assert in_child((tree.hidden / "other").read_text, restrict) == "EACCES"
    assert in_child(lambda: Path("/dev/null").write_text("gone"), restrict) == "4"


@ROOT
def test_no_device_is_made_even_where_all_else_may_be(tree):
    def make(kind: int) -> None:
        os.mknod(tree.writable / "device", kind | 0o600, os.makedev(1, 3))

    assert in_child(lambda: make(stat.S_IFCHR), tree.restrict) == "EACCES"
    assert in_child(lambda: make(stat.S_IFBLK), tree.restrict) == "EACCES"
    assert in_child(lambda: make(stat.S_IFCHR)) == "None"


TERMINAL = """
import os, pty, termios, fcntl, struct
pid, fd = pty.fork()
if not pid:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", 33, 44, 0, 0))
    os.execlp("stty", "stty", "size")
print(os.read(fd, 100).decode().strip(), os.waitpid(pid, 0)[1])
open("/dev/null", "w").write("x")
"""


def test_terminals_work(tree):
    def use() -> str:
        return subprocess.run([sys.executable, "-c", TERMINAL], capture_output=True, text=True, check=False).stdout

    devices = ("/dev/null", "/dev/tty", "/dev/ptmx", "/dev/pts")
    assert in_child(use, lambda: tree.restrict(devices=devices)) == r"'33 44 0\n'"


@since(5)
def test_a_device_takes_commands_only_if_it_is_named_as_a_device():
    def command() -> object:
        with open("/dev/zero", "rb", buffering=0) as device:
            return fcntl.ioctl(device, termios.TIOCGWINSZ, b"\0" * 8)

    assert in_child(command, lambda: landlock.restrict(["/dev/zero"], [])) == "EACCES"
    assert in_child(command, lambda: landlock.restrict([], ["/dev"])) == "EACCES"
    assert in_child(command, lambda: landlock.restrict([], ["/dev"], ["/dev/zero"])) == "ENOTTY"
    assert in_child(command) == "ENOTTY"


@since(6)
def test_an_abstract_socket_of_the_host_cannot_be_reached(tree):
    name = f"\0cloche-test-{os.getpid()}"

    def connect(to: str = name) -> None:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(to)

    def connect_to_our_own() -> None:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(name + "-own")
            server.listen()
            assert in_child(lambda: connect(name + "-own")) == "None"

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        assert in_child(connect, tree.restrict) == "EPERM"
        assert in_child(connect) == "None"
        assert in_child(connect_to_our_own, tree.restrict) == "None"


@since(6)
def test_no_process_outside_can_be_signalled_but_each_within_can(tree):
    outside = os.getpid()

    def signal_each_other() -> str:
        pid = os.fork()
        if not pid:
            signal.pause()
        os.kill(pid, signal.SIGTERM)
        status = os.waitpid(pid, 0)[1]
        parent = os.getpid()
        return in_child(lambda: os.kill(parent, 0)) + str(os.WTERMSIG(status))

    assert in_child(lambda: os.kill(outside, 0), tree.restrict) == "EPERM"
    assert in_child(lambda: os.kill(outside, 0)) == "None"
    assert in_child(signal_each_other, tree.restrict) == repr(f"None{signal.SIGTERM:d}")


def test_servers_on_loopback_work(tree):
    def serve() -> str:
        server = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(server.getsockname()[:2])
        server.accept()[0].sendall(b"ok")
        return client.recv(10).decode()

    assert in_child(serve, tree.restrict) == "'ok'"


def test_a_missing_path_is_an_error(tree):
    assert in_child(lambda: tree.restrict(str(tree.hidden / "nothing"))) == "ENOENT"


def test_no_descriptor_is_left_open(tree):
    def opened_by_it() -> list[int]:
        return [fd for fd in range(3, 200) if fd not in before and os.path.exists(f"/proc/self/fd/{fd}")]

    def restrict() -> None:
        before.update(fd for fd in range(3, 200) if os.path.exists(f"/proc/self/fd/{fd}"))
        tree.restrict()

    before: set[int] = set()
    assert in_child(opened_by_it, restrict) == "[]"


@pytest.mark.parametrize("version", range(1, 8))
def test_every_older_version_still_guards_files(version, tree):
    if version > landlock.abi():
        pytest.skip(f"this kernel speaks version {landlock.abi()}")

    def restrict() -> None:
        landlock.abi = lambda: version  # in the child only: it stands for an older kernel
        tree.restrict()

    assert in_child((tree.hidden / "file").read_text, restrict) == "EACCES"
    assert in_child(lambda: (tree.readable / "file").write_text("x"), restrict) == "EACCES"
    assert in_child(lambda: (tree.writable / "new").write_text("new"), restrict) == "3"
    assert in_child((tree.readable / "file").read_text, restrict) == "'text'"
