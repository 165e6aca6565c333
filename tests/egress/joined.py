"""Pairs of connected TCP sockets on loopback."""

from __future__ import annotations

import socket


def pair() -> tuple[socket.socket, socket.socket]:
    """Both ends of a connection, non-blocking."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    for end in (near, far):
        end.setblocking(False)
    return near, far
