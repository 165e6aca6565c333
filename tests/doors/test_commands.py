"""Commands over HTTP: started, listed, listened to, fed, signalled, waited for."""

from __future__ import annotations

import socket
import time
from base64 import b64encode
from json import dumps
from typing import Any

import httpx2
import pytest
from tests.doors.sse import Event, all_events, events, text_of
from tests.waiting import eventually


def start(http: httpx2.Client, sandbox: str, **body: Any) -> str:
    """The address of a command that was started."""
    answer = http.post(f"{sandbox}/commands", json=body)
    assert answer.status_code == 201, answer.text
    assert set(answer.json()) == {"id", "pid", "command", "pty", "started", "running", "exit_code"}
    return f"{sandbox}/commands/{answer.json()['id']}"


def test_a_command_is_started_and_listened_to(http: httpx2.Client, shared: str) -> None:
    command = start(http, shared, command="echo out; echo err >&2; exit 3", env={"A": "1"}, cwd="/tmp")
    found = all_events(http, "GET", f"{command}/events")
    assert [one.number for one in found] == list(range(1, len(found) + 1))
    assert found[0].kind == "started"
    assert found[0].data["pid"] > 0
    assert (text_of(found), text_of(found, "stderr")) == ("out\n", "err\n")
    assert found[-1].kind == "exit"
    assert found[-1].data["result"]["exit_code"] == 3
    told = http.get(command).json()
    assert (told["running"], told["exit_code"]) == (False, 3)
    assert told["result"]["stdout"] == "out\n"
    assert all_events(http, "GET", f"{command}/events", params={"after": 1}) == found[1:]
    assert all_events(http, "GET", f"{command}/events", headers={"Last-Event-ID": "2"}) == found[2:]


def test_who_comes_back_misses_nothing(http: httpx2.Client, shared: str) -> None:
    command = start(http, shared, command="for n in $(seq 30); do echo $n; sleep .02; done")
    seen: list[Event] = []
    while not seen or seen[-1].kind != "exit":
        after = seen[-1].number if seen else 0
        with http.stream("GET", f"{command}/events", params={"after": after}) as answer:
            for number, one in enumerate(events(answer)):
                seen.append(one)
                if number == 4:
                    break
    assert [one.number for one in seen] == list(range(1, len(seen) + 1))
    assert text_of(seen) == "".join(f"{n}\n" for n in range(1, 31))


def test_standard_input_in_all_its_forms(http: httpx2.Client, shared: str) -> None:
    command = start(http, shared, command="cat")
    assert http.post(f"{command}/stdin", json={"data": "a"}).status_code == 204
    assert http.post(f"{command}/stdin", json={"data_base64": b64encode(b"\xff").decode()}).status_code == 204
    assert http.post(f"{command}/stdin", content=b"raw\x00").status_code == 204
    surrogate = http.post(
        f"{command}/stdin", content=b'{"data": "\\udcfe"}', headers={"Content-Type": "application/json"}
    )
    assert surrogate.status_code == 204
    assert http.post(f"{command}/stdin", params={"eof": "true"}).status_code == 204
    all_events(http, "GET", f"{command}/events")
    told = http.get(command).json()["result"]
    assert told["stdout_base64"] == b64encode(b"a\xffraw\x00\xfe").decode()
    assert start(http, shared, command="cat", stdin="given")
    whole = http.post(f"{shared}/commands", json={"command": "cat", "stdin": "given", "wait": True})
    assert whole.json()["stdout"] == "given"
    data = b64encode(b"\xfe").decode()
    whole = http.post(f"{shared}/commands", json={"command": "cat", "stdin_base64": data, "wait": True})
    assert whole.json()["stdout_base64"] == data


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"odd": 1}', b'{"data": 1}', b"[" * 100_000, b"\xff", b""])
def test_input_that_is_malformed(http: httpx2.Client, shared: str, body: bytes) -> None:
    command = start(http, shared, command="cat")
    answer = http.post(f"{command}/stdin", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422), answer.text
    assert answer.json()["error"]["kind"] == "invalid"
    assert http.delete(command).status_code == 204


def test_much_input_does_not_hold_up_the_answer(http: httpx2.Client, shared: str) -> None:
    begin = time.monotonic()
    command = start(http, shared, command="sleep 60", stdin="x" * 4_000_000)
    assert time.monotonic() - begin < 10
    assert http.delete(command).status_code == 204


def test_signals_and_killing(http: httpx2.Client, shared: str) -> None:
    command = start(http, shared, command="trap 'echo caught; exit 5' INT; echo on; while :; do sleep .05; done")
    with http.stream("GET", f"{command}/events") as answer:
        coming = events(answer)
        while next(coming).kind != "stdout":
            pass
        assert http.post(f"{command}/signal", json={"signal": "SIGINT"}).status_code == 204
        rest = list(coming)
    assert text_of(rest) == "caught\n"
    assert rest[-1].data["result"]["exit_code"] == 5
    for signal in ("SIGNONE", 0, 65, -1, 10**30, ""):
        assert http.post(f"{command}/signal", json={"signal": signal}).status_code in (400, 404, 422), signal
    forever = start(http, shared, command="sleep 1000")
    assert http.delete(forever).status_code == 204
    all_events(http, "GET", f"{forever}/events")
    assert http.get(forever).json()["running"] is False
    assert http.delete(forever).status_code in (204, 404)
    unknown = http.get(f"{shared}/commands/cmd_none")
    assert (unknown.status_code, unknown.json()["error"]["kind"]) == (404, "gone")


def test_a_terminal(http: httpx2.Client, shared: str) -> None:
    command = start(http, shared, command="stty size; read x; stty size; exit", pty=True, size=[100, 30])
    with http.stream("GET", f"{command}/events") as answer:
        coming = events(answer)
        said = ""
        while "30 100" not in said:
            said += text_of([next(coming)])
        assert http.post(f"{command}/resize", json={"columns": 120, "rows": 40}).status_code == 204
        assert http.post(f"{command}/stdin", content=b"\n").status_code == 204
        assert "40 120" in text_of(list(coming))
    for body in ({"columns": 0, "rows": 1}, {"columns": 10**9, "rows": 1}):
        assert http.post(f"{command}/resize", json=body).status_code == 400


def test_a_program_in_a_language(http: httpx2.Client, shared: str) -> None:
    body = {"code": "import sys; print(sys.argv[1:])", "language": "python", "args": ["a b"], "wait": True}
    assert http.post(f"{shared}/commands", json=body).json()["stdout"] == "['a b']\n"
    command = start(http, shared, code="echo $((6*7))", language="bash")
    assert text_of(all_events(http, "GET", f"{command}/events")) == "42\n"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"command": "a", "code": "b"}, 400),
        ({"command": []}, 400),
        ({"command": ["a\0b"]}, 400),
        ({"command": 1}, 422),
        ({"command": "true", "cwd": "/nowhere"}, 404),
        ({"command": ["/no/such/program"]}, 404),
        ({"command": "true", "timeout": -1}, 400),
        ({"command": "true", "pty": True, "size": [0, 0]}, 400),
        ({"command": "true", "size": [1]}, 422),
        ({"code": "1", "language": "cobol"}, 400),
        ({"command": "true", "stdin_base64": "!"}, 400),
    ],
)
@pytest.mark.parametrize("wait", [False, True])
def test_what_makes_no_sense(http: httpx2.Client, shared: str, body: dict[str, Any], status: int, wait: bool) -> None:
    answer = http.post(f"{shared}/commands", json={**body, "wait": wait})
    if wait and answer.status_code == 200:  # started, and then it failed: that is a result
        assert answer.json()["exit_code"] != 0
        return
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["kind"] in ("invalid", "missing", "file")


def test_a_list_of_commands(http: httpx2.Client, sandbox: str) -> None:
    made = [start(http, sandbox, command=f"echo {number}").rpartition("/")[2] for number in range(3)]
    page = http.get(f"{sandbox}/commands", params={"limit": 2}).json()
    rest = http.get(f"{sandbox}/commands", params={"limit": 2, "after": page["next"]}).json()
    assert [one["id"] for one in page["items"] + rest["items"]] == made


def test_the_output_of_commands_that_printed_much_is_forgotten_first(http: httpx2.Client, sandbox: str) -> None:
    started = []
    for _ in range(6):
        started.append(start(http, sandbox, command="head -c 9000000 /dev/zero | tr '\\0' x"))
        assert all_events(http, "GET", f"{started[-1]}/events")[-1].kind == "exit"

    known = [f"{sandbox}/commands/{one['id']}" for one in http.get(f"{sandbox}/commands").json()["items"]]
    assert known == started
    assert len(http.get(started[-1]).json()["result"]["stdout"]) == 9_000_000
    oldest = http.get(started[0]).json()["result"]
    assert (len(oldest["stdout"]), oldest["truncated"]) == (64 << 10, True)
    found = all_events(http, "GET", f"{started[0]}/events")
    assert [event.kind for event in found] == ["gap", "exit"]  # what is gone is named, and how it ended is known
    assert found[-1].data["result"]["exit_code"] == 0


def test_who_leaves_a_command_that_it_waits_for_ends_it(http: httpx2.Client, server: Any, sandbox: str) -> None:
    body = dumps({"command": "sleep 61.5", "wait": True, "timeout": 60}).encode()
    with socket.create_connection(("127.0.0.1", server.port), 10) as stream:
        head = f"POST {sandbox}/commands HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nX-API-Key: {server.key}\r\n"
        stream.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        query = {"sandbox": sandbox.rpartition("/")[2], "state": "running"}
        eventually(lambda: http.get("/v1/runs", params=query).json()["items"])
    eventually(lambda: not http.get("/v1/runs", params=query).json()["items"])
    # The brackets keep the pattern from matching the shells that search for it.
    found = http.post(f"{sandbox}/commands", json={"command": "pgrep -f 'sleep 61[.]5'", "wait": True}).json()
    assert found["stdout"] == ""
