"""The Bash kernel: speaks a kernel's protocol, and drives one `bash` in which the cells run.

That bash reads its commands from a fifo, a line for each cell: `source` of a file that holds the cell, then a report on
another fifo.  So cells run at the top of the shell, and nothing of ours is open in what they start.  When a cell ends
the shell (`exit`, errexit, an interrupt), scripts/bash.sh lets it begin anew in the same process, with its state.
"""

from __future__ import annotations

import os
import select

from cloche.kernels.channel import Channel
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

SCRIPT = "/opt/kernels/bash.sh"
FOLDERS = "/tmp"  # where a kernel's own folder is made

_ENOSYS = 38
_SIGINT, _SIGPIPE, _SIGXFSZ = 2, 13, 25
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def main(control: int, order: dict[str, Any]) -> NoReturn:
    """Be the kernel, until the agent is gone."""
    kernel = None
    try:
        _set_signal(_SIGINT, lambda *_: None)  # for the cell, not for us; not ignored, which bash would inherit
        os.chdir(order["cwd"])
        kernel = _Kernel(Channel(control), order["env"])
        kernel.serve()
    finally:
        if kernel is not None:
            kernel.close()
        os._exit(0)


class _Kernel:
    def __init__(self, channel: Channel, environment: dict[str, str]) -> None:
        self._channel = channel
        self._environment = environment
        self._folder = f"{FOLDERS}/.bash-{os.getpid()}"
        os.mkdir(self._folder, 0o700)
        self._commands = self._fifo("commands")
        self._reports = self._fifo("reports")
        self._shell: _Shell | None = None
        self._was_lost = False
        self._count = 0
        self._start_shell()

    def serve(self) -> None:
        """One cell after the other."""
        self._channel.send_json(frames.STARTED, {"pid": os.getpid()}, 0)
        while (frame := self._channel.receive()) is not None:
            operation, kind, payload = frame
            if kind == frames.CELL:
                self._channel.operation = operation
                if not self._run(frames.decode_json(payload)):
                    return
            else:
                self._refuse(frame)

    def close(self) -> None:
        """Leave nothing behind; what a cell started goes with the sandbox."""
        if self._shell is not None:
            self._shell.kill()
        for name in os.listdir(self._folder):
            os.unlink(f"{self._folder}/{name}")
        os.rmdir(self._folder)

    def _run(self, cell: dict[str, Any]) -> bool:
        """Run a cell and tell how it ended; False when the agent is gone."""
        inputs = self._channel.take(1) if cell.get("input") else []
        if self._shell is None:
            self._start_shell()
        shell = self._shell
        assert shell is not None
        if self._was_lost:
            self._channel.write(frames.STDERR, b"bash: the shell was lost: variables and functions are gone\n")
            self._was_lost = False
        before = shell.cpu_s()
        path = self._write_cell(cell)
        stdin = f"/proc/{os.getpid()}/fd/{inputs[0]}" if inputs else "/dev/null"
        settings = "".join(f"__cloche_with {name} {_quoted(value)};" for name, value in (cell.get("env") or {}).items())
        self._send(f"__cloche_running=1;{settings}source {_quoted(path)} <{stdin};__cloche_end $?\n")
        code = self._wait(shell)
        for fd in inputs:
            os.close(fd)
        os.unlink(path)
        if code is None:
            return False
        usage = {"cpu": max(0.0, shell.cpu_s() - before), "peak": shell.peak_bytes()}
        status = "ok" if code == 0 else "exit"
        self._channel.send_json(frames.EXIT, {"status": status, "code": code, "count": self._count, **usage})
        return True

    def _wait(self, shell: _Shell) -> int | None:
        """The code with which the cell ends; None when the agent is gone."""
        poll = select.poll()
        for fd in (self._reports, shell.pidfd, self._channel.fileno()):
            poll.register(fd, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if self._reports in ready:
                word, code = os.read(self._reports, 64).decode().split()[-2:]
                if word == "left":
                    self._prepare()
                return int(code)
            if shell.pidfd in ready:
                self._shell, self._was_lost = None, True
                return shell.reap()
            frame = self._channel.receive()
            if frame is None:
                return None
            self._refuse(frame)

    def _refuse(self, frame: tuple[int, int, bytes]) -> None:
        operation, kind, _ = frame
        if kind in (frames.FORK, frames.ASK):
            for fd in self._channel.take(len(self._channel.descriptors)):
                os.close(fd)
            message = "Bash kernels cannot be forked"
            self._channel.send_json(frames.FAIL, {"errno": _ENOSYS, "message": message}, operation)

    def _start_shell(self) -> None:
        for name in ("state", "traps"):
            with open(f"{self._folder}/{name}", "w"):
                pass
        while select.select([self._commands], [], [], 0)[0]:  # what a lost shell has not read
            os.read(self._commands, 4096)
        self._shell = _Shell(f"{self._folder}/commands", self._environment)
        self._prepare()

    def _prepare(self) -> None:
        """A new shell learns our functions first, and then what the one before it knew."""
        folder = _quoted(self._folder)
        self._send(f"__cloche_folder={folder};source {_quoted(SCRIPT)};source {folder}/state\n")

    def _send(self, line: str) -> None:
        data = line.encode("utf-8", "surrogateescape")
        while data:  # the fifo is open for reading here, too, so this cannot fail, and it is short
            data = data[os.write(self._commands, data) :]

    def _write_cell(self, cell: dict[str, Any]) -> str:
        self._count += 1
        path = f"{self._folder}/cell-{self._count}"
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(cell["code"])
        return path

    def _fifo(self, name: str) -> int:
        path = f"{self._folder}/{name}"
        os.mkfifo(path, 0o600)
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)  # both ends: it never ends, and opening it never waits


class _Shell:
    """A running bash."""

    def __init__(self, script: str, environment: dict[str, str]) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _set_signal(_SIGPIPE, 0)  # Python ignores these two, and what is ignored stays ignored
                _set_signal(_SIGXFSZ, 0)
                os.execvpe("bash", ["bash", "--noprofile", "--norc", script], environment)
            except BaseException:
                os.write(2, b"bash could not be started\n")
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
        """The most memory that bash itself has held."""
        try:
            with open(f"/proc/{self.pid}/status", "rb") as file:
                text = file.read()
            if b"VmHWM:" in text:
                self._last_peak = int(text.partition(b"VmHWM:")[2].split()[0]) * 1024
        except OSError:
            pass
        return self._last_peak

    def reap(self) -> int:
        """The exit code of one that has ended, 128 and more for a signal."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self.pidfd)
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code

    def kill(self) -> None:
        """End it."""
        os.kill(self.pid, 9)
        self.reap()


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _set_signal(number: int, action: Any) -> None:
    from _signal import signal  # type: ignore[import-not-found]

    signal(number, action)
