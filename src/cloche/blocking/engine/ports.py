# Generated from src/cloche/engine/ports.py by scripts/blocking.py: edit that file instead.
"""Servers inside a sandbox: which ports they listen on, and connections to them, carried by the agent."""

from __future__ import annotations

from cloche.blocking.engine import calls
from cloche.blocking.engine.link import NONSENSE, Lost, Operation
from cloche.errors import FileProblem, Gone, Refused
from cloche.model.files import Port
from cloche.model.limits import within
from cloche.sandbox.checks import checked_data, checked_port
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from cloche.blocking.engine.box import Box

MAX_WAIT_S = 7 * 86400.0
_EMFILE, _ETIMEDOUT, _ECONNREFUSED = 24, 110, 111


class Ports:
    """`box.ports`: TCP on the sandbox's own loopback, which nobody else can reach."""

    def __init__(self, box: Box) -> None:
        self._box = box

    def list(self) -> list[Port]:
        """The ports on which something listens, in order."""
        return _ports((self._box.files.call({"method": "ports"}, "ports")).get("ports"))

    def connect(self, port: int) -> Connection:
        """Connect to a server inside; close what this returns."""
        number = checked_port(port)
        operation = calls.ask(self._box, {"method": "connect", "port": number})
        try:
            kind, _ = calls.answer(self._box, operation, f"port {number}")
            if kind != frames.STARTED:
                raise calls.nonsense()
        except FileProblem as problem:
            self._box.link.close(operation)
            raise _explained(problem, number) from None
        except BaseException:
            calls.forget(self._box, operation)
            raise
        return Connection(self._box, operation)

    def wait(self, port: int, timeout: float | None = 30) -> Port:
        """Wait until something listens on a port, and can be connected to; Gone when nothing does in time."""
        number = checked_port(port)
        if timeout is not None:
            timeout = within("timeout", timeout, 0, MAX_WAIT_S, "seconds")
        operation = calls.ask(self._box, {"method": "wait for port", "port": number, "timeout": timeout})
        patience = None if timeout is None else timeout + calls.ANSWER_S
        try:
            _, payload = calls.answer(self._box, operation, f"port {number}", patience)
            (found,) = _ports([calls.told(payload).get("port")])
        except FileProblem as problem:
            raise _explained(problem, number) from None
        except BaseException:
            calls.forget(self._box, operation)
            raise
        finally:
            self._box.link.close(operation)
        return found


class Connection:
    """A connection to a server inside a sandbox; both ends may send at the same time, and neither is let run ahead."""

    def __init__(self, box: Box, operation: Operation) -> None:
        self._box, self._operation = box, operation
        self._ended = self._eof_sent = self._closed = False
        self._waiting = 0  # how many wait for something to come, or for room; the last to leave lets it go

    def receive(self) -> bytes:
        """What comes next, as soon as there is something; nothing (`b""`) at the end."""
        while not self._ended and not self._closed:
            frame: tuple[int, bytes] = self._wait(self._box.link.receive)
            kind, payload = frame
            if kind == frames.DATA and payload:
                return payload
            if kind in (frames.DATA, frames.REPLY, frames.FAIL):
                self._ended = True
            if kind == frames.FAIL:
                raise _reset()
        return b""

    def send(self, data: str | bytes | bytearray | memoryview) -> None:
        """Send all of it; waits while the server does not read."""
        rest = memoryview(checked_data("data", data))
        if self._eof_sent or self._closed:
            raise Gone("This connection was closed for sending.", hint="Open another with ports.connect.")
        while rest:
            rest = rest[self._send(rest) :]

    def send_eof(self) -> None:
        """Nothing more comes from here; what the server still sends can be received."""
        if not self._eof_sent and not self._closed and not self._operation.over:
            self._eof_sent = True
            self._box.tell(frames.encode(self._operation.number, frames.INPUT_END))

    def close(self) -> None:
        """Close it, in both directions, at once."""
        if not self._closed:
            self._closed = True
            if not self._waiting:
                self._box.link.close(self._operation)
            calls.cancel(self._box, self._operation)  # the agent's last word wakes up those who wait

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        data = self.receive()
        if not data:
            raise StopIteration
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._closed:
            calls.forget(self._box, self._operation)

    def _wait(self, what: Any) -> Any:
        self._waiting += 1
        try:
            return what(self._operation)
        except Lost as problem:
            self._box.explain_loss(problem)
            raise
        finally:
            self._waiting -= 1
            if self._closed and not self._waiting:
                self._box.link.close(self._operation)

    def _send(self, data: memoryview) -> int:
        """Send what may be sent of it in one frame; how much that was."""
        room = self._wait(self._box.link.await_credit)
        if self._operation.over or self._closed:
            raise _reset()
        part = data[: min(frames.CHUNK, room)]
        self._operation.input_credit -= len(part)
        self._box.tell(frames.encode(self._operation.number, frames.INPUT, part))
        return len(part)


def _explained(problem: FileProblem, port: int) -> Exception:
    if problem.errno in (_ECONNREFUSED, _ETIMEDOUT):
        return Gone(
            f"Nothing listens on port {port} in the sandbox yet.",
            "Start the server first, and have it listen on 127.0.0.1 or 0.0.0.0.",
        )
    if problem.errno == _EMFILE:
        return Refused("There are too many connections to this sandbox.", "Close some of them.")
    return problem


def _reset() -> Gone:
    return Gone("The server in the sandbox has closed the connection.")


def _ports(told: Any) -> list[Port]:
    try:
        return [
            Port(
                checked_port(each["port"]),
                str(each["address"])[:64],
                each["pid"] if type(each.get("pid")) is int else None,
            )
            for each in told
        ]
    except NONSENSE as problem:
        raise calls.nonsense() from problem
