"""The web server of the world outside.

    /                 a page          /echo          the request's method, target, headers and body, as JSON
    /bytes/N          N bytes         /redirect?URL  a redirect to URL
    /endless          never ends      /events?N      N server-sent events, one every 100 ms
    /websocket        repeats         /silent        never answers
    /body?TEXT        answers TEXT    /upload        the length of the request's body
    /break            breaks off within its answer

All else are files: a pip index (/simple/), an npm registry (/npm/), a cargo registry (/cargo/), a repository
(/git/tiny.git).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

PAGE = b"<!doctype html><title>The world</title><p>Hello from outside.\n"
ORIGIN = b"@ORIGIN@"  # in a file: where the client has found it
_MAX_BODY = 1 << 30
_MAX_KEPT = 1 << 20
_ENDLESS = 4 << 30
_PIECE = bytes(range(256)) * 256
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_SPECIAL = frozenset({"/echo", "/upload", "/redirect", "/body", "/endless", "/events", "/silent", "/break"})


class Log:
    """What arrived, for tests that prove that nothing did."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "w", buffering=1)  # open as long as the process

    def note(self, **what: Any) -> None:
        """Note something; it is in the file before anybody is answered."""
        self._file.write(json.dumps(what) + "\n")


async def serve_web(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    *,
    content: Path,
    log: Log,
    scheme: str,
    port: int,
    address: str,
) -> None:
    """Answer the requests of a connection."""
    while head := await reader.readuntil(b"\r\n\r\n"):
        lines = head.decode("latin-1").split("\r\n")
        method, target, _ = lines[0].split(None, 2)  # as Python's own server: at whatever Unicode calls a blank
        fields = [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines[1:-2])]
        headers = {name.lower(): value for name, value in fields}
        host = headers.get("host", "")
        log.note(
            event="request", scheme=scheme, port=port, at=address, host=host, method=method, target=target, head=fields
        )
        kept, length = await _read_body(reader, writer, headers)
        parts = urlsplit(target)
        if parts.path == "/websocket" and headers.get("upgrade", "").lower() == "websocket":
            await _repeat_frames(reader, writer, headers.get("sec-websocket-key", ""))
            return
        if parts.path.startswith("/bytes/") or parts.path in _SPECIAL:
            asked = {"method": method, "target": target, "headers": fields, "body": kept.decode("latin-1")}
            await _answer_special(writer, parts.path, parts.query, asked, length)
        else:
            status, kind, body = _file(content, parts.path)
            body = body.replace(ORIGIN, f"{scheme}://{host}".encode())
            await _answer(writer, status, kind, body, with_body=method != "HEAD")
        if headers.get("connection", "").lower() == "close" or lines[0].endswith("HTTP/1.0"):
            return


async def _read_body(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: dict[str, str]
) -> tuple[bytes, int]:
    """The first bytes of a request's body, and its length."""
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    kept, length = b"", 0
    if headers.get("transfer-encoding", "").lower() == "chunked":
        while size := int((await reader.readline()).split(b";")[0], 16):
            piece = (await reader.readexactly(size + 2))[:-2]
            kept, length = (kept + piece)[:_MAX_KEPT], length + len(piece)
        while (await reader.readline()).strip():
            pass
        return kept, length
    left = min(int(headers.get("content-length", "0")), _MAX_BODY)
    while left:
        piece = await reader.read(min(left, 1 << 18))
        if not piece:
            raise EOFError
        kept, length, left = kept + piece[: _MAX_KEPT - len(kept)], length + len(piece), left - len(piece)
    return kept, length


async def _answer_special(
    writer: asyncio.StreamWriter, path: str, query: str, asked: dict[str, Any], length: int
) -> None:
    if path == "/echo":
        await _answer(writer, "200 OK", "application/json", json.dumps(asked).encode())
    elif path == "/upload":
        await _answer(writer, "200 OK", "text/plain", str(length).encode())
    elif path == "/body":
        await _answer(writer, "200 OK", "text/plain", unquote(query).encode())
    elif path == "/redirect":
        await _answer(writer, "302 Found", "text/plain", b"", f"Location: {unquote(query)}\r\n")
    elif path.startswith("/bytes/"):
        await _stream(writer, int(path[7:]))
    elif path == "/endless":
        await _stream(writer, _ENDLESS)
    elif path == "/events":
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for number in range(int(query or 3)):
            writer.write(f"data: {number}\n\n".encode())
            await writer.drain()
            await asyncio.sleep(0.1)
        raise EOFError
    elif path == "/break":
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly a part")
        await writer.drain()
        raise EOFError
    else:
        await asyncio.sleep(3600)


async def _stream(writer: asyncio.StreamWriter, length: int) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {length}\r\n\r\n"
    writer.write(head.encode())
    while length > 0:
        writer.write(_PIECE[:length])
        length -= len(_PIECE)
        await writer.drain()
    await writer.drain()


async def _answer(
    writer: asyncio.StreamWriter, status: str, kind: str, body: bytes, more: str = "", with_body: bool = True
) -> None:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    writer.write(head.encode() + (body if with_body else b""))
    await writer.drain()


def _file(content: Path, path: str) -> tuple[str, str, bytes]:
    """Status, type and bytes of a file; the address of a folder means its index."""
    if path == "/":
        return "200 OK", "text/html", PAGE
    found = (content / unquote(path).lstrip("/")).resolve()
    if found.is_dir():
        found = found / "index"
    if not found.is_relative_to(content.resolve()) or not found.is_file():
        return "404 Not Found", "text/plain", b"nothing is here\n"
    kind = {"/simple": "text/html", "/npm/": "application/json"}.get(
        path[:7] if path.startswith("/simple") else path[:5], "application/octet-stream"
    )
    return "200 OK", "application/octet-stream" if path.endswith((".whl", ".tgz")) else kind, found.read_bytes()


async def _repeat_frames(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str) -> None:
    accept = b64encode(hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()).decode()
    writer.write(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        + f"Sec-WebSocket-Accept: {accept}\r\n\r\n".encode()
    )
    while True:
        await writer.drain()
        first, second = await reader.readexactly(2)
        length = second & 127
        if length > 125:
            length = int.from_bytes(await reader.readexactly(2 if length == 126 else 8), "big")
        mask = await reader.readexactly(4)
        data = await reader.readexactly(length)
        data = bytes(byte ^ mask[at & 3] for at, byte in enumerate(data))
        kind = {9: 10}.get(first & 15, first & 15)  # a ping is answered with a pong
        size = bytes([length]) if length < 126 else bytes([126]) + length.to_bytes(2, "big")
        writer.write(bytes([0x80 | kind]) + size + data)
        if kind == 8:
            await writer.drain()
            return
