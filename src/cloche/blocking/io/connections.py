"""Opens a TCP connection from a plain thread; the twin of `cloche.io.connections`, written by hand."""

from __future__ import annotations

import socket

from cloche.blocking.io.streams import Stream


def connect(host: str, port: int, timeout: float) -> tuple[Stream, socket.socket]:
    """A new connection; OSError (also TimeoutError) when it cannot be made."""
    sock = socket.create_connection((host, port), timeout)
    keep_alive(sock)
    return Stream(sock), sock


def keep_alive(sock: socket.socket) -> None:
    """Send small requests at once, and notice within a minute or two that a server has gone without a word."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6)
