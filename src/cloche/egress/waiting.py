"""Waits until a connection has something to read, without reading."""

from __future__ import annotations

import asyncio
import socket


async def readable(*connections: socket.socket) -> None:
    """Wait until one of these has something to read, or has ended."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    try:
        for each in connections:
            loop.add_reader(each, wake)
        await ready
    finally:
        for each in connections:
            loop.remove_reader(each)


async def more_than(connection: socket.socket, seen: int, size: int) -> bytes:
    """The bytes that have arrived, once there are more than `seen`, left to be read again; the same ones at the end."""
    # A socket with unread bytes is always readable.  This makes the kernel wait until there are more of them.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, seen + 1)
    try:
        while True:
            await readable(connection)
            try:
                return connection.recv(size, socket.MSG_PEEK)
            except BlockingIOError:
                continue
    finally:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
