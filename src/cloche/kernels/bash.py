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

from cloche.kernels.interpreter import Interpreter
from cloche.kernels.interpreter_kernel import InterpreterKernel, run_kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

SCRIPT = "/opt/kernels/bash.sh"

_SYNTAX_ERROR = 2  # with which bash ends a script that it cannot read
_OPTIONS = ("--noprofile", "--norc")


def main(control: int, order: dict[str, Any]) -> NoReturn:
    """Be the kernel, until the agent is gone."""
    run_kernel(lambda: _Bash(control, order["env"]))


class _Bash(InterpreterKernel):
    def __init__(self, control: int, environment: dict[str, str]) -> None:
        super().__init__(control, "Bash")
        self._environment = environment
        self._unread = b""  # of the reports
        self._tracing = ""  # x and v, when the last cell has left these options on
        self._code = 0  # with which the last cell has ended
        os.mkfifo(f"{self._folder}/idle", 0o600)
        for name in ("state", "traps"):
            with open(f"{self._folder}/{name}", "w"):
                pass
        self._interpreter = Interpreter(["bash", *_OPTIONS, f"{self._folder}/commands"], environment)
        self._prepare()

    def _run(self, cell: dict[str, Any]) -> bool:
        inputs = self._channel.take(1) if cell.get("input") else []
        before = self._interpreter.cpu_s()
        path = self._write_cell(cell)
        self._send(self._commands_for(cell, path, inputs))
        over = self._wait()
        for fd in inputs:
            os.close(fd)
        if not over:
            return False
        if self._code == _SYNTAX_ERROR:
            self._tell_syntax_error(path)
        os.unlink(path)
        self._end("ok" if self._code == 0 else "exit", self._code, before)
        return True

    def _commands_for(self, cell: dict[str, Any], path: str, inputs: list[int]) -> str:
        """On lines of their own, as an error in one (a readonly variable) ends its line; and out of sight of traps."""
        ours = f"/proc/{os.getpid()}/fd"
        stdin = f"{ours}/{inputs[0]}" if inputs else "/dev/null"
        report = f'echo "end {self._count} $__cloche_code $__cloche_flags" >|{_quoted(self._folder)}/reports'
        lines = [
            "{ __cloche_running=1; } >/dev/null 2>&1",
            *(f"\\__cloche_with {name} {_quoted(value)}" for name, value in (cell.get("env") or {}).items()),
            # Not the last of its list: as such it would be a failure, to errexit and to an ERR trap.
            *([f"{{ \\__cloche_left {self._code} && \\builtin :; }} >/dev/null 2>&1"] if self._code else []),
            f"\\builtin source {_quoted(path)} <{stdin} >{ours}/1 2>{ours}/2",
            "{ __cloche_code=$? __cloche_flags=$-; \\builtin set +euvx; } >/dev/null 2>&1",
            '{ [[ -z ${__cloche_dropped-} ]] || \\builtin trap - "${__cloche_dropped[@]}"; } >/dev/null 2>&1',
            "{ \\__cloche_end; } >/dev/null 2>&1",
            f"{{ \\builtin {report} || /bin/{report}; }} >/dev/null 2>&1",
        ]
        return "\n".join(lines) + "\n"

    def _reported(self) -> bool:
        *lines, self._unread = (self._unread + os.read(self._reports, 4096)).split(b"\n")
        for line in lines:
            words = line.decode(errors="replace").split()
            try:
                word, count, code = words[0], int(words[1]), int(words[2])
            except (IndexError, ValueError):
                self._interpreter.stop()  # a cell has broken it: nothing that it says can be relied on
                return False
            # A shell that was left may still have had the last lines of its cell to read: the next one reads them.
            if word == "left" or count == self._count:
                self._tracing = "".join(flag for flag in "vx" if flag in "".join(words[3:]))
                if word == "left":
                    self._prepare()
                self._code = code
                return True
        return False

    def _tell_syntax_error(self, path: str) -> None:
        """If that is why the cell ended so: what bash says of it, without the name of our file."""
        reading, writing = os.pipe()
        reader = Interpreter(["bash", *_OPTIONS, "-n", "-O", "extglob", path], self._environment, writing)
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

    def _prepare(self) -> None:
        """A new shell learns our functions first, and then what the one before it knew."""
        folder = _quoted(self._folder)
        self._send(f"__cloche_folder={folder}\nbuiltin source {_quoted(SCRIPT)}\nbuiltin source {folder}/state\n")

    def _send(self, line: str) -> None:
        data = line.encode("utf-8", "surrogateescape")
        while data:  # the fifo is open for reading here, too, so this cannot fail, and it is short
            data = data[os.write(self._commands, data) :]

    def _write_cell(self, cell: dict[str, Any]) -> str:
        path = f"{self._folder}/cell-{self._count}"
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"set -{self._tracing};" if self._tracing else "")
            file.write(cell["code"])
        return path


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
