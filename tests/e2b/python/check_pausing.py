"""Pause and resume, snapshots, forks."""

from __future__ import annotations

import time

import pytest
from e2b_code_interpreter import AsyncSandbox, Sandbox

from e2b import SandboxException, SandboxNotFoundException, SandboxQuery, SandboxState, TimeoutException


def test_a_paused_sandbox_goes_on_where_it_was(sandbox: Sandbox) -> None:
    sandbox.run_code(
        "import threading, time\n"
        "stamps = []\n"
        "def tick():\n"
        "    while True:\n"
        "        stamps.append(time.time()); time.sleep(0.01)\n"
        "threading.Thread(target=tick, daemon=True).start()"
    )

    assert sandbox.pause()
    assert not sandbox.pause()
    assert not sandbox.is_running()
    assert sandbox.get_info().state is SandboxState.PAUSED
    paused = Sandbox.list(query=SandboxQuery(state=[SandboxState.PAUSED])).next_items()
    assert sandbox.sandbox_id in [one.sandbox_id for one in paused]
    with pytest.raises(TimeoutException):
        sandbox.run_code("stamps")
    time.sleep(1)  # nothing can be seen to happen meanwhile
    sandbox.connect()
    gap = "time.sleep(0.1); max(later - stamp for stamp, later in zip(stamps, stamps[1:]))"
    assert float(sandbox.run_code(gap).text) > 0.9
    assert sandbox.is_running()


def test_without_memory_only_files_are_there_again(sandbox: Sandbox) -> None:
    sandbox.run_code("x = 1; open('note.txt', 'w').write('kept')")
    command = sandbox.commands.run("sleep 100", background=True)

    assert sandbox.pause(keep_memory=False)
    sandbox.connect()
    assert sandbox.run_code("x").error.name == "NameError"
    assert sandbox.run_code("open('note.txt').read()").text == "kept"
    assert command.pid not in [one.pid for one in sandbox.commands.list()]


def test_time_is_up_and_it_waits_for_whoever_comes_next() -> None:
    sandbox = Sandbox.create(timeout=1, lifecycle={"on_timeout": "pause", "auto_resume": True})
    try:
        sandbox.run_code("x = 5")
        begin = time.monotonic()
        while sandbox.get_info().state is not SandboxState.PAUSED:
            assert time.monotonic() - begin < 10
            time.sleep(0.1)
        assert sandbox.run_code("x").text == "5"
        assert sandbox.get_info().state is SandboxState.RUNNING
    finally:
        assert sandbox.kill()


def test_a_snapshot_has_the_files(sandbox: Sandbox) -> None:
    sandbox.run_code("import os; os.makedirs('a/b'); open('a/b/note.txt', 'w').write('kept')")
    sandbox.files.write("/workspace/src/kept", "kept")
    unnamed = sandbox.create_snapshot()
    named = sandbox.create_snapshot(name="ours")
    try:
        sandbox.run_code("open('a/b/note.txt', 'w').write('changed')")
        assert "ours" in named.names
        listed = Sandbox.list_snapshots(sandbox_id=sandbox.sandbox_id).next_items()
        assert [one.snapshot_id for one in listed] == [named.snapshot_id, unnamed.snapshot_id]
        for snapshot in (unnamed, named):
            with Sandbox.create(snapshot.snapshot_id) as again:
                assert again.run_code("open('a/b/note.txt').read()").text == "kept"
                assert again.files.read("/workspace/src/kept") == "kept"
                assert again.get_info().template_id == snapshot.snapshot_id
        assert sandbox.run_code("open('a/b/note.txt').read()").text == "changed"
    finally:
        assert Sandbox.delete_snapshot(unnamed.snapshot_id)
        assert Sandbox.delete_snapshot(named.snapshot_id)
    assert not Sandbox.delete_snapshot(named.snapshot_id)
    with pytest.raises(SandboxException, match="not found"):
        Sandbox.create(named.snapshot_id)


def test_forks_have_files_of_their_own(sandbox: Sandbox) -> None:
    sandbox.run_code("open('note.txt', 'w').write('shared')")
    forks = sandbox.fork(count=2)
    try:
        forks[0].run_code("open('note.txt', 'w').write('first')")
        texts = [one.run_code("open('note.txt').read()").text for one in (sandbox, *forks)]
        assert texts == ["shared", "first", "shared"]
        assert len({one.sandbox_id for one in (sandbox, *forks)}) == 3
    finally:
        for fork in forks:
            fork.kill()


async def test_all_of_it_asynchronously(async_sandbox: AsyncSandbox) -> None:
    await async_sandbox.run_code("x = 3; open('note.txt', 'w').write('kept')")
    assert await async_sandbox.pause()
    assert not await async_sandbox.pause()
    await async_sandbox.connect()
    assert (await async_sandbox.run_code("x")).text == "3"
    snapshot = await async_sandbox.create_snapshot()
    assert snapshot in await AsyncSandbox.list_snapshots(sandbox_id=async_sandbox.sandbox_id).next_items()
    assert await AsyncSandbox.delete_snapshot(snapshot.snapshot_id)
    (fork,) = await async_sandbox.fork()
    assert (await fork.run_code("open('note.txt').read()")).text == "kept"
    await fork.kill()
    with pytest.raises(SandboxNotFoundException):
        await fork.pause()
