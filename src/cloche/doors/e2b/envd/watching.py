"""Folders that clients watch, over a stream or by polling."""

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
_AT_ONCE = 500  # changes that are described before others have their turn
_STARTED = message({"start": {}})
_KEEPALIVE = message({"keepalive": {}})


class Watcher(NamedTuple):
    """A watched folder, and the options of its client."""

    watch: FileWatch
    path: str
    with_entry: bool
    turn: asyncio.Lock

    async def event(self, call: Call, change: Change) -> dict[str, Any] | None:
        """Return a change in E2B's form, in which a file that was moved here was created."""
        kind = "create" if change.arrived else change.kind
        if kind not in _TYPES:
            return None
        fields: dict[str, Any] = {"name": relpath(change.path, self.path), "type": _TYPES[kind]}
        if self.with_entry and kind in _WITH_ENTRY:
            try:
                fields["entry"] = entry(await call.service.files.describe(call.caller, call.identity, change.path))
            except (FileMissing, FileProblem):
                pass  # it was removed meanwhile
        return fields


async def _watched(call: Call, request: dict[str, Any]) -> Watcher:
    path = path_in(call, request)
    watch = await call.service.files.watch(call.caller, call.identity, path, recursive=bool(request.get("recursive")))
    return Watcher(watch, path, bool(request.get("includeEntry")), asyncio.Lock())


async def watch_dir(call: Call, stream: Stream) -> None:
    """Stream the changes in a folder."""
    request = await only_message(call.receive, call.max_message)
    deadline = None if call.time_s is None else monotonic() + call.time_s
    watcher = await _watched(call, request)
    sending = asyncio.create_task(_send(call, watcher, stream, deadline))
    try:
        stream.watch(sending.cancel)
        await asyncio.wait({sending})
        if not sending.cancelled():
            sending.result()
    finally:
        sending.cancel()
        await watcher.watch.close()


async def _send(call: Call, watcher: Watcher, stream: Stream, deadline: float | None) -> None:
    await stream.tell(_STARTED)
    while True:
        begin = monotonic()
        patience = call.keepalive_s if deadline is None else max(min(call.keepalive_s, deadline - begin), 0)
        change = await watcher.watch.next_change(patience)
        if change is not None:
            event = await watcher.event(call, change)
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


def _find(call: Call, request: dict[str, Any]) -> tuple[str, Watcher]:
    name = str(request.get("watcherId"))
    watcher = _watchers(call).get(name)
    if watcher is None:
        raise ConnectProblem("not_found", f"watcher with id {name} not found")
    return name, watcher


async def create_watcher(call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Watch a folder whose changes the client polls."""
    most = call.service.configuration.readers_per_sandbox
    if len(_watchers(call)) >= most:
        raise ConnectProblem("resource_exhausted", f"this sandbox has {most} watchers: remove some of them first")
    name = "w" + token_hex(10)
    _watchers(call)[name] = await _watched(call, request)
    return {"watcherId": name}


async def get_watcher_events(call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Return the changes since the last poll."""
    _, watcher = _find(call, request)
    async with watcher.turn:
        events = []
        for number, change in enumerate(await watcher.watch.drain()):
            if not number % _AT_ONCE:
                await asyncio.sleep(0)
            if (event := await watcher.event(call, change)) is not None:
                events.append(event)
    return {"events": events}


async def remove_watcher(call: Call, request: dict[str, Any]) -> dict[str, Any]:
    name, watcher = _find(call, request)
    del _watchers(call)[name]
    await watcher.watch.close()
    return {}


STREAMS: dict[str, Callable[[Call, Stream], Awaitable[None]]] = {"WatchDir": watch_dir}
CALLS: dict[str, Callable[[Call, dict[str, Any]], Awaitable[dict[str, Any]]]] = {
    "CreateWatcher": create_watcher,
    "GetWatcherEvents": get_watcher_events,
    "RemoveWatcher": remove_watcher,
}
