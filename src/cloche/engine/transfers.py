"""Files on their way into and out of a sandbox, piece by piece: nobody needs to have all of one in memory."""

from __future__ import annotations

from time import monotonic

from cloche.engine import calls
from cloche.engine.link import NONSENSE, Lost, Operation
from cloche.errors import ClocheError, Gone
from cloche.model.files import Entry
from cloche.sandbox.checks import checked_data
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from cloche.engine.box import AsyncBox


class AsyncReading:
    """A file on its way out: iterate over it for its contents, in pieces, as they come.

    Use it in a `with` block, or `close` it.  A reader that takes its time makes the sandbox wait, not memory fill up.
    """

    def __init__(self, box: AsyncBox, request: dict[str, Any]) -> None:
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

    async def begin(self) -> Self:
        """Open the file, and learn its size; iterating does it, too."""
        if self._operation is None:
            self._operation = await calls.ask(self._box, self._request)
        if self._size is None and not self._over:
            _, payload = await self._next(self._operation)
            try:
                self._size = max(int(calls.told(payload)["size"]), 0)
            except NONSENSE as problem:
                await self.close()
                raise calls.nonsense() from problem
        return self

    async def close(self) -> None:
        """Read no further."""
        if not self._over:
            self._over = True
            if self._operation is not None:
                self._box.link.close(self._operation)
                await calls.cancel(self._box, self._operation)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        await self.begin()
        while not self._over:
            assert self._operation is not None
            kind, payload = await self._next(self._operation)
            if kind == frames.DATA:
                return payload
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return await self.begin()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __del__(self) -> None:
        if self._operation is not None and not self._over:
            calls.forget(self._box, self._operation)

    async def _next(self, operation: Operation) -> tuple[int, bytes]:
        try:
            kind, payload = await calls.answer(self._box, operation, self._path)
        except ClocheError:
            self._over = True
            self._box.link.close(operation)
            raise
        if kind == frames.REPLY:
            self._over = True
            self._box.link.close(operation)
        return kind, payload


class AsyncWriting:
    """A file on its way in: `write` as often as there is something, then `finish`.

    Nobody sees any of it before `finish` has put it in its place, all at once; what is aborted leaves no trace.
    Leaving a `with` block finishes it; leaving it by an exception aborts it.
    """

    def __init__(self, box: AsyncBox, request: dict[str, Any]) -> None:
        self._box, self._request, self._path = box, request, str(request["path"])
        self._operation: Operation | None = None
        self._over = False

    async def begin(self) -> Self:
        """Ask for it; writing does it, too."""
        if self._over:
            raise Gone("This file was finished or aborted already.", hint="Begin another with write_stream.")
        if self._operation is None:
            self._operation = await calls.ask(self._box, self._request)
        return self

    async def write(self, data: str | bytes | bytearray | memoryview) -> None:
        """Send more of the contents; waits while the sandbox is busy with what it has."""
        rest = memoryview(checked_data("data", data))
        await self.begin()
        assert self._operation is not None
        while rest:
            rest = rest[await self._send(self._operation, rest) :]

    async def finish(self) -> Entry:
        """Put the file in its place; what is there now."""
        await self.begin()
        assert self._operation is not None
        await self._box.tell(frames.encode(self._operation.number, frames.INPUT_END))
        return entry((await self._reply(self._operation)).get("entry"))

    async def abort(self) -> None:
        """Throw away what was sent; what was there before stays."""
        if not self._over:
            self._over = True
            if self._operation is not None:
                self._box.link.close(self._operation)
                await calls.cancel(self._box, self._operation)

    async def __aenter__(self) -> Self:
        return await self.begin()

    async def __aexit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            await self.abort()
        elif not self._over:
            await self.finish()

    def __del__(self) -> None:
        if self._operation is not None and not self._over:
            calls.forget(self._box, self._operation)

    async def _send(self, operation: Operation, data: memoryview) -> int:
        """Send what may be sent of it in one frame; how much that was."""
        try:
            room = await self._box.link.await_credit(operation, monotonic() + calls.ANSWER_S)
        except (Lost, TimeoutError) as problem:
            await self._box.explain_loss(problem)
            raise
        if operation.over:  # it failed
            await self._reply(operation)
            raise calls.nonsense()
        part = data[: min(frames.CHUNK, room)]
        operation.input_credit -= len(part)
        await self._box.tell(frames.encode(operation.number, frames.INPUT, part))
        return len(part)

    async def _reply(self, operation: Operation) -> dict[str, Any]:
        try:
            return await calls.reply(self._box, operation, self._path)
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
