"""Terminals: a shell in a sandbox over a WebSocket.  It keeps running when the client leaves, which may come back.

Binary messages carry input and output.  Text messages are JSON: the client sends `resize` and `signal`; the server
sends `ready` first, `exit` last, and `error`.  The output comes from the command's log, so several clients may watch
one shell, and the shell waits for slow clients.
"""

from __future__ import annotations

import asyncio
from json import dumps
from typing import Any

from starlette.requests import HTTPConnection

from cloche.doors.faults import for_client
from cloche.doors.http.dependencies import service_and_caller
from cloche.doors.json_input import read_json
from cloche.doors.routing.routes import SocketRoute
from cloche.doors.sockets import Door, Socket
from cloche.errors import ClocheError, InvalidRun, Refused
from cloche.policy.refusals import TooMany
from cloche.service.commands import CommandRequest, StartedCommand
from cloche.service.event_log import LogEntry
from cloche.service.events import OutputPiece

MAX_REPLAY = 256 << 10  # bytes of earlier output, for a client that comes back
MAX_TYPED = 1 << 20  # bytes of input that the shell has not read yet
_SHELL = ["sh", "-c", "if command -v bash > /dev/null; then exec bash -l; else exec sh -l; fi"]


async def _handle(socket: Socket) -> None:
    connection = HTTPConnection(socket.scope)
    (service, caller), query = service_and_caller(connection), connection.query_params
    sandbox: str = socket.scope["path_params"]["sandbox_id"]
    size = _number(query.get("columns"), 80), _number(query.get("rows"), 24)
    if identity := query.get("id"):
        command = await service.commands.find(caller, sandbox, identity)
        if not command.pty:
            raise Refused("This command has no terminal.", hint="Start it with `pty`, or leave `id` out.")
        if "columns" in query or "rows" in query:
            await command.resize(*size)
    else:
        shell = CommandRequest(command=query.get("command") or _SHELL, pty=True, size=size)
        command = await service.commands.start(caller, sandbox, shell)
    async with command.in_use():
        await socket.accept()
        await _Terminal(socket, command).serve()


def _number(text: str | None, default: int) -> int:
    if text is None:
        return default
    if not text.isdecimal() or len(text) > 5:
        raise InvalidRun("columns and rows are numbers.", hint="Leave them out for 80 and 24.")
    return int(text)


class _Terminal:
    """One client of one shell."""

    def __init__(self, socket: Socket, command: StartedCommand) -> None:
        self._socket, self._command = socket, command
        self._typed: asyncio.Queue[bytes] = asyncio.Queue()
        self._typed_size = 0

    async def serve(self) -> None:
        """Serve until the client leaves or the shell ends."""
        await self._say({"type": "ready", "id": self._command.id, "pid": self._command.pid})
        showing, listening = asyncio.create_task(self._show()), asyncio.create_task(self._listen())
        typing = asyncio.create_task(self._type())
        try:
            done, _ = await asyncio.wait((showing, listening), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (showing, listening, typing):
                task.cancel()
            await asyncio.gather(showing, listening, typing, return_exceptions=True)

    async def _show(self) -> None:
        log = self._command.log
        start, skipped = log.last_output(MAX_REPLAY)
        async for batch in log.batches(start):
            shown = b"".join(_shown(entry) for entry in batch)
            shown, skipped = shown[skipped:], max(0, skipped - len(shown))
            if shown:
                await self._socket.send(shown)
        result = self._command.result
        await self._say({"type": "exit", "exit_code": None if result is None else result.exit_code})
        await self._socket.close()

    async def _listen(self) -> None:
        while (message := await self._socket.receive()) is not None:
            try:
                if isinstance(message, bytes):
                    self._take(message)
                else:
                    await self._control(message)
            except ClocheError as found:
                problem = for_client(found)
                await self._say({"type": "error", "message": problem.message, "hint": problem.hint})

    def _take(self, typed: bytes) -> None:
        if self._typed_size + len(typed) > MAX_TYPED:
            # Refuse instead of waiting: without reading on, we would not notice that the client leaves.
            raise Refused("The shell does not read its input.", hint="Send more when it has read the earlier input.")
        self._typed_size += len(typed)
        self._typed.put_nowait(typed)

    async def _type(self) -> None:
        while True:
            typed = await self._typed.get()
            try:
                await self._command.write(typed)
            except TooMany as problem:
                await self._socket.refuse(problem)
                return
            self._typed_size -= len(typed)

    async def _control(self, message: str) -> None:
        try:
            request = await read_json(message)
        except ValueError:
            request = None
        kind = request.get("type") if isinstance(request, dict) else None
        if kind == "resize" and type(request.get("columns")) is int and type(request.get("rows")) is int:
            await self._command.resize(request["columns"], request["rows"])
        elif kind == "signal" and type(request.get("signal")) in (int, str):
            await self._command.signal(request["signal"])
        else:
            raise InvalidRun(
                "The message is not understood.",
                hint='Send input in binary messages; text messages are {"type": "resize", "columns": 80, "rows": 24} '
                'and {"type": "signal", "signal": "SIGINT"}.',
            )

    async def _say(self, fields: dict[str, Any]) -> None:
        await self._socket.send(dumps(fields, separators=(",", ":")))


def _shown(entry: LogEntry) -> bytes:
    return entry.event.data if isinstance(entry.event, OutputPiece) else b""


routes = [SocketRoute("/v1/sandboxes/{sandbox_id}/terminal", Door(_handle), scope="run", name="terminal")]
