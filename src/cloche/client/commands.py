"""Programs in a sandbox on a server."""

from __future__ import annotations

from _collections import deque  # type: ignore[import-not-found]  # `collections` takes two milliseconds to import
from _collections_abc import Mapping, Sequence
from time import monotonic

from cloche.client import shapes
from cloche.client.feed import AsyncFeed
from cloche.engine.commands import AsyncCommands, AsyncProcess, command_request
from cloche.engine.judge import Facts, judge
from cloche.errors import Gone
from cloche.io.tasks import AsyncCondition
from cloche.model.events import Event, Exit, Output, Started
from cloche.model.result import Result
from cloche.sandbox.checks import checked_data, checked_size, signal_number

_SIGKILL = 9
_REASONS = {"its time was up": "timeout", "it needed too much memory": "memory", "ended by its owner": "closed"}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.client.sandbox import AsyncRemoteSandbox
    from cloche.sandbox.checks import Data


class AsyncRemoteCommands(AsyncCommands):
    """`box.commands`, over HTTP."""

    _box: AsyncRemoteSandbox

    async def run(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Run a command (a shell line, or a list of arguments) to its end."""
        self._box.limits_with(timeout)
        data = None if stdin is None else checked_data("stdin", stdin)
        return await self._box.run_command({**_request(command, cwd, env), "timeout": timeout}, data)

    async def start(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        pty: bool = False,
        size: tuple[int, int] = (80, 24),
        stdin: bool = True,
        timeout: float | None = None,
        stop_at_output_limit: bool = False,  # noqa: ARG002  (for the server's own use)
        keep: int | None = None,  # noqa: ARG002  (likewise)
    ) -> AsyncProcess:
        """Start a command and return at once; without `timeout` it runs as long as the sandbox does."""
        request = {**_request(command, cwd, env), "stdin": bool(stdin), "timeout": timeout}
        if pty:
            checked_size(size)
            request.update(pty=True, size=list(size))
        self._box.limits_with(timeout)
        return await self._box.start_command(request)


def _request(command: str | Sequence[str], cwd: str | None, env: Mapping[str, str] | None) -> dict[str, Any]:
    checked = command_request(command, cwd, env)
    return {
        "command": command if isinstance(command, str) else checked["argv"],
        "cwd": checked["cwd"],
        "env": checked["env"],
    }


class AsyncRemoteProcess(AsyncProcess):
    """A program under way in a sandbox on a server."""

    _box: AsyncRemoteSandbox

    def __init__(self, box: AsyncRemoteSandbox, told: dict[str, Any]) -> None:
        self._box, self._path = box, f"/commands/{told['id']}"
        self._pid = told["pid"]
        self._building = None  # the server's business
        self._told = AsyncFeed(box.server, again=box.path(f"{self._path}/events"))
        self._turn = AsyncCondition()
        self._taking = self._cut = False
        self._heard = 0  # bytes of output
        self._began = monotonic()
        self._missed: deque[Event] = deque()
        self.result: Result | None = None

    async def write(self, data: str | Data) -> None:
        """Write to its standard input; waits when it does not read, and throws away what it will never read."""
        checked = checked_data("input", data)
        if checked:
            await self._tell("POST", "/stdin", checked, content_type="application/octet-stream")

    async def close_stdin(self) -> None:
        """Nothing more comes on its standard input."""
        await self._tell("POST", "/stdin?eof=true", content_type="application/octet-stream")

    async def feed(self, data: Data) -> None:
        """Have all of its standard input sent."""
        await self._tell("POST", "/stdin?eof=true", data, content_type="application/octet-stream")

    async def resize(self, columns: int | tuple[int, int], rows: int | None = None) -> None:
        """Change the size of its terminal: `resize(80, 24)`, or `resize((80, 24))` as for `size=`."""
        size = columns if isinstance(columns, tuple) and rows is None else (columns, rows)
        columns, rows = checked_size(size)
        await self._call("/resize", {"columns": columns, "rows": rows})

    async def signal(self, number: int | str) -> None:
        """Send it a signal, by number or by name."""
        await self._call("/signal", {"signal": signal_number(number)})

    async def kill(self) -> None:
        """Kill it, with everything it has started; `wait` still tells how it ended."""
        await self._tell("DELETE", "")

    async def _call(self, path: str, told: dict[str, Any]) -> None:
        if self.result is None:
            try:
                await self._box.call("POST", self._path + path, told)
            except Gone:
                pass  # it has ended; what became of it is told by its events

    async def _tell(self, method: str, path: str, data: Data = b"", **how: Any) -> None:
        if self.result is None:
            try:
                server = self._box.server
                where = self._box.path(self._path + path)
                await server.read(await server.ask(method, where, data, timeout=None, **how))
            except Gone:
                pass

    def _forget(self) -> None:
        self._told.close()

    async def _advance(self) -> Event | None:
        """Take one event."""
        try:
            told = await self._told.next()
        except Gone as problem:
            return self._lost(problem)
        if told is None:
            return self._lost(Gone("it was closed"))
        kind, about = told
        if kind == "error":
            self._told.close()
            raise shapes.error(500, about)
        event = shapes.command_event(kind, about)
        if isinstance(event, Output):
            self._heard += len(event.data)
            self._cut = self._heard > self._box.limits.output_bytes
        elif isinstance(event, Started):
            self._pid = event.pid
        elif isinstance(event, Exit):
            self.result = event.result
            self._told.end()
        return event

    def _lost(self, problem: Gone) -> Event:
        """Its sandbox is gone, and it with it; what it printed was told as it came."""
        reason = next((kind for sign, kind in _REASONS.items() if sign in problem.message), "")
        reason = "closed" if self._box.closed else reason
        limits = self._box.limits
        error = judge(Facts(exit_code=-_SIGKILL, lost=not reason, reason=reason), limits)
        code = 124 if reason == "timeout" else 128 + _SIGKILL
        self.result = Result("", "", code, monotonic() - self._began, 0.0, 0, error, wall=self._box.wall)
        self._told.close()
        return Exit(self.result)

    def __del__(self) -> None:
        self._told.close()
