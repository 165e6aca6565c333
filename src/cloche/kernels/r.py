"""The R kernel: speaks a kernel's protocol, and drives one R in which the cells run.

That R reads the numbers of cells from a fifo, and reports on another when one is over.  What it has to say of a cell
lies in a folder by then: the last value as text, the pictures, the error.  What it prints goes to the agent by itself.
"""

from __future__ import annotations

import os
import select
from binascii import b2a_base64

from cloche.kernels.channel import Channel
from cloche.kernels.driven import Driven, end_like, make_fifo, make_folder, set_signal
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

SCRIPT = "/opt/kernels/r.R"
MAX_DISPLAYS = 100
MAX_TEXT = 1 << 20  # characters of a value
MAX_PICTURE = 8 << 20  # bytes

_ENOSYS = 38
_SIGINT = 2
_LIBRARIES = ("lib/R", "lib64/R", "local/lib/R")  # below a prefix: where R itself is


def main(control: int, order: dict[str, Any]) -> NoReturn:
    """Be the kernel, until the agent is gone."""
    kernel, code = None, 1
    try:
        set_signal(_SIGINT, lambda *_: None)  # for the cell, not for us; not ignored, which R would inherit
        kernel = _Kernel(Channel(control), order["env"])
        kernel.serve()
    finally:
        if kernel is not None:
            code = kernel.close()
        end_like(code)


class _Kernel:
    def __init__(self, channel: Channel, environment: dict[str, str]) -> None:
        self._channel = channel
        self._folder = make_folder("r")
        self._commands = make_fifo(f"{self._folder}/commands")
        self._reports = make_fifo(f"{self._folder}/reports")
        self._count = 0
        self._r = Driven(*_command(self._folder, environment))

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
        """Leave nothing behind; tells how R ended."""
        from shutil import rmtree

        self._r.stop()
        code = self._r.reap()
        rmtree(self._folder, ignore_errors=True)
        return code

    def _run(self, cell: dict[str, Any]) -> bool:
        """Run a cell and tell what came of it; False when the agent is gone, or R."""
        for fd in self._channel.take(1) if cell.get("input") else []:
            os.close(fd)  # R has standard input from its start, or not at all
        self._count += 1
        before = self._r.cpu_s()
        folder = f"{self._folder}/{self._count}"
        os.mkdir(folder, 0o700)
        _write(f"{folder}/code.R", cell["code"])
        _write(f"{folder}/env", "".join(f"{name}\n{value.encode().hex()}\n" for name, value in _pairs(cell)))
        os.write(self._commands, f"{self._count}\n".encode())
        if not self._wait():
            return False
        failed = self._tell(folder)
        usage = {"cpu": max(0.0, self._r.cpu_s() - before), "peak": self._r.peak_bytes()}
        end = {"status": "error" if failed else "ok", "code": 1 if failed else 0, "count": self._count, **usage}
        self._channel.send_json(frames.EXIT, end)
        return True

    def _tell(self, folder: str) -> bool:
        """Send what it has left; was there an error?"""
        from shutil import rmtree

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
        return "error" in names

    def _wait(self) -> bool:
        """Is the cell over?  False when the agent is gone, or R."""
        poll = select.poll()
        for fd in (self._reports, self._r.pidfd, self._channel.fileno()):
            poll.register(fd, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if self._reports in ready:
                if f"{self._count}".encode() in os.read(self._reports, 4096).split():
                    return True
            elif self._r.pidfd in ready:
                return False
            if self._channel.fileno() in ready:
                frame = self._channel.receive()
                if frame is None:
                    return False
                self._refuse(frame)

    def _refuse(self, frame: tuple[int, int, bytes]) -> None:
        operation, kind, _ = frame
        if kind in (frames.FORK, frames.ASK):
            for fd in self._channel.take(len(self._channel.descriptors)):
                os.close(fd)
            message = "R kernels cannot be forked"
            self._channel.send_json(frames.FAIL, {"errno": _ENOSYS, "message": message}, operation)


def _command(folder: str, environment: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """R itself, with what its shell script would set; that script, where R is laid out as we do not know it."""
    arguments = ["--no-echo", "--no-restore", "--no-save", f"--file={SCRIPT}", "--args", folder]
    for place in environment.get("PATH", os.defpath).split(":"):
        prefix = os.path.dirname(place)
        for home in (f"{prefix}/{library}" for library in _LIBRARIES):
            if os.path.exists(f"{place}/Rscript") and os.path.exists(f"{home}/bin/exec/R"):
                share = "/usr/share/R" if home == "/usr/lib/R" else home
                ours = {name: f"{share}/{name[2:-4].lower()}" for name in ("R_SHARE_DIR", "R_INCLUDE_DIR", "R_DOC_DIR")}
                ours |= {"R_HOME": home, "LD_LIBRARY_PATH": f"{home}/lib", "OPENBLAS_NUM_THREADS": "1"}
                return [f"{home}/bin/exec/R", *arguments], {**ours, **environment}
    return ["R", *arguments], environment


def _pairs(cell: dict[str, Any]) -> list[tuple[str, str]]:
    return list((cell.get("env") or {}).items())


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(MAX_TEXT)
    except OSError:
        return ""
