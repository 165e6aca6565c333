"""What is asked again when the network or the server fails, and what never is."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable

import pytest
from tests.client.wires import Scripted, answer
from tests.conftest import Server

import cloche

SANDBOX = """{"id": "sbx_1", "state": "alive", "created": 1, "expires": 2, "idle_timeout": 3, "metadata": {},
 "wall": "jail",
 "limits": {"timeout": 30, "memory": 536870912, "cpu": 1, "disk": 1073741824, "processes": 64, "output": 10485760},
 "persistent": false, "workspace": null, "ended": null, "reason": ""}"""
ENTRY = '{"path": "/sandbox/a", "kind": "file", "size": 1, "mode": 420, "modified": 1.5, "target": null}'
BUSY = '{"error": {"kind": "busy", "message": "There is no room.", "hint": "Later.", "details": {}}}'
CREATED, GONE = answer(201, SANDBOX), answer(204, "")


def lines(request: bytes) -> list[str]:
    return request.partition(b"\r\n\r\n")[0].decode().split("\r\n")


def test_reading_is_tried_again_when_the_connection_breaks_before_an_answer() -> None:
    with Scripted([CREATED, None, None, answer(200, ENTRY), GONE]) as server:
        with cloche.Sandbox(url=server.url) as box:
            assert box.files.stat("a").path == "/sandbox/a"
        assert [lines(request)[0].split()[0] for request in server.requests] == ["POST", "GET", "GET", "GET", "DELETE"]


async def test_the_same_asynchronously() -> None:
    with Scripted([CREATED, None, None, answer(200, ENTRY), GONE]) as server:
        async with cloche.AsyncSandbox(url=server.url) as box:
            assert (await box.files.stat("a")).path == "/sandbox/a"
        assert len(server.requests) == 5


def test_a_broken_answer_is_not_asked_for_again() -> None:
    half = answer(200, ENTRY)[:-20]
    with Scripted([CREATED, half, GONE]) as server, cloche.Sandbox(url=server.url) as box:
        cut = threading.Timer(0.2, server.cut)
        cut.start()
        with pytest.raises(cloche.SandboxFailed, match="broke"):
            box.files.stat("a")
        cut.join()
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    "ask",
    [
        lambda box: box.run("1"),
        lambda box: box.run_program("1"),
        lambda box: box.commands.run("true"),
        lambda box: box.files.write("a", "x", append=True),
        lambda box: box.files.rename("a", "b"),
    ],
    ids=["a cell", "a program", "a command", "an addition to a file", "a new name"],
)
def test_what_may_have_been_done_is_never_asked_twice(ask: Callable[[cloche.Sandbox], object]) -> None:
    with Scripted([CREATED, None, GONE]) as server, cloche.Sandbox(url=server.url) as box:
        with pytest.raises(cloche.SandboxFailed, match="broke"):
            ask(box)
        assert len(server.requests) == 2


def test_a_one_shot_run_is_never_asked_for_twice() -> None:
    with Scripted([None]) as server:
        with pytest.raises(cloche.SandboxFailed, match="broke"):
            cloche.run("1", url=server.url)
        assert len(server.requests) == 1


def test_a_sandbox_is_asked_for_again_under_the_same_idempotency_key() -> None:
    with Scripted([None, None, CREATED, GONE]) as server:
        with cloche.Sandbox(url=server.url):
            pass
        keys = {re.search(rb"Idempotency-Key: (\w+)", request)[1] for request in server.requests[:3]}  # type: ignore[index]
        assert len(keys) == 1


def test_two_sandboxes_have_two_idempotency_keys() -> None:
    with Scripted([CREATED, CREATED, GONE, GONE]) as server:
        with cloche.Sandbox(url=server.url), cloche.Sandbox(url=server.url):
            pass
        keys = {re.search(rb"Idempotency-Key: (\w+)", request)[1] for request in server.requests[:2]}  # type: ignore[index]
        assert len(keys) == 2


@pytest.mark.parametrize("status", [503, 429])
def test_a_server_that_is_busy_is_asked_again_when_it_says(status: int) -> None:
    kind = "busy" if status == 503 else "limit"
    later = answer(status, BUSY.replace("busy", kind), "Retry-After: 1\r\n")
    with Scripted([later, answer(201, SANDBOX), GONE]) as server:
        begin = time.monotonic()
        with cloche.Sandbox(url=server.url) as box:
            assert 1 <= time.monotonic() - begin < 5
            assert box.id == "sbx_1"


def test_a_run_that_was_refused_for_want_of_room_is_asked_for_again() -> None:
    later = answer(503, BUSY, "Retry-After: 1\r\n")
    done = (
        '{"run_id": "r", "stdout": "1\\n", "stderr": "", "exit_code": 0, "duration": 1, "cpu_time": 1,'
        '"memory_peak": 1, "error": null, "truncated": false, "wall": "jail"}'
    )
    with Scripted([later, answer(200, done)]) as server:
        assert cloche.run("print(1)", url=server.url).stdout == "1\n"


def test_nobody_waits_longer_than_is_reasonable() -> None:
    with Scripted([answer(429, BUSY.replace("busy", "limit"), "Retry-After: 3600\r\n")] * 9) as server:
        begin = time.monotonic()
        with pytest.raises(cloche.Refused, match="no room") as caught:
            cloche.run("", url=server.url)
        assert time.monotonic() - begin < 5
        assert caught.value.hint == "Later."
        assert len(server.requests) == 1


def test_a_failure_of_the_server_is_not_asked_for_again() -> None:
    failed = answer(503, BUSY.replace("busy", "failed"), "Retry-After: 1\r\n")
    with Scripted([failed]) as server:
        with pytest.raises(cloche.SandboxFailed, match="no room"):
            cloche.run("", url=server.url)
        assert len(server.requests) == 1


# --- servers that are not there, or not for us


def nobody() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_without_a_server_the_error_says_how_to_start_one() -> None:
    with pytest.raises(cloche.Misconfigured, match="Connection refused") as caught:
        cloche.run("", url=nobody())
    assert "cloche serve" in caught.value.hint


async def test_the_same_without_a_server_asynchronously() -> None:
    with pytest.raises(cloche.Misconfigured, match="Connection refused"):
        await cloche.async_run("", url=nobody())
    with pytest.raises(cloche.Misconfigured, match="Connection refused"):
        async with cloche.AsyncSandbox(url=nobody()):
            pass


def test_a_name_that_nobody_knows_is_told_at_once() -> None:
    begin = time.monotonic()
    with pytest.raises(cloche.Misconfigured):
        cloche.run("", url="http://no-such-host.invalid")
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://localhost", "http://", "http://a b", "http://x:99999", "x"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(cloche.InvalidRun, match="address"):
        cloche.run("", url=url)


def test_a_wrong_key_is_refused_and_the_hint_says_where_keys_come_from(server: Server) -> None:
    for key in ("wrong", None):
        with pytest.raises(cloche.Refused) as caught:
            cloche.run("", url=server.url, api_key=key)
        assert "CLOCHE_API_KEY" in caught.value.hint
        assert "cloche key" in caught.value.hint


def test_a_key_that_could_be_a_header_of_its_own_is_refused(server: Server) -> None:
    with pytest.raises(cloche.InvalidRun, match="key"):
        cloche.Sandbox(url=server.url, api_key="x\r\nHost: y")


def test_a_server_of_another_kind_is_told_as_that() -> None:
    page = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\nnope"
    with Scripted([page]) as server, pytest.raises(cloche.Misconfigured, match=r"not a Cloche server .status 404"):
        cloche.run("", url=server.url)


def test_what_is_no_http_at_all_is_told_as_that() -> None:
    with Scripted([b"SSH-2.0-OpenSSH\r\n"]) as server, pytest.raises(cloche.SandboxFailed, match="no HTTP"):
        cloche.run("", url=server.url)
