"""E2B's door: mutated requests of a valid conversation, over every route that the door has."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from tests.conftest import Server
from tests.fuzz.budget import SECONDS
from tests.fuzz.requests import Request, Target, filled

from cloche.doors.e2b.envd import ROUTES

# Statuses above 500 that belong to the protocol: a call that does not exist, a closed port, a deadline of the client.
_STATUSES = frozenset((501, 502, 504))
ENVD = {"E2b-Sandbox-Id": "{sandbox}", "E2b-Sandbox-Port": "49983", "X-Access-Token": "{token}"}
INTERPRETER = {**ENVD, "E2b-Sandbox-Port": "49999"}
_UNARY = {**ENVD, "Content-Type": "application/json"}
_STREAM = {**ENVD, "Content-Type": "application/connect+json", "Connect-Timeout-Ms": "300"}
_KEYED = {"X-API-Key": "{key}", "Content-Type": "application/json"}
_CAT = {"tag": "t"}
_SHELL = {"cmd": "/bin/bash", "args": ["-c", "echo $A"], "envs": {"A": "b"}, "cwd": "/home/user"}


def _call(name: str, payload: Any) -> Request:
    return Request("POST", f"/{name}", payload, headers=_UNARY)


def _stream(name: str, payload: Any) -> Request:
    return Request("POST", f"/{name}", payload, enveloped=True, headers=_STREAM)


CONTROL = [
    Request("POST", "/sandboxes/{sandbox}/connect", {"timeout": 300}, headers=_KEYED),
    Request("GET", "/v2/sandboxes", query={"metadata": "a=b", "state": "running", "limit": "10"}, headers=_KEYED),
    Request("GET", "/sandboxes/{sandbox}", headers=_KEYED),
    Request("POST", "/sandboxes/{sandbox}/timeout", {"timeout": 300}, headers=_KEYED),
    Request("POST", "/sandboxes/{sandbox}/refreshes", {"duration": 300}, headers=_KEYED),
    Request("PUT", "/sandboxes/{sandbox}/network", {"allowOut": ["1.1.1.1"], "denyOut": ["0.0.0.0/0"]}, headers=_KEYED),
    Request("GET", "/sandboxes/{sandbox}/metrics", query={"start": "1", "end": "2"}, headers=_KEYED),
    Request("GET", "/sandboxes/metrics", query={"sandbox_ids": "{sandbox}"}, headers=_KEYED),
    Request("GET", "/sandboxes/{sandbox}/logs", query={"start": "1", "limit": "10"}, headers=_KEYED),
    Request("GET", "/snapshots", query={"limit": "5", "sandboxID": "{sandbox}"}, headers=_KEYED),
    Request("GET", "/templates", headers=_KEYED),
    Request("GET", "/templates/aliases/base", headers=_KEYED),
]
AGENT = [
    Request("GET", "/health", headers=ENVD),
    Request("GET", "/files", query={"path": "a.txt", "username": "user"}, headers=ENVD),
    Request("POST", "/files", body=b"hello", query={"path": "a.txt", "username": "user"}, headers=ENVD),
    Request(
        "POST", "/files",
        body=b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhello\r\n--x--\r\n',
        query={"path": "a.txt"}, headers={**ENVD, "Content-Type": "multipart/form-data; boundary=x"},
    ),
    Request("POST", "/files/compose", {"destination": "all", "source_paths": ["a.txt", "a.txt"]}, headers=_UNARY),
    Request("GET", "/metrics", headers=ENVD),
    Request("GET", "/envs", headers=ENVD),
    _call("process.Process/List", {}),
    _call("process.Process/SendInput", {"process": _CAT, "input": {"stdin": "aGVsbG8="}}),
    _call("process.Process/CloseStdin", {"process": {"tag": "nothing"}}),
    _call("process.Process/SendSignal", {"process": _CAT, "signal": "SIGNAL_SIGTERM"}),
    _call("process.Process/Update", {"process": _CAT, "pty": {"size": {"rows": 24, "cols": 80}}}),
    _stream("process.Process/StreamInput", {"start": {"process": _CAT}}),
    _stream("process.Process/Start", {"process": _SHELL, "tag": "t", "stdin": True}),
    _stream("process.Process/Start", {"process": _SHELL, "pty": {"size": {"rows": 24, "cols": 80}}}),
    _stream("process.Process/Connect", {"process": _CAT}),
    _call("filesystem.Filesystem/Stat", {"path": "/home/user"}),
    _call("filesystem.Filesystem/ListDir", {"path": "/home/user", "depth": 2}),
    _call("filesystem.Filesystem/MakeDir", {"path": "new"}),
    _call("filesystem.Filesystem/Move", {"source": "a.txt", "destination": "b.txt"}),
    _call("filesystem.Filesystem/Remove", {"path": "b.txt"}),
    _call("filesystem.Filesystem/CreateWatcher", {"path": ".", "recursive": True}),
    _call("filesystem.Filesystem/GetWatcherEvents", {"watcherId": "{watcher}"}),
    _call("filesystem.Filesystem/RemoveWatcher", {"watcherId": "nothing"}),
    _stream("filesystem.Filesystem/WatchDir", {"path": ".", "recursive": True}),
]  # fmt: skip
CODE = [
    Request("POST", "/execute", {"code": "x = 1; x", "env_vars": {"A": "b"}}, headers=INTERPRETER),
    Request("POST", "/execute", {"code": "1", "language": "python"}, headers=INTERPRETER),
    Request("GET", "/health", headers=INTERPRETER),
    Request("GET", "/contexts", headers=INTERPRETER),
    Request("POST", "/contexts", {"language": "python", "cwd": "/home/user"}, headers=INTERPRETER),
    Request("POST", "/contexts/nothing/restart", headers=INTERPRETER),
    Request("DELETE", "/contexts/nothing", headers=INTERPRETER),
]


def _ask(http: httpx2.Client, request: Request, known: dict[str, str]) -> Any:
    ready = filled(request, **known)
    answer = http.request(ready.method, ready.path, headers=ready.headers, content=ready.content())
    assert answer.status_code == 200, answer.text
    return answer.json() if answer.headers["content-type"] == "application/json" else None


def _names(http: httpx2.Client) -> dict[str, str]:
    """Make a sandbox with a process and a watcher; return their names."""
    made = http.post("/sandboxes", json={"templateID": "base", "timeout": 600}).raise_for_status().json()
    names = {"sandbox": made["sandboxID"], "token": made["envdAccessToken"]}
    names["watcher"] = _ask(http, _call("filesystem.Filesystem/CreateWatcher", {"path": "."}), names)["watcherId"]
    background = {"process": {"cmd": "/bin/bash", "args": ["-c", "sleep 600 &"]}}
    _ask(http, _stream("process.Process/Start", background), names)
    return names


@pytest.mark.timeout(SECONDS + 120)
def test_no_request_is_the_servers_fault(server: Server) -> None:
    target = Target(server, "e2b", _STATUSES)
    with server.client() as http:

        def begin() -> list[Request]:
            if "sandbox" in target.names:
                http.delete(f"/sandboxes/{target.names['sandbox']}")
            target.names = {**_names(http), "key": server.key}
            return [filled(request, **target.names) for request in (*CONTROL, *AGENT, *CODE)]

        conversation = begin()
        for request in [*target.past(), *conversation]:
            assert target.problem(request) == "", request
        sent = target.fuzz(begin)
        http.delete(f"/sandboxes/{target.names['sandbox']}")
    assert target.statuses[200] > len(conversation) // 2, target.statuses
    print(f"{sent} requests: {target.statuses}")


def test_the_conversation_has_every_route() -> None:
    assert {path for _, path in ROUTES} == {request.path for request in AGENT}
