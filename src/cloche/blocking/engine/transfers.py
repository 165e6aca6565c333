# Generated from src/cloche/engine/transfers.py by scripts/blocking.py: edit that file instead.
"""Files on their way into and out of a sandbox, piece by piece: nobody needs to have all of one in memory."""

from __future__ import annotations

from time import monotonic

from cloche.blocking.engine import calls
from cloche.blocking.engine.link import NONSENSE, Lost, Operation
from cloche.errors import ClocheError, Gone
from cloche.model.files import Entry
from cloche.sandbox.checks import checked_data
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from cloche.blocking.engine.box import Box


class Reading:
    """A file on its way out: iterate over it for its contents, in pieces, as they come.

    Use it in a `with` block, or `close` it.  A reader that takes its time makes the sandbox wait, not memory fill up.
    """

    def __init__(self, box: Box, request: dict[str, Any]) -> None:
        self._box, self._request, self._path = box, request, str(request["path"])
        self._operation: Operation | None = None
        self._size: int | None = None
        self._over = False

    @property
    def size(self) -> int:
        """The size of the whole file when the reading began."""
        if self._size is None:
            raise Gone("The file's size is not known yet.", hint="Call begin(), or use a `with` block.")
        return self._size

    def begin(self) -> Self:
        """Open the file, and learn its size; iterating does it, too."""
        if self._operation is None:
            self._operation = calls.ask(self._box, self._request)
        if self._size is None and not self._over:
            _, payload = self._next(self._operation)
            try:
                self._size = max(int(calls.told(payload)["size"]), 0)
            except NONSENSE as problem:
                self.close()
                raise calls.nonsense() from problem
        return self

    def close(self) -> None:
        """Read no further."""
        if not self._over:
            self._over = True
            if self._operation is not None:
                self._box.link.close(self._operation)
                calls.cancel(self._box, self._operation)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        self.begin()
        while not self._over:
            assert self._operation is not None
            kind, payload = self._next(self._operation)
            if kind == frames.DATA:
                return payload
        raise StopIteration

    def __enter__(self) -> Self:
        return self.begin()

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self._operation is not None and not self._over:
            calls.forget(self._box, self._operation)

    def _next(self, operation: Operation) -> tuple[int, bytes]:
        try:
            kind, payload = calls.answer(self._box, operation, self._path)
        except ClocheError:
            self._over = True
            self._box.link.close(operation)
            raise
        if kind == frames.REPLY:
            self._over = True
            self._box.link.close(operation)
        return kind, payload


class Writing:
    """A file on its way in: `write` as often as there is something, then `finish`.

    Nobody sees any of it before `finish` has put it in its place, all at once; what is aborted leaves no trace.
    Leaving a `with` block finishes it; leaving it by an exception aborts it.
    """

    def __init__(self, box: Box, request: dict[str, Any]) -> None:
        self._box, self._request, self._path = box, request, str(request["path"])
        self._operation: Operation | None = None
        self._over = False

    def begin(self) -> Self:
        """Ask for it; writing does it, too."""
        if self._over:
            raise Gone("This file was finished or aborted already.", hint="Begin another with write_stream.")
        if self._operation is None:
            self._operation = calls.ask(self._box, self._request)
        return self

    def write(self, data: str | bytes | bytearray | memoryview) -> None:
        """Send more of the contents; waits while the sandbox is busy with what it has."""
        rest = memoryview(checked_data("data", data))
        self.begin()
        assert self._operation is not None
        while rest:
            rest = rest[self._send(self._operation, rest) :]

    def finish(self) -> Entry:
        """Put the file in its place; what is there now."""
        self.begin()
        assert self._operation is not None
        self._box.tell(frames.encode(self._operation.number, frames.INPUT_END))
        return entry((self._reply(self._operation)).get("entry"))

    def abort(self) -> None:
        """Throw away what was sent; what was there before stays."""
        if not self._over:
            self._over = True
            if self._operation is not None:
                self._box.link.close(self._operation)
                calls.cancel(self._box, self._operation)

    def __enter__(self) -> Self:
        return self.begin()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.abort()
        elif not self._over:
            self.finish()

    def __del__(self) -> None:
        if self._operation is not None and not self._over:
            calls.forget(self._box, self._operation)

    def _send(self, operation: Operation, data: memoryview) -> int:
        """Send what may be sent of it in one frame; how much that was."""
        try:
            room = self._box.link.await_credit(operation, monotonic() + calls.ANSWER_S)
        except (Lost, TimeoutError) as problem:
            self._box.explain_loss(problem)
            raise
        if operation.over:  # it failed
            self._reply(operation)
            raise calls.nonsense()
        part = data[: min(frames.CHUNK, room)]
        operation.input_credit -= len(part)
        self._box.tell(frames.encode(operation.number, frames.INPUT, part))
        return len(part)

    def _reply(self, operation: Operation) -> dict[str, Any]:
        try:
            return calls.reply(self._box, operation, self._path)
        finally:
            if operation.over:
                self._over = True
                self._box.link.close(operation)


def entry(told: Any) -> Entry:
    """A file as the agent tells of it."""
    try:
        target = told.get("target")
        return Entry(
            path=str(told["path"]),
            kind=str(told["kind"]),
            size=int(told["size"]),
            mode=int(told["mode"]),
            modified=float(told["modified"]),
            target=None if target is None else str(target),
        )
    except NONSENSE as problem:
        raise calls.nonsense() from problem
