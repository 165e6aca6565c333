"""Servers inside the sandbox: lists their ports, and connects the engine to them, on loopback only."""

from __future__ import annotations

import os
from _socket import AF_INET, AF_INET6, SHUT_WR, SO_ERROR, SOCK_STREAM, SOL_SOCKET, inet_ntop, socket
from time import monotonic

from cloche.agent.input_writer import InputWriter
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.agent.main import Agent

MAX_CONNECTIONS = 256
_MAX_LISTED = 1000  # ports in one reply
_MAX_EXAMINED = 20_000  # descriptors to examine when looking for a port's owner
_CONNECT_S = 10.0
_POLL_S = 0.05  # interval of looking for a port that is waited for
_PLACES = ((AF_INET, "127.0.0.1"), (AF_INET6, "::1"))
_REACHABLE = ("127.0.0.1", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1")
_LISTENING = "0A"
_EINPROGRESS, _EMFILE, _ETIMEDOUT, _ECONNREFUSED = 115, 24, 110, 111

METHODS = frozenset(("ports", "connect", "wait for port"))


def start(agent: Agent, operation: int, request: dict[str, Any]) -> None:
    """Carry out a CALL frame about ports."""
    method = request["method"]
    if method == "ports":
        found = sorted(_listening(), key=lambda each: (each["port"], each["address"]))[:_MAX_LISTED]
        _find_owners(found)
        agent.send(frames.encode_json(operation, frames.REPLY, {"ports": found}))
        return
    port = int(request["port"])
    if not 1 <= port <= 65535:
        raise ValueError("a port must be a number from 1 to 65535")
    if method == "wait for port":
        agent.operations[operation] = waiting = PortWait(agent, operation, port, request.get("timeout"))
        waiting.poll()
    elif sum(isinstance(each, PortConnection) for each in agent.operations.values()) >= MAX_CONNECTIONS:
        raise OSError(_EMFILE, f"a sandbox can have at most {MAX_CONNECTIONS} connections to its ports")
    else:
        agent.operations[operation] = connection = PortConnection(agent, operation, port)
        connection.try_next()


def _listening() -> list[dict[str, Any]]:
    """Return every listening port in the kernel's tables."""
    found: list[dict[str, Any]] = []
    for family, table in ((AF_INET, "tcp"), (AF_INET6, "tcp6")):
        for fields in map(str.split, _lines_of(table)):
            if fields[3] == _LISTENING:
                address, _, port = fields[1].partition(":")
                found.append({"port": int(port, 16), "address": _address(family, address), "inode": fields[9]})
    return found


def _lines_of(table: str) -> list[str]:
    # Any process has the tables of the whole sandbox.  Not ours: the jail hides pid 1 (walls/jail/enter.py).
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/net/{table}", encoding="ascii") as file:
                return file.readlines()[1:]
        except OSError:
            continue  # the process has ended
    return []


def _address(family: int, text: str) -> str:
    """Format an address; the kernel prints it as words in the machine's byte order."""
    words = (int(text[at : at + 8], 16).to_bytes(4, "little") for at in range(0, len(text), 8))
    return inet_ntop(family, b"".join(words))


def _find_owners(ports: list[dict[str, Any]]) -> None:
    """Add the listening process's pid to each port, as far as we can see it."""
    wanted = {f"socket:[{each.pop('inode')}]": each for each in ports}
    left = _MAX_EXAMINED
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            descriptors = os.listdir(f"/proc/{pid}/fd") if wanted else []
        except OSError:
            continue  # the process has ended, or is hidden
        for fd in descriptors[: max(left, 0)]:
            left -= 1
            try:
                found = wanted.pop(os.readlink(f"/proc/{pid}/fd/{fd}"), None)
            except OSError:
                continue
            if found is not None:
                found["pid"] = int(pid)


class PortWait:
    """A request that waits until something listens on a port."""

    def __init__(self, agent: Agent, operation: int, port: int, timeout: float | None) -> None:
        self._agent, self._operation, self._port = agent, operation, port
        self._deadline = None if timeout is None else monotonic() + float(timeout)
        self._alarm = 0

    def receive(self, kind: int, _payload: bytes) -> None:
        """Handle a cancellation."""
        if kind == frames.CANCEL:
            self.cancel()

    def cancel(self) -> None:
        """Stop waiting."""
        self._agent.forget_alarm(self._alarm)
        self._agent.finish(self._operation, frames.REPLY, {})

    def poll(self) -> None:
        """Reply if something listens on the port; otherwise look again shortly."""
        found = [each for each in _listening() if each["port"] == self._port and each["address"] in _REACHABLE]
        if found:
            _find_owners(found[:1])
            self._agent.finish(self._operation, frames.REPLY, {"port": found[0]})
        elif self._deadline is not None and monotonic() >= self._deadline:
            self._agent.fail(self._operation, OSError(_ETIMEDOUT, f"nothing listens on port {self._port}"))
        else:
            self._alarm = self._agent.after(_POLL_S, self.poll)


class PortConnection:
    """A connection to a server inside, forwarded in both directions under credit."""

    def __init__(self, agent: Agent, operation: int, port: int) -> None:
        self._agent, self._operation, self._port = agent, operation, port
        self._places = list(_PLACES)
        self._socket: socket | None = None
        self._input_writer: InputWriter | None = None  # once connected
        self._credit = frames.READ_WINDOW
        self._paused = self._has_ended = self._eof_sent = False
        self._alarm = agent.after(_CONNECT_S, lambda: self._fail(OSError(_ETIMEDOUT, "the server does not answer")))

    def receive(self, kind: int, payload: bytes) -> None:
        """Handle data, its end, credit or a cancellation."""
        if kind == frames.INPUT and self._input_writer is not None:
            self._input_writer.write(payload)
        elif kind == frames.INPUT_END and self._input_writer is not None:
            self._input_writer.end()
        elif kind == frames.CREDIT:
            self._credit += int.from_bytes(payload, "big")
            if self._paused and self._socket is not None:
                self._paused = False
                self._agent.watch(self._socket.fileno(), self._readable)
        elif kind == frames.CANCEL:
            self.cancel()

    def cancel(self) -> None:
        """Close the connection."""
        self._close()
        self._agent.finish(self._operation, frames.REPLY, {})

    def try_next(self) -> None:
        """Try the next address on which the server may listen."""
        self._drop_socket()
        if not self._places:
            self._fail(OSError(_ECONNREFUSED, f"nothing listens on port {self._port}"))
            return
        family, address = self._places.pop(0)
        try:
            self._socket = socket(family, SOCK_STREAM)
            self._socket.setblocking(False)
            self._socket.connect((address, self._port))
        except BlockingIOError:  # the server is slow to accept
            assert self._socket is not None
            self._agent.watch_writable(self._socket.fileno(), self._connect_finished)
        except OSError as problem:
            if problem.errno == _EMFILE:
                self._fail(problem)
            else:
                self.try_next()
        else:
            self._connected()

    def _connect_finished(self) -> None:
        assert self._socket is not None
        self._agent.unwatch(self._socket.fileno())
        if self._socket.getsockopt(SOL_SOCKET, SO_ERROR):
            self.try_next()
        else:
            self._connected()

    def _connected(self) -> None:
        assert self._socket is not None
        self._agent.forget_alarm(self._alarm)
        try:
            sending = os.dup(self._socket.fileno())  # a descriptor can be watched for only one direction
        except OSError as problem:
            self._fail(problem)
            return
        self._input_writer = InputWriter(self._agent, self._operation, sending, self._send_eof)
        self._agent.watch(self._socket.fileno(), self._readable)
        self._agent.send(frames.encode_json(self._operation, frames.STARTED, {}))

    def _readable(self) -> None:
        assert self._socket is not None
        if self._credit < frames.LEAST:
            self._agent.unwatch(self._socket.fileno())
            self._paused = True
            return
        try:
            data = self._socket.recv(min(frames.CHUNK, self._credit))
        except BlockingIOError:
            return
        except OSError as problem:
            self._fail(problem)
            return
        self._credit -= frames.cost(data)
        self._agent.send(frames.encode(self._operation, frames.DATA, data))  # an empty frame marks the end
        if not data:
            self._agent.unwatch(self._socket.fileno())
            self._has_ended = True
            self._finish_if_over()

    def _send_eof(self) -> None:
        """Shut down the sending side: all data from the engine is sent."""
        assert self._socket is not None
        assert self._input_writer is not None
        try:
            self._socket.shutdown(SHUT_WR)
        except OSError:
            pass  # the server has already closed the connection
        self._input_writer.close()
        self._eof_sent = True
        self._finish_if_over()

    def _finish_if_over(self) -> None:
        if self._has_ended and self._eof_sent:
            self.cancel()

    def _fail(self, problem: OSError) -> None:
        self._close()
        self._agent.fail(self._operation, problem)

    def _close(self) -> None:
        self._agent.forget_alarm(self._alarm)
        if self._input_writer is not None:
            self._input_writer.close()
        self._drop_socket()

    def _drop_socket(self) -> None:
        if self._socket is not None:
            self._agent.unwatch(self._socket.fileno())
            self._socket.close()
            self._socket = None
