"""The interpreter process that a kernel drives, in which the cells run."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_PARENT = "/tmp"  # where kernels create their folders
_SIGKILL, _SIGPIPE, _SIGXFSZ = 9, 13, 25
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class InterpreterProcess:
    """An interpreter process of another language."""

    def __init__(self, argv: list[str], environment: dict[str, str], stderr: int = 2) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.dup2(stderr, 2)
                set_signal(_SIGPIPE, 0)  # Python ignores these two, and exec would pass that on
                set_signal(_SIGXFSZ, 0)
                os.execvpe(argv[0], argv, environment)
            except BaseException:
                os.write(2, f"{argv[0]} could not be started: is it installed?\n".encode())
            finally:
                os._exit(127)
        self.pidfd = os.pidfd_open(self.pid)
        self._last_cpu_s = 0.0
        self._last_peak = 0

    def cpu_s(self) -> float:
        """Return the CPU time of the process and of the children it has waited for."""
        try:
            with open(f"/proc/{self.pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            self._last_cpu_s = sum(map(int, fields[11:15])) * _TICK_S
        except (OSError, IndexError):
            pass
        return self._last_cpu_s

    def peak_bytes(self) -> int:
        """Return the peak memory."""
        try:
            with open(f"/proc/{self.pid}/status", "rb") as file:
                text = file.read()
            if b"VmHWM:" in text:
                self._last_peak = int(text.partition(b"VmHWM:")[2].split()[0]) * 1024
        except OSError:
            pass
        return self._last_peak

    def stop(self) -> None:
        """Kill the process."""
        os.kill(self.pid, _SIGKILL)

    def reap(self) -> int:
        """Wait for the end; returns the exit code, or the negative signal number."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self.pidfd)
        return os.waitstatus_to_exitcode(status)


def end_like(code: int) -> NoReturn:
    """End this process like the interpreter: with its code, or by its signal."""
    if code < 0:
        if code != -_SIGKILL:
            set_signal(-code, 0)
        os.kill(os.getpid(), -code)
    os._exit(code)


def make_folder(name: str) -> str:
    """Create a folder of our own; one of that name may be left from a killed kernel that had our pid."""
    number = 0
    while True:
        path = f"{_PARENT}/.{name}-{os.getpid()}" + (f".{number}" if number else "")
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            number += 1
        else:
            return path


def make_fifo(path: str) -> int:
    """Create a named pipe and open both ends, so that it never ends and opening it never waits."""
    os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDWR | os.O_CLOEXEC)


def write_text(path: str, text: str) -> None:
    """Write a file; characters that stand for bytes which are not UTF-8 become these bytes again."""
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


def set_signal(number: int, action: Any) -> None:
    """Set a signal's action; the `signal` module is slow to import."""
    from _signal import signal  # type: ignore[import-not-found]

    signal(number, action)
