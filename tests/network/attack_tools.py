"""What the attackers of these tests use, inside a sandbox.  Each attack returns its gain: nothing, if it gains none."""

from __future__ import annotations

import ctypes
import errno
import fcntl  # noqa: F401  # for attacks
import json
import os
import socket
import ssl
import struct
import time
import urllib.request
from collections.abc import Callable
from typing import Any

PATIENCE_S = 3.0

LO = b"lo".ljust(16, b"\0")
PROXY = ("127.0.0.1", 3128)


def tell(attack: Callable[[], Any]) -> None:
    """Print the gain of an attack."""
    try:
        gain = attack()
    except OSError:  # also a timeout, and a name that does not exist
        gain = ""
    print(json.dumps(gain))


def connected(host: str, port: int) -> socket.socket:
    return socket.create_connection((host, port), PATIENCE_S)


def send(sock: socket.socket, *pieces: bytes, pause: float = 0.02) -> None:
    """Send each piece in a segment of its own."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for number, piece in enumerate(pieces):
        if number:
            time.sleep(pause)
        sock.sendall(piece)


def receive(sock: socket.socket, until: bytes = b"") -> bytes:
    """Everything until the end, or until some bytes were seen."""
    data = b""
    try:
        while not (until and until in data) and (more := sock.recv(65536)):
            data += more
    except OSError:
        pass
    return data


def talk(host: str, port: int, *pieces: bytes) -> bytes:
    """What somebody answers to these pieces."""
    with connected(host, port) as sock:
        try:
            send(sock, *pieces)
        except OSError:
            pass  # it has broken off, and may have said why
        return receive(sock)


def pages(answer: bytes) -> str:
    """How many answers with success there are."""
    count = answer.count(b"HTTP/1.1 200 OK")
    return f"{count} pages" if count else ""


def get(host: str, *more: str, target: str = "/", method: str = "GET", last: bool = True) -> bytes:
    """A request."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *more, *(["Connection: close"] if last else [])]
    return "\r\n".join([*lines, "", ""]).encode()


def web(host: str, port: int, *pieces: bytes) -> str:
    """A page, for requests in these pieces."""
    return pages(talk(host, port, *pieces))


def two(host: str, port: int, first: bytes, second: bytes, piped: bool = False) -> str:
    """Two pages on one connection."""
    with connected(host, port) as sock:
        send(sock, first + second if piped else first)
        if piped:
            answer = receive(sock)
        else:
            answer = receive(sock, b"</title>")
            send(sock, second)
            answer += receive(sock)
    return pages(answer) if answer.count(b"HTTP/1.1 200") > 1 else ""


# --- TLS


def hello(name: str | None) -> bytes:
    """A ClientHello, as a record."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    side = context.wrap_bio(incoming, outgoing, server_hostname=name)
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def server_names(*names: bytes) -> bytes:
    """The data of the extension with server names."""
    listed = b"".join(b"\0" + struct.pack(">H", len(name)) + name for name in names)
    return struct.pack(">H", len(listed)) + listed


def named(*extensions: bytes) -> bytes:
    """A ClientHello with these extensions for server names."""
    message = hello(None)[9:]
    at = 2 + 32
    at += 1 + message[at]
    at += 2 + int.from_bytes(message[at : at + 2], "big")
    at += 1 + message[at]
    listed = b"".join(b"\0\0" + struct.pack(">H", len(data)) + data for data in extensions) + message[at + 2 :]
    body = message[:at] + struct.pack(">H", len(listed)) + listed
    handshake = b"\1" + len(body).to_bytes(3, "big") + body
    return b"\x16\3\1" + struct.pack(">H", len(handshake)) + handshake


def records(record: bytes, size: int) -> bytes:
    """The same handshake in records of a size."""
    body = record[5:]
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"\x16\3\1" + struct.pack(">H", len(piece)) + piece for piece in pieces)


def segments(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def hand(host: str, port: int, *pieces: bytes) -> str:
    """The server's part of a TLS handshake."""
    with connected(host, port) as sock:
        try:
            send(sock, *pieces)
            answer = sock.recv(16)
        except OSError:
            return ""
    return "a handshake" if answer[:1] == b"\x16" else ""


# --- the proxy


def tunnel(target: str, *pieces: bytes) -> bytes:
    """What comes out of a tunnel through the proxy."""
    with connected(*PROXY) as sock:
        send(sock, f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        answer = receive(sock, b"\r\n\r\n")
        if b"HTTP/1.1 200" not in answer:
            return b""
        try:
            send(sock, *pieces)
            return receive(sock, b"\x16\3") if pieces else answer
        except OSError:
            return b""


def tunnelled(target: str, *pieces: bytes) -> str:
    return "a tunnel" if tunnel(target, *pieces) else ""


def handed(target: str, piece: bytes) -> str:
    return "a handshake" if tunnel(target, piece)[:1] == b"\x16" else ""


# --- DNS, UDP and others


def question(name: str | bytes, kind: int = 1, class_: int = 1, flags: int = 0x0100, count: int = 1) -> bytes:
    labels = name.encode().split(b".") if isinstance(name, str) else [name]
    coded = b"".join(bytes([len(label)]) + label for label in labels if label) + b"\0"
    return struct.pack(">HHHHHH", 7, flags, count, 0, 0, 0) + coded + struct.pack(">HH", kind, class_)


def datagram(host: str, port: int, data: bytes, wait_s: float = 0.5) -> bytes:
    """What somebody answers to a datagram."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(wait_s)
        sock.connect((host, port))
        try:
            sock.send(data)
            return sock.recv(4096)
        except OSError:
            return b""


def records_of(answer: bytes) -> str:
    """How many records an answer of DNS has."""
    count = int.from_bytes(answer[6:8], "big")
    return f"{count} records" if count and not answer[3] & 15 else ""


def asked(name: str | bytes, kind: int = 1, **more: int) -> str:
    return records_of(datagram("192.0.2.53", 53, question(name, kind, **more)))


def over_tcp(*messages: bytes) -> str:
    with connected("198.18.0.1", 53) as sock:
        send(sock, b"".join(struct.pack(">H", len(message)) + message for message in messages))
        sock.settimeout(0.5)
        return records_of(receive(sock)[2:])


def allowed_to(do: Callable[..., Any], *arguments: Any, strictly: bool = False) -> str:
    """Whether the kernel lets us do something; it has to say no for lack of rights, if we are strict."""
    try:
        done = do(*arguments)
    except OSError as problem:
        is_refused = not strictly or problem.errno in (errno.EPERM, errno.EACCES, errno.EROFS, errno.ENOSYS)
        return "" if is_refused else f"an odd error: {problem}"
    if hasattr(done, "close"):
        done.close()
    return "it works"


def routed(kind: int, body: bytes) -> None:
    """A question about routes, or a change of them, for the kernel."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
        flags = 0x405 if kind % 4 == 0 else 5  # a new one, or not
        kernel.send(struct.pack("IHHII", 16 + len(body), kind, flags, 1, 0) + body)
        answer = kernel.recv(4096)
    is_error = struct.unpack_from("H", answer, 4)[0] == 2
    if is_error and (number := -struct.unpack_from("i", answer, 16)[0]):
        raise OSError(number, os.strerror(number))


def entered(path: str, kind: int) -> None:
    """Another namespace: one that exists, or a new one."""
    libc = ctypes.CDLL(None, use_errno=True)
    if path:
        with open(path) as file:
            done = libc.setns(file.fileno(), kind)
    else:
        done = libc.unshare(kind)
    if done < 0:
        raise OSError(ctypes.get_errno(), "refused")


def bound(kind: int, address: str, port: int, *options: int) -> str:
    """A port that we have taken."""
    with socket.socket(socket.AF_INET, kind) as sock:
        for option in options:
            sock.setsockopt(socket.SOL_SOCKET, option, 1)
        try:
            sock.bind((address, port))
            if kind == socket.SOCK_STREAM:
                sock.listen()
        except OSError as problem:
            return "" if problem.errno in (errno.EADDRINUSE, errno.EACCES) else str(problem)
    return "the port"


def followed(url: str) -> str:
    """A page that a usual client finds."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=PATIENCE_S) as answer:
            return "a page" if b"Hello from outside" in answer.read() else ""
    except OSError:
        return ""
