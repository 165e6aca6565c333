# Generated from src/cloche/walls/leash.py by scripts/blocking.py: edit that file instead.
"""The engine's end of a leash: the hold on a sandbox that every wall with a warden can return.

`leash_messages.py` has the protocol, and `sockets.stream_and_leash` makes the sockets.
"""

from __future__ import annotations

import marshal
import os
from time import monotonic

from cloche.blocking.io.streams import Stream, readable
from cloche.blocking.io.tasks import Lock
from cloche.errors import InvalidRun, Refused, SandboxFailed
from cloche.model.order import Listener, Spent
from cloche.walls import leash_messages, sockets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Protocol

    class Warden(Protocol):
        """The part of a wall that has the other end of a leash."""

        hint: str  # what to do when a sandbox fails and the warden's message does not say

        def failure(self) -> str:
            """Why the warden itself could not start; empty when it could."""


_ANSWER_S = 20.0  # a warden that says nothing for so long is broken
_MOST_LISTENERS = 250  # the kernel sends 253 descriptors at a time
_LAYER_HINT = "Use isolation='jail' for packages."
_ANSWERS = ("usage", "paused", "refused")  # to one request each; "ended" is the end of all


class LeashHold:
    """A hold on a sandbox (see `Hold` in wall.py) by a leash whose other end is its warden's."""

    def __init__(self, warden: Warden, stream: sockets.Socket, leash: sockets.Socket) -> None:
        self.stream = Stream(stream)
        self._warden = warden
        self._leash = Stream(leash)
        self._asking = Lock()
        self._owner = os.getpid()
        self._spent: Spent | None = None  # known when the sandbox has ended
        self._gone = False
        self._awaited = 0  # requests whose answers have not been read; a task that was cancelled leaves one
        self._unraised: SandboxFailed | None = None  # read by `ended`, which does not raise it

    def ready(self, timeout: float) -> None:
        """Wait for the warden to say that the agent has been started; SandboxFailed when it does not."""
        with self._asking:
            if self._read_message(monotonic() + timeout) != "ready":
                raise SandboxFailed("The sandbox was not ready in time.", hint=self._warden.hint)

    def usage(self) -> Spent:
        """See `Hold`."""
        with self._asking:
            self._raise_failure()
            if self._spent is None:
                self._ask(usage=True)
            return self._spent or self._last

    def set_lifetime(self, seconds: float | None) -> None:
        """See `Hold`."""
        with self._asking:
            if self._spent is None:
                self._send(lifetime_s=seconds)

    def pause(self) -> None:
        """See `Hold`."""
        with self._asking:
            if self._spent is None:
                self._ask(pause=True)
                refusal, self._refusal = self._refusal, None
                if refusal is not None and self._spent is None:
                    raise refusal

    def resume(self) -> None:
        """See `Hold`."""
        with self._asking:
            if self._spent is None:
                self._ask(pause=False)

    def listen(self, ports: Sequence[int]) -> list[Listener]:
        """See `Hold`."""
        ours, theirs = sockets.pair()
        try:
            self._send_socket(theirs, listen=list(ports))
            theirs.close()
            readable(ours.fileno(), _ANSWER_S)
            return _listeners(ours)
        finally:
            theirs.close()
            ours.close()

    def mount_layer(self, folder: str, identity: tuple[int, int], number: int) -> None:
        """See `Hold`."""
        ours, theirs = sockets.pair()
        try:
            sockets.send(ours, marshal.dumps((folder, identity, number)))
            self._send_socket(theirs, layer=True)
            theirs.close()
            readable(ours.fileno(), _ANSWER_S)
            try:
                data = ours.recv(leash_messages.MAX_MESSAGE, sockets.DONTWAIT)
            except OSError:
                data = b""
            answer = marshal.loads(data) if data else {"failed": "the sandbox has ended, or its wall cannot do it"}
            if "failed" in answer:
                raise Refused(f"The packages cannot be shown to the sandbox: {answer['failed']}.", _LAYER_HINT)
        finally:
            theirs.close()
            ours.close()

    def ended(self) -> str:
        """See `Hold`."""
        while self._spent is None:
            self._leash.readable()  # without reading: another caller may be waiting for an answer
            with self._asking:
                if self._spent is None and self._leash.has_something():
                    try:
                        self._read_message(monotonic() + _ANSWER_S)
                    except SandboxFailed as problem:
                        self._unraised = problem
        self.stream.shut()  # the agent may take a moment to die, and must not take anything more until then
        return self._spent.reason or "lost"

    def end(self) -> Spent:
        """See `Hold`."""
        with self._asking:
            self._raise_failure()
            if self._spent is None:
                self._ask(end=True)
            self.stream.shut()
            return self._spent or Spent(reason="lost")

    def gone(self) -> None:
        """See `Hold`."""
        with self._asking:
            while not self._gone:
                self._read_message(monotonic() + _ANSWER_S)
            self._leash.close()

    def abandon(self) -> None:
        """See `Hold`."""
        if os.getpid() == self._owner:
            self._leash.shut()  # a process forked from this one has a copy of the socket, so closing is not enough
        self._leash.close()
        self.stream.close()

    _last = Spent()
    _refusal: Refused | None = None

    def _ask(self, **message: Any) -> None:
        """Send a request and read messages until its answer, or the end of the sandbox.

        Answers come in the order of the requests.  Those to requests of cancelled tasks are read first: otherwise every
        later request would get the answer of the one before it.
        """
        self._awaited += 1  # before sending, since a request is sent even if the task is cancelled just then
        self._send(**message)
        deadline = monotonic() + _ANSWER_S
        while self._spent is None and self._awaited:
            self._read_message(deadline)

    def _send_socket(self, end: sockets.Socket, **message: Any) -> None:
        """Send a request that carries a socket, on which the warden answers."""
        with self._asking:
            if self._spent is not None:
                raise SandboxFailed("The sandbox has ended.", hint="Make a new one.")
            try:
                self._leash.send_with(leash_messages.encode(**message), (end.fileno(),))
            except OSError as problem:
                raise SandboxFailed("The sandbox has ended.", hint="Make a new one.") from problem

    def _raise_failure(self) -> None:
        problem, self._unraised = self._unraised, None
        if problem is not None:
            raise problem

    def _send(self, **message: Any) -> None:
        try:
            self._leash.send(leash_messages.encode(**message))
        except OSError:
            pass  # the warden has closed its end; its last messages can still be read

    def _read_message(self, deadline: float) -> str:
        """Read one message and note what it says; returns its name."""
        try:
            data = self._leash.receive(leash_messages.MAX_MESSAGE, deadline - monotonic())
        except TimeoutError:
            data = b""
        except ConnectionResetError:
            return ""  # raised once, when the warden closed its end with a message of ours unread; its own come next
        except OSError:
            data = b""
        if not data:
            self._gone = True
            if self._spent is None:
                self._spent = Spent(reason="lost")
                if failure := self._warden.failure():
                    raise SandboxFailed(f"No sandbox can be started here: {failure}.", self._warden.hint)
            return "gone"
        message = leash_messages.decode(data)
        name = next(iter(message))
        if name in _ANSWERS:
            self._awaited -= 1
        if name == "failed":
            self._spent, self._gone = Spent(reason="failed"), True
            hint = message.get("hint") or self._warden.hint
            raise SandboxFailed(f"The sandbox could not be built: {message['failed']}.", hint)
        if name == "usage":
            self._last = _spent(message["usage"])
        elif name == "ended":
            self._spent = _spent(message["ended"])
        elif name == "refused":
            self._refusal = Refused(message["refused"], message.get("hint", ""))
        elif name == "gone":
            self._gone = True
        return name


def _listeners(source: sockets.Socket) -> list[Listener]:
    """Read a warden's answer to a request for listening sockets."""
    try:
        message, descriptors = sockets.receive(source, leash_messages.MAX_MESSAGE, _MOST_LISTENERS, sockets.DONTWAIT)
    except OSError:
        message, descriptors = b"", []
    answer = marshal.loads(message) if message else {"failed": "the sandbox has ended, or its wall cannot do it"}
    if "failed" not in answer and not answer["taken"]:
        found = zip(answer["listeners"], descriptors, strict=True)
        return [Listener(kind, port, descriptor) for (kind, port), descriptor in found]
    for descriptor in descriptors:
        os.close(descriptor)
    if answer.get("taken"):
        port = answer["taken"][0]
        raise InvalidRun(
            f"A program in the sandbox listens on port {port}, so the sandbox cannot connect to that port elsewhere.",
            hint=f"End the program, or leave port {port} out of the network policy.",
        )
    raise Refused(f"The sandbox cannot have access to the network: {answer['failed']}.", hint="Use isolation='jail'.")


def _spent(usage: dict[str, Any]) -> Spent:
    return Spent(
        memory=usage.get("memory"),
        memory_peak=usage.get("memory_peak"),
        memory_least=usage.get("memory_least"),
        cpu_time=usage.get("cpu_s"),
        cpu_estimate=usage.get("cpu_estimate_s"),
        processes=usage.get("processes"),
        processes_peak=usage.get("processes_peak"),
        oom_kills=usage.get("oom_kills") or 0,
        processes_refused=usage.get("processes_refused") or 0,
        reason=usage.get("reason", ""),
    )
