"""The explicit proxy, for programs that use HTTP_PROXY: the same decisions, for a host that the program names."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from cloche.egress import refusals, waiting
from cloche.model.network_rules import normal_name

if TYPE_CHECKING:
    from cloche.egress.connection import Connection

_MAX_HEAD, _MAX_PIECES = 64 << 10, 500
_HEAD_S = 30.0
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


async def serve(connection: Connection, client: socket.socket) -> None:
    """Read the first request on a connection to the proxy, and relay it."""
    data = b""
    async with asyncio.timeout(_HEAD_S):
        for _ in range(_MAX_PIECES):
            before = len(data)
            data = await waiting.more_than(client, before, _MAX_HEAD)
            if b"\r\n\r\n" in data:
                break
            if len(data) in (before, _MAX_HEAD):
                return
        else:
            return
    method, _, rest = data.partition(b"\r\n")[0].partition(b" ")
    target = rest.partition(b" ")[0].decode("latin-1")
    found = _host_of(target, is_tunnel=method == b"CONNECT")
    if found is None:
        answer = refusals.http_refusal(
            400, "", 0, "", "The proxy needs the address of a host.", "Send CONNECT HOST:PORT, or GET http://HOST/…"
        )
        await asyncio.get_running_loop().sock_sendall(client, answer)
    elif method == b"CONNECT":
        client.recv(data.index(b"\r\n\r\n") + 4)
        await connection.relay(*found, answer=_ESTABLISHED)
    else:
        await connection.relay(*found, is_request=True)


def _host_of(target: str, is_tunnel: bool) -> tuple[str, int] | None:
    try:
        parts = urlsplit(f"//{target}" if is_tunnel else target)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    if "@" in parts.netloc or (not is_tunnel and parts.scheme != "http") or (is_tunnel and (not port or parts.path)):
        return None
    if not host.isascii() or "%" in host:
        return None
    name = normal_name(host)
    if name is None:
        try:
            import ipaddress

            name = str(ipaddress.ip_address(host))
        except ValueError:
            return None
    return name, port or 80
