"""The Bash kernel: drives one `bash`, in which the cells run.

That bash reads its commands from a fifo, a few lines per cell: `source` with a file that holds the cell, then a report
on another fifo.  So cells run at the top level of the shell, and their processes inherit nothing of ours.
When a cell ends the shell (`exit`, errexit, an interrupt), scripts/bash.sh starts it again in the same process, with
its state.  When the shell is lost (`kill -9 $$`, `exec`), the kernel ends in the same way.

Everything that lasts in a shell lasts from cell to cell, except for errexit, nounset, and redirections of the standard
streams (`exec >file`), which end with their cell.
"""

from __future__ import annotations

import os

from cloche.kernels.interpreter import InterpreterProcess, write_text
from cloche.kernels.interpreter_kernel import InterpreterKernel, run_kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

SCRIPT = "/opt/kernels/bash.sh"

_SYNTAX_ERROR = 2  # bash's exit status for a script that it cannot parse
_OPTIONS = ("--noprofile", "--norc")


def main(control: int, order: dict[str, Any]) -> NoReturn:
    """Serve as the kernel until the agent is gone."""
    run_kernel(lambda: _Bash(control, order["env"]))


class _Bash(InterpreterKernel):
    def __init__(self, control: int, environment: dict[str, str]) -> None:
        super().__init__(control, "Bash")
        self._environment = environment
        self._cell_file = ""
        self._partial_report = b""  # of the reports
        self._tracing = ""  # the options x and v, if the last cell left them on
        self._code = 0  # exit status of the last cell
        os.mkfifo(f"{self._folder}/idle", 0o600)
        for name in ("state", "traps"):
            with open(f"{self._folder}/{name}", "w"):
                pass
        self._interpreter = InterpreterProcess(["bash", *_OPTIONS, f"{self._folder}/commands"], environment)
        self._prepare()

    def _start_cell(self, cell: dict[str, Any], inputs: list[int]) -> None:
        self._cell_file = f"{self._folder}/cell-{self._count}"
        options = f"set -{self._tracing};" if self._tracing else ""
        write_text(self._cell_file, options + cell["code"])
        self._send(self._commands_for(cell, self._cell_file, inputs))

    def _ask_for_variables(self, path: str, search: str, name: str) -> None:
        # A subshell changes nothing of the shell's state, and has no traps.  The shell itself runs no command for it,
        # because a DEBUG trap would see that.
        words = " ".join(map(_quoted, (path, search, name)))
        self._send(f"( \\__cloche_list {words} ) </dev/null >/dev/null 2>&1\n")

    def _send_results(self) -> tuple[str, int]:
        if self._code == _SYNTAX_ERROR:
            self._report_syntax_error(self._cell_file)
        os.unlink(self._cell_file)
        return "ok" if self._code == 0 else "exit", self._code

    def _commands_for(self, cell: dict[str, Any], path: str, inputs: list[int]) -> str:
        """Return the lines that run a cell.

        Each command has a line of its own, because an error in it (a readonly variable) ends its line.  Traps do not
        see these lines.
        """
        descriptors = f"/proc/{os.getpid()}/fd"
        stdin = f"{descriptors}/{inputs[0]}" if inputs else "/dev/null"
        # The shell expands the status once, for both ways to report it.  It is kept in no variable, which a trap or a
        # readonly could change.
        report = f"echo end {self._count} $? $- >|'{self._folder}/reports'"
        reset = "\\builtin set +euvx; \\builtin unset -v __cloche_running"
        lines = [
            "{ __cloche_running=1; } >/dev/null 2>&1",
            *(f"\\__cloche_with {name} {_quoted(value)}" for name, value in (cell.get("env") or {}).items()),
            # Not the last command of its list: there, its status would trigger errexit and an ERR trap.
            *([f"{{ \\__cloche_left {self._code} && \\builtin :; }} >/dev/null 2>&1"] if self._code else []),
            f"\\builtin source {_quoted(path)} <{stdin} >{descriptors}/1 2>{descriptors}/2",
            f'{{ \\builtin eval "{reset}; \\builtin {report} || /bin/{report}"; }} >/dev/null 2>&1',
            '{ [[ -z ${__cloche_dropped-} ]] || \\builtin trap - "${__cloche_dropped[@]}"; } >/dev/null 2>&1',
            # If the cell ended its shell, the next one reads these lines, and does not know our functions yet.  For a
            # command that it does not know it would need a process.
            "{ \\builtin declare -F __cloche_end && \\__cloche_end; } >/dev/null 2>&1",
        ]
        return "\n".join(lines) + "\n"

    def _read_reports(self) -> bool:
        *lines, self._partial_report = (self._partial_report + os.read(self._reports, 4096)).split(b"\n")
        for line in lines:
            words = line.decode(errors="replace").split()
            try:
                word, count, code = words[0], int(words[1]), int(words[2])
            except (IndexError, ValueError):
                self._interpreter.stop()  # a cell has broken the shell: its reports are no longer reliable
                return False
            # A shell that exited early may have left the last lines of its cell unread: the next shell reads them.
            if word == "left" or count == self._count:
                self._tracing = "".join(flag for flag in "vx" if flag in "".join(words[3:]))
                if word == "left":
                    self._prepare()
                self._code = code
                return True
        return False

    def _report_syntax_error(self, path: str) -> None:
        """If a syntax error ended the cell, report bash's message without the name of our file."""
        reading, writing = os.pipe()
        try:
            reader = InterpreterProcess(["bash", *_OPTIONS, "-n", "-O", "extglob", path], self._environment, writing)
        except BlockingIOError:  # the cell's processes leave no room for one more: its output has the message
            os.close(reading)
            return
        finally:
            os.close(writing)
        output = b""
        while len(output) < 1 << 16 and (data := os.read(reading, 4096)):
            output += data
        os.close(reading)
        if reader.reap() == 0:
            return
        text = output.decode(errors="replace").replace(f"{path}: ", "").strip()
        message = next((line for line in text.split("\n") if "warning:" not in line), text)
        error = {"type": "error", "name": "SyntaxError", "message": message, "traceback": text, "ansi": text}
        self._channel.send_message(error)

    def _prepare(self) -> None:
        """Define our functions in a new shell, then restore the state of the one before it."""
        folder = _quoted(self._folder)
        self._send(f"__cloche_folder={folder}\nbuiltin source {_quoted(SCRIPT)}\nbuiltin source {folder}/state\n")

    def _send(self, line: str) -> None:
        data = line.encode("utf-8", "surrogateescape")
        while data:  # this cannot fail, because we hold the fifo open for reading, too
            data = data[os.write(self._commands, data) :]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
