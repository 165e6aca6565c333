"""Folders that clients watch: as a stream, or asked for again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from posixpath import relpath
from secrets import token_hex
from time import monotonic
from typing import Any, NamedTuple

from cloche.doors.e2b.answers import BrokenOff
from cloche.doors.e2b.envd.call import Call
from cloche.doors.e2b.envd.connect import ConnectProblem, Stream, message, only_message
from cloche.doors.e2b.envd.filesystem import entry, path_in
from cloche.errors import FileMissing, FileProblem
from cloche.model.files import Change
from cloche.service.files import FileWatch

_TYPES = {
    "create": "EVENT_TYPE_CREATE",
    "write": "EVENT_TYPE_WRITE",
    "remove": "EVENT_TYPE_REMOVE",
    "rename": "EVENT_TYPE_RENAME",
    "chmod": "EVENT_TYPE_CHMOD",
}
_WITH_ENTRY = ("create", "write", "chmod")
_STARTED = message({"start": {}})
_KEEPALIVE = message({"keepalive": {}})


class Watcher(NamedTuple):
    """A folder that is watched, and what its watcher wants to know."""

    watch: FileWatch
    path: str
    with_entry: bool
    turn: asyncio.Lock

    async def told(self, call: Call, change: Change) -> dict[str, Any] | None:
        """A change as clients read it; what arrives under a new name was created, for them."""
        kind = "create" if change.arrived else change.kind
        if kind not in _TYPES:
            return None
        event: dict[str, Any] = {"name": relpath(change.path, self.path), "type": _TYPES[kind]}
        if self.with_entry and kind in _WITH_ENTRY:
            try:
                event["entry"] = entry(await call.service.files.describe(call.caller, call.identity, change.path))
            except (FileMissing, FileProblem):
                pass  # gone meanwhile
        return event


async def _watched(call: Call, told: dict[str, Any]) -> Watcher:
    path = path_in(call, told)
    watch = await call.service.files.watch(call.caller, call.identity, path, recursive=bool(told.get("recursive")))
    return Watcher(watch, path, bool(told.get("includeEntry")), asyncio.Lock())


async def watch_dir(call: Call, stream: Stream) -> None:
    """Tell what changes in a folder, as it happens."""
    told = await only_message(call.receive)
    deadline = None if call.time_s is None else monotonic() + call.time_s
    watcher = await _watched(call, told)
    telling = asyncio.create_task(_tell(call, watcher, stream, deadline))
    try:
        stream.watch(telling.cancel)
        await asyncio.wait({telling})
        if not telling.cancelled():
            telling.result()
    finally:
        telling.cancel()
        await watcher.watch.close()


async def _tell(call: Call, watcher: Watcher, stream: Stream, deadline: float | None) -> None:
    await stream.tell(_STARTED)
    while True:
        begin = monotonic()
        patience = call.keepalive_s if deadline is None else max(min(call.keepalive_s, deadline - begin), 0)
        change = await watcher.watch.next_change(patience)
        if change is not None:
            event = await watcher.told(call, change)
            if event is not None:
                await stream.tell(message({"filesystem": event}))
        elif deadline is not None and monotonic() >= deadline:
            raise ConnectProblem("deadline_exceeded", "the operation timed out")
        elif monotonic() < begin + patience / 2:
            raise BrokenOff  # the sandbox has ended
        else:
            await stream.tell(_KEEPALIVE)


def _watchers(call: Call) -> dict[str, Watcher]:
    return call.sandbox.watchers


def _find(call: Call, told: dict[str, Any]) -> tuple[str, Watcher]:
    name = str(told.get("watcherId"))
    watcher = _watchers(call).get(name)
    if watcher is None:
        raise ConnectProblem("not_found", f"watcher with id {name} not found")
    return name, watcher


async def create_watcher(call: Call, told: dict[str, Any]) -> dict[str, Any]:
    """Watch a folder; what changes there is asked for by and by."""
    name = "w" + token_hex(10)
    _watchers(call)[name] = await _watched(call, told)
    return {"watcherId": name}


async def get_watcher_events(call: Call, told: dict[str, Any]) -> dict[str, Any]:
    """What has changed since it was asked for last."""
    _, watcher = _find(call, told)
    async with watcher.turn:
        events = [await watcher.told(call, change) for change in await watcher.watch.drain()]
    return {"events": [event for event in events if event is not None]}


async def remove_watcher(call: Call, told: dict[str, Any]) -> dict[str, Any]:
    """Watch it no longer."""
    name, watcher = _find(call, told)
    del _watchers(call)[name]
    await watcher.watch.close()
    return {}


STREAMS: dict[str, Callable[[Call, Stream], Awaitable[None]]] = {"WatchDir": watch_dir}
CALLS: dict[str, Callable[[Call, dict[str, Any]], Awaitable[dict[str, Any]]]] = {
    "CreateWatcher": create_watcher,
    "GetWatcherEvents": get_watcher_events,
    "RemoveWatcher": remove_watcher,
}
