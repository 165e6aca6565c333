"""Cells by way of a folder: how a kernel drives another language's interpreter, in which they run.

The interpreter reads the numbers of cells from a fifo, and reports on another when one is over.  What it has to say of
a cell lies in that cell's folder by then: the last value as text, the pictures, the error.  What it prints goes to the
agent by itself.
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
    from collections.abc import Callable
    from typing import Any, NoReturn

    Command = Callable[[str, dict[str, str]], tuple[list[str], dict[str, str]]]

MAX_DISPLAYS = 100
MAX_TEXT = 1 << 20  # characters of a value
MAX_PICTURE = 8 << 20  # bytes

_ENOSYS = 38
_SIGINT = 2


def serve(control: int, order: dict[str, Any], name: str, source: str, command: Command) -> NoReturn:
    """Be such a kernel, until the agent is gone."""
    exchange, code = None, 1
    try:
        set_signal(_SIGINT, lambda *_: None)  # for the cell, not for us; not ignored, which would be inherited
        exchange = Exchange(Channel(control), name, source, command, order["env"])
        exchange.serve()
    finally:
        if exchange is not None:
            code = exchange.close()
        end_like(code)


class Exchange:
    """What passes between a kernel and the interpreter that it drives.

    `command` tells how that is started, given the folder and the environment; `source` is what a cell's code is called.
    """

    def __init__(self, channel: Channel, name: str, source: str, command: Command, environment: dict[str, str]) -> None:
        self._channel = channel
        self._name, self._source = name, source
        self._folder = make_folder(name.lower())
        self._commands = make_fifo(f"{self._folder}/commands")
        self._reports = make_fifo(f"{self._folder}/reports")
        self._count = 0
        self._driven = Driven(*command(self._folder, environment))

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
        """Leave nothing behind; tells how the interpreter ended."""
        from shutil import rmtree

        self._driven.stop()
        code = self._driven.reap()
        rmtree(self._folder, ignore_errors=True)
        return code

    def _run(self, cell: dict[str, Any]) -> bool:
        """Run a cell and tell what came of it; False when the agent is gone, or the interpreter."""
        for fd in self._channel.take(1) if cell.get("input") else []:
            os.close(fd)  # it has standard input from its start, or not at all
        self._count += 1
        before = self._driven.cpu_s()
        folder = f"{self._folder}/{self._count}"
        os.mkdir(folder, 0o700)
        _write(f"{folder}/{self._source}", cell["code"])
        _write(f"{folder}/env", "".join(f"{name}\n{value.encode().hex()}\n" for name, value in _pairs(cell)))
        os.write(self._commands, f"{self._count}\n".encode())
        if not self._wait():
            return False
        failed = self._tell(folder)
        usage = {"cpu": max(0.0, self._driven.cpu_s() - before), "peak": self._driven.peak_bytes()}
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
        """Is the cell over?  False when the agent is gone, or the interpreter."""
        poll = select.poll()
        for fd in (self._reports, self._driven.pidfd, self._channel.fileno()):
            poll.register(fd, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if self._reports in ready:
                if f"{self._count}".encode() in os.read(self._reports, 4096).split():
                    return True
            elif self._driven.pidfd in ready:
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
            message = f"{self._name} kernels cannot be forked"
            self._channel.send_json(frames.FAIL, {"errno": _ENOSYS, "message": message}, operation)


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
