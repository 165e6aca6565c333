"""Every route declares its access, and the gate keeps it: no key, a read key, a run key and an admin's key."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import httpx2
import pytest
from fastapi import FastAPI
from starlette.routing import Route, WebSocketRoute
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from cloche.configuration import Configuration
from cloche.doors.e2b import envd
from cloche.doors.e2b.door import E2bDoor
from cloche.doors.e2b.requests import ControlOperation
from cloche.doors.gate.declarations import Declared
from cloche.doors.gate.gate import Gate
from cloche.doors.http import app
from cloche.doors.http.dependencies import Json
from cloche.doors.metrics import Metrics
from cloche.doors.ports import PortDoor
from cloche.doors.routing.access import UNDECLARED, Access
from cloche.doors.routing.routes import Operations
from cloche.doors.server import application, guarded
from cloche.policy.access import check_access
from cloche.policy.caller import Caller
from cloche.policy.refusals import Forbidden, Unauthorized

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "access_table.py"
KEYS = ("none", "read", "run", "admin")
# The keys that a route with this scope takes.
TAKEN = {
    "public": KEYS,
    "share": KEYS,
    "port": KEYS,
    "page": KEYS[1:],
    "read": KEYS[1:],
    "run": KEYS[2:],
    "admin": KEYS[3:],
}


def service_without_keys() -> Any:
    service = MagicMock()
    service.configuration = Configuration()
    service.browser_sessions.key_id.return_value = ""
    return service


ROUTES = application(service_without_keys(), MagicMock()).declarations()


def undeclared(routes: list[Declared]) -> list[str]:
    return [f"{route.method} {route.path}" for route in routes if route.access is UNDECLARED]


# --- the list


def test_every_route_declares_its_access() -> None:
    assert undeclared(ROUTES) == []
    assert {route.door.partition(",")[0] for route in ROUTES} == {"HTTP", "MCP", "ports", "E2B"}
    assert len(ROUTES) > 140


def test_the_list_in_the_docs_is_true() -> None:
    subprocess.run([sys.executable, str(SCRIPT), "--check"], check=True)


def with_forgotten_routes() -> tuple[FastAPI, Gate, Any]:
    """The application with four routes whose author forgot to declare anything."""
    service = service_without_keys()
    ports = PortDoor(service)
    http = app.build(service, Metrics(service), ports, MagicMock())
    forgotten = Operations("/v1")

    @forgotten.post("/secrets")
    async def secrets() -> Json:
        return Json({"secret": 1})

    async def plain(*_: Any) -> None:
        raise AssertionError

    forgotten.install(http)
    http.add_api_route("/v1/schedules", secrets)
    http.router.routes.append(Route("/v1/plain", plain))
    http.router.routes.append(WebSocketRoute("/v1/socket", plain))
    return http, guarded(http, service, Metrics(service), ports), service


def test_the_list_finds_a_route_without_a_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = with_forgotten_routes()[1]
    assert undeclared(gate.declarations()) == [
        "POST /v1/secrets",
        "GET /v1/schedules",
        "GET /v1/plain",
        "HEAD /v1/plain",
        "WebSocket /v1/socket",
    ]
    door = E2bDoor(service_without_keys(), MagicMock())
    monkeypatch.setitem(door._control.operations, ("GET", "secrets"), ControlOperation(MagicMock()))
    monkeypatch.setitem(envd.ROUTES, ("GET", "/secrets"), envd.EnvdRoute(MagicMock()))
    assert undeclared(list(door.declarations())) == ["GET /secrets", "GET /secrets"]


# --- what a route without a declaration takes


async def ask(gate: Gate, method: str, path: str, caller: str, service: Any, body: bytes = b"") -> int:
    """The status of the answer to a caller with this scope."""
    known = None if caller == "none" else Caller("key", "ada", frozenset({caller}))
    service.keyring.find = lambda _: known
    headers = [(b"host", b"localhost"), (b"x-api-key", b"key"), (b"content-length", str(len(body)).encode())]
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b""}
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    more = {
        "scheme": "http",
        "server": ("localhost", 80),
        "client": ("127.0.0.1", 1),
        "headers": headers,
        "root_path": "",
    }
    await gate({**scope, **more, "state": {}}, receive, send)
    return statuses[0]


@pytest.mark.parametrize("path", ["/v1/secrets", "/v1/schedules"])
async def test_a_route_without_a_declaration_is_for_admins(path: str) -> None:
    _, gate, service = with_forgotten_routes()
    method = "POST" if path == "/v1/secrets" else "GET"
    statuses = [await ask(gate, method, path, caller, service) for caller in KEYS]
    assert statuses == [401, 403, 403, 200]


async def test_a_route_without_a_declaration_takes_the_smallest_body() -> None:
    _, gate, service = with_forgotten_routes()
    assert await ask(gate, "POST", "/v1/secrets", "admin", service, b"x" * (16 << 10)) == 200
    assert await ask(gate, "POST", "/v1/secrets", "admin", service, b"x" * ((16 << 10) + 1)) == 413


async def test_a_route_that_is_added_behind_the_gates_back_is_not_reachable() -> None:
    http, gate, service = with_forgotten_routes()

    async def late() -> Json:
        return Json({})

    http.add_api_route("/v1/late", late)
    assert [await ask(gate, "GET", "/v1/late", caller, service) for caller in KEYS] == [401, 404, 404, 404]


@pytest.mark.parametrize(
    ("scopes", "needed", "refusal"),
    [
        (None, "read", Unauthorized),
        ({"read"}, "read", None),
        ({"read"}, "run", Forbidden),
        ({"run"}, "read", None),
        ({"run"}, "admin", Forbidden),
        ({"admin"}, "run", None),
        ({"admin"}, "admin", None),
    ],
)
def test_the_policy(scopes: set[str] | None, needed: str, refusal: type[Exception] | None) -> None:
    caller = None if scopes is None else Caller("key", "ada", frozenset(scopes))
    if refusal is None:
        assert check_access(caller, needed) is caller
    else:
        with pytest.raises(refusal):
            check_access(caller, needed)


# --- what the routes of a running server take


@pytest.fixture(scope="module")
def keys(server: Any) -> Iterator[dict[str, str]]:
    """A secret for each scope."""
    with server.client() as admin:
        made = {
            scope: admin.post("/v1/keys", json={"owner": "access", "name": scope, "scopes": [scope]}).json()
            for scope in ("read", "run", "admin")
        }
        yield {"none": "", **{scope: one["key"] for scope, one in made.items()}}
        for one in made.values():
            admin.delete(f"/v1/keys/{one['id']}")


def address(route: Declared) -> str:
    """An address of the route; nothing has such an id, so an admitted request comes to nothing."""
    path = route.path
    for name, value in (("{path:file}", "x"), ("{path:path}", "x"), ("{port}", "1")):
        path = path.replace(name, value)
    return "/".join("none" if part.startswith("{") else part for part in path.split("/"))


HTTP = [
    route
    for route in ROUTES
    if route.path.startswith("/") and route.method != "WebSocket" and route.door in ("HTTP", "MCP", "ports", "E2B")
]
SOCKETS = [route for route in ROUTES if route.path.startswith("/") and route.method == "WebSocket"]


@pytest.mark.parametrize("route", HTTP, ids=lambda route: f"{route.method}-{route.path}")
def test_a_route_takes_the_keys_that_it_declares(server: Any, keys: dict[str, str], route: Declared) -> None:
    for method in ("GET", "POST", "DELETE") if route.method == "any" else (route.method,):
        for scope, key in keys.items():
            headers = {"X-API-Key": key} if key else {}
            with (
                httpx2.Client(base_url=server.url, timeout=30, trust_env=False) as client,
                client.stream(method, address(route), headers=headers) as answer,
            ):
                status = answer.status_code
            if scope in TAKEN[route.access.scope]:
                assert status not in (401, 403), (method, scope, status)
            else:
                assert status == (401 if scope == "none" else 403), (method, scope, status)


@pytest.mark.parametrize("route", SOCKETS, ids=lambda route: route.path)
def test_a_websocket_takes_the_keys_that_it_declares(server: Any, keys: dict[str, str], route: Declared) -> None:
    for scope, key in keys.items():
        headers = {"X-API-Key": key} if key else {}
        try:
            with connect(server.url.replace("http", "ws") + address(route), additional_headers=headers, proxy=None):
                status = 101
        except InvalidStatus as refused:
            status = refused.response.status_code
        if scope in TAKEN[route.access.scope]:
            assert status not in (401, 403), (scope, status)
        else:
            assert status == (401 if scope == "none" else 403), (scope, status)


IN_SANDBOX = [route for route in ROUTES if route.door in ("E2B, port 49983", "E2B, port 49999")]


@pytest.fixture(scope="module")
def e2b_sandbox(server: Any) -> Iterator[SimpleNamespace]:
    with server.client() as http:
        made = http.post("/sandboxes", json={"templateID": "base", "secure": True}).json()
        yield SimpleNamespace(id=made["sandboxID"], token=made["envdAccessToken"])
        http.delete(f"/sandboxes/{made['sandboxID']}")


# E2B's clients ask for this with nothing but the sandbox's name; tests/e2b/test_tokens.py tries all tokens.
BY_NAME = ("/health",)


@pytest.mark.parametrize("route", IN_SANDBOX, ids=lambda route: f"{route.door[-5:]}-{route.method}-{route.path}")
def test_a_route_in_a_sandbox_takes_the_sandboxs_token(server: Any, e2b_sandbox: Any, route: Declared) -> None:
    port = route.door[-5:]
    place = {"e2b-sandbox-id": e2b_sandbox.id, "e2b-sandbox-port": port}
    method = "GET" if route.method == "any" else route.method
    with httpx2.Client(base_url=server.url, timeout=30, trust_env=False, headers=place) as client:
        for token in ("", "wrong", e2b_sandbox.token):
            headers = {"X-Access-Token": token} if token else {}
            with client.stream(method, address(route), headers=headers) as answer:
                is_admitted = token == e2b_sandbox.token or route.path in BY_NAME
                assert (answer.status_code != 401) is is_admitted, (token, answer.status_code)


@pytest.mark.parametrize("port", ["49983", "49999"])
def test_nothing_else_in_a_sandbox_can_be_found_out(server: Any, e2b_sandbox: Any, port: str) -> None:
    place = {"e2b-sandbox-id": e2b_sandbox.id, "e2b-sandbox-port": port}
    with httpx2.Client(base_url=server.url, timeout=30, trust_env=False, headers=place) as client:
        assert client.get("/nowhere").status_code == (401 if port == "49983" else 404)
        assert client.get("/nowhere", headers={"X-Access-Token": e2b_sandbox.token}).status_code == 404


# --- bodies


@pytest.fixture(scope="module")
def small(jail: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server that takes little JSON and larger uploads."""
    from tests.conftest import Server

    running = Server(
        tmp_path_factory.mktemp("small"), "--max-body", "64K", "--max-upload", "1M", env={"CLOCHE_WARM": "0"}
    )
    yield running
    running.stop()


JSON = {"Content-Type": "application/json"}


def pieces(size: int) -> Callable[[], Iterator[bytes]]:
    """A body whose size is not told ahead."""

    def sent() -> Iterator[bytes]:
        yield b'{"new_path": "'
        for _ in range(size // 1024):
            yield b"x" * 1024
        yield b'"}'

    return sent


@pytest.mark.parametrize("told", [True, False])
def test_json_has_the_limit_of_json_wherever_it_is_sent(small: Any, told: bool) -> None:
    with small.client() as http:
        sandbox = f"/v1/sandboxes/{http.post('/v1/sandboxes', json={}).json()['id']}"
        command = http.post(f"{sandbox}/commands", json={"command": "cat >/dev/null"}).json()["id"]
        for method, path in (
            ("PATCH", f"{sandbox}/files/x"),
            ("POST", f"{sandbox}/folders"),
            ("POST", f"{sandbox}/commands/{command}/stdin"),
            ("POST", "/v1/run"),
        ):
            for size, is_taken in ((32 << 10, True), (80 << 10, False)):
                sent = pieces(size)()
                body = b"".join(sent) if told else sent
                status = http.request(method, path, content=body, headers=JSON).status_code
                assert (status != 413) is is_taken, (method, path, size, status)
        http.delete(sandbox)


def test_uploads_have_the_limit_of_uploads(small: Any) -> None:
    with small.client() as http:
        sandbox = f"/v1/sandboxes/{http.post('/v1/sandboxes', json={}).json()['id']}"
        command = http.post(f"{sandbox}/commands", json={"command": "cat >/dev/null"}).json()["id"]
        for method, path in (
            ("PUT", f"{sandbox}/files/x"),
            ("POST", f"{sandbox}/commands/{command}/stdin"),
        ):
            for size, status in ((512 << 10, (200, 204)), ((1 << 20) + 1, (413,))):
                assert http.request(method, path, content=b"x" * size).status_code in status, (path, size)
        # JSON that is the contents of a file is an upload like any other
        assert http.put(f"{sandbox}/files/x", content=b"x" * (512 << 10), headers=JSON).status_code == 200
        http.delete(sandbox)


def test_routes_that_read_no_body_take_none(small: Any) -> None:
    with small.client() as http:
        sandbox = f"/v1/sandboxes/{http.post('/v1/sandboxes', json={}).json()['id']}"
        for method, path in (
            ("GET", "/v1/version"),
            ("GET", sandbox),
            ("POST", f"{sandbox}/pause"),
            ("DELETE", sandbox),
        ):
            assert http.request(method, path, content=b"x" * (17 << 10)).status_code == 413, (method, path)
            assert http.request(method, path, json={}).status_code in (200, 204), (method, path)


def test_json_of_e2bs_clients_has_the_limit_of_json(small: Any) -> None:
    with small.client() as http:
        made = http.post("/sandboxes", json={"templateID": "base"}).json()
        assert http.post("/sandboxes", content=b" " * (80 << 10), headers=JSON).status_code == 413
        place = {"e2b-sandbox-id": made["sandboxID"], "X-Access-Token": made["envdAccessToken"]}
        for port, path in (("49983", "/filesystem.Filesystem/Stat"), ("49999", "/execute")):
            headers = {**JSON, **place, "e2b-sandbox-port": port}
            for told in (True, False):
                sent = pieces(80 << 10)()
                body = b"".join(sent) if told else sent
                assert http.post(path, content=body, headers=headers).status_code == 413, (path, told)
        upload = {**place, "e2b-sandbox-port": "49983", "Content-Type": "application/octet-stream"}
        answer = http.post("/files?path=/tmp/x", content=b"x" * (512 << 10), headers=upload)
        assert answer.status_code == 200, answer.text
        http.delete(f"/sandboxes/{made['sandboxID']}")


def test_a_declaration_is_the_closed_one_unless_it_says_otherwise() -> None:
    assert Access() == ("admin", "none", False, "none")
