"""Everything that a page shows of a sandbox, live over one WebSocket.

A browser opens at most six connections to a server, for all its tabs together; event streams would use them up.
Messages are JSON.  The server sends `ready` first, then `event` (the events of `GET …/events` except program output),
`change` (files), `usage`, `ports`, `output` of the commands that the client follows, and `ended` last.  The client
sends `usage` with the seconds between two samples (0 for none), `ports` with the seconds between two looks (0 for none;
the server answers when the ports have changed), and `follow` with a command's id.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import aclosing, asynccontextmanager
from json import dumps
from typing import Any

from starlette.requests import HTTPConnection

from cloche.doors.faults import for_client
from cloche.doors.http.dependencies import service_and_caller
from cloche.doors.json_input import read_json
from cloche.doors.routing.routes import SocketRoute
from cloche.doors.shapes import event_json, event_pieces, wrapped
from cloche.doors.sockets import Door, Socket
from cloche.errors import ClocheError, InvalidRun
from cloche.policy.caller import Caller
from cloche.results.fields import plain
from cloche.service.event_log import EventLog, LogEntry
from cloche.service.events import OfCommand, OfRun, OutputPiece
from cloche.service.service import Service

MAX_EVENT = 16 << 10  # characters of an event; a longer one is sent without its contents
MAX_FOLLOWED = 20  # commands
MAX_PORTS = 50  # in one message
_GATHER_S = 0.05  # to collect changes, since many files often change at once
_SHORTEST_S = 0.2


async def _handle(socket: Socket) -> None:
    connection = HTTPConnection(socket.scope)
    service, caller = service_and_caller(connection)
    sandbox: str = socket.scope["path_params"]["sandbox_id"]
    following = await service.sandboxes.follow(caller, sandbox, output=False)
    after = connection.query_params.get("after", "")
    if after and not (after.isdecimal() and len(after) < 16):
        raise InvalidRun("`after` is the number of an event.", hint="Leave it out to begin now.")
    await socket.accept()
    async with following as feed:
        await _Live(socket, service, caller, sandbox, feed).serve(int(after) if after else feed.last)


class _Live:
    """One page that shows one sandbox."""

    def __init__(self, socket: Socket, service: Service, caller: Caller, sandbox: str, feed: EventLog) -> None:
        self._socket, self._service, self._caller = socket, service, caller
        self._sandbox, self._feed = sandbox, feed
        self._tasks: set[asyncio.Task[None]] = set()
        self._repeated: dict[str, asyncio.Task[None]] = {}  # by the kind of message that requested it
        self._followed: set[str] = set()

    async def serve(self, after: int) -> None:
        """Serve until the page disconnects or the sandbox ends."""
        await self._say({"type": "ready", "number": after})
        async with self._running_tasks():
            watching = self._begin(self._watch())
            sending, listening = self._begin(self._send_feed(after)), self._begin(self._listen())
            done, _ = await asyncio.wait((sending, listening), return_when=asyncio.FIRST_COMPLETED)
            watching.cancel()
            for task in done:
                task.result()
        if sending in done:
            ended = await self._service.sandboxes.info(self._caller, self._sandbox)
            await self._say({"type": "ended", "reason": ended.record.reason})
            await self._socket.close()

    @asynccontextmanager
    async def _running_tasks(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, part: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(part)
        self._tasks.add(task)
        return task

    async def _send_feed(self, after: int) -> None:
        async for batch in self._feed.batches(after):
            for entry in batch:
                if not _is_output(entry):
                    text = _brief(self._feed, entry)
                    await self._socket.send(f'{{"type":"event","number":{entry.number},"event":{text}}}')

    async def _watch(self) -> None:
        try:
            watching = await self._service.files.watch(self._caller, self._sandbox, ".", recursive=True)
        except ClocheError:
            return  # the sandbox has just ended
        async with aclosing(watching):
            while (change := await watching.next_change()) is not None:
                changes = [{"kind": change.kind, "path": change.path}]
                while (change := await watching.next_change(_GATHER_S)) is not None and len(changes) < 500:
                    changes.append({"kind": change.kind, "path": change.path})
                await self._say({"type": "change", "changes": changes})

    async def _sample(self, interval_s: float) -> None:
        while True:
            try:
                used = await self._service.sandboxes.usage(self._caller, self._sandbox)
            except ClocheError:
                return
            await self._say({"type": "usage", "usage": plain(used)})
            await asyncio.sleep(interval_s)

    async def _watch_ports(self, interval_s: float) -> None:
        try:
            async with aclosing(await self._service.ports.watch(self._caller, self._sandbox, interval_s)) as changes:
                async for ports in changes:
                    await self._say({"type": "ports", "ports": [plain(port) for port in ports[:MAX_PORTS]]})
        except ClocheError:
            return  # the sandbox has ended

    async def _follow(self, identity: str) -> None:
        try:
            command = await self._service.commands.follow(self._caller, self._sandbox, identity)
        except ClocheError as found:
            problem = for_client(found)
            await self._say({"type": "error", "message": problem.message, "hint": problem.hint})
            return
        async for batch in command.log.batches():
            for entry in batch:
                head = f'{{"type":"output","command":{dumps(identity)},"number":{entry.number}'
                head += f',"kind":{dumps(entry.kind)},"event":'
                await self._socket.send_pieces(wrapped(head, event_pieces(command.log, entry), "}"), entry.size)

    async def _listen(self) -> None:
        while (message := await self._socket.receive()) is not None:
            try:
                await self._dispatch(message)
            except InvalidRun as problem:
                await self._say({"type": "error", "message": problem.message, "hint": problem.hint})

    async def _dispatch(self, message: str | bytes) -> None:
        try:
            request = await read_json(message)
        except ValueError:
            request = None
        kind = request.get("type") if isinstance(request, dict) else None
        interval, command = (request.get("interval"), request.get("command")) if kind else (None, None)
        repeated = {"usage": self._sample, "ports": self._watch_ports}.get(kind) if isinstance(kind, str) else None
        if repeated is not None and isinstance(interval, int | float) and 0 <= interval <= 3600:
            if (earlier := self._repeated.pop(str(kind), None)) is not None:
                earlier.cancel()
                self._tasks.discard(earlier)
            if interval:
                self._repeated[str(kind)] = self._begin(repeated(max(interval, _SHORTEST_S)))
        elif kind == "follow" and isinstance(command, str) and len(self._followed) < MAX_FOLLOWED:
            if command not in self._followed:
                self._followed.add(command)
                self._begin(self._follow(command))
        else:
            raise InvalidRun(
                "The message is not understood.",
                hint='Send {"type": "usage", "interval": 1}, the same with "ports", '
                'or {"type": "follow", "command": "cmd_…"}.',
            )

    async def _say(self, message: dict[str, Any]) -> None:
        await self._socket.send(dumps(message, separators=(",", ":")))


def _is_output(entry: LogEntry) -> bool:
    event = entry.event
    return isinstance(event, OfRun | OfCommand) and isinstance(event.event, OutputPiece)


def _brief(feed: EventLog, entry: LogEntry) -> str:
    # The estimated size comes first, so that a large chart is not encoded only to be left out.
    if entry.size <= MAX_EVENT and len(text := event_json(feed, entry)) <= MAX_EVENT:
        return text
    fields = {"kind": entry.kind, "cut": True}
    if isinstance(entry.event, OfRun):
        fields["run_id"] = entry.event.run_id
    elif isinstance(entry.event, OfCommand):
        fields["command_id"] = entry.event.command_id
    return dumps(fields)


routes = [SocketRoute("/v1/sandboxes/{sandbox_id}/live", Door(_handle), scope="run", name="live")]
