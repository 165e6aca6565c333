"""A program that a kernel drives: another language's interpreter, in which the cells run."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_FOLDERS = "/tmp"  # where a kernel's own folder is made
_SIGKILL, _SIGPIPE, _SIGXFSZ = 9, 13, 25
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Interpreter:
    """It, while it runs."""

    def __init__(self, argv: list[str], environment: dict[str, str], stderr: int = 2) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.dup2(stderr, 2)
                set_signal(_SIGPIPE, 0)  # Python ignores these two, and what is ignored stays ignored
                set_signal(_SIGXFSZ, 0)
                os.execvpe(argv[0], argv, environment)
            except BaseException:
                os.write(2, f"{argv[0]} could not be started\n".encode())
            finally:
                os._exit(127)
        self.pidfd = os.pidfd_open(self.pid)
        self._last_cpu_s = 0.0
        self._last_peak = 0

    def cpu_s(self) -> float:
        """The processor time of it and of what it has waited for."""
        try:
            with open(f"/proc/{self.pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            self._last_cpu_s = sum(map(int, fields[11:15])) * _TICK_S
        except (OSError, IndexError):
            pass
        return self._last_cpu_s

    def peak_bytes(self) -> int:
        """The most memory that it has held."""
        try:
            with open(f"/proc/{self.pid}/status", "rb") as file:
                text = file.read()
            if b"VmHWM:" in text:
                self._last_peak = int(text.partition(b"VmHWM:")[2].split()[0]) * 1024
        except OSError:
            pass
        return self._last_peak

    def stop(self) -> None:
        """End it, if it has not ended."""
        os.kill(self.pid, _SIGKILL)

    def reap(self) -> int:
        """How it has ended: its exit code, or its signal, negative."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self.pidfd)
        return os.waitstatus_to_exitcode(status)


def end_like(code: int) -> NoReturn:
    """End this process as the one that it drove: with its code, or by its signal."""
    if code < 0:
        if code != -_SIGKILL:
            set_signal(-code, 0)
        os.kill(os.getpid(), -code)
    os._exit(code)


def make_folder(name: str) -> str:
    """A folder of our own.  One of that name may be left from a kernel that was killed, and whose pid we have."""
    number = 0
    while True:
        path = f"{_FOLDERS}/.{name}-{os.getpid()}" + (f".{number}" if number else "")
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            number += 1
        else:
            return path


def make_fifo(path: str) -> int:
    """A named pipe, with both ends open: it never ends, and opening it never waits."""
    os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDWR | os.O_CLOEXEC)


def set_signal(number: int, action: Any) -> None:
    """What is done at a signal; `signal` itself takes long to import."""
    from _signal import signal  # type: ignore[import-not-found]

    signal(number, action)
