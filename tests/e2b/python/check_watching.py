"""Watched folders: every change, in order, once."""

from __future__ import annotations

import asyncio

import pytest
from e2b_code_interpreter import AsyncSandbox, Sandbox

from e2b import FileNotFoundException, FilesystemEvent, FilesystemEventType, InvalidArgumentException, SandboxException

WRITTEN = [FilesystemEventType.CREATE, FilesystemEventType.CHMOD, FilesystemEventType.WRITE]


def told(events: list[FilesystemEvent]) -> list[tuple[str, str]]:
    return [(event.type.value, event.name) for event in events]


def test_each_change_is_told_by_the_next_question(shared: Sandbox) -> None:
    shared.files.make_dir("w/deep")
    everything = shared.files.watch_dir("w", recursive=True)
    top = shared.files.watch_dir("/home/user/w/", include_entry=True)

    shared.files.write("w/a", "1")
    assert told(everything.get_new_events()) == [(kind.value, "a") for kind in WRITTEN]
    shared.files.write("w/deep/b", "1")
    assert told(everything.get_new_events()) == [(kind.value, "deep/b") for kind in WRITTEN]
    shared.files.make_dir("w/new")
    shared.files.write("w/new/c", "1")
    assert told(everything.get_new_events()) == [("create", "new"), *((kind.value, "new/c") for kind in WRITTEN)]
    shared.files.rename("w/a", "w/z")
    shared.files.remove("w/z")
    shared.commands.run("touch d; chmod 600 d; echo 1 >> d", cwd="w")
    last = told(everything.get_new_events())
    assert last[:3] == [("rename", "a"), ("create", "z"), ("remove", "z")]
    assert ("create", "d") in last
    assert last[-1] == ("write", "d")
    assert everything.get_new_events() == []

    mine = top.get_new_events()
    assert not any(event.name.startswith(("deep/", "new/")) for event in mine)
    paths = {event.name: event.entry.path for event in mine if event.entry is not None}
    assert paths["d"] == "/home/user/w/d"
    assert "z" not in paths  # gone before it was asked for
    everything.stop()
    top.stop()
    with pytest.raises(SandboxException):
        everything.get_new_events()


def test_what_cannot_be_watched(shared: Sandbox) -> None:
    shared.files.write("file", "")
    with pytest.raises(FileNotFoundException):
        shared.files.watch_dir("nowhere")
    with pytest.raises(InvalidArgumentException):
        shared.files.watch_dir("file")


async def test_as_a_stream(async_sandbox: AsyncSandbox) -> None:
    events: list[FilesystemEvent] = []
    written = asyncio.Event()
    left = asyncio.Event()

    def take(event: FilesystemEvent) -> None:
        events.append(event)
        if event.type is FilesystemEventType.WRITE:
            written.set()

    await async_sandbox.files.make_dir("w")
    handle = await async_sandbox.files.watch_dir(
        "w", on_event=take, on_exit=lambda _: left.set(), recursive=True, include_entry=True
    )
    await async_sandbox.files.make_dir("w/x")
    await async_sandbox.files.write("w/x/y", "1")
    await asyncio.wait_for(written.wait(), 10)
    assert told(events) == [("create", "x"), *((kind.value, "x/y") for kind in WRITTEN)]
    assert [event.entry.path for event in events[1:]] == ["/home/user/w/x/y"] * 3
    await handle.stop()
    await asyncio.wait_for(left.wait(), 10)
    for path, problem in (("nowhere", FileNotFoundException), ("w/x/y", InvalidArgumentException)):
        with pytest.raises(problem):
            await async_sandbox.files.watch_dir(path, on_event=take)
