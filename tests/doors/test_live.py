"""What a page is told of a sandbox over one WebSocket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from json import dumps, loads
from typing import Any

import httpx2
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from cloche.doors.live import MAX_PORTS


@pytest.fixture
def sandbox(http: httpx2.Client) -> Iterator[str]:
    """A sandbox's id."""
    identity = http.post("/v1/sandboxes", json={}).json()["id"]
    yield identity
    http.delete(f"/v1/sandboxes/{identity}")


@contextmanager
def live(server: Any, sandbox: str, query: str = "") -> Iterator[ClientConnection]:
    """A page that looks at it."""
    address = f"ws://127.0.0.1:{server.port}/v1/sandboxes/{sandbox}/live{query}"
    headers = {"Authorization": f"Bearer {server.key}"}
    with connect(address, additional_headers=headers, open_timeout=20, proxy=None) as socket:
        yield socket


def until(socket: ClientConnection, wanted: Any) -> dict[str, Any]:
    """The first message for which `wanted` holds."""
    while True:
        message: dict[str, Any] = loads(socket.recv(timeout=20))
        if wanted(message):
            return message


def test_what_happens_and_what_changes_is_told_without_what_is_printed(
    server: Any, http: httpx2.Client, sandbox: str
) -> None:
    with live(server, sandbox) as socket:
        ready = loads(socket.recv(timeout=20))
        assert ready["type"] == "ready"
        code = "open('/sandbox/output/new.txt', 'w').write('x'); print('a' * 50_000)"
        http.post(f"/v1/sandboxes/{sandbox}/run", json={"code": code})
        seen: list[dict[str, Any]] = []
        changed: set[str] = set()
        while not (any(one["kind"] == "run.end" for one in seen) and "/sandbox/output/new.txt" in changed):
            message = loads(socket.recv(timeout=20))
            if message["type"] == "event":
                seen.append(message["event"])
            elif message["type"] == "change":
                changed |= {one["path"] for one in message["changes"]}
        kinds = [one["kind"] for one in seen]
        assert kinds[0] == "run.started"
        assert seen[0]["code"] == code
        assert "run.stdout" not in kinds
        end = seen[-1]  # too long to be told: only what it is about
        assert end["cut"]
        assert end["run_id"] == seen[0]["run_id"]
        assert len(dumps(end)) < 1000
    with live(server, sandbox, f"?after={ready['number']}") as socket:  # who comes back is told what was missed
        again = until(socket, lambda message: message["type"] == "event")
        assert again["event"]["kind"] == "run.started"


LISTEN = """
import socket
listeners = [socket.create_server(("127.0.0.1", {first} + number)) for number in range({count})]
"""


def test_ports_are_told_when_they_change_and_keep_nobody_awake(server: Any, http: httpx2.Client) -> None:
    sandbox = http.post("/v1/sandboxes", json={"idle_timeout": 2}).json()["id"]

    def ports_of(message: dict[str, Any]) -> list[int]:
        return [each["port"] for each in message["ports"]]

    with live(server, sandbox) as socket:
        socket.send(dumps({"type": "ports", "interval": 0.2}))
        assert ports_of(until(socket, lambda message: message["type"] == "ports")) == []
        http.post(f"/v1/sandboxes/{sandbox}/run", json={"code": LISTEN.format(first=8000, count=2)})
        assert ports_of(until(socket, lambda message: message["type"] == "ports")) == [8000, 8001]
        http.post(f"/v1/sandboxes/{sandbox}/run", json={"code": "listeners.pop().close()"})
        assert ports_of(until(socket, lambda message: message["type"] == "ports")) == [8000]
        http.post(f"/v1/sandboxes/{sandbox}/run", json={"code": LISTEN.format(first=9000, count=MAX_PORTS + 10)})
        many = until(socket, lambda message: message["type"] == "ports" and len(message["ports"]) > 2)
        assert len(many["ports"]) == MAX_PORTS
        socket.send(dumps({"type": "ports", "interval": 1}))  # as a page does
        assert "idle" in until(socket, lambda message: message["type"] == "ended")["reason"]


def test_usage_and_the_output_of_a_command_are_told_to_who_asks(server: Any, http: httpx2.Client, sandbox: str) -> None:
    command = http.post(f"/v1/sandboxes/{sandbox}/commands", json={"command": "read x; echo got $x"}).json()["id"]
    with live(server, sandbox) as socket:
        socket.send(dumps({"type": "usage", "interval": 0.2}))
        first = until(socket, lambda message: message["type"] == "usage")["usage"]
        assert first["memory"] > 0
        assert first["processes"] > 0
        until(socket, lambda message: message["type"] == "usage")
        socket.send(dumps({"type": "usage", "interval": 0}))
        socket.send(dumps({"type": "follow", "command": command}))
        until(socket, lambda message: message["type"] == "output" and message["kind"] == "started")
        http.post(f"/v1/sandboxes/{sandbox}/commands/{command}/stdin", json={"data": "it\n"})
        told = until(socket, lambda message: message["type"] == "output" and message["kind"] == "stdout")
        assert (told["command"], told["event"]["text"]) == (command, "got it\n")


@pytest.mark.parametrize(
    "message", ["nonsense", "[]", '{"type":"usage"}', '{"type":"usage","interval":-1}', '{"type":"follow"}']
)
def test_what_is_not_understood_is_said_and_does_no_harm(server: Any, sandbox: str, message: str) -> None:
    with live(server, sandbox) as socket:
        socket.send(message)
        assert "not understood" in until(socket, lambda told: told["type"] == "error")["message"]
        socket.send(dumps({"type": "follow", "command": "cmd_nothing"}))
        assert "no such command" in until(socket, lambda told: told["type"] == "error")["message"]


def test_the_end_of_the_sandbox_is_told(server: Any, http: httpx2.Client, sandbox: str) -> None:
    with live(server, sandbox) as socket:
        until(socket, lambda message: message["type"] == "ready")
        http.delete(f"/v1/sandboxes/{sandbox}")
        assert until(socket, lambda message: message["type"] == "ended")["reason"]


def test_others_are_refused(server: Any, http: httpx2.Client, sandbox: str) -> None:
    other = http.post("/v1/keys", json={"owner": "somebody-else", "name": "x", "scopes": ["run"]}).json()["key"]
    address = f"ws://127.0.0.1:{server.port}/v1/sandboxes/{sandbox}/live"
    for headers, status in (({}, 401), ({"Authorization": f"Bearer {other}"}, 404)):
        with pytest.raises(InvalidStatus) as refused, connect(address, additional_headers=headers, proxy=None):
            pass
        assert refused.value.response.status_code == status
    with pytest.raises(InvalidStatus) as refused, live(server, sandbox, "?after=x"):
        pass
    assert refused.value.response.status_code in (400, 422)
