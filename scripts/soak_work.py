"""The mixed work of `soak.py`: each task uses a server in one way, as a client would, and cleans up nothing."""

from __future__ import annotations

import json
import random
import socket
import struct
from collections.abc import Callable
from typing import Any

import httpx2
from websockets.sync.client import connect

LANGUAGES = {
    "python": "print(6 * 7)",
    "bash": "echo $((6 * 7))",
    "javascript": "console.log(6 * 7)",
    "perl": "print 6 * 7",
    "sql": "select 6 * 7;",
}


class Unexpected(Exception):
    """The server answered in a way that no kill explains."""


class Client:
    """One client, with its own connection and its own sequence of random numbers."""

    def __init__(self, url: str, key: str, chance: random.Random) -> None:
        self.url, self.key, self.chance = url, key, chance
        self.http = httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60, trust_env=False)
        self._boxes: list[str] = []

    def ask(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Send a request; a 500 is a finding, and any other refusal may follow from a kill."""
        answer = self.http.request(method, path, **options)
        if answer.status_code == 500:
            raise Unexpected(f"{method} {path}: {answer.text[:300]}")
        return answer

    def box(self) -> str:
        """Return the path of a sandbox: one of the last few, or a new one."""
        if self._boxes and self.chance.random() < 0.8:
            return self.chance.choice(self._boxes)
        made = self.ask("POST", "/v1/sandboxes", json={"ttl": 120})
        if made.status_code != 201:
            raise httpx2.HTTPError(f"no sandbox: {made.status_code}")
        self._boxes = [*self._boxes[-2:], f"/v1/sandboxes/{made.json()['id']}"]
        return self._boxes[-1]

    def forget(self) -> None:
        """Forget the sandboxes, which somebody else has deleted."""
        self._boxes.clear()


def one_shot(client: Client) -> None:
    language, code = client.chance.choice(list(LANGUAGES.items()))
    client.ask("POST", "/v1/run", json={"code": code, "language": language})


def failing(client: Client) -> None:
    code = client.chance.choice(["1/0", "import os; os.abort()", "x = bytearray(1 << 40)", "while True: pass"])
    client.ask("POST", "/v1/run", json={"code": code, "timeout": 1})


def cell(client: Client) -> None:
    language = client.chance.choice(["python", "python", "bash", "javascript"])
    code = client.chance.choice(["x = 1", "1/0", "import threading", "import os; os._exit(3)"])
    client.ask("POST", f"{client.box()}/run", json={"code": code if language == "python" else "", "language": language})


def command(client: Client) -> None:
    line = client.chance.choice(["echo hello", "exit 3", "seq 10000", "sleep 300", "sleep 300 & echo left"])
    client.ask("POST", f"{client.box()}/commands", json={"command": line, "wait": "300" not in line, "timeout": 20})


def files(client: Client) -> None:
    box, name = client.box(), f"file-{client.chance.randrange(20)}"
    client.ask("PUT", f"{box}/files/{name}", content=client.chance.randbytes(client.chance.randrange(1 << 18)))
    client.ask("GET", f"{box}/files/{name}")
    client.ask("GET", f"{box}/archive", params={"format": "tar.gz"})


def checkpoint(client: Client) -> None:
    box = client.box()
    client.ask("POST", f"{box}/run", json={"code": "x = 1"})
    made = client.ask("POST", f"{box}/checkpoints", json={})
    if made.status_code < 300:
        client.ask(
            "POST", f"{box}/checkpoints/{made.json()['id']}/{client.chance.choice(['restore', 'fork'])}", json={}
        )


def pause(client: Client) -> None:
    box = client.box()
    client.ask("POST", f"{box}/pause")
    client.ask("POST", f"{box}/resume")


def e2b(client: Client) -> None:
    made = client.ask("POST", "/sandboxes", json={"templateID": "base", "timeout": 60})
    if made.status_code != 201:
        return
    told = made.json()
    headers = {"E2b-Sandbox-Id": told["sandboxID"], "X-Access-Token": told["envdAccessToken"]}
    agent, interpreter = {**headers, "E2b-Sandbox-Port": "49983"}, {**headers, "E2b-Sandbox-Port": "49999"}
    client.ask("POST", "/execute", json={"code": "6 * 7"}, headers=interpreter)
    client.ask("POST", "/filesystem.Filesystem/ListDir", json={"path": "/home/user", "depth": 1}, headers=agent)
    body = json.dumps({"process": {"cmd": "/bin/sh", "args": ["-c", "echo hello"]}}).encode()
    kind = {"Content-Type": "application/connect+json", **agent}
    client.ask("POST", "/process.Process/Start", content=struct.pack(">BI", 0, len(body)) + body, headers=kind)
    if client.chance.random() < 0.5:
        client.ask("DELETE", f"/sandboxes/{told['sandboxID']}")


def terminal(client: Client) -> None:
    path = client.box()
    with _websocket(client, f"{path}/terminal?columns=80&rows=24") as stream:
        stream.send(b"echo hello\n")
        stream.recv(timeout=10)
        if client.chance.random() < 0.5:
            stream.send(b"yes\n")


def messages(client: Client) -> None:
    with _websocket(client, "/") as stream:
        stream.send(json.dumps({"type": "execute", "code": "print(1)", "language": "python"}))
        while json.loads(stream.recv(timeout=30))["type"] not in ("result", "error"):
            pass


def silent_reader(client: Client) -> None:
    """Ask for the events of a command that prints without end, read nothing, and leave after a moment."""
    box = client.box()
    made = client.ask("POST", f"{box}/commands", json={"command": "yes", "timeout": 5})
    if made.status_code >= 300:
        return
    host, _, port = client.url.removeprefix("http://").partition(":")
    path = f"{box}/commands/{made.json()['id']}/events"
    with socket.create_connection((host, int(port)), 10) as plain:
        plain.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {client.key}\r\n\r\n".encode())
        plain.settimeout(client.chance.random() * 3)
        try:
            plain.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            pass


def delete(client: Client) -> None:
    client.ask("DELETE", client.box())


def _websocket(client: Client, path: str) -> Any:
    headers = {"Authorization": f"Bearer {client.key}"}
    return connect(client.url.replace("http", "ws", 1) + path, additional_headers=headers, open_timeout=20, proxy=None)


TASKS: tuple[Callable[[Client], None], ...] = (
    one_shot,
    one_shot,
    failing,
    cell,
    cell,
    command,
    files,
    checkpoint,
    pause,
    e2b,
    terminal,
    messages,
    silent_reader,
    delete,
)
