"""Servers inside a sandbox, reached through us."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

import cloche
from cloche.doors.forward import http as forward_http
from cloche.doors.forward.address import ServerAddress
from cloche.doors.http.problems import RequestRefused
from cloche.policy.meter import Meter
from cloche.service.ports import MeteredConnection

PATIENCE_S = 30
APP, RAW, SOCKETS, QUIET = 8000, 8001, 8002, 8003

# What an application might do: tell what it was asked, answer with any header, stream, redirect.
APPLICATION = r"""
import hashlib, json, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

going = threading.Event()

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_): pass

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, body, status=200, headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def handle_any(self):
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == "/headers":
            self.answer(b"<h1>hello</h1>", 200, json.loads(query["headers"]))
        elif url.path == "/redirect":
            self.answer(b"", 302, [("Location", query["to"])])
        elif url.path == "/status":
            self.answer(b"", int(query["status"]))
        elif url.path == "/big":
            self.send_response(200)
            self.send_header("Content-Length", query["size"])
            self.end_headers()
            left = int(query["size"])
            while left:
                left -= self.wfile.write(b"x" * min(left, 1 << 16))
        elif url.path == "/early":
            self.answer(b"enough", 413, [("Connection", "close")])
        elif url.path == "/go":
            going.set()
            self.answer(b"gone")
        elif url.path == "/events":
            going.clear()
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.chunk(b"data: first\n\n")
            going.wait(20)
            self.chunk(b"data: second\n\n")
            self.chunk(b"")
        else:
            data = self.body()
            told = {"method": self.command, "path": self.path, "headers": list(self.headers.items()),
                    "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            self.answer(json.dumps(told).encode(), 200, [("Content-Type", "application/json")])

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_PROPFIND = handle_any

ThreadingHTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
"""

# What nobody should do: it answers with whatever the first line asks for.
HOSTILE = r"""
import socket, threading, time

def endless(peer):
    peer.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        peer.sendall(b"X-More: " + b"y" * 1000 + b"\r\n")

def endless_informational(peer):
    for _ in range(20_000):
        peer.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

ANSWERS = {
    "garbage": b"\x00\x01\x02 not http at all \xff\r\n\r\n",
    "nothing": b"",
    "half": b"HTTP/1.1 200 OK\r\nContent-",
    "short": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this",
    "long": b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfour and more",
    "two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nfour",
    "negative": b"HTTP/1.1 200 OK\r\nContent-Length: -4\r\n\r\nfour",
    "switch": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: nonsense\r\nConnection: upgrade\r\n\r\nnonsense",
    "bad-chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\nzzz\r\n",
    "cut-chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nfour",
    "injected": b"HTTP/1.1 200 OK\r\nX-A: a\x01b\r\nX-B: fine\r\nContent-Length: 2\r\n\r\nok",
    "odd-status": b"HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\nok",
    "old": b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
    "both": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n0\r\n\r\n",
    "not-modified": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n",
    "hints": b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
}

def serve(peer):
    with peer:
        head = b""
        while b"\r\n\r\n" not in head:
            data = peer.recv(65536)
            if not data:
                return
            head += data
        name = head.split(b" ")[1].decode().strip("/").partition("?")[0]
        try:
            if name == "endless":
                endless(peer)
            elif name == "informational":
                endless_informational(peer)
            elif name.startswith("hex-"):
                peer.sendall(bytes.fromhex(name[4:]))
            elif name == "silent":
                time.sleep(60)
            else:
                peer.sendall(ANSWERS[name])
                peer.shutdown(socket.SHUT_WR)
                while peer.recv(65536):
                    pass
        except OSError:
            pass

listening = socket.create_server(("127.0.0.1", 8001))
while True:
    threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()
"""

# A small server of WebSockets: it echoes, and does what its path says.
SPEAKING = r"""
import base64, hashlib, json, os, socket, struct, threading

def frame(opcode, data, fin=True):
    size = len(data)
    head = bytes([(0x80 if fin else 0) | opcode])
    if size < 126:
        return head + bytes([size]) + data
    return head + (b"\x7e" + struct.pack(">H", size) if size < 65536 else b"\x7f" + struct.pack(">Q", size)) + data

def serve(peer):
    with peer, peer.makefile("rb") as reader:
        line = reader.readline().decode()
        headers = {}
        while (text := reader.readline().decode().strip()):
            name, _, value = text.partition(":")
            headers[name.strip().lower()] = value.strip()
        path = line.split(" ")[1]
        if path.startswith("/refuse"):
            peer.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            return
        if path.startswith("/plain"):
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            return
        if path.startswith("/garbage"):
            peer.sendall(b"\x00\x01garbage\r\n\r\n")
            return
        key = headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        answer = f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        if path.startswith("/lie"):
            accept = "nonsense"
        answer += f"Sec-WebSocket-Accept: {accept}\r\n"
        offered = [one.strip() for one in headers.get("sec-websocket-protocol", "").split(",")]
        if "chat" in offered:
            answer += "Sec-WebSocket-Protocol: chat\r\n"
        peer.sendall(answer.encode() + b"\r\n")
        if path.startswith("/hello"):
            peer.sendall(frame(1, json.dumps({"path": path, "headers": headers}).encode()))
        elif path.startswith("/pieces"):
            peer.sendall(frame(1, b"one ", False) + frame(9, b"ping") + frame(0, b"two ", False) + frame(0, b"three"))
        elif path.startswith("/bye"):
            peer.sendall(frame(8, struct.pack(">H", 4321) + b"farewell"))
        elif path.startswith("/hex-"):
            peer.sendall(bytes.fromhex(path[5:]))
            return
        elif path.startswith("/cut"):
            return
        elif path.startswith("/bad-text"):
            peer.sendall(frame(1, b"\xff\xfe"))
        elif path.startswith("/masked"):
            peer.sendall(bytes([0x81, 0x81, 1, 2, 3, 4, 5]))
        elif path.startswith("/huge"):
            peer.sendall(bytes([0x82, 0x7f]) + struct.pack(">Q", 1 << 40))
        while True:
            head = reader.read(2)
            if len(head) < 2:
                return
            opcode, size = head[0] & 15, head[1] & 127
            if size == 126:
                size = struct.unpack(">H", reader.read(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", reader.read(8))[0]
            mask = reader.read(4)
            data = reader.read(size)
            whole = (mask * (size // 4 + 1))[:size]
            data = (int.from_bytes(data, "big") ^ int.from_bytes(whole, "big")).to_bytes(size, "big")
            if opcode == 8:
                if path == "/noting":
                    with open("/sandbox/closed.new", "wb") as file:
                        file.write(data)
                    os.rename("/sandbox/closed.new", "/sandbox/closed")
                peer.sendall(frame(8, data))
                return
            if opcode in (1, 2):
                peer.sendall(frame(opcode, data))

listening = socket.create_server(("127.0.0.1", 8002))
while True:
    threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()
"""


SIMPLE = "import http.server as s; s.test(s.SimpleHTTPRequestHandler, port=8000, bind='127.0.0.1')"


class Place:
    """A sandbox with servers in it."""

    def __init__(self, server: Any, http: httpx2.Client) -> None:
        self.server, self.http = server, http
        self.id = http.post("/v1/sandboxes", json={}).json()["id"]
        self.url = f"/v1/sandboxes/{self.id}"

    def serve(self, code: str, port: int) -> None:
        self.http.post(f"{self.url}/commands", json={"code": code, "timeout": 600}).raise_for_status()
        assert self.http.get(f"{self.url}/ports/{port}", params={"wait": 20}).json()["listening"]

    def grant(self, port: int, **body: Any) -> dict[str, Any]:
        answer = self.http.post(f"{self.url}/ports/{port}", json=body)
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told


@pytest.fixture(scope="module")
def place(server: Any) -> Iterator[Place]:
    with server.client() as http:
        made = Place(server, http)
        for code, port in ((APPLICATION, APP), (HOSTILE, RAW), (SPEAKING, SOCKETS)):
            made.serve(code, port)
        yield made
        http.delete(made.url)


class Visitor(httpx2.Client):
    """A client without a key that knows an address by token; `*.localhost` need not be resolved."""

    def __init__(self, server: Any, granted: dict[str, Any]) -> None:
        host = granted["url"].removeprefix("http://").rstrip("/")
        super().__init__(base_url=server.url, headers={"Host": host}, timeout=PATIENCE_S, trust_env=False)


@pytest.fixture(scope="module")
def granted(place: Place) -> dict[str, Any]:
    return place.grant(APP)


@pytest.fixture
def visitor(place: Place, granted: dict[str, Any]) -> Iterator[Visitor]:
    with Visitor(place.server, granted) as client:
        yield client


@pytest.fixture
def below(place: Place, granted: dict[str, Any]) -> Iterator[httpx2.Client]:
    """A client without a key, below a path of our own origin."""
    base = place.server.url + granted["path"]
    with httpx2.Client(base_url=base, timeout=PATIENCE_S, trust_env=False) as client:
        yield client


def seen_by(answer: httpx2.Response) -> tuple[dict[str, Any], dict[str, str]]:
    """What the application was asked, and its headers in lower case."""
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told, {name.lower(): value for name, value in told["headers"]}


# --- which there are


def test_ports_are_listed_and_waited_for(place: Place) -> None:
    items = place.http.get(f"{place.url}/ports").json()["items"]
    assert {APP, RAW, SOCKETS} <= {item["port"] for item in items}
    assert items[0]["address"] == "127.0.0.1"
    assert place.http.get(f"{place.url}/ports/{APP}").json() == {"port": APP, "listening": True}
    assert place.http.get(f"{place.url}/ports/{QUIET}").json() == {"port": QUIET, "listening": False}
    assert place.http.get(f"{place.url}/ports/0").status_code == 422
    assert place.http.get(f"{place.url}/ports/65536").status_code == 422


def test_an_address_has_a_token_that_is_a_name_of_a_host(place: Place, granted: dict[str, Any]) -> None:
    token = granted["token"]
    assert token.isalnum()
    assert token == token.lower()
    assert 30 <= len(token) <= 60
    assert granted["url"] == f"http://{token}.localhost:{place.server.port}/"
    assert granted["path"] == f"/ports/{token}/"
    sandbox = place.http.get(place.url).json()
    assert granted["expires"] == pytest.approx(sandbox["expires"])
    assert place.grant(APP)["token"] != token


# --- requests


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])
def test_every_method_is_passed_on_with_its_body_by_every_way(
    place: Place, visitor: Visitor, below: httpx2.Client, method: str
) -> None:
    data = bytes(range(256)) * 10
    with_key = place.http.request(method, f"{place.url}/ports/{APP}/some/path?a=1&b=%20x", content=data)
    for answer in (visitor.request(method, "/some/path?a=1&b=%20x", content=data), with_key):
        told, _ = seen_by(answer)
        assert told["method"] == method
        assert told["path"] == "/some/path?a=1&b=%20x"
        assert told["sha256"] == hashlib.sha256(data).hexdigest()
    told, _ = seen_by(below.request(method, "some/path%2Fx", content=data))
    assert told["path"] == "/some/path%2Fx"


def test_head_has_no_body(visitor: Visitor) -> None:
    answer = visitor.head("/anything")
    assert answer.status_code == 200
    assert answer.content == b""
    assert int(answer.headers["content-length"]) > 0


@pytest.mark.parametrize("status", [201, 204, 304, 400, 404, 418, 500, 503])
def test_every_status_is_passed_back(visitor: Visitor, status: int) -> None:
    assert visitor.get(f"/status?status={status}").status_code == status


def test_compressed_bodies_are_passed_on_as_they_are(place: Place) -> None:
    headers = {"Content-Encoding": "gzip"}
    told, seen = seen_by(place.http.post(f"{place.url}/ports/{APP}/", content=b"not really", headers=headers))
    assert seen["content-encoding"] == "gzip"
    assert told["size"] == 10


def test_an_upload_of_unknown_length_is_streamed(visitor: Visitor) -> None:
    def pieces() -> Iterator[bytes]:
        for number in range(200):
            yield bytes([number]) * 50_000

    told, seen = seen_by(visitor.post("/", content=pieces()))
    assert told["size"] == 10_000_000
    assert told["sha256"] == hashlib.sha256(b"".join(pieces())).hexdigest()
    assert seen["transfer-encoding"] == "chunked"


def test_a_large_download_is_streamed_and_complete(visitor: Visitor) -> None:
    size = 0
    with visitor.stream("GET", f"/big?size={50 << 20}") as answer:
        for chunk in answer.iter_raw():
            size += len(chunk)
    assert size == 50 << 20


def test_a_download_that_nobody_takes_waits(place: Place, granted: dict[str, Any]) -> None:
    with socket.create_connection(("127.0.0.1", place.server.port)) as slow:
        host = granted["url"].removeprefix("http://").rstrip("/")
        slow.sendall(f"GET /big?size={200 << 20} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert slow.recv(100).startswith(b"HTTP/1.1 200")
        memory = int(_status(place.server.process.pid, "VmRSS"))
        assert place.http.get(f"{place.url}/ports/{APP}/").status_code == 200
        assert int(_status(place.server.process.pid, "VmRSS")) - memory < 50 << 10


def _status(pid: int, name: str) -> str:
    with open(f"/proc/{pid}/status") as file:
        return next(line.split()[1] for line in file if line.startswith(name))


def test_events_come_as_they_happen(place: Place, visitor: Visitor) -> None:
    with visitor.stream("GET", "/events") as answer:
        lines = answer.iter_lines()
        assert next(line for line in lines if line) == "data: first"
        place.http.get(f"{place.url}/ports/{APP}/go")  # the second comes only now
        assert next(line for line in lines if line) == "data: second"


def test_an_answer_before_the_upload_is_over_is_passed_back(visitor: Visitor) -> None:
    answer = visitor.post("/early", content=bytes(20 << 20))
    assert answer.status_code == 413
    assert answer.content == b"enough"


# --- what goes in


def test_nothing_of_ours_goes_in_by_key(place: Place) -> None:
    headers = {"X-API-Key": place.server.key, "Cookie": "cloche_session=secret; other=1", "X-Own": "kept"}
    _, seen = seen_by(place.http.get(f"{place.url}/ports/{APP}/", headers=headers))
    assert place.server.key not in json.dumps(seen)
    assert "secret" not in json.dumps(seen)
    assert {"authorization", "x-api-key", "cookie"}.isdisjoint(seen)
    assert seen["x-own"] == "kept"
    assert seen["host"] == f"localhost:{APP}"


@pytest.mark.parametrize("form", ["ours", "e2b"])
def test_nothing_of_ours_goes_in_by_token(place: Place, visitor: Visitor, below: httpx2.Client, form: str) -> None:
    key = place.server.key if form == "ours" else f"e2b_{place.server.key.encode().hex()}"
    headers = {
        "Authorization": f"Bearer {key}",
        "X-API-Key": key,
        "Cookie": "cloche_session=secret; other=1",
    }
    _, seen = seen_by(visitor.get("/", headers=headers))
    assert {"authorization", "x-api-key"}.isdisjoint(seen)
    assert seen["cookie"] == "other=1"
    _, seen = seen_by(below.get("", headers=headers))
    assert {"authorization", "x-api-key", "cookie"}.isdisjoint(seen)


def test_the_applications_own_key_goes_in_by_token(visitor: Visitor) -> None:
    _, seen = seen_by(visitor.get("/", headers={"Authorization": "Bearer of-the-application", "X-API-Key": "its own"}))
    assert seen["authorization"] == "Bearer of-the-application"
    assert seen["x-api-key"] == "its own"


def test_the_application_learns_who_asks_from_us_alone(place: Place, visitor: Visitor, granted: dict[str, Any]) -> None:
    headers = {
        "X-Forwarded-For": "6.6.6.6",
        "X-Forwarded-Host": "evil.example",
        "Forwarded": "for=6.6.6.6",
        "X-Real-IP": "6.6.6.6",
        "Connection": "keep-alive, X-Private",
        "X-Private": "for this connection alone",
        "TE": "trailers",
        "Proxy-Authorization": "Basic x",
    }
    _, seen = seen_by(visitor.get("/", headers=headers))
    assert "6.6.6.6" not in json.dumps(seen)
    assert seen["x-forwarded-for"] == "127.0.0.1"
    assert seen["x-forwarded-host"] == f"{granted['token']}.localhost:{place.server.port}"
    assert seen["x-forwarded-proto"] == "http"
    assert seen["host"] == f"localhost:{APP}"
    assert {"x-private", "te", "proxy-authorization", "forwarded", "x-real-ip"}.isdisjoint(seen)


def test_a_page_of_the_application_is_of_its_own_origin_for_it(visitor: Visitor, granted: dict[str, Any]) -> None:
    _, seen = seen_by(visitor.post("/", headers={"Origin": granted["url"].rstrip("/")}))
    assert seen["origin"] == f"http://localhost:{APP}"
    _, seen = seen_by(visitor.post("/", headers={"Origin": "http://other.example"}))
    assert seen["origin"] == "http://other.example"


# --- what comes out

HARMFUL = {
    "Set-Cookie": "cloche_session=fixed; Path=/",
    "Clear-Site-Data": '"*"',
    "Service-Worker-Allowed": "/",
    "Strict-Transport-Security": "max-age=1000; includeSubDomains",
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Credentials": "true",
    "Alt-Svc": 'h2="evil.example:443"',
    "NEL": "{}",
    "Report-To": "{}",
    "WWW-Authenticate": "Basic realm=cloche",
    "Accept-CH": "Device-Memory",
    "Speculation-Rules": '"/rules"',
}


def headers_of(client: httpx2.Client, path: str, headers: dict[str, str]) -> httpx2.Headers:
    answer = client.get(path, params={"headers": json.dumps(list(headers.items()))})
    assert answer.status_code == 200, answer.text
    return answer.headers


def test_below_our_origin_a_page_can_do_nothing_to_it(place: Place, below: httpx2.Client, visitor: Visitor) -> None:
    given = {"Content-Type": "text/html", "X-Content-Type-Options": "none", "X-Fine": "yes", **HARMFUL}
    for client, path in ((below, "headers"), (place.http, f"{place.url}/ports/{APP}/headers")):
        told = headers_of(client, path, given)
        assert {name.lower() for name in HARMFUL}.isdisjoint(told)
        assert told["content-security-policy"] == (
            "sandbox allow-scripts allow-forms allow-modals allow-popups allow-downloads"
        )
        assert told["x-content-type-options"] == "nosniff"
        assert told["x-fine"] == "yes"
        assert told["content-type"] == "text/html"
    # On an origin of its own most of that is its own business, so the above can fail.
    told = headers_of(visitor, "/headers", given)
    assert told["access-control-allow-origin"] == "*"
    assert told["clear-site-data"] == '"*"'
    assert "content-security-policy" not in told


def test_below_our_origin_an_own_policy_only_adds(below: httpx2.Client) -> None:
    given = {"Content-Security-Policy": "sandbox allow-same-origin allow-scripts"}
    policies = headers_of(below, "headers", given).get_list("content-security-policy")
    assert len(policies) == 2
    assert any(policy.startswith("sandbox allow-scripts") and "same-origin" not in policy for policy in policies)


def test_service_workers_are_not_served_below_our_origin(below: httpx2.Client, visitor: Visitor) -> None:
    assert below.get("sw.js", headers={"Service-Worker": "script"}).status_code == 403
    assert visitor.get("/sw.js", headers={"Service-Worker": "script"}).status_code == 200


def test_a_page_of_ours_cannot_be_made_to_load_a_script_from_there(below: httpx2.Client) -> None:
    ours = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "script", "Sec-Fetch-Mode": "no-cors"}
    assert below.get("x.js", headers=ours).status_code == 403
    assert below.get("x.js", headers={**ours, "Sec-Fetch-Site": "cross-site"}).status_code == 200  # a page from there
    assert below.get("", headers={**ours, "Sec-Fetch-Dest": "iframe"}).status_code == 200


def test_cookies_on_an_own_origin_are_for_that_alone(visitor: Visitor) -> None:
    told = headers_of(visitor, "/headers", {"Set-Cookie": "a=1; Domain=localhost; Path=/; HttpOnly"})
    assert told["set-cookie"] == "a=1; Path=/; HttpOnly"
    told = headers_of(visitor, "/headers", {"Strict-Transport-Security": "max-age=1"})
    assert "strict-transport-security" not in told
    assert told["referrer-policy"] == "same-origin"


def test_redirections_stay_with_the_client(
    place: Place, visitor: Visitor, below: httpx2.Client, granted: dict[str, Any]
) -> None:
    def led(client: httpx2.Client, path: str, to: str) -> str | None:
        answer = client.get(path, params={"to": to})
        assert answer.status_code == 302
        where: str | None = answer.headers.get("location")
        return where

    own, path = granted["url"].rstrip("/"), granted["path"].rstrip("/")
    for host in ("localhost", "127.0.0.1"):
        assert led(visitor, "/redirect", f"http://{host}:{APP}/there?x=1") == f"{own}/there?x=1"
        assert led(below, "redirect", f"http://{host}:{APP}/there?x=1") == f"{path}/there?x=1"
    assert led(visitor, "/redirect", "/there") == "/there"
    assert led(below, "redirect", "/there") == f"{path}/there"
    assert led(visitor, "/redirect", "http://other.example/") == "http://other.example/"
    keyed = f"{place.url}/ports/{APP}"
    # A client that follows takes its key along: it must not be led to anything of ours.
    for to in (
        "/v1/keys",
        f"{place.server.url}/v1/keys",
        "../../../../../v1/keys",
        f"//127.0.0.1:{place.server.port}/v1/keys",
    ):
        assert led(place.http, f"{keyed}/redirect", to) == f"{keyed}/v1/keys"


@pytest.mark.parametrize(
    ("told", "leads"),
    [
        ("/v1/keys", "/p/v1/keys"),
        ("//ours:7500/v1/keys", "/p/v1/keys"),
        ("///ours:7500/v1/keys", None),
        ("http:///ours:7500/v1/keys", None),
        ("http:/v1/keys", "/p/v1/keys"),
        ("http:v1/keys", "/p/a/v1/keys"),
        (r"\v1\keys", "/p/v1/keys"),
        (r"\\ours:7500\v1\keys", "/p/v1/keys"),
        ("HTTP://OURS:7500/v1/keys", "/p/v1/keys"),
        ("http://ours:07500/v1/keys", "/p/v1/keys"),
        ("http://user:word@ours:7500/v1/keys", "/p/v1/keys"),
        ("/a/../../../v1/keys", "/p/v1/keys"),
        ("/%2e%2e/%2E%2e/v1/keys", "/p/v1/keys"),
        ("http://localhost:8000/../../v1/keys", "/p/v1/keys"),
        ("http://localhost:8000/.%2e/x/..", "/p/"),
        ("/.\t./.\n./v1/keys", "/p/v1/keys"),
        ("..\\..\\..\\v1\\keys", "/p/v1/keys"),
        ("?only=query", "/p/a/b?only=query"),
        ("http://elsewhere.example/x", "http://elsewhere.example/x"),
        ("http://localhost:9/x", "http://localhost:9/x"),
        ("http://%6furs:7500/v1/keys", "dropped"),
        ("http://0x7f000001:7500/v1/keys", "dropped"),
        ("http://2130706433:7500/v1/keys", "dropped"),
        ("http://\u00f6urs:7500/v1/keys", "dropped"),
        ("http://[::1", "dropped"),
        ("http://ours:notaport/", "dropped"),
        ("javascript:alert(1)", "dropped"),
        ("data:text/html,x", "dropped"),
    ],
)
def test_a_redirection_below_our_origin_never_leads_to_ours(told: str, leads: str | None) -> None:
    found = ServerAddress(8000, "http", "ours:7500", "/p").location(told, "/a/b")
    if leads is None:
        assert found is not None
        assert found.startswith("/p/")
    else:
        assert found == (None if leads == "dropped" else leads)


# --- who may


def test_a_wrong_token_opens_nothing(place: Place, granted: dict[str, Any]) -> None:
    token = granted["token"]
    with httpx2.Client(base_url=place.server.url, trust_env=False) as client:
        for wrong in (token[:-1], token[:-1] + ("a" if token[-1] != "a" else "b"), "x", token.upper() + "x"):
            assert client.get(f"/ports/{wrong}/").status_code == 404
            host = f"{wrong}.localhost:{place.server.port}"
            assert client.get("/", headers={"Host": host}).status_code == 404
        assert client.get(f"/ports/{token}/").status_code == 200
        assert client.get(f"/v1/sandboxes/{place.id}/ports/{APP}/").status_code == 401
        assert client.get("/ports/").status_code in (401, 404)


def test_a_token_is_for_its_port_and_not_for_our_api(place: Place, visitor: Visitor) -> None:
    told, _ = seen_by(visitor.get("/v1/sandboxes"))  # it is the application that answers
    assert told["path"] == "/v1/sandboxes"


def test_a_token_ends_when_its_time_is_up(place: Place) -> None:
    with Visitor(place.server, place.grant(APP, ttl=1)) as client:
        assert client.get("/").status_code == 200
        deadline = monotonic() + PATIENCE_S
        while client.get("/").status_code == 200:
            assert monotonic() < deadline
        assert client.get("/").status_code == 404


def test_a_token_ends_with_its_sandbox(server: Any, http: httpx2.Client) -> None:
    short = Place(server, http)
    short.serve(APPLICATION, APP)
    with Visitor(server, short.grant(APP)) as client:
        assert client.get("/").status_code == 200
        http.delete(short.url)
        assert client.get("/").status_code == 404


def test_the_path_form_is_for_our_names_and_for_no_other_sites_page(place: Place, below: httpx2.Client) -> None:
    assert below.get("", headers={"Host": "evil.example"}).status_code == 421
    assert below.get("", headers={"Origin": "http://evil.example"}).status_code == 403
    own = {"Origin": "null", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}
    assert below.post("", headers=own).status_code == 200
    assert below.get("", headers={"Origin": place.server.url}).status_code == 200
    assert place.http.get("/v1/sandboxes", headers={"Origin": "null"}).status_code == 403


def test_the_path_form_without_its_slash_leads_there(place: Place, granted: dict[str, Any]) -> None:
    with httpx2.Client(base_url=place.server.url, trust_env=False) as client:
        answer = client.get(granted["path"].rstrip("/"))
        assert answer.status_code == 307
        assert answer.headers["location"] == granted["path"]


def test_ports_are_their_owners(place: Place) -> None:
    stranger = place.http.post("/v1/keys", json={"owner": "stranger", "name": "test"}).json()["key"]
    with place.server.client(stranger) as client:
        for method, path in (("GET", "/ports"), ("POST", f"/ports/{APP}"), ("GET", f"/ports/{APP}/")):
            assert client.request(method, f"{place.url}{path}").status_code == 404


# --- what servers get wrong


def test_where_nothing_listens_it_is_said_what_to_do(place: Place) -> None:
    with Visitor(place.server, place.grant(QUIET)) as client:
        answer = client.get("/")
        assert answer.status_code == 502
        error = answer.json()["error"]
        assert error["kind"] == "failed"
        assert str(QUIET) in error["message"]
        assert "Start the server" in error["hint"]
        answer = client.get("/", headers={"Accept": "text/html,*/*"})
        assert answer.status_code == 502
        assert answer.headers["content-type"].startswith("text/html")
        assert "Start the server" in answer.text


def test_a_server_that_is_just_being_started_is_waited_for(server: Any, http: httpx2.Client) -> None:
    fresh = Place(server, http)
    try:
        code = f"import time\ntime.sleep(0.3)\n{SIMPLE}"
        http.post(f"{fresh.url}/commands", json={"code": code})
        assert http.get(f"{fresh.url}/ports/8000/").status_code == 200
    finally:
        http.delete(fresh.url)


@pytest.mark.parametrize(
    "name", ["garbage", "nothing", "half", "two-lengths", "negative", "switch", "endless", "odd-status"]
)
def test_what_is_not_http_is_told_as_such(place: Place, name: str) -> None:
    answer = place.http.get(f"{place.url}/ports/{RAW}/{name}")
    assert answer.status_code == 502
    assert answer.json()["error"]["kind"] == "failed"


@pytest.mark.parametrize("name", ["short", "bad-chunk", "cut-chunk"])
def test_an_answer_that_breaks_off_breaks_off(place: Place, name: str) -> None:
    with pytest.raises(httpx2.RemoteProtocolError):
        place.http.get(f"{place.url}/ports/{RAW}/{name}")
    assert "Traceback" not in place.server.log.read_text()


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("long", b"four"),
        ("old", b"until the end"),
        ("both", b"four"),
        ("not-modified", b""),
        ("hints", b"ok"),
        ("injected", b"ok"),
    ],
)
def test_what_is_only_odd_is_mended(place: Place, name: str, body: bytes) -> None:
    answer = place.http.get(f"{place.url}/ports/{RAW}/{name}")
    assert answer.content == body
    assert "x-a" not in answer.headers


def test_whatever_a_server_sends_a_client_gets_http(place: Place) -> None:
    chance = random.Random(6)
    whole = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\nLocation: /x\r\n\r\n"
    whole += b"5\r\nhello\r\n0\r\n\r\n"
    statuses = set()
    for _ in range(200):
        sent = bytearray(whole)
        for _ in range(chance.randrange(4)):
            at = chance.randrange(len(sent))
            sent[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(4))
        try:
            answer = place.http.get(f"{place.url}/ports/{RAW}/hex-{sent.hex()}")
        except httpx2.RemoteProtocolError:
            continue  # broken off
        statuses.add(answer.status_code)
        if answer.status_code == 200:
            assert any(one.startswith("sandbox ") for one in answer.headers.get_list("content-security-policy"))
        else:
            assert "error" in answer.json()
    assert {200, 502} <= statuses
    assert "Traceback" not in place.server.log.read_text()


def test_a_flood_of_interim_answers_is_no_answer(place: Place) -> None:
    assert place.http.get(f"{place.url}/ports/{RAW}/informational").status_code == 502


async def test_a_server_that_does_not_answer_is_given_up(
    async_box: cloche.AsyncSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward_http, "ANSWER_S", 0.3)
    await async_box.start_program(HOSTILE, timeout=60)
    await async_box.ports.wait(RAW)
    scope = {"type": "http", "method": "GET", "headers": []}
    asked = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if asked.is_set():
            await asyncio.Event().wait()
        asked.set()
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        raise AssertionError(message)

    async with await async_box.ports.connect(RAW) as connection:
        address = ServerAddress(RAW, "http", "ours", "")
        exchange = forward_http.Exchange(scope, receive, send, MeteredConnection(connection, Meter({})), address)
        with pytest.raises(RequestRefused) as refused:
            await exchange.carry_out(b"/silent", [(b"host", b"localhost")])
    assert refused.value.status == 504


def test_methods_that_are_for_proxies_are_not_passed_on(visitor: Visitor) -> None:
    assert visitor.request("TRACE", "/").status_code == 405


def test_a_client_that_leaves_ends_the_connection_inside(server: Any, http: httpx2.Client) -> None:
    fresh = Place(server, http)
    try:
        code = (
            "import socket\nlistening = socket.create_server(('127.0.0.1', 8000))\npeer, _ = listening.accept()\n"
            "peer.recv(65536)\nprint('asked', file=open('/sandbox/asked', 'w'), flush=True)\n"
            "print(repr(peer.recv(1)), file=open('/sandbox/left', 'w'), flush=True)"
        )
        fresh.serve(code, 8000)
        with socket.create_connection(("127.0.0.1", server.port)) as leaving:
            key = f"Authorization: Bearer {server.key}"
            leaving.sendall(f"GET {fresh.url}/ports/8000/ HTTP/1.1\r\nHost: localhost\r\n{key}\r\n\r\n".encode())
            _await_file(http, fresh, "asked")
        assert _await_file(http, fresh, "left") == b"b''\n"
    finally:
        http.delete(fresh.url)


def _await_file(http: httpx2.Client, place: Place, name: str) -> bytes:
    """What the file holds once there is one that is not empty."""
    deadline = monotonic() + PATIENCE_S
    while not (answer := http.get(f"{place.url}/files/{name}")).is_success or not answer.content:
        assert monotonic() < deadline, answer.text
    return answer.content


async def test_a_sandbox_whose_server_is_connected_to_is_not_idle(server: Any, http: httpx2.Client) -> None:
    def make() -> str:
        identity: str = http.post("/v1/sandboxes", json={"idle_timeout": 1}).json()["id"]
        http.post(f"/v1/sandboxes/{identity}/commands", json={"code": SIMPLE, "timeout": 600})
        assert http.get(f"/v1/sandboxes/{identity}/ports/8000?wait=20").json()["listening"]
        return identity

    async def until_ended(identity: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while (await asyncio.to_thread(http.get, f"/v1/sandboxes/{identity}")).json()["state"] == "alive":
                await asyncio.sleep(0.05)

    used = await asyncio.to_thread(make)
    address = f"{server.url.replace('http', 'ws')}/v1/sandboxes/{used}/tunnel?port=8000"
    async with connect(address, additional_headers={"Authorization": f"Bearer {server.key}"}, proxy=None):
        unused = await asyncio.to_thread(make)
        await until_ended(unused)
        assert http.get(f"/v1/sandboxes/{used}").json()["state"] == "alive"
    await until_ended(used)


# --- WebSockets


@asynccontextmanager
async def opened(
    place: Place, way: str, path: str, port: int = SOCKETS, **options: Any
) -> AsyncIterator[ClientConnection]:
    base = place.server.url.replace("http", "ws")
    headers = dict(options.pop("headers", {}))
    if way == "key":
        address = f"{base}{place.url}/ports/{port}{path}"
        headers["Authorization"] = f"Bearer {place.server.key}"
    else:
        granted = await asyncio.to_thread(place.grant, port)
        address = f"{base}{granted['path'].rstrip('/')}{path}"
        if way == "token":
            address = f"ws://{granted['token']}.localhost:{place.server.port}{path}"
            options["host"] = "127.0.0.1"
    options = {"additional_headers": headers, "max_size": None, "proxy": None, **options}
    async with connect(address, **options) as socket:
        yield socket


@pytest.mark.parametrize("way", ["key", "token", "path"])
async def test_messages_go_both_ways(place: Place, way: str) -> None:
    async with opened(place, way, "/echo?x=1") as socket:
        for message in ("text ü", b"\x00\xff bytes", "", b"", "x" * 200_000, bytes(3 << 20)):
            await socket.send(message)
            async with asyncio.timeout(PATIENCE_S):
                assert await socket.recv() == message


@pytest.mark.parametrize("way", ["key", "token", "path"])
async def test_nothing_of_ours_goes_in_by_websocket(place: Place, way: str) -> None:
    headers = {"X-API-Key": place.server.key, "Cookie": "cloche_session=secret", "X-Own": "kept"}
    async with opened(place, way, "/hello?x=1", headers=headers) as socket:
        told = json.loads(await socket.recv())
    assert told["path"] == "/hello?x=1"
    assert place.server.key not in json.dumps(told)
    assert "secret" not in json.dumps(told)
    assert told["headers"]["x-own"] == "kept"
    assert told["headers"]["host"] == f"localhost:{SOCKETS}"
    assert told["headers"]["x-forwarded-for"] == "127.0.0.1"


async def test_subprotocols_are_the_applications(place: Place) -> None:
    async with opened(place, "token", "/", subprotocols=[Subprotocol("other"), Subprotocol("chat")]) as socket:
        assert socket.subprotocol == "chat"
    offered = [Subprotocol("cloche"), Subprotocol(f"cloche-key.{place.server.key}"), Subprotocol("chat")]
    base = f"{place.server.url.replace('http', 'ws')}{place.url}/ports/{SOCKETS}"
    async with connect(f"{base}/hello", subprotocols=offered, proxy=None) as socket:
        assert socket.subprotocol == "chat"
        assert place.server.key not in str(await socket.recv())
    async with connect(f"{base}/hello", subprotocols=offered[:2], proxy=None) as socket:
        assert socket.subprotocol == "cloche"
    twice = {"Authorization": f"Bearer {place.server.key}"}
    async with connect(f"{base}/hello", subprotocols=offered, additional_headers=twice, proxy=None) as socket:
        assert place.server.key not in str(await socket.recv())


async def test_pieces_and_pings_of_the_server(place: Place) -> None:
    async with opened(place, "token", "/pieces") as socket:
        assert await socket.recv() == "one two three"
        await socket.send("still here")
        assert await socket.recv() == "still here"


@pytest.mark.parametrize(
    ("path", "code"), [("/bye", 4321), ("/cut", 1014), ("/bad-text", 1007), ("/masked", 1002), ("/huge", 1009)]
)
async def test_how_the_server_closes_is_told(place: Place, path: str, code: int) -> None:
    async with opened(place, "token", path) as socket:
        with pytest.raises(ConnectionClosed) as closed:
            async with asyncio.timeout(PATIENCE_S):
                await socket.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == code


async def test_whatever_a_server_sends_a_client_gets_a_websocket(place: Place) -> None:
    chance = random.Random(7)
    whole = b"\x81\x05hello\x89\x01p\x02\x02ab\x80\x01c\x88\x02\x03\xe8"
    codes = set()
    for _ in range(100):
        sent = bytearray(whole)
        for _ in range(chance.randrange(4)):
            at = chance.randrange(len(sent))
            sent[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(4))
        async with opened(place, "key", f"/hex-{sent.hex()}") as socket, asyncio.timeout(PATIENCE_S):
            with suppress(ConnectionClosed):
                async for _ in socket:
                    pass
            codes.add(socket.close_code)
    assert {1000, 1002} <= codes
    assert not codes & {None, 1005, 1006, 1011}
    assert "Traceback" not in place.server.log.read_text()


async def test_how_the_client_closes_is_told(place: Place) -> None:
    async with opened(place, "token", "/noting") as socket:
        await socket.close(3210, "bye")
    assert await asyncio.to_thread(_await_file, place.http, place, "closed") == b"\x0c\x8abye"


@pytest.mark.parametrize(("path", "status"), [("/refuse", 403), ("/plain", 502), ("/garbage", 502), ("/lie", 502)])
async def test_a_handshake_that_fails_inside_fails_outside(place: Place, path: str, status: int) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with opened(place, "token", path):
            pass
    assert refused.value.response.status_code == status


async def test_websockets_are_refused_before_they_begin(place: Place) -> None:
    base = place.server.url.replace("http", "ws")
    key = {"Authorization": f"Bearer {place.server.key}"}
    cases: list[tuple[str, dict[str, str], int]] = [
        (f"{place.url}/ports/{SOCKETS}/", {}, 401),
        (f"{place.url}/ports/{QUIET}/", key, 502),
        (f"{place.url}/ports/99999/", key, 400),
        ("/v1/sandboxes/sbx_nothing/ports/8000/", key, 404),
        ("/ports/wrong/", {}, 404),
        (f"{place.url}/tunnel?port={QUIET}", key, 502),
        (f"{place.url}/tunnel", key, 400),
        (f"{place.url}/tunnel?port={SOCKETS}", {}, 401),
    ]
    for path, headers, status in cases:
        with pytest.raises(InvalidStatus) as refused:
            async with connect(base + path, additional_headers=headers, proxy=None):
                pass
        assert refused.value.response.status_code == status, path


# --- tunnels

REVERSING = r"""
import socket
listening = socket.create_server(("127.0.0.1", 8000))
while True:
    peer, _ = listening.accept()
    with peer:
        data = b""
        while piece := peer.recv(65536):
            data += piece
        peer.sendall(data[::-1])
"""


async def test_a_tunnel_carries_bytes_and_the_end_of_each_direction(server: Any, http: httpx2.Client) -> None:
    fresh = await asyncio.to_thread(Place, server, http)
    try:
        await asyncio.to_thread(fresh.serve, REVERSING, 8000)
        address = f"{server.url.replace('http', 'ws')}{fresh.url}/tunnel?port=8000"
        headers = {"Authorization": f"Bearer {server.key}"}
        data = bytes(range(256)) * 20_000
        async with connect(address, additional_headers=headers, proxy=None) as socket:
            for start in range(0, len(data), 100_000):
                await socket.send(data[start : start + 100_000])
            await socket.send("eof")
            back = b""
            async with asyncio.timeout(PATIENCE_S):
                while isinstance(message := await socket.recv(), bytes):
                    back += message
                assert message == "eof"
                assert back == data[::-1]
                await socket.wait_closed()
        assert socket.close_code == 1000
    finally:
        await asyncio.to_thread(http.delete, fresh.url)


async def test_what_goes_through_counts_for_the_key(server: Any, http: httpx2.Client) -> None:
    made = http.post("/v1/keys", json={"owner": "mover", "name": "test", "limits": {"bytes_per_day": 1 << 20}}).json()
    with server.client(made["key"]) as client:
        fresh = await asyncio.to_thread(Place, server, client)
        await asyncio.to_thread(fresh.serve, APPLICATION, APP)
        assert client.get(f"{fresh.url}/ports/{APP}/big?size=1000").status_code == 200
        with pytest.raises(httpx2.RemoteProtocolError, match="without sending complete"):
            client.get(f"{fresh.url}/ports/{APP}/big?size={4 << 20}")
        assert client.get(f"{fresh.url}/ports/{APP}/").status_code == 429
        client.delete(fresh.url)


async def test_there_is_a_limit_to_the_connections_of_one_sandbox(server: Any, http: httpx2.Client) -> None:
    fresh = await asyncio.to_thread(Place, server, http)
    code = "import socket, time\nlistening = socket.create_server(('127.0.0.1', 8000), backlog=200)\ntime.sleep(600)"
    opened: list[ClientConnection] = []
    try:
        await asyncio.to_thread(fresh.serve, code, 8000)
        address = f"{server.url.replace('http', 'ws')}{fresh.url}/tunnel?port=8000"
        headers = {"Authorization": f"Bearer {server.key}"}
        opened += [await connect(address, additional_headers=headers, proxy=None) for _ in range(100)]
        with pytest.raises(InvalidStatus) as refused:
            await connect(address, additional_headers=headers, proxy=None)
        assert refused.value.response.status_code == 503
        assert "Retry-After" in refused.value.response.headers
        await opened.pop().close()
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    opened.append(await connect(address, additional_headers=headers, proxy=None))
                    break
                except InvalidStatus:
                    await asyncio.sleep(0.02)
    finally:
        await asyncio.to_thread(http.delete, fresh.url)
        for socket in opened:
            await socket.close()


def test_the_library_reaches_a_server_through_the_server(server: Any, http: httpx2.Client) -> None:
    fresh = Place(server, http)
    try:
        fresh.serve(REVERSING, 8000)
        with (
            cloche.Sandbox(url=server.url, api_key=server.key, id=fresh.id) as box,
            box.ports.connect(8000) as connection,
        ):
            connection.send(b"stressed")
            connection.send_eof()
            assert connection.receive() == b"desserts"
    finally:
        http.delete(fresh.url)


def test_another_domain_can_be_chosen(serve: Callable[..., Any]) -> None:
    running = serve("--ports-domain", "apps.example")
    with running.client() as http:
        there = Place(running, http)
        there.serve(APPLICATION, APP)
        granted = there.grant(APP)
        assert granted["url"] == f"http://{granted['token']}.apps.example:{running.port}/"
        with Visitor(running, granted) as client:
            assert client.get("/").status_code == 200
            assert client.get("/", headers={"Host": f"{granted['token']}.localhost"}).status_code == 421
