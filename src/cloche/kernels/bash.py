"""The Bash kernel: speaks a kernel's protocol, and drives one `bash` in which the cells run.

That bash reads its commands from a fifo, a few lines for each cell: `source` of a file that holds the cell, then a
report on another fifo.  So cells run at the top of the shell, and nothing of ours is open in what they start.  When a
cell ends the shell (`exit`, errexit, an interrupt), scripts/bash.sh lets it begin anew in the same process, with its
state.  When the shell is lost (`kill -9 $$`, `exec`), the kernel ends as it did.

What lasts from cell to cell is what lasts in a shell, except for errexit and nounset, and for standard input, output
and errors (`exec >file`): those are each cell's own.
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
_SIGINT, _SIGKILL, _SIGPIPE, _SIGXFSZ = 2, 9, 13, 25
_SYNTAX_ERROR = 2  # with which bash ends a script that it cannot read
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def main(control: int, order: dict[str, Any]) -> NoReturn:
    """Be the kernel, until the agent is gone."""
    kernel, code = None, 1
    try:
        _set_signal(_SIGINT, lambda *_: None)  # for the cell, not for us; not ignored, which bash would inherit
        kernel = _Kernel(Channel(control), order["env"])
        kernel.serve()
    finally:
        if kernel is not None:
            code = kernel.close()
        if code < 0:
            if code != -_SIGKILL:
                _set_signal(-code, 0)
            os.kill(os.getpid(), -code)
        os._exit(code)


class _Kernel:
    def __init__(self, channel: Channel, environment: dict[str, str]) -> None:
        self._channel = channel
        self._environment = environment
        self._folder = _make_folder()
        self._commands = self._fifo("commands")
        self._reports = self._fifo("reports")
        self._unread = b""  # of the reports
        self._tracing = ""  # x and v, when the last cell has left these options on
        self._count = 0
        for name in ("state", "traps"):
            with open(f"{self._folder}/{name}", "w"):
                pass
        self._shell = _Shell(f"{self._folder}/commands", environment)
        self._prepare()

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

    def close(self) -> int:
        """Leave nothing behind; what a cell started goes with the sandbox.  Tells how the shell ended."""
        self._shell.stop()
        code = self._shell.reap()
        try:
            for name in os.listdir(self._folder):
                os.unlink(f"{self._folder}/{name}")
            os.rmdir(self._folder)
        except OSError:
            pass  # a cell has made it its own
        return code

    def _run(self, cell: dict[str, Any]) -> bool:
        """Run a cell and tell how it ended; False when the agent is gone, or the shell."""
        inputs = self._channel.take(1) if cell.get("input") else []
        before = self._shell.cpu_s()
        path = self._write_cell(cell)
        self._send(self._commands_for(cell, path, inputs))
        code = self._wait()
        for fd in inputs:
            os.close(fd)
        if code is None:
            return False
        if code == _SYNTAX_ERROR:
            self._tell_syntax_error(path)
        os.unlink(path)
        usage = {"cpu": max(0.0, self._shell.cpu_s() - before), "peak": self._shell.peak_bytes()}
        status = "ok" if code == 0 else "exit"
        self._channel.send_json(frames.EXIT, {"status": status, "code": code, "count": self._count, **usage})
        return True

    def _commands_for(self, cell: dict[str, Any], path: str, inputs: list[int]) -> str:
        """On lines of their own, as an error in one (a readonly variable) ends its line; and out of sight of traps."""
        ours = f"/proc/{os.getpid()}/fd"
        stdin = f"{ours}/{inputs[0]}" if inputs else "/dev/null"
        report = f'echo "end {self._count} $__cloche_code $__cloche_flags" >|{_quoted(self._folder)}/reports'
        lines = [
            "{ __cloche_running=1; } >/dev/null 2>&1",
            *(f"\\__cloche_with {name} {_quoted(value)}" for name, value in (cell.get("env") or {}).items()),
            f"\\builtin source {_quoted(path)} <{stdin} >{ours}/1 2>{ours}/2",
            "{ __cloche_code=$? __cloche_flags=$-; \\builtin set +euvx; } >/dev/null 2>&1",
            '{ [[ -z ${__cloche_dropped-} ]] || \\builtin trap - "${__cloche_dropped[@]}"; } >/dev/null 2>&1',
            "{ \\__cloche_end; } >/dev/null 2>&1",
            f"{{ \\builtin {report} || /bin/{report}; }} >/dev/null 2>&1",
        ]
        return "\n".join(lines) + "\n"

    def _wait(self) -> int | None:
        """The code with which the cell ends; None when the agent is gone, or the shell."""
        poll = select.poll()
        for fd in (self._reports, self._shell.pidfd, self._channel.fileno()):
            poll.register(fd, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if self._reports in ready:
                code = self._read_reports()
                if code is not None:
                    return code
            elif self._shell.pidfd in ready:
                return None
            if self._channel.fileno() in ready:
                frame = self._channel.receive()
                if frame is None:
                    return None
                self._refuse(frame)

    def _read_reports(self) -> int | None:
        """The code, if the shell has told that the cell is over."""
        *lines, self._unread = (self._unread + os.read(self._reports, 4096)).split(b"\n")
        for line in lines:
            words = line.decode(errors="replace").split()
            try:
                word, count, code = words[0], int(words[1]), int(words[2])
            except (IndexError, ValueError):
                self._shell.stop()  # a cell has broken it: nothing that it says can be relied on
                return None
            # A shell that was left may still have had the last lines of its cell to read: the next one reads them.
            if word == "left" or count == self._count:
                self._tracing = "".join(flag for flag in "vx" if flag in "".join(words[3:]))
                if word == "left":
                    self._prepare()
                return code
        return None

    def _tell_syntax_error(self, path: str) -> None:
        """If that is why the cell ended so: what bash says of it, without the name of our file."""
        reading, writing = os.pipe()
        reader = _Shell(path, self._environment, ("-n", "-O", "extglob"), writing)
        os.close(writing)
        said = b""
        while len(said) < 1 << 16 and (data := os.read(reading, 4096)):
            said += data
        os.close(reading)
        if reader.reap() == 0:
            return
        text = said.decode(errors="replace").replace(f"{path}: ", "").strip()
        message = next((line for line in text.split("\n") if "warning:" not in line), text)
        error = {"type": "error", "name": "SyntaxError", "message": message, "traceback": text, "ansi": text}
        self._channel.send_message(error)

    def _refuse(self, frame: tuple[int, int, bytes]) -> None:
        operation, kind, _ = frame
        if kind in (frames.FORK, frames.ASK):
            for fd in self._channel.take(len(self._channel.descriptors)):
                os.close(fd)
            message = "Bash kernels cannot be forked"
            self._channel.send_json(frames.FAIL, {"errno": _ENOSYS, "message": message}, operation)

    def _prepare(self) -> None:
        """A new shell learns our functions first, and then what the one before it knew."""
        folder = _quoted(self._folder)
        self._send(f"__cloche_folder={folder}\nbuiltin source {_quoted(SCRIPT)}\nbuiltin source {folder}/state\n")

    def _send(self, line: str) -> None:
        data = line.encode("utf-8", "surrogateescape")
        while data:  # the fifo is open for reading here, too, so this cannot fail, and it is short
            data = data[os.write(self._commands, data) :]

    def _write_cell(self, cell: dict[str, Any]) -> str:
        self._count += 1
        path = f"{self._folder}/cell-{self._count}"
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"set -{self._tracing};" if self._tracing else "")
            file.write(cell["code"])
        return path

    def _fifo(self, name: str) -> int:
        path = f"{self._folder}/{name}"
        os.mkfifo(path, 0o600)
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)  # both ends: it never ends, and opening it never waits


class _Shell:
    """A running bash."""

    def __init__(
        self, script: str, environment: dict[str, str], options: tuple[str, ...] = (), stderr: int = 2
    ) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.dup2(stderr, 2)
                _set_signal(_SIGPIPE, 0)  # Python ignores these two, and what is ignored stays ignored
                _set_signal(_SIGXFSZ, 0)
                os.execvpe("bash", ["bash", "--noprofile", "--norc", *options, script], environment)
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

    def stop(self) -> None:
        """End it, if it has not ended."""
        os.kill(self.pid, _SIGKILL)

    def reap(self) -> int:
        """How it has ended: its exit code, or its signal, negative."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self.pidfd)
        return os.waitstatus_to_exitcode(status)


def _make_folder() -> str:
    """A folder of our own.  One of that name may be left from a kernel that was killed, and whose pid we have."""
    number = 0
    while True:
        path = f"{FOLDERS}/.bash-{os.getpid()}" + (f".{number}" if number else "")
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            number += 1
        else:
            return path


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _set_signal(number: int, action: Any) -> None:
    from _signal import signal  # type: ignore[import-not-found]

    signal(number, action)
