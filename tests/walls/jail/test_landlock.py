"""T1, T6, T8, T11: what Landlock withholds, each beside the same attempt without it; and what must go on working."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import stat
import subprocess
import sys
import termios
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from cloche.walls.jail import landlock, linux

pytestmark = pytest.mark.skipif(not landlock.abi(), reason="this kernel has no Landlock")

# What programs need in order to start, and this Python in order to import what it has not imported yet.
PLACES = ("/usr", "/bin", "/lib", "/lib64", "/etc", "/proc", sys.prefix, sys.base_prefix)
SYSTEM = [path for path in PLACES if os.path.exists(path)]
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root could do this without Landlock")


def since(version: int) -> pytest.MarkDecorator:
    return pytest.mark.skipif(landlock.abi() < version, reason=f"needs version {version} of Landlock")


def child(probe: Callable[[], object], restrict: Callable[[], None] | None = None) -> str:
    """What `probe` returns in a child after `restrict`, as text; for an OSError, the name of its number."""
    receive, send = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            signal.alarm(30)
            linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
            if restrict:
                restrict()
            answer = repr(probe())
        except OSError as error:
            answer = errno.errorcode[error.errno or 0]
        except BaseException:
            answer = traceback.format_exc()
        os.write(send, answer.encode())
        os._exit(0)
    os.close(send)
    with open(receive) as answers:
        answer = answers.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return answer if status == 0 else f"ended with {status}"


class Tree:
    """A folder to read, one to write and one that no list names, each with a file in it."""

    def __init__(self, root: Path) -> None:
        self.readable, self.writable, self.hidden = root / "readable", root / "writable", root / "hidden"
        for folder in (self.readable, self.writable, self.hidden):
            folder.mkdir()
            (folder / "file").write_text("text")

    def restrict(self, *more: str) -> None:
        landlock.restrict([str(self.readable), *SYSTEM], [str(self.writable), *more])


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def test_what_no_list_names_cannot_be_read(tree):
    hidden = tree.hidden / "file"
    assert child(hidden.read_text) == "'text'"
    assert child(hidden.read_text, tree.restrict) == "EACCES"
    assert child(lambda: os.listdir(tree.hidden), tree.restrict) == "EACCES"


def test_what_is_readable_can_be_read_and_listed(tree):
    assert child((tree.readable / "file").read_text, tree.restrict) == "'text'"
    assert child(lambda: os.listdir(tree.readable), tree.restrict) == "['file']"


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
    assert child(lambda: CHANGES[change](tree.readable), tree.restrict) in ("EACCES", "EPERM")
    assert os.listdir(tree.readable) == ["file"]
    assert (tree.readable / "file").read_text() == "text"
    assert not child(lambda: CHANGES[change](tree.readable)).startswith("E")


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_writable_can_be_changed(change, tree):
    answer = child(lambda: CHANGES[change](tree.writable), tree.restrict)
    assert not answer.startswith(("E", "Traceback"))


@since(2)
def test_files_move_between_writable_folders(tree):
    def move() -> str:
        (tree.writable / "a").mkdir()
        (tree.writable / "file").rename(tree.writable / "a" / "file")
        return str((tree.writable / "a" / "file").read_text())

    assert child(move, tree.restrict) == "'text'"


@since(2)
def test_what_is_readable_cannot_be_linked_to_where_it_would_be_writable(tree):
    def link() -> None:
        (tree.writable / "mine").hardlink_to(tree.readable / "file")

    assert child(link, tree.restrict) in ("EXDEV", "EACCES")
    assert child(link) == "None"


@since(3)
def test_what_is_readable_cannot_be_truncated(tree):
    assert child(lambda: os.truncate(tree.readable / "file", 0), tree.restrict) == "EACCES"
    assert child(lambda: os.truncate(tree.writable / "file", 0), tree.restrict) == "None"
    assert child(lambda: os.truncate(tree.readable / "file", 0)) == "None"


def test_programs_run_from_what_is_readable_or_writable_only(tree):
    for folder in (tree.readable, tree.writable, tree.hidden):
        program = folder / "program"
        program.write_text("#!/bin/sh\nexit 0\n")
        program.chmod(0o755)

    def start(folder: Path) -> int:
        return subprocess.run([folder / "program"], check=False).returncode

    assert child(lambda: start(tree.readable), tree.restrict) == "0"
    assert child(lambda: start(tree.writable), tree.restrict) == "0"
    assert child(lambda: start(tree.hidden), tree.restrict) == "EACCES"
    assert child(lambda: start(tree.hidden)) == "0"


def test_a_single_file_can_be_named(tree):
    def restrict() -> None:
        landlock.restrict([str(tree.hidden / "file")], [str(tree.writable), "/dev/null"])

    (tree.hidden / "other").write_text("other")
    assert child((tree.hidden / "file").read_text, restrict) == "'text'"
    assert child((tree.hidden / "other").read_text, restrict) == "EACCES"
    assert child(lambda: Path("/dev/null").write_text("gone"), restrict) == "4"


@ROOT
def test_no_device_is_made_even_where_all_else_may_be(tree):
    def make(kind: int) -> None:
        os.mknod(tree.writable / "device", kind | 0o600, os.makedev(1, 3))

    assert child(lambda: make(stat.S_IFCHR), tree.restrict) == "EACCES"
    assert child(lambda: make(stat.S_IFBLK), tree.restrict) == "EACCES"
    assert child(lambda: make(stat.S_IFCHR)) == "None"


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

    assert child(use, lambda: tree.restrict("/dev/null", "/dev/tty", "/dev/ptmx", "/dev/pts")) == r"'33 44 0\n'"


@since(5)
def test_a_device_that_is_only_readable_takes_no_commands():
    def command() -> object:
        with open("/dev/zero", "rb", buffering=0) as device:
            return fcntl.ioctl(device, termios.TIOCGWINSZ, b"\0" * 8)

    assert child(command, lambda: landlock.restrict(["/dev/zero"], [])) == "EACCES"
    assert child(command, lambda: landlock.restrict([], ["/dev/zero"])) == "ENOTTY"
    assert child(command) == "ENOTTY"


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
            assert child(lambda: connect(name + "-own")) == "None"

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        assert child(connect, tree.restrict) == "EPERM"
        assert child(connect) == "None"
        assert child(connect_to_our_own, tree.restrict) == "None"


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
        return child(lambda: os.kill(parent, 0)) + str(os.WTERMSIG(status))

    assert child(lambda: os.kill(outside, 0), tree.restrict) == "EPERM"
    assert child(lambda: os.kill(outside, 0)) == "None"
    assert child(signal_each_other, tree.restrict) == repr(f"None{signal.SIGTERM:d}")


def test_servers_on_loopback_work(tree):
    def serve() -> str:
        server = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(server.getsockname()[:2])
        server.accept()[0].sendall(b"ok")
        return client.recv(10).decode()

    assert child(serve, tree.restrict) == "'ok'"


def test_a_missing_path_is_an_error(tree):
    assert child(lambda: tree.restrict(str(tree.hidden / "nothing"))) == "ENOENT"


def test_no_descriptor_is_left_open(tree):
    def opened_by_it() -> list[int]:
        return [fd for fd in range(3, 200) if fd not in before and os.path.exists(f"/proc/self/fd/{fd}")]

    def restrict() -> None:
        before.update(fd for fd in range(3, 200) if os.path.exists(f"/proc/self/fd/{fd}"))
        tree.restrict()

    before: set[int] = set()
    assert child(opened_by_it, restrict) == "[]"


@pytest.mark.parametrize("version", range(1, 8))
def test_every_older_version_still_guards_files(version, tree):
    if version > landlock.abi():
        pytest.skip(f"this kernel speaks version {landlock.abi()}")

    def restrict() -> None:
        landlock.abi = lambda: version  # in the child only: it stands for an older kernel
        tree.restrict()

    assert child((tree.hidden / "file").read_text, restrict) == "EACCES"
    assert child(lambda: (tree.readable / "file").write_text("x"), restrict) == "EACCES"
    assert child(lambda: (tree.writable / "new").write_text("new"), restrict) == "3"
    assert child((tree.readable / "file").read_text, restrict) == "'text'"
