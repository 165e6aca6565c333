"""The names of headers on their way into a sandbox and back: they are spelled as their sender spelled them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from websockets.sync.client import connect

PORT = 8000

# It tells the head of each request as it came, and spells the names of its own headers in its own way.
SERVER = r"""
import base64, hashlib, re, socket, threading

def serve(peer):
    with peer:
        head = b""
        while b"\r\n\r\n" not in head:
            head += peer.recv(65536)
        key = re.search(rb"(?i)sec-websocket-key: (\S+)", head)
        if key is None:
            peer.sendall(b"HTTP/1.1 200 OK\r\nX-oDD-nAME: 1\r\nETag: x\r\ncontent-TYPE: text/plain\r\n"
                         b"Content-length: %d\r\nConnection: CLOSE\r\n\r\n%s" % (len(head), head))
            return
        accept = base64.b64encode(hashlib.sha1(key[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        peer.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     b"Sec-WebSocket-Accept: %s\r\n\r\n" % accept)
        peer.sendall(b"\x82\x7e" + len(head).to_bytes(2, "big") + head)
        peer.recv(65536)

listening = socket.create_server(("127.0.0.1", 8000))
while True:
    threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()
"""
NAMES = ("X-Own", "x-lower", "X-UPPER", "aCCept", "ETag", "X-Own-2")


class Inside:
    """A server in a sandbox, and the headers with which a request reaches it in two ways."""

    def __init__(self, server: Any, http: httpx2.Client) -> None:
        self.server = server
        made = http.post("/v2/sandboxes", json={"templateID": "base"}).json()
        self.id = made["sandboxID"]
        ours = f"/v1/sandboxes/{self.id.replace('sbx', 'sbx_', 1)}"
        http.post(f"{ours}/commands", json={"code": SERVER, "timeout": 600}).raise_for_status()
        assert http.get(f"{ours}/ports/{PORT}", params={"wait": 20}).json()["listening"]
        token = http.post(f"{ours}/ports/{PORT}", json={}).json()["token"]
        self.ways = {
            "token": {"Host": f"{token}.localhost:{server.port}"},
            "e2b": {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": str(PORT), "Host": f"localhost:{server.port}"},
        }


@pytest.fixture(scope="module")
def inside(server: Any) -> Iterator[Inside]:
    with server.client() as http:
        made = Inside(server, http)
        yield made
        http.delete(f"/sandboxes/{made.id}")


def names_in(head: bytes) -> list[str]:
    lines = head.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
    return [line.partition(":")[0] for line in lines]


def exchange(inside: Inside, headers: dict[str, str]) -> tuple[bytes, bytes]:
    """Send a request as it is written here; return the head of the answer, and the body."""
    lines = ["POST /x?y=1 HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    with socket.create_connection(("127.0.0.1", inside.server.port), 30) as client:
        client.sendall("\r\n".join(lines).encode())
        answer = b""
        while piece := client.recv(65536):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n", body


@pytest.mark.parametrize("way", ["token", "e2b"])
def test_names_of_a_request_and_of_its_answer(inside: Inside, way: str) -> None:
    sent = {**inside.ways[way], **dict.fromkeys(NAMES, "1"), "content-LENGTH": "0", "CONNECTION": "close"}
    head, body = exchange(inside, sent)

    assert head.startswith(b"HTTP/1.1 200")
    assert [name for name in names_in(body) if name in NAMES] == list(NAMES)
    assert {"Host", "Content-Length", "Connection", "X-Forwarded-For"} <= {*names_in(body)}
    assert {"X-oDD-nAME", "ETag", "content-TYPE", "Content-length"} <= {*names_in(head)}
    lowered = [name.lower() for name in names_in(head)]
    assert len(lowered) == len(set(lowered)), "a header came twice, in two spellings"


def test_names_are_those_of_this_request_and_not_of_the_one_before(inside: Inside) -> None:
    with httpx2.Client(base_url=inside.server.url, headers=inside.ways["token"], trust_env=False) as client:
        first = client.get("/", headers={"X-OWN": "1"})
        second = client.get("/", headers={"x-own": "1"})

    assert ("X-OWN" in names_in(first.content), "x-own" in names_in(second.content)) == (True, True)


@pytest.mark.parametrize("way", ["token", "e2b"])
def test_names_of_a_websocket(inside: Inside, way: str) -> None:
    more = {name: value for name, value in inside.ways[way].items() if name != "Host"}
    address = f"ws://{inside.ways[way]['Host']}/x"
    headers = {**more, **dict.fromkeys(NAMES, "1")}
    raw = socket.create_connection(("127.0.0.1", inside.server.port), 30)
    with raw, connect(address, sock=raw, additional_headers=headers) as client:
        told = client.recv(30)

    assert isinstance(told, bytes)
    assert [name for name in names_in(told) if name in NAMES] == list(NAMES)
