"""How a connection is refused: in the words of its own protocol where there is one, and with a reset elsewhere."""

from __future__ import annotations

import json
import socket
import struct
from asyncio.trsock import TransportSocket
from http import HTTPStatus

_LONGEST = 2000  # characters of a text that may come from outside
_ALERT, _FATAL, _ACCESS_DENIED = 21, 2, 49


def http_refusal(status: int, host: str, port: int, rule: str, reason: str, remedy: str) -> bytes:
    """A whole HTTP response that refuses a request; nothing that it is given reaches its head."""
    error = {
        "kind": "network",
        "host": host[:_LONGEST],
        "port": port,
        "rule": rule[:_LONGEST],
        "message": reason[:_LONGEST],
        "hint": remedy[:_LONGEST],
    }
    body = json.dumps({"error": error}).encode()  # ASCII alone
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


def tls_refusal() -> bytes:
    """A fatal alert, `access_denied`, for a client that waits for the server's part of the handshake."""
    return bytes((_ALERT, 3, 3, 0, 2, _FATAL, _ACCESS_DENIED))


def reset(sock: socket.socket) -> None:
    """Close a connection so that the other side sees it broken, and not ended."""
    break_when_closed(sock)
    sock.close()


def break_when_closed(sock: socket.socket | TransportSocket) -> None:
    """Have a connection that is closed later be seen as broken."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        pass  # it is broken or closed already
