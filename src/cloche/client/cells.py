"""A running cell on a server: it begins when its first event is read, and is followed to its end."""

from __future__ import annotations

from cloche.client import shapes
from cloche.client.feed import AsyncFeed
from cloche.errors import ClocheError, Gone, SandboxFailed
from cloche.io.tasks import AsyncJob, AsyncLock, AsyncTasks
from cloche.model.events import CellEvent, End
from cloche.model.result import Result
from cloche.sandbox.tools import calling
from cloche.wire.light_json import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.client.sandbox import AsyncServerSandbox
    from cloche.sandbox.checks import Data


class AsyncServerCell:
    """One cell; the server enforces its time limit."""

    def __init__(self, box: AsyncServerSandbox, request: dict[str, Any]) -> None:
        self._box, self._request = box, request
        self._run = AsyncServerRun(box, self)
        self._beginning = AsyncLock()
        self.abandoned = False  # no task will read its events any more
        self.over = False  # no code of the cell runs, or will run
        self.lost_before = False
        self.result: Result | None = None

    async def begin(self) -> None:
        """Send nothing yet, because the input is not known: the cell begins when its first event is read."""

    async def finish(self, stdin: Data | None) -> Result:
        """Send the input and wait for the end."""
        try:
            if stdin is not None:
                await self.feed(stdin)
            while self.result is None:
                await self.next_event()
        except BaseException:
            await self.give_up()
            raise
        return self.result

    async def feed(self, data: Data) -> None:
        """Send the whole standard input."""
        self._request.update(shapes.given("stdin", data))

    async def write(self, data: Data) -> None:
        """Write to the standard input of an interactive cell."""
        await self._write(shapes.given("data", data))

    async def close_stdin(self) -> None:
        """Close the standard input."""
        await self._write({"eof": True})

    async def interrupt(self) -> None:
        """Stop the cell; variables stay if the kernel can be interrupted."""
        if not self.over and self._run.id:
            await self._box.call("POST", f"/v1/runs/{self._run.id}/cancel", safe=True)

    async def give_up(self) -> None:
        """Stop the cell without waiting; its result is not wanted any more."""
        self.abandon()
        await self._run.drop_calls()

    def abandon(self) -> None:
        """Stop the cell from code that cannot await.  The next task that wants the context takes its last events."""
        self.abandoned = True
        if not self.over:
            if self._run.id:
                self._box.post_soon("POST", f"/v1/runs/{self._run.id}/cancel")
            else:
                self.over = True  # the cell has not begun
                self._run.give_up()

    def is_neglected(self) -> bool:
        """Return whether no task reads the cell's events.  The server enforces the time limit."""
        return not self.over and self.abandoned

    async def next_event(self) -> CellEvent | None:
        """Wait for the next event; None after the end."""
        try:
            await self._see_it_begin()
            while self.result is None:
                event = shapes.cell_event(*await self._run.next())
                if isinstance(event, End):
                    if self.lost_before:
                        event = End(event.result.replace(restarted=True))
                    self.result, self.over = event.result, True
                    await self._run.end()
                if event is not None:
                    return event
        except ClocheError:
            self.over = True
            await self._run.end()
            raise
        return None

    async def _see_it_begin(self) -> None:
        async with self._beginning:
            if not self._run.has_begun:
                await self._run.begin("/run", self._request)

    async def _write(self, fields: dict[str, Any]) -> None:
        await self._see_it_begin()
        if self.result is None:
            try:
                await self._box.call("POST", f"/v1/runs/{self._run.id}/input", fields, timeout=None)
            except Gone:
                pass  # the cell has ended, and will never read the input


class AsyncServerRun:
    """A request that a server answers with events; calls of tools are among them."""

    def __init__(self, box: AsyncServerSandbox, cell: object = None) -> None:
        self._box, self._cell = box, cell
        self._feed: AsyncFeed | None = None
        self._tasks = AsyncTasks()
        self._sending: AsyncJob | None = None
        self.id = ""

    @property
    def has_begun(self) -> bool:
        """Whether the server has answered the request."""
        return self._feed is not None

    async def begin(self, path: str, request: dict[str, Any]) -> None:
        """Send the request once, and wait for the answer; if that is cancelled, another call waits on."""

        async def send() -> AsyncFeed:
            return await self._box.feed("POST", path, request)

        if self._sending is None:
            self._sending = AsyncJob(send)
        feed: AsyncFeed = await self._sending.wait()
        self._feed = feed
        self._know(feed.run)

    def give_up(self) -> None:
        """Cancel a run for whose answer no task waits any more.

        A request that was sent starts the run, and only the answer has its id: without it the run could not be
        cancelled, and would keep its context busy until its time limit.
        """
        if self._sending is not None and self._feed is None:
            self._sending.give_up(self._cancel)

    def _cancel(self, feed: AsyncFeed) -> None:
        if feed.run:
            self._box.post_soon("POST", f"/v1/runs/{feed.run}/cancel")
        feed.close()

    async def next(self) -> tuple[str, Any]:
        """Wait for the next event; calls of tools are answered meanwhile."""
        assert self._feed is not None
        while True:
            event = await self._feed.next()
            if event is None:
                raise SandboxFailed("The run's events ended before it did.")
            kind, fields = event
            if kind == "started":
                self._know(fields.get("run_id") or "")
            if kind == "tool":
                self._tasks.start(self._answer, fields)
            elif kind == "error" and "traceback" not in fields["error"]:
                raise shapes.error(500, fields)  # not an error of the code: it explains why there is no result
            else:
                return event

    async def outcome(self, path: str, request: dict[str, Any], take: Any = None) -> dict[str, Any]:
        """Read all events and return the fields of the last one; `take` gets the events before it."""
        try:
            await self.begin(path, request)
            while True:
                event = await self.next()
                if event[0] == "end":
                    found: dict[str, Any] = event[1]
                    return found
                if take is not None:
                    await take(*event)
        except BaseException:
            if self.id:
                self._box.post_soon("POST", f"/v1/runs/{self.id}/cancel")
            self.give_up()
            raise
        finally:
            await self.end()

    async def reply(self, call: int, answer: dict[str, Any]) -> None:
        """Answer a call of a tool."""
        try:
            await self._box.call("POST", f"/v1/runs/{self.id}/calls/{call}", answer, safe=True)
        except Gone:
            pass  # the code no longer waits for the answer

    async def end(self) -> None:
        """Note that the run is over."""
        if self._feed is not None:
            self._feed.end()
        await self.drop_calls()

    async def drop_calls(self) -> None:
        """Cancel the calls of tools that still run."""
        await self._tasks.cancel()

    def _know(self, identity: str) -> None:
        if identity and not self.id:
            assert self._feed is not None
            self.id = identity
            self._feed.again = f"/v1/runs/{identity}/events"

    async def _answer(self, fields: dict[str, Any]) -> None:
        before = calling.set((*calling.get(), self._cell))
        try:
            _, answer = await self._box.tools.call({**fields, "tool": fields.get("name")})
        finally:
            calling.reset(before)
        await self.reply(
            fields["call"], {name: value for name, value in loads(answer.decode()).items() if name != "call"}
        )
