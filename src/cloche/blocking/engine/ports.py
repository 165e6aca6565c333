# Generated from src/cloche/engine/ports.py by scripts/blocking.py: edit that file instead.
"""Servers inside a sandbox of this host: their ports, and connections to them, carried by the agent."""

from __future__ import annotations

from cloche.blocking.engine import agent_requests
from cloche.blocking.engine.link import NONSENSE, Lost, Operation
from cloche.errors import FileProblem, Gone, Refused
from cloche.model.files import Port
from cloche.sandbox.checks import checked_port
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.blocking.engine.sandbox import HostSandbox

_EMFILE, _ETIMEDOUT, _ECONNREFUSED = 24, 110, 111


class HostPorts:
    """The ports of one sandbox."""

    def __init__(self, box: HostSandbox) -> None:
        self._box = box

    def list(self) -> list[Port]:
        """List the ports on which servers listen, in order."""
        found = _ports((self._box.files.call({"method": "ports"}, "ports")).get("ports"))
        return [each for each in found if not self._box.has_own_port(each.port)]

    def connect(self, port: int) -> HostTunnel:
        """Connect to a server inside, and return the connection, which the caller must close."""
        operation = agent_requests.ask(self._box, {"method": "connect", "port": port}, frames.READ_WINDOW)
        try:
            kind, _ = agent_requests.answer(self._box, operation, f"port {port}")
            if kind != frames.STARTED:
                raise agent_requests.nonsense()
        except FileProblem as problem:
            self._box.link.close(operation)
            raise _explained(problem, port) from None
        except BaseException:
            agent_requests.forget(self._box, operation)
            raise
        return HostTunnel(self._box, operation)

    def wait(self, port: int, timeout: float | None) -> Port:
        """Wait until a server on this port accepts connections; raise Gone if none does in time."""
        operation = agent_requests.ask(self._box, {"method": "wait for port", "port": port, "timeout": timeout})
        patience = None if timeout is None else timeout + agent_requests.ANSWER_S
        try:
            _, payload = agent_requests.answer(self._box, operation, f"port {port}", patience)
            (found,) = _ports([agent_requests.decoded(payload).get("port")])
        except FileProblem as problem:
            raise _explained(problem, port) from None
        except BaseException:
            agent_requests.forget(self._box, operation)
            raise
        finally:
            self._box.link.close(operation)
        return found


class HostTunnel:
    """A connection to a server inside a sandbox.  Both ends may send at the same time, under credit."""

    def __init__(self, box: HostSandbox, operation: Operation) -> None:
        self._box, self._operation = box, operation
        self._ended = self._eof_sent = self._closed = False
        self._waiting = 0  # tasks that wait for data or for room; the last one to finish closes the operation

    def receive(self) -> bytes:
        """Wait for the next bytes; `b""` at the end."""
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

    def send(self, data: memoryview) -> None:
        """Send all of the data; wait while the server does not read."""
        rest = data
        if self._eof_sent or self._closed:
            raise Gone("This connection was closed for sending.", hint="Open another with ports.connect.")
        while rest:
            rest = rest[self._send(rest) :]

    def send_eof(self) -> None:
        """End the sending direction; data from the server can still be received."""
        if not self._eof_sent and not self._closed and not self._operation.over:
            self._eof_sent = True
            self._box.send(frames.encode(self._operation.number, frames.INPUT_END))

    def close(self) -> None:
        """Close the connection at once, in both directions."""
        if not self._closed:
            self._closed = True
            if not self._waiting:
                self._box.link.close(self._operation)
            agent_requests.cancel(self._box, self._operation)  # the agent's last frame wakes the tasks that wait

    def __del__(self) -> None:
        if not self._closed:
            agent_requests.forget(self._box, self._operation)

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
        """Send as much as one frame may carry; return the number of bytes."""
        room = self._wait(self._box.link.await_credit)
        if self._operation.over or self._closed:
            raise _reset()
        part = data[: min(frames.CHUNK, room)]
        self._operation.input_credit -= len(part)
        self._box.send(frames.encode(self._operation.number, frames.INPUT, part))
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


def _ports(ports: Any) -> list[Port]:
    try:
        return [
            Port(
                checked_port(each["port"]),
                str(each["address"])[:64],
                each["pid"] if type(each.get("pid")) is int else None,
            )
            for each in ports
        ]
    except NONSENSE as problem:
        raise agent_requests.nonsense() from problem
