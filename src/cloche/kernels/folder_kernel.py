"""Kernels that exchange cells with their interpreter through a folder: R and Java.

The interpreter reads the numbers of cells from a fifo, and reports on another fifo when a cell is over.  By then the
cell's folder has the results: the last value as text, pictures, the error.  The interpreter's output goes straight to
the agent.  If the cell has input, the file `stdin` in its folder has the path from which to read it.

Between cells, `list-N` on the first fifo asks for the variables: `list-N.request` has the part of a name and the whole
name that are searched, and `list-N` is the pipe for the answer (variable_report.py).
"""

from __future__ import annotations

import os
from binascii import b2a_base64

from cloche.kernels.interpreter import InterpreterProcess, write_text
from cloche.kernels.interpreter_kernel import InterpreterKernel, run_kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    Command = Callable[[str, dict[str, str]], tuple[list[str], dict[str, str]]]

MAX_DISPLAYS = 100
MAX_TEXT = 1 << 20  # characters of a value
MAX_PICTURE = 8 << 20  # bytes


def serve(control: int, order: dict[str, Any], name: str, source: str, command: Command) -> NoReturn:
    """Serve as such a kernel until the agent is gone.

    `command` returns the interpreter's command line and environment, given the folder and the kernel's environment;
    `source` is the file name of a cell's code.
    """
    run_kernel(lambda: _FolderKernel(control, name, source, command, order["env"]))


class _FolderKernel(InterpreterKernel):
    """One interpreter and the folder that it shares with the kernel."""

    def __init__(self, control: int, name: str, source: str, command: Command, environment: dict[str, str]) -> None:
        super().__init__(control, name)
        self._source = source
        self._cell_folder = ""
        self._interpreter = InterpreterProcess(*command(self._folder, environment))

    def _start_cell(self, cell: dict[str, Any], inputs: list[int]) -> None:
        self._cell_folder = f"{self._folder}/{self._count}"
        os.mkdir(self._cell_folder, 0o700)
        write_text(f"{self._cell_folder}/{self._source}", cell["code"])
        variables = (cell.get("env") or {}).items()
        write_text(
            f"{self._cell_folder}/env", "".join(f"{name}\n{value.encode().hex()}\n" for name, value in variables)
        )
        if inputs:  # the interpreter reads it there: its own standard input cannot be replaced
            write_text(f"{self._cell_folder}/stdin", f"/proc/{os.getpid()}/fd/{inputs[0]}\n")
        os.write(self._commands, f"{self._count}\n".encode())

    def _ask_for_variables(self, path: str, search: str, name: str) -> None:
        write_text(f"{path}.request", f"{search.replace(chr(10), ' ')}\n{name.replace(chr(10), ' ')}\n")
        os.write(self._commands, f"{os.path.basename(path)}\n".encode())

    def _send_results(self) -> tuple[str, int]:
        from shutil import rmtree

        folder = self._cell_folder
        names = sorted(os.listdir(folder))
        for name in [name for name in names if name.endswith(".png")][:MAX_DISPLAYS]:
            with open(f"{folder}/{name}", "rb") as file:
                data = file.read(MAX_PICTURE + 1)
            if len(data) <= MAX_PICTURE:
                picture = {"image/png": b2a_base64(data, newline=False).decode()}
                self._channel.send_message({"type": "display", "data": picture, "metadata": {}})
        if "value" in names:
            value = {"text/plain": _read(f"{folder}/value")}
            self._channel.send_message({"type": "result", "data": value, "metadata": {}, "count": self._count})
        if "error" in names:
            name, _, rest = _read(f"{folder}/error").partition("\n")
            trace = _read(f"{folder}/trace").rstrip("\n")
            error = {"type": "error", "name": name, "message": rest.rstrip("\n"), "traceback": trace, "ansi": trace}
            self._channel.send_message(error)
        rmtree(folder, ignore_errors=True)
        return ("error", 1) if "error" in names else ("ok", 0)

    def _read_reports(self) -> bool:
        return f"{self._count}".encode() in os.read(self._reports, 4096).split()


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(MAX_TEXT)
    except OSError:
        return ""
