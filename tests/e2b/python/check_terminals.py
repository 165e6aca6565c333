"""Terminals: typed into, resized, left and come back to, killed."""

from __future__ import annotations

import asyncio

import pytest
from e2b_code_interpreter import AsyncSandbox, Sandbox

from e2b import CommandExitException, NotFoundException, PtySize, SandboxException


def test_a_terminal(shared: Sandbox) -> None:
    terminal = shared.pty.create(PtySize(rows=24, cols=80), envs={"ABC": "123"}, cwd="/tmp")
    shared.pty.resize(terminal.pid, PtySize(rows=30, cols=100))
    shared.pty.send_stdin(terminal.pid, b"echo $ABC-$TERM; stty size; pwd; test -t 0 && echo tty; exit 7\n")
    shown = b"".join(data or b"" for _, _, data in terminal)
    with pytest.raises(CommandExitException) as ended:
        terminal.wait()
    assert ended.value.exit_code == 7
    for text in (b"123-xterm", b"30 100", b"/tmp", b"tty"):
        assert text in shown


def test_one_is_come_back_to_and_killed(shared: Sandbox) -> None:
    terminal = shared.pty.create(PtySize(rows=24, cols=80))
    again = shared.pty.connect(terminal.pid)
    assert again.pid == terminal.pid
    with pytest.raises(SandboxException):
        shared.commands.send_stdin(terminal.pid, "x")  # it is typed into, not fed
    with pytest.raises(SandboxException):
        shared.commands.close_stdin(terminal.pid)
    assert shared.pty.kill(terminal.pid)
    assert not shared.pty.kill(terminal.pid)
    with pytest.raises(NotFoundException):
        shared.pty.resize(terminal.pid, PtySize(rows=1, cols=1))


async def test_asyncio(async_sandbox: AsyncSandbox) -> None:
    shown = bytearray()
    seen = asyncio.Event()

    def take(data: bytes) -> None:
        shown.extend(data)
        if b"=42" in shown:
            seen.set()

    terminal = await async_sandbox.pty.create(PtySize(rows=24, cols=80), on_data=take)
    await async_sandbox.pty.resize(terminal.pid, PtySize(rows=10, cols=20))
    await async_sandbox.pty.send_stdin(terminal.pid, b"echo =$((6*7))\n")
    await asyncio.wait_for(seen.wait(), 10)
    async with async_sandbox.pty.stream_input(terminal.pid) as typed:
        await typed.send(b"exit\n")
    assert (await terminal.wait()).exit_code == 0
