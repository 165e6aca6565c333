"""Opens a TCP connection with asyncio; `cloche.blocking.io.connections` is the twin for plain threads, by hand."""

from __future__ import annotations

import asyncio
import socket

from cloche.io.streams import AsyncStream


async def connect(host: str, port: int, timeout: float) -> tuple[AsyncStream, socket.socket]:
    """A new connection; OSError (also TimeoutError) when it cannot be made."""
    async with asyncio.timeout(timeout):
        problem: OSError = OSError(f"{host} has no address")
        for family, address in await _addresses(host, port):
            sock = socket.socket(family, socket.SOCK_STREAM)
            try:
                sock.setblocking(False)
                await asyncio.get_running_loop().sock_connect(sock, address)
            except OSError as failure:
                sock.close()
                problem = failure
            except BaseException:
                sock.close()
                raise
            else:
                keep_alive(sock)
                return AsyncStream(sock), sock
        raise problem


async def _addresses(host: str, port: int) -> list[tuple[int, tuple[str, int]]]:
    try:
        socket.inet_pton(socket.AF_INET, host)
    except OSError:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [(family, address) for family, _, _, _, address in found]  # type: ignore[misc]
    return [(socket.AF_INET, (host, port))]  # without the thread that a look-up takes


def keep_alive(sock: socket.socket) -> None:
    """Send small requests at once, and notice within a minute or two that a server has gone without a word."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6)
