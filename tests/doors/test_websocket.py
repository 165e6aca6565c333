"""The WebSocket at `/`, as a client sees it."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from tests.waiting import eventually_async
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

PATIENCE_S = 30


class Client:
    """Sends and receives JSON."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def send(self, **message: Any) -> None:
        await self.socket.send(json.dumps(message))

    async def receive(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            told: dict[str, Any] = json.loads(await self.socket.recv())
            return told

    async def until(self, *kinds: str) -> dict[str, Any]:
        """The next message of one of these types."""
        while (told := await self.receive())["type"] not in kinds:
            pass
        return told

    async def run(self, code: str, **more: Any) -> dict[str, Any]:
        await self.send(type="execute", code=code, **more)
        return await self.until("result", "error")


@asynccontextmanager
async def client_of(server: Any, key: str | None = None, **options: Any) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {server.key if key is None else key}"}
    address = server.url.replace("http", "ws") + "/"
    options = {"additional_headers": headers, "max_size": None, "proxy": None, **options}
    async with connect(address, **options) as socket:
        yield Client(socket)


@pytest.fixture
async def client(server: Any) -> AsyncIterator[Client]:
    async with client_of(server) as made:
        yield made


# --- what it is for


async def test_code_is_run_and_its_result_told(client: Client) -> None:
    told = await client.run("print(6 * 7)", language="python")
    assert told["type"] == "result"
    assert (told["output"], told["errors"], told["exit_code"]) == ("42\n", "", 0)
    assert told["run_id"].startswith("run")
    assert "id" not in told
    assert told["error"] is None


async def test_python_is_the_language_when_none_is_named(client: Client) -> None:
    assert (await client.run("import sys; print(sys.version_info[0])"))["output"] == "3\n"
    assert (await client.run("echo $0 | grep -c .", language="bash"))["output"] == "1\n"


async def test_a_program_that_fails_says_why_and_what_to_do(client: Client) -> None:
    told = await client.run("import nothing_like_this")
    assert told["exit_code"] == 1
    assert "ModuleNotFoundError" in told["errors"]
    assert told["errors"].count("Traceback") == 1
    assert told["hint"]
    assert told["hint"] in told["errors"]


async def test_a_time_limit_is_told_although_the_program_says_nothing(client: Client) -> None:
    told = await client.run("while True: pass", timeout=0.5)
    assert told["exit_code"] == 124
    assert "0.5 seconds" in told["errors"]
    assert told["error"]["kind"] == "timeout"


async def test_there_is_progress_while_a_run_takes_long(client: Client) -> None:
    await client.send(type="execute", code="input()", interactive=True, id="slow")
    told = await client.receive()
    assert told["type"] == "progress"
    assert told["id"] == "slow"
    assert "Running" in told["message"]
    await client.send(type="input", id="slow", data="x\n")
    assert (await client.until("result"))["exit_code"] == 0


async def test_an_unknown_language_is_an_error_with_a_hint(client: Client) -> None:
    told = await client.run("1", language="klingon", id=7)
    assert told["type"] == "error"
    assert told["id"] == 7
    assert "klingon" in told["message"]
    assert told["hint"]
    assert (await client.run("print(1)"))["output"] == "1\n"


async def test_limits_are_the_operators(client: Client) -> None:
    told = await client.run("1", memory="1000G")
    assert told["type"] == "error"
    assert "memory" in told["message"]


async def test_standard_input_can_come_with_the_code(client: Client) -> None:
    assert (await client.run("print(input().upper())", stdin="hello\n"))["output"] == "HELLO\n"


async def test_a_model_gets_its_own_view(client: Client) -> None:
    told = await client.run("for i in range(5000): print('line', i)", view="model", budget=100)
    assert len(told["output"]) < 2000
    assert "results" not in told


# --- several at once


async def test_runs_go_on_side_by_side_and_are_told_apart(client: Client) -> None:
    await client.send(type="execute", code="input(); print('first')", id="a", interactive=True)
    await client.send(type="execute", code="print('second')", id="b")
    told = await client.until("result")
    assert (told["id"], told["output"]) == ("b", "second\n")
    await client.send(type="input", id="a", data="\n")
    told = await client.until("result")
    assert (told["id"], told["output"]) == ("a", "first\n")


async def test_runs_without_an_id_are_answered_in_order(client: Client) -> None:
    for number, code in enumerate(("import time; time.sleep(0.3)", "pass", "pass")):
        await client.send(type="execute", code=f"{code}\nprint({number})")
    assert [(await client.until("result"))["output"] for _ in range(3)] == ["0\n", "1\n", "2\n"]


async def test_an_id_can_be_used_again_once_its_run_is_over_and_not_before(client: Client) -> None:
    await client.send(type="execute", code="input()", id="x", interactive=True)
    told = await client.run("print(1)", id="x")
    assert told["type"] == "error"
    assert "id" in told["hint"]
    await client.send(type="input", id="x", data="\n")
    assert (await client.until("result"))["exit_code"] == 0
    assert (await client.run("print(1)", id="x"))["output"] == "1\n"


async def test_there_is_a_limit_to_the_runs_of_one_connection(client: Client) -> None:
    for number in range(33):
        await client.send(type="execute", code="input()", id=number, interactive=True)
    told = await client.until("error")
    assert told["id"] == 32
    assert "32" in told["message"]
    for number in range(32):
        await client.send(type="cancel", id=number)
    ended = {(await client.until("result", "error"))["id"] for _ in range(32)}
    assert ended == set(range(32))
    assert (await client.run("print(1)"))["output"] == "1\n"


async def test_a_run_can_be_called_off(client: Client) -> None:
    await client.send(type="execute", code="print('on', flush=True)\nwhile True: pass", id="x", stream=True)
    await client.until("stdout")
    await client.send(type="cancel", id="x")
    told = await client.until("result")
    assert told["exit_code"] != 0
    assert told["output"] == "on\n"


@pytest.mark.parametrize("session", [None, True])
async def test_a_run_can_be_called_off_in_the_same_breath(client: Client, session: bool | None) -> None:
    assert (await client.run("1", session=session))["type"] == "result"  # there is a session now
    await client.send(type="execute", code="while True: pass", id="x", session=session)
    await client.send(type="cancel", id="x")
    told = await client.until("result", "error")
    assert told["id"] == "x"
    assert told["error"]["kind"] == "killed" if told["type"] == "result" else told["kind"] == "gone"
    assert (await client.run("print(1)", session=session))["output"] == "1\n"


async def test_a_run_that_waits_for_its_turn_can_be_called_off(client: Client) -> None:
    await client.send(type="execute", code="input()", interactive=True)
    await client.send(type="execute", code="print('never')")
    await client.send(type="cancel")
    told = [await client.until("result", "error") for _ in range(2)]
    assert {one["type"] for one in told} <= {"result", "error"}
    assert all("never" not in one.get("output", "") for one in told)


async def test_runs_without_an_id_that_are_called_off_are_told_in_order(client: Client) -> None:
    await client.send(type="execute", code="import time; time.sleep(60)", stream=True)
    await client.until("started")
    await client.send(type="execute", code="print('never')")
    await client.send(type="cancel")

    first, second = await client.until("result", "error"), await client.until("result", "error")
    assert (first["type"], first["error"]["kind"]) == ("result", "killed")
    assert (second["type"], second["message"]) == ("error", "The run was cancelled before it began.")


async def test_what_is_not_under_way_cannot_be_cancelled_or_fed(client: Client) -> None:
    for kind in ("cancel", "input"):
        await client.send(type=kind, id="nobody")
        told = await client.receive()
        assert (told["type"], told["id"]) == ("error", "nobody")


async def test_input_for_a_run_that_takes_none_is_refused(client: Client) -> None:
    await client.send(type="execute", code="import time; time.sleep(60)", id=1)
    await client.send(type="input", id=1, data="x")
    told = await client.until("error")
    assert "interactive" in told["hint"]
    await client.send(type="cancel", id=1)
    await client.until("result", "error")


async def test_a_run_converses_until_its_input_ends(client: Client) -> None:
    code = "import sys\nfor line in sys.stdin: print(line.upper(), end='', flush=True)"
    await client.send(type="execute", code=code, id=1, interactive=True, stream=True)
    for word in ("one", "two"):
        await client.send(type="input", id=1, data=f"{word}\n")
        assert (await client.until("stdout"))["text"] == f"{word.upper()}\n"
    await client.send(type="input", id=1, data="three\n", eof=True)
    assert (await client.until("result"))["output"] == "ONE\nTWO\nTHREE\n"


async def test_output_is_streamed_to_who_asks_for_it(client: Client) -> None:
    code = "import sys\nprint('out', flush=True)\nprint('err', file=sys.stderr)"
    await client.send(type="execute", code=code, id="s", stream=True)
    seen = []
    while (told := await client.receive())["type"] != "result":
        assert told["id"] == "s"
        seen.append((told["type"], told.get("text")))
    assert ("stdout", "out\n") in seen
    assert ("stderr", "err\n") in seen
    await client.send(type="execute", code=code)
    assert (await client.receive())["type"] == "result"


# --- sessions


async def test_a_session_of_the_connection_keeps_variables_and_ends_with_it(server: Any, http: httpx2.Client) -> None:
    async with client_of(server) as client:
        told = await client.run("x = 20", session=True)
        assert told["type"] == "result", told
        sandbox = told["session"]
        assert (await client.run("x * 2 + 2", session=True))["output"] == "42"
        assert http.get(f"/v1/sandboxes/{sandbox}").json()["state"] == "alive"
    await eventually_async(lambda: http.get(f"/v1/sandboxes/{sandbox}").json()["state"] != "alive", PATIENCE_S)


async def test_what_a_session_displays_is_shown_as_text(client: Client) -> None:
    code = "import pandas as pd\nprint('made', end='')\npd.DataFrame({'a': [1, 2]})"
    told = await client.run(code, session=True)
    assert told["output"] == "made\n   a\n0  1\n1  2"
    assert "text/html" in told["results"][0]["mime"]


async def test_an_exception_in_a_session_is_told_with_its_traceback(client: Client) -> None:
    told = await client.run("1 / 0", session=True)
    assert told["exit_code"] == 1
    assert "ZeroDivisionError: division by zero" in told["errors"]


async def test_displays_are_streamed(client: Client) -> None:
    await client.send(type="execute", code="display(1)\n2", session=True, stream=True, id=1)
    assert (await client.until("display"))["result"]["mime"]["text/plain"] == "1"
    assert (await client.until("display"))["result"]["is_main"] is True
    assert (await client.until("result"))["output"] == "1\n2"


async def test_a_named_session_outlives_the_connection_and_so_do_its_runs(server: Any, http: httpx2.Client) -> None:
    sandbox = http.post("/v1/sandboxes", json={}).json()["id"]
    try:
        async with client_of(server) as client:
            await client.run("x = 1", session=sandbox)
            await client.send(type="execute", code="import time; time.sleep(0.5); x += 1", session=sandbox, stream=True)
            run = (await client.until("started"))["run_id"]
        await eventually_async(lambda: http.get(f"/v1/runs/{run}").json()["state"] != "running", PATIENCE_S)
        assert http.get(f"/v1/runs/{run}").json()["state"] == "done"
        assert http.post(f"/v1/sandboxes/{sandbox}/run", json={"code": "x"}).json()["text"] == "2"
    finally:
        http.delete(f"/v1/sandboxes/{sandbox}")


@pytest.mark.parametrize(
    "code", ["import time; time.sleep(600)", "import time\nwhile True: print('x', flush=True); time.sleep(0.01)"]
)
async def test_one_shot_runs_end_with_the_connection(server: Any, http: httpx2.Client, code: str) -> None:
    async with client_of(server) as client:
        await client.send(type="execute", code=code, timeout=600, stream=True)
        run = (await client.until("started"))["run_id"]
        assert http.get(f"/v1/runs/{run}").json()["state"] == "running"
    await eventually_async(lambda: http.get(f"/v1/runs/{run}").json()["state"] != "running", PATIENCE_S)
    assert http.get(f"/v1/runs/{run}").json()["state"] in ("failed", "interrupted")


async def test_a_session_of_somebody_else_is_not_there(server: Any, http: httpx2.Client) -> None:
    sandbox = http.post("/v1/sandboxes", json={}).json()["id"]
    stranger = http.post("/v1/keys", json={"owner": "stranger", "name": "test"}).json()["key"]
    try:
        async with client_of(server, stranger) as client:
            told = await client.run("1", session=sandbox)
            assert told["type"] == "error"
            assert told["kind"] == "gone"
        async with client_of(server) as client:
            assert (await client.run("1", session=sandbox))["output"] == "1"
    finally:
        http.delete(f"/v1/sandboxes/{sandbox}")


# --- who may


async def test_without_a_key_there_is_no_connection(server: Any) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        with pytest.raises(InvalidStatus) as refused:
            async with client_of(server, additional_headers=headers):
                pass
        assert refused.value.response.status_code == 401


async def test_a_browser_gives_its_key_as_a_subprotocol(server: Any) -> None:
    offered = [Subprotocol("cloche"), Subprotocol(f"cloche-key.{server.key}")]
    async with client_of(server, additional_headers={}, subprotocols=offered) as client:
        assert client.socket.subprotocol == "cloche"
        assert (await client.run("print(1)"))["output"] == "1\n"
    with pytest.raises(InvalidStatus) as refused:
        async with client_of(
            server, additional_headers={}, subprotocols=[Subprotocol("cloche"), Subprotocol("cloche-key.wrong")]
        ):
            pass
    assert refused.value.response.status_code == 401
    assert server.key not in server.log.read_text()


@pytest.mark.parametrize("path", ["nowhere", "v1/run", "mcp", "v1/sandboxes/none/terminal"])
async def test_where_there_is_no_websocket_that_is_said(server: Any, path: str) -> None:
    headers = {"Authorization": f"Bearer {server.key}"}
    with pytest.raises(InvalidStatus) as refused:
        async with connect(f"{server.url.replace('http', 'ws')}/{path}", additional_headers=headers, proxy=None):
            pass
    assert refused.value.response.status_code == 404
    assert json.loads(refused.value.response.body)["error"]["kind"] == "gone"
    assert "without completing" not in server.log.read_text()


async def test_a_page_of_another_site_gets_no_connection_even_with_the_key(server: Any) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with client_of(server, origin="http://evil.example"):
            pass
    assert refused.value.response.status_code == 403
    async with client_of(server, origin=server.url) as client:
        assert (await client.run("print(1)"))["output"] == "1\n"


async def test_a_key_that_is_revoked_is_not_served_any_longer(server: Any, http: httpx2.Client) -> None:
    made = http.post("/v1/keys", json={"owner": "leaver", "name": "test"}).json()
    async with client_of(server, made["key"]) as client:
        assert (await client.run("print(1)"))["output"] == "1\n"
        http.delete(f"/v1/keys/{made['id']}")
        with pytest.raises(ConnectionClosed) as closed:
            await client.receive()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008


async def test_a_keys_rate_counts_for_messages(server: Any, http: httpx2.Client) -> None:
    limits = {"requests_per_second": 1}
    key = http.post("/v1/keys", json={"owner": "quick", "name": "test", "limits": limits}).json()["key"]
    async with client_of(server, key) as client:
        told = [await client.run("1", id=number) for number in range(3)]
        refused = [one for one in told if one["type"] == "error"]
        assert refused
        assert refused[0]["kind"] == "limit"
        assert refused[0]["retry_after"] > 0


# --- what clients get wrong

MALFORMED = [
    "",
    "nonsense",
    "[]",
    "null",
    "42",
    '"execute"',
    "{}",
    '{"type": null}',
    '{"type": "destroy"}',
    '{"type": ["execute"]}',
    '{"type": "execute"}',
    '{"type": "execute", "code": 5}',
    '{"type": "execute", "code": null}',
    '{"type": "execute", "code": "1", "language": 5}',
    '{"type": "execute", "code": "1", "timeout": "long"}',
    '{"type": "execute", "code": "1", "timeout": true}',
    '{"type": "execute", "code": "1", "timeout": -1}',
    '{"type": "execute", "code": "1", "timeout": 1e999}',
    '{"type": "execute", "code": "1", "timeout": NaN}',
    '{"type": "execute", "code": "1", "memory": -5}',
    '{"type": "execute", "code": "1", "memory": "lots"}',
    '{"type": "execute", "code": "1", "memory": 1.5}',
    '{"type": "execute", "code": "1", "session": 5}',
    '{"type": "execute", "code": "1", "session": "no such"}',
    '{"type": "execute", "code": "1", "context": "x"}',
    '{"type": "execute", "code": "1", "stdin": 5}',
    '{"type": "execute", "code": "1", "view": "odd"}',
    '{"type": "execute", "code": "1", "budget": 1}',
    '{"type": "execute", "code": "1", "id": {}}',
    '{"type": "execute", "code": "1", "id": 1.5}',
    '{"type": "execute", "code": "1", "id": true}',
    '{"type": "execute", "code": "1", "id": 99999999999999999999999999}',
    '{"type": "execute", "code": "1", "id": "' + "x" * 500 + '"}',
    '{"type": "execute", "code": "\\ud800"}',
    '{"type": "execute", "code": "1", "stdin": "\\ud800"}',
    '{"type": "execute", "code": "1", "language": "\\ud800"}',
    '{"type": "input", "data": 5}',
    '{"type": "cancel", "id": []}',
    "[" * 100_000,
    '{"a":' * 50_000,
    '{"type": "execute", "code": "1", "timeout": ' + "9" * 10_000 + "}",
]


@pytest.mark.parametrize("message", MALFORMED, ids=lambda text: text[:60])
async def test_a_malformed_message_is_answered_and_the_connection_stays(client: Client, message: str) -> None:
    await client.socket.send(message)
    told = await client.until("error", "result")
    assert told["type"] == "error", told
    assert told["message"]
    assert (await client.run("print(1)"))["output"] == "1\n"


async def test_bytes_are_no_message(client: Client) -> None:
    await client.socket.send(b'{"type": "execute", "code": "1"}')
    told = await client.receive()
    assert told["type"] == "error"
    assert "text" in told["hint"]
    assert (await client.run("print(1)"))["output"] == "1\n"


async def test_a_message_that_is_too_large_ends_the_connection_alone(server: Any) -> None:
    async with client_of(server) as client:
        with pytest.raises(ConnectionClosed) as closed:
            await asyncio.gather(client.socket.send("x" * (17 << 20)), client.receive())
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009
    async with client_of(server) as client:
        assert (await client.run("print(1)"))["output"] == "1\n"


async def test_any_message_is_answered_or_ignored_but_never_ends_the_server(client: Client) -> None:
    chance = random.Random(4)
    values: list[Any] = [None, True, 0, -1, 1e300, "", "x", "python", "\udcff", [], {}, [[]], {"a": 1}, "execute"]
    names = ["type", "id", "code", "language", "session", "context", "timeout", "memory", "stdin", "eof", "stream"]
    for _ in range(300):
        message = {chance.choice(names): chance.choice(values) for _ in range(chance.randrange(6))}
        if message.get("type") == "execute":
            message["code"] = chance.choice([5, None, [], {}])  # nothing that would be run
        text = json.dumps(message)
        if chance.random() < 0.3:
            at = chance.randrange(len(text))
            text = text[:at] + chance.choice('{}[]",:\\x00\x7f') + text[at + 1 :]
        await client.socket.send(text)
        assert (await client.receive())["type"] == "error"
    assert (await client.run("print(1)"))["output"] == "1\n"


async def test_who_does_not_read_holds_nobody_up(server: Any, client: Client) -> None:
    async with client_of(server, max_queue=1) as lazy:
        for number in range(8):
            code = "print('x' * 4_000_000)"
            await lazy.send(type="execute", code=code, id=number, stream=True)
        assert (await client.run("print(1)"))["output"] == "1\n"
        ended: set[int] = set()
        while len(ended) < 8:
            told = await lazy.until("result")
            assert len(told["output"]) == 4_000_001
            ended.add(told["id"])


async def test_a_server_that_stops_closes_its_connections(serve: Callable[..., Any]) -> None:
    running = serve()
    async with client_of(running) as client:
        told = await client.run("1", session=True)
        assert told["output"] == "1"
        stopping = asyncio.get_running_loop().run_in_executor(None, running.stop)
        with pytest.raises(ConnectionClosed):
            await client.until("nothing like this")
        assert await stopping == 0
    assert f"run {told['run_id']} done" in running.log.read_text()  # lines come in bundles, and the last one, too
    assert "Traceback" not in running.log.read_text()
