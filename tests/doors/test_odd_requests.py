"""No request causes a 5xx, a traceback or a look at the host: odd paths, queries, headers, bodies for every route."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import MagicMock
from urllib.parse import quote

import pytest
from tests.conftest import Server

import cloche
from cloche.configuration import Configuration
from cloche.doors.gate.declarations import Declared
from cloche.doors.server import application

ODD_SEGMENTS = (
    *("%ff", "%00", "%2f", "%2e%2e", "..", "%", "%zz", "%0d%0a", "x" * 10_000, "%E2%80%AE", "%D9%A3", "%C2%B2"),
    *("9" * 5000, "-1", "1e309", "NaN", "0", "99999999999999999999", "%ed%a0%80", "%F0%9F%92%A9", "*", "~", "a:b"),
)
ODD_VALUES = (
    *(
        "%ff",
        "%00",
        "x" * 10_000,
        "%E2%80%AE",
        "%D9%A3",
        "%C2%B2",
        "9" * 5000,
        "-9" * 40,
        "-1",
        "1e309",
        "-1e309",
        "NaN",
    ),
    *(
        "0",
        "",
        "1.5",
        "true",
        "0000-01-01",
        "0000-00-00T00:00:00Z",
        "10000-01-01T00:00:00Z",
        "0001-01-01T00:00:00-23:59",
    ),
    *(
        "9999-12-31T23:59:59-23:59",
        "1000000000000",
        "%ed%a0%80",
        "[]",
        "a=b%26c",
        "%2525",
        "2026-01-01T00:00:00%2B99:99",
    ),
)
QUERY_NAMES = (
    *("limit", "nextToken", "metadata", "state", "startedAfter", "order", "template", "start", "end", "cursor"),
    *("direction", "level", "search", "sandbox_ids", "sandboxID", "path", "username", "signature", "depth"),
    "signature_expiration",
)
ODD_HEADERS: tuple[tuple[str, str], ...] = (
    *(("Authorization", value) for value in ("Bearer", "Bearer \xff", "Basic %%%", "Basic " + "A" * 5000, "\xff")),
    *(("Authorization", value) for value in ("Basic /////w==", "Negotiate x", "Bearer " + "x" * 9000, "Bearer a b")),
    *(("Content-Length", value) for value in ("-1", "abc", "9" * 30, "9" * 5000, "+5", "0x10", "5, 5", "1e3", "\xb2")),
    *(("Content-Length", "0" * count) for count in (5000, 5001, 5002, 5003)),  # four, so that every route gets one
    *(("Range", value) for value in ("bytes=-", "bytes=9-1", "bytes=" + "9" * 5000 + "-", "bytes=\xb2-", "x" * 999)),
    *(("Range", value) for value in ("bytes=0-0,1-1", "bytes=-0", "bytes=--1", "lines=1-2", "bytes=0-" + "9" * 17)),
    *(("Content-Encoding", value) for value in ("gzip", "br", "\xff", "gzip, gzip", "x" * 9000)),
    *(("Accept", value) for value in ("\xff", "text/event-stream;q=\xff", "*/*;q=" + "9" * 999, ",;,;", "text/html")),
    *(("Content-Type", value) for value in ("\xff", "application/json; charset=\xff", "multipart/form-data")),
    *(("Content-Type", value) for value in ("multipart/form-data; boundary=", "multipart/form-data; boundary=\xff")),
    *(("Content-Type", value) for value in ("application/json; charset=utf-16", "text/plain", "application/x-tar")),
    *(("Idempotency-Key", value) for value in ("\xff", "x" * 9000, "a b", "")),
    *(("Last-Event-ID", value) for value in ("\xff", "9" * 5000, "-1", "1e309", "\xb2")),
    *(("If-None-Match", value) for value in ("\xff", "*", '"' * 999)),
    *(("If-Range", value) for value in ("\xff", "Thu, 99 Xxx 0000 99:99:99 GMT")),
    *(("Cookie", value) for value in ("\xff", "cloche_session=\xff", "a=b;" * 900, "cloche_session=" + "x" * 9000)),
    *(("Origin", value) for value in ("\xff", "null", "http://[::1", "http://localhost:99999999")),
    *(
        ("Host", value)
        for value in ("\xff", "[::1", "localhost:99999999", "localhost:\xb2", "a" * 9000, "99999-x.localhost")
    ),
    *(("E2b-Sandbox-Id", value) for value in ("\xff", "x" * 9000)),
    *(("X-Access-Token", value) for value in ("\xff", "x" * 9000)),
    *(("Connect-Timeout-Ms", value) for value in ("\xb2", "9" * 5000, "-1", "1e309", "999999999999999")),
    *(("Keepalive-Ping-Interval", value) for value in ("\xb2", "9" * 5000, "0")),
    *(("Mcp-Session-Id", value) for value in ("\xff", "x" * 9000)),
    *(("Mcp-Protocol-Version", value) for value in ("\xff", "0000-00-00")),
    *(("X-Metadata-\x7f", "x"), ("X-Metadata-a", "\xff"), ("Transfer-Encoding", "gzip"), ("Upgrade", "websocket")),
    *(("Expect", "100-continue"), ("Expect", "x"), ("Connection", "\xff"), ("X-Forwarded-Host", "\xff")),
)
ODD_BODIES = (
    *(
        b"[]",
        b"null",
        b'"x"',
        b"{",
        b"\xff\xfe",
        b'{"a": 1e309}',
        b"NaN",
        b"1" * 5000,
        b'{"code": "\\ud800"}',
        b"[" * 9000,
    ),
    *(b"\x00" * 99, b"--\r\n\r\n", b"\xef\xbb\xbf{}", b'{"a":1,"a":2}', b"\x1f\x8b\x08\x00", b'{"timeout": -1e308}'),
)
# Fields of the bodies that E2B's clients send; OpenAPI describes only ours.
E2B_FIELDS = (
    *("templateID", "timeout", "metadata", "envVars", "autoPause", "autoResume", "network", "secure", "duration"),
    *("allow_internet_access", "allowOut", "denyOut", "code", "context_id", "language", "env_vars", "cwd", "path"),
    *("source", "destination", "depth", "process", "pty", "tag", "stdin", "input", "signal", "watcherId", "recursive"),
    *("source_paths", "username", "name", "count", "memory", "selector", "mcp", "iam", "volumeMounts", "includeEntry"),
)
ODD_JSON = (
    *(
        "null",
        '"x"',
        '"\\ud800"',
        '"\\u0000"',
        "1e309",
        "-1",
        "NaN",
        "9" * 4000,
        "true",
        "[]",
        "[1]",
        '["\\ud800"]',
        "{}",
    ),
    *(
        '{"a": 1}',
        '{"\\ud800": "\\ud800"}',
        '{"a": {"b": {}}}',
        '"' + "x" * 5000 + '"',
        '{"enabled": "x"}',
        "0.5",
        "-0",
    ),
    *(
        '{"pid": 1e309}',
        '{"pid": -1}',
        '{"pid": "x"}',
        '{"tag": []}',
        '{"cmd": "\\u0000"}',
        '{"cmd": "x", "args": [1]}',
    ),
    *(
        '{"cmd": "/bin/true", "envs": {"\\u0000": "="}}',
        '{"cmd": "/bin/true", "cwd": "\\ud800"}',
        '{"size": {"cols": 1e309}}',
    ),
    *('{"stdin": "%%"}', '{"pty": 1}', '{"size": {"cols": -1, "rows": 99999999}}', '{"cmd": "x", "envs": {"a": 1}}'),
)
# A server in the sandbox, so that no request to its port waits for one.
LISTENER = """
import socket, threading
listening = socket.create_server(("127.0.0.1", 3000))
def serve():
    while True:
        with listening.accept()[0] as peer:
            peer.recv(1 << 16)
            peer.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n")
threading.Thread(target=serve, daemon=True).start()
"""
_SHARE = 4  # each route gets every fourth odd thing, and the next route the next ones
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_ENDLESS = re.compile(rb"event-stream|connect\+json|^HTTP/1.1 101")
_TELLTALE = re.compile(rb"Traceback|site-packages|\.py\b.{0,3}line|sqlite|sqlalchemy|asyncpg|uvicorn|starlette", re.I)


class Answer(NamedTuple):
    status: int
    body: bytes


class Place(NamedTuple):
    """A server, and ids of things that exist in it."""

    server: Server
    ids: dict[str, str]
    token: str

    def ask(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes = b"") -> Answer:
        """Send a request as it is, without a client that would correct it."""
        names = {name.lower() for name, _ in headers}
        usual = [("Host", f"localhost:{self.server.port}"), ("Content-Length", str(len(body)))]
        lines = [*((name, value) for name, value in usual if name.lower() not in names), *headers]
        head = f"{method} {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines)
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as peer:
            peer.sendall(f"{head}Connection: close\r\n\r\n".encode("latin-1") + body)
            if is_incomplete := "content-length" in names:
                peer.shutdown(socket.SHUT_WR)
            found = bytearray()
            try:
                while data := peer.recv(1 << 16):
                    found += data
                    heading, blank, _ = found.removeprefix(_CONTINUE).partition(b"\r\n\r\n")
                    if blank and _ENDLESS.search(heading):
                        break
            except ConnectionResetError:
                pass  # the server has refused the request before it was complete
        first = bytes(found).split(b"\r\n", 1)[0].split(b" ")
        answer = Answer(int(first[1]) if len(first) > 1 else 400 if is_incomplete else 0, bytes(found))
        if answer.status == 201 and (made := re.search(rb'"(?:id|sandboxID)": ?"(sbx_?[0-9a-f]+)"', answer.body)):
            # Otherwise there would soon be as many sandboxes as the server allows.
            self.ask("DELETE", f"/sandboxes/{made[1].decode()}", [("X-API-Key", self.server.key)])
        return answer

    def problems(
        self, method: str, target: str, headers: list[tuple[str, str]], body: bytes = b"", note: str = ""
    ) -> list[tuple[str, ...]]:
        """Ask, and return what is wrong with the answer."""
        problem = self.problem(self.ask(method, target, headers, body))
        return [(method, target[:120], note, repr(body[:60]), problem)] if problem else []

    def problem(self, answer: Answer) -> str:
        """Say what is wrong with an answer, or nothing."""
        _, _, body = answer.body.partition(b"\r\n\r\n")
        is_e2bs = not body or b"was not found" in body or b"port is not open" in body  # HEAD has no body
        if answer.status >= 500 and not (answer.status == 502 and is_e2bs):
            return f"{answer.status} {body[:200]!r}"
        if not answer.status:
            return "no answer"
        if answer.status not in (200, 206):  # an answer that is an error, and nobody's file or output
            host = (str(self.server.folder), str(Path(cloche.__file__).parent.parent), str(Path.home()) + "/")
            if any(path.encode() in answer.body for path in host) or _TELLTALE.search(answer.body):
                return f"names the host: {answer.body[:300]!r}"
        return ""


@pytest.fixture(scope="module")
def place(jail: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    server = Server(tmp_path_factory.mktemp("odd"), "--sharing", "everyone", env={"CLOCHE_WARM": "0"})
    with server.client() as http:
        made = http.post("/sandboxes", json={"templateID": "base"}).json()
        sandbox = made["sandboxID"].replace("sbx", "sbx_", 1)
        http.post(f"/v1/sandboxes/{sandbox}/run", json={"code": LISTENER})
        command = http.post(f"/v1/sandboxes/{sandbox}/commands", json={"command": "sleep 1000"}).json()["id"]
        share = http.post("/v1/shares", json={"title": "t", "files": [], "runs": []}).json()
        ids = {
            "sandbox_id": sandbox,
            "run_id": http.get("/v1/runs").json()["items"][0]["id"],
            "command_id": command,
            "context": "python",
            "context_id": "python",
            "share_id": share["id"],
            "token": share["path"].rpartition("/")[2],
            "name": made["sandboxID"],
            "port": "3000",
            "path": "x",
        }
        yield Place(server, ids, made["envdAccessToken"])
    assert server.stop() == 0


def declared() -> list[Declared]:
    service = MagicMock()
    service.configuration = Configuration()
    return [one for one in application(service, MagicMock()).declarations() if one.path.startswith("/")]


ROUTES = declared()
DOORS = sorted({one.door for one in ROUTES})


def prepared(place: Place, route: Declared) -> tuple[str, list[tuple[str, str]]]:
    """The method and the headers with which a route admits the request."""
    headers = [("X-API-Key", place.server.key)]
    if "port 49" in route.door:
        port = route.door[-5:]
        headers = [("E2b-Sandbox-Id", place.ids["name"]), ("E2b-Sandbox-Port", port), ("X-Access-Token", place.token)]
    if route.method == "WebSocket":
        upgrade = [("Upgrade", "websocket"), ("Connection", "upgrade"), ("Sec-WebSocket-Version", "13")]
        headers += [*upgrade, ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")]
    return {"any": "POST", "WebSocket": "GET"}.get(route.method, route.method), headers


def addresses(place: Place, route: Declared) -> Iterator[str]:
    """The address with things that exist, and then with one odd segment after another."""
    parts = route.path.split("/")
    keeps = route.method not in ("DELETE", "POST", "PUT")  # what others still need must not be changed
    usual = [_usual(part, place, keeps) for part in parts]
    yield "/".join(usual)
    for position, part in enumerate(parts):
        if part.startswith("{"):
            for odd in ODD_SEGMENTS:
                yield "/".join([*usual[:position], odd, *usual[position + 1 :]])


def _usual(part: str, place: Place, keeps: bool) -> str:
    if not part.startswith("{"):
        return part
    name = part[1:-1].partition(":")[0]
    return place.ids.get(name, "none") if keeps or name in ("port", "path") else "none"


@pytest.fixture(autouse=True)
def quiet_log(place: Place) -> Iterator[None]:
    """Fail if the server's log has a traceback."""
    before = place.server.log.stat().st_size
    yield
    written = place.server.log.read_bytes()[before:]
    assert re.search(rb"Traceback|unexpected exception", written) is None, written[-3000:].decode()


@pytest.mark.parametrize("door", DOORS)
def test_odd_paths(place: Place, door: str) -> None:
    wrong = []
    for route in (one for one in ROUTES if one.door == door):
        method, headers = prepared(place, route)
        for address in addresses(place, route):
            wrong += place.problems(method, address, headers)
    assert wrong == []


@pytest.mark.parametrize(
    "path", ["/v1", "/v2", "/v3", "/v2/", "//", "/", "/files", "/%ff", "/v2/%ff", "/sandboxes//x", "*"]
)
def test_odd_methods(place: Place, path: str) -> None:
    for key in (place.server.key, ""):
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"):
            headers = [("X-API-Key", key)] if key else []
            assert place.problem(place.ask(method, path, headers)) == "", (method, path)


@pytest.mark.parametrize("door", DOORS)
def test_odd_queries(place: Place, door: str) -> None:
    with place.server.client() as http:
        paths: dict[str, Any] = http.get("/openapi.json").json()["paths"]
    wrong = []
    for route in (one for one in ROUTES if one.door == door and one.method != "WebSocket"):
        method, headers = prepared(place, route)
        address = next(addresses(place, route))
        described = paths.get(re.sub(r":\w+}", "}", route.path), {}).get(method.lower(), {}).get("parameters", [])
        names = [one["name"] for one in described if one["in"] == "query"]
        queries = [f"{quote(name)}={value}" for name in names or QUERY_NAMES for value in ODD_VALUES]
        queries += ["&".join(f"metadata.k{n}=v" for n in range(3000)), "a=b&" * 3000, "&" * 3000, "=", "%ff=%ff", "%00"]
        if not names:  # all at once: a route reads the few that it knows
            queries = ["&".join(f"{name}={value}" for name in QUERY_NAMES) for value in ODD_VALUES if len(value) < 3000]
        for query in queries:
            wrong += place.problems(method, f"{address}?{query}", headers)
    assert wrong == []


@pytest.mark.parametrize("door", DOORS)
def test_odd_headers(place: Place, door: str) -> None:
    wrong = []
    for turn, route in enumerate(one for one in ROUTES if one.door == door):
        method, usual = prepared(place, route)
        address = next(addresses(place, route))
        for name, value in ODD_HEADERS[turn % _SHARE :: _SHARE]:
            headers = [*(one for one in usual if one[0] != name), (name, value)]
            body = b"x" * 5 if name == "Content-Length" else b""
            wrong += place.problems(method, address, headers, body, f"{name}: {value[:40]}")
    assert wrong == []


@pytest.mark.parametrize("door", DOORS)
def test_odd_bodies(place: Place, door: str) -> None:
    wrong = []
    routes = [one for one in ROUTES if one.door == door and one.access.body not in ("none", "stream")]
    for turn, route in enumerate(routes):
        method, usual = prepared(place, route)
        address = next(addresses(place, route))
        for kind in ("application/json", "application/octet-stream", "multipart/form-data; boundary=x", ""):
            headers = [*usual, *([("Content-Type", kind)] if kind else [])]
            for body in ODD_BODIES:
                wrong += place.problems(method, address, headers, body, kind)
        if door.startswith("E2B"):
            for place_of, name in enumerate(E2B_FIELDS):
                for value in ODD_JSON[(turn + place_of) % (2 * _SHARE) :: 2 * _SHARE]:
                    wrong += place.problems(method, address, usual, f'{{"{name}": {value}}}'.encode(), "")
    assert wrong == []


def test_everything_still_works(place: Place) -> None:
    """Last: whatever was sent above, the server runs code."""
    with place.server.client() as http:
        assert http.post("/v1/run", json={"code": "print(6 * 7)"}).json()["stdout"] == "42\n"
        assert http.get("/v1/ready").json() == {"status": "ok"}
