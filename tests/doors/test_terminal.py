"""Terminals over WebSockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

PATIENCE_S = 30


class Terminal:
    """What a person would see, and type."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.shown = b""
        self.ready: dict[str, Any] = {}

    async def next(self) -> dict[str, Any] | None:
        """Take one message; what it says when it is a text."""
        async with asyncio.timeout(PATIENCE_S):
            message = await self.socket.recv()
        if isinstance(message, bytes):
            self.shown += message
            return None
        told: dict[str, Any] = json.loads(message)
        return told

    async def until(self, text: str) -> None:
        while text.encode() not in self.shown:
            told = await self.next()
            assert told is None, told

    async def told(self, kind: str) -> dict[str, Any]:
        while (told := await self.next()) is None or told["type"] != kind:
            pass
        return told

    async def type(self, text: str) -> None:
        await self.socket.send(text.encode())

    async def control(self, **message: Any) -> None:
        await self.socket.send(json.dumps(message))


@pytest.fixture
def sandbox(http: httpx2.Client) -> Iterator[str]:
    identity = http.post("/v1/sandboxes", json={}).json()["id"]
    yield identity
    http.delete(f"/v1/sandboxes/{identity}")


@asynccontextmanager
async def terminal_of(server: Any, sandbox: str, key: str | None = None, **query: Any) -> AsyncIterator[Terminal]:
    address = f"{server.url.replace('http', 'ws')}/v1/sandboxes/{sandbox}/terminal?{urlencode(query)}"
    headers = {"Authorization": f"Bearer {server.key if key is None else key}"}
    async with connect(address, additional_headers=headers, max_size=None, proxy=None) as socket:
        terminal = Terminal(socket)
        told = await terminal.next()
        assert told is not None
        assert told["type"] == "ready"
        terminal.ready = told
        yield terminal


async def test_a_shell_is_typed_to_and_ends(server: Any, sandbox: str) -> None:
    async with terminal_of(server, sandbox) as terminal:
        await terminal.type("echo $((6 * 7)); tty\n")
        await terminal.until("42\r\n")
        await terminal.until("/dev/pts/")
        await terminal.type("exit 3\n")
        told = await terminal.told("exit")
        assert told["exit_code"] == 3
        with pytest.raises(ConnectionClosed) as closed:
            await terminal.next()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1000


async def test_the_shell_is_bash_and_finds_what_programs_find(server: Any, sandbox: str, http: httpx2.Client) -> None:
    found = http.post(f"/v1/sandboxes/{sandbox}/commands", json={"command": "command -v python3", "wait": True}).json()
    async with terminal_of(server, sandbox) as terminal:
        await terminal.type("echo [$BASH_VERSION]; echo [$(command -v python3)]; pwd\n")
        await terminal.until(f"[{found['stdout'].strip()}]\r\n")
        await terminal.until("/sandbox\r\n")
        assert b"[]" not in terminal.shown


async def test_a_command_of_ones_own_and_its_size(server: Any, sandbox: str) -> None:
    async with terminal_of(server, sandbox, command="stty size; read x; stty size", columns=100, rows=30) as terminal:
        await terminal.until("30 100\r\n")
        await terminal.control(type="resize", columns=132, rows=50)
        await terminal.type("\n")
        await terminal.until("50 132\r\n")
        assert (await terminal.told("exit"))["exit_code"] == 0


async def test_signals_arrive(server: Any, sandbox: str) -> None:
    command = "trap 'echo caught' USR1; echo set; while :; do sleep 0.05; done"
    async with terminal_of(server, sandbox, command=command) as terminal:
        await terminal.until("set\r\n")
        await terminal.control(type="signal", signal="SIGUSR1")
        await terminal.until("caught\r\n")
        await terminal.type("\x03")  # as a person would
        assert (await terminal.told("exit"))["exit_code"] == 130


async def test_what_cannot_be_shown_as_text_comes_as_it_is(server: Any, sandbox: str) -> None:
    async with terminal_of(server, sandbox, command=r"printf '\377\376 \303\244 \303'") as terminal:
        await terminal.told("exit")
        assert terminal.shown == b"\xff\xfe \xc3\xa4 \xc3"


async def test_a_shell_is_still_there_for_who_comes_back(server: Any, sandbox: str) -> None:
    async with terminal_of(server, sandbox) as terminal:
        await terminal.type("mark=kept; echo be''fore\n")
        await terminal.until("before\r\n")
        identity = terminal.ready["id"]
    async with terminal_of(server, sandbox, id=identity) as again:
        assert again.ready == terminal.ready
        await again.until("before\r\n")  # what was shown
        await again.type("echo [$mark]\n")
        await again.until("[kept]\r\n")


async def test_several_clients_look_at_one_shell(server: Any, sandbox: str) -> None:
    async with (
        terminal_of(server, sandbox) as first,
        terminal_of(server, sandbox, id=first.ready["id"]) as second,
    ):
        await first.type("echo fro''m-first\n")
        await second.until("from-first\r\n")
        await second.type("echo fro''m-second\n")
        await first.until("from-second\r\n")
        await first.type("exit\n")
        assert (await first.told("exit"))["exit_code"] == 0
        assert (await second.told("exit"))["exit_code"] == 0


async def test_only_the_end_of_what_was_shown_is_shown_again(server: Any, sandbox: str) -> None:
    command = "python3 -c \"print('x' * 1_000_000); print('the end')\"; read x"
    async with terminal_of(server, sandbox, command=command) as terminal:
        await terminal.until("the end\r\n")
        assert len(terminal.shown) > 1_000_000  # nothing is left out for who looks on
    async with terminal_of(server, sandbox, id=terminal.ready["id"]) as again:
        await again.until("the end\r\n")
        assert len(again.shown) == 256 << 10
        await again.type("\n")
        await again.told("exit")
    async with terminal_of(server, sandbox, id=terminal.ready["id"]) as over:
        assert (await over.told("exit"))["exit_code"] == 0
        assert over.shown.endswith(b"the end\r\n\r\n")


async def test_what_makes_no_sense_is_told_and_the_terminal_stays(server: Any, sandbox: str) -> None:
    async with terminal_of(server, sandbox, command="cat") as terminal:
        for message in (
            "nonsense",
            "[]",
            "[" * 50_000,
            '{"type": "resize"}',
            '{"type": "resize", "columns": "wide", "rows": true}',
            '{"type": "resize", "columns": 0, "rows": 99999999}',
            '{"type": "signal", "signal": "SIGNOTHING"}',
            '{"type": "signal", "signal": 100000}',
            '{"type": "signal", "signal": true}',
        ):
            await terminal.socket.send(message)
            assert (await terminal.told("error"))["message"], message
        await terminal.type("still here\n")
        await terminal.until("still here\r\nstill here\r\n")


async def test_input_that_nobody_takes_is_bounded(server: Any, sandbox: str) -> None:
    async with terminal_of(server, sandbox, command="stty raw -echo; echo on; sleep 600") as terminal:
        await terminal.until("on")
        for _ in range(5):
            await terminal.socket.send(bytes(1 << 20))
        assert "input" in (await terminal.told("error"))["message"]
        await terminal.control(type="signal", signal="SIGKILL")
        await terminal.told("exit")


async def test_the_end_of_the_sandbox_ends_the_terminal(server: Any, sandbox: str, http: httpx2.Client) -> None:
    async with terminal_of(server, sandbox) as terminal:
        await asyncio.to_thread(http.delete, f"/v1/sandboxes/{sandbox}")
        assert (await terminal.told("exit"))["type"] == "exit"


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"id": "cmd_nothing"}, 404),
        ({"columns": "wide"}, 400),
        ({"rows": "0"}, 400),
        ({"columns": "99999"}, 400),
    ],
)
async def test_what_cannot_be_is_refused_before_it_begins(
    server: Any, sandbox: str, query: dict[str, str], status: int
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with terminal_of(server, sandbox, **query):
            pass
    assert refused.value.response.status_code == status


async def test_a_command_without_a_terminal_is_none(server: Any, sandbox: str, http: httpx2.Client) -> None:
    command = http.post(f"/v1/sandboxes/{sandbox}/commands", json={"command": "sleep 60"}).json()["id"]
    with pytest.raises(InvalidStatus) as refused:
        async with terminal_of(server, sandbox, id=command):
            pass
    assert refused.value.response.status_code == 409


async def test_terminals_are_their_owners(server: Any, sandbox: str, http: httpx2.Client) -> None:
    stranger = http.post("/v1/keys", json={"owner": "stranger", "name": "test"}).json()["key"]
    for place, key, status in ((sandbox, stranger, 404), (sandbox, "wrong", 401), ("sbx_nothing", None, 404)):
        with pytest.raises(InvalidStatus) as refused:
            async with terminal_of(server, place, key):
                pass
        assert refused.value.response.status_code == status
    async with terminal_of(server, sandbox):
        pass
