# Generated from src/cloche/engine/transfers.py by scripts/blocking.py: edit that file instead.
"""Moves files into and out of a sandbox of this host, piece by piece."""

from __future__ import annotations

from time import monotonic

from cloche.blocking.engine import agent_requests
from cloche.blocking.engine.link import NONSENSE, Lost, Operation
from cloche.errors import ClocheError
from cloche.model.files import Entry
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.blocking.engine.sandbox import HostSandbox
    from cloche.sandbox.checks import Data


class HostReader:
    """A file that is being read from a sandbox."""

    def __init__(self, box: HostSandbox, request: dict[str, Any]) -> None:
        self._box, self._request, self._path = box, request, str(request["path"])
        self._operation: Operation | None = None
        self.is_over = False

    def begin(self) -> int:
        """Open the file and return its size."""
        if self._operation is None:
            self._operation = agent_requests.ask(self._box, self._request, frames.READ_WINDOW)
        _, payload = self._next(self._operation)
        try:
            return max(int(agent_requests.decoded(payload)["size"]), 0)
        except NONSENSE as problem:
            self.close()
            raise agent_requests.nonsense() from problem

    def next(self) -> bytes:
        """Wait for the next piece; empty at the end, and after `close`."""
        while not self.is_over:
            assert self._operation is not None
            kind, payload = self._next(self._operation)
            if kind == frames.DATA and payload:
                return payload
        return b""

    def close(self) -> None:
        """Stop reading."""
        if not self.is_over:
            self.is_over = True
            if self._operation is not None:
                self._box.link.close(self._operation)
                agent_requests.cancel(self._box, self._operation)

    def __del__(self) -> None:
        if self._operation is not None and not self.is_over:
            agent_requests.forget(self._box, self._operation)

    def _next(self, operation: Operation) -> tuple[int, bytes]:
        try:
            kind, payload = agent_requests.answer(self._box, operation, self._path)
        except ClocheError:
            self.is_over = True
            self._box.link.close(operation)
            raise
        if kind == frames.REPLY:
            self.is_over = True
            self._box.link.close(operation)
        return kind, payload


class HostWriter:
    """A file that is being written: the agent puts it in its place when it is complete."""

    def __init__(self, box: HostSandbox, request: dict[str, Any]) -> None:
        self._box, self._request, self._path = box, request, str(request["path"])
        self._operation: Operation | None = None
        self.is_over = False

    def begin(self) -> None:
        """Open the file in the sandbox, unless that was done already."""
        if self._operation is None:
            self._operation = agent_requests.ask(self._box, self._request)

    def write(self, data: Data) -> None:
        """Send a piece; wait while the sandbox is busy with earlier ones."""
        assert self._operation is not None
        rest = memoryview(data)
        while rest:
            rest = rest[self._send(self._operation, rest) :]

    def finish(self) -> Entry:
        """Put the file in its place, and return its entry."""
        assert self._operation is not None
        self._box.send(frames.encode(self._operation.number, frames.INPUT_END))
        return entry((self._reply(self._operation)).get("entry"))

    def abort(self) -> None:
        """Discard the pieces, unless the file is finished."""
        if not self.is_over:
            self.is_over = True
            if self._operation is not None:
                self._box.link.close(self._operation)
                agent_requests.cancel(self._box, self._operation)

    def __del__(self) -> None:
        if self._operation is not None and not self.is_over:
            agent_requests.forget(self._box, self._operation)

    def _send(self, operation: Operation, data: memoryview) -> int:
        """Send as much as one frame may carry; return the number of bytes."""
        try:
            room = self._box.link.await_credit(operation, monotonic() + agent_requests.ANSWER_S)
        except (Lost, TimeoutError) as problem:
            self._box.explain_loss(problem)
            raise
        if operation.over:  # the write has failed
            self._reply(operation)
            raise agent_requests.nonsense()
        part = data[: min(frames.CHUNK, room)]
        operation.input_credit -= len(part)
        self._box.send(frames.encode(operation.number, frames.INPUT, part))
        return len(part)

    def _reply(self, operation: Operation) -> dict[str, Any]:
        try:
            return agent_requests.reply(self._box, operation, self._path)
        finally:
            if operation.over:
                self.is_over = True
                self._box.link.close(operation)


def entry(fields: Any) -> Entry:
    """A file as the agent describes it."""
    try:
        target = fields.get("target")
        return Entry(
            path=str(fields["path"]),
            kind=str(fields["kind"]),
            size=int(fields["size"]),
            mode=int(fields["mode"]),
            modified=float(fields["modified"]),
            target=None if target is None else str(target),
        )
    except NONSENSE as problem:
        raise agent_requests.nonsense() from problem
