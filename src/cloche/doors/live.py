"""What a page wants to know of a sandbox as it happens, over one WebSocket.

A browser opens six connections to a server at most, for all its tabs together; streams of events would use them up.
Messages are JSON.  From us: `ready` first, then `event` (what `GET …/events` tells, without what programs print),
`change` (files), `usage`, `output` of the commands that the client follows, and `ended` last.  From the client:
`usage` with the seconds between two samples (0 for none), and `follow` with a command's id.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from json import dumps, loads
from typing import Any

from starlette.requests import HTTPConnection

from cloche.doors.http.dependencies import held_of
from cloche.doors.routing.routes import SocketRoute
from cloche.doors.sockets import Door, Socket
from cloche.errors import ClocheError, InvalidRun
from cloche.service.events import Happened
from cloche.service.held import Held
from cloche.service.shapes import plain

MAX_TOLD = 16 << 10  # characters of an event; of a longer one, only what it is about
MAX_FOLLOWED = 20  # commands
_GATHER_S = 0.05  # changes of files come in crowds
_SHORTEST_S = 0.2
_ABOUT = re.compile(r'"(run_id|command_id)":"([\w-]+)"')


async def _handle(socket: Socket) -> None:
    held = await held_of(HTTPConnection(socket.scope), socket.scope["path_params"]["sandbox_id"])
    query = HTTPConnection(socket.scope).query_params
    after = query.get("after", "")
    if after and not (after.isdecimal() and len(after) < 16):
        raise InvalidRun("`after` is the number of an event.", hint="Leave it out to begin now.")
    await socket.accept()
    live = _Live(socket, held)
    await live.serve(int(after) if after else held.feed.last)


class _Live:
    """One page that looks at one sandbox."""

    def __init__(self, socket: Socket, held: Held) -> None:
        self._socket, self._held = socket, held
        self._tasks: set[asyncio.Task[None]] = set()
        self._sampling: asyncio.Task[None] | None = None
        self._followed: set[str] = set()

    async def serve(self, after: int) -> None:
        """Until the page leaves, or the sandbox ends."""
        await self._say({"type": "ready", "number": after})
        async with self._parts():
            watching = self._begin(self._watch())
            telling, listening = self._begin(self._tell(after)), self._begin(self._listen())
            done, _ = await asyncio.wait((telling, listening), return_when=asyncio.FIRST_COMPLETED)
            watching.cancel()
            for task in done:
                task.result()
        if telling in done:
            await self._say({"type": "ended", "reason": self._held.record.reason})
            await self._socket.close()

    @asynccontextmanager
    async def _parts(self) -> AsyncIterator[None]:
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

    async def _tell(self, after: int) -> None:
        async for batch in self._held.feed.batches(after):
            for happened in batch:
                if not happened.kind.endswith((".stdout", ".stderr")):
                    told = f'{{"type":"event","number":{happened.number},"event":{_brief(happened)}}}'
                    await self._socket.send(told)

    async def _watch(self) -> None:
        try:
            watching = await self._held.box.files.watch(".", recursive=True)
        except ClocheError:
            return  # it has just ended
        async with watching:
            while (change := await watching.next_change()) is not None:
                changes = [{"kind": change.kind, "path": change.path}]
                while (change := await watching.next_change(_GATHER_S)) is not None and len(changes) < 500:
                    changes.append({"kind": change.kind, "path": change.path})
                await self._say({"type": "change", "changes": changes})

    async def _sample(self, interval_s: float) -> None:
        while True:
            try:
                used = await self._held.box.usage()
            except ClocheError:
                return
            await self._say({"type": "usage", "usage": plain(used)})
            await asyncio.sleep(interval_s)

    async def _follow(self, identity: str) -> None:
        try:
            command = self._held.commands.find(identity)
        except ClocheError as problem:
            await self._say({"type": "error", "message": problem.message, "hint": problem.hint})
            return
        async for batch in command.log.batches():
            for happened in batch:
                head = f'"number":{happened.number},"kind":{dumps(happened.kind)}'
                await self._socket.send(
                    f'{{"type":"output","command":{dumps(identity)},{head},"event":{happened.data}}}'
                )

    async def _listen(self) -> None:
        while (message := await self._socket.receive()) is not None:
            try:
                self._take(message)
            except InvalidRun as problem:
                await self._say({"type": "error", "message": problem.message, "hint": problem.hint})

    def _take(self, message: str | bytes) -> None:
        try:
            told = loads(message)
        except (ValueError, RecursionError):
            told = None
        kind = told.get("type") if isinstance(told, dict) else None
        interval, command = (told.get("interval"), told.get("command")) if kind else (None, None)
        if kind == "usage" and isinstance(interval, int | float) and 0 <= interval <= 3600:
            if self._sampling is not None:
                self._sampling.cancel()
                self._tasks.discard(self._sampling)
            self._sampling = self._begin(self._sample(max(interval, _SHORTEST_S))) if interval else None
        elif kind == "follow" and isinstance(command, str) and len(self._followed) < MAX_FOLLOWED:
            if command not in self._followed:
                self._followed.add(command)
                self._begin(self._follow(command))
        else:
            raise InvalidRun(
                "This message is not understood.",
                hint='Send {"type": "usage", "interval": 1} or {"type": "follow", "command": "cmd_…"}.',
            )

    async def _say(self, told: dict[str, Any]) -> None:
        await self._socket.send(dumps(told, separators=(",", ":")))


def _brief(happened: Happened) -> str:
    data = happened.data
    if len(data) <= MAX_TOLD:
        return data
    told = {"kind": happened.kind, "cut": True}
    if found := _ABOUT.search(data, 0, 1000):
        told[found.group(1)] = found.group(2)
    return dumps(told)


routes = [SocketRoute("/v1/sandboxes/{sandbox_id}/live", Door(_handle), scope="run", name="live")]
