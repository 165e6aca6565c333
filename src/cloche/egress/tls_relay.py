"""Serves TLS in a server's place, for hosts that a secret names, and speaks TLS with the server itself."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import cache

from cloche.egress.authority import Authority
from cloche.egress.http_heads import Refusal
from cloche.egress.http_relay import IDLE_S, Exchange, relay_http
from cloche.egress.meter import Count, Meter
from cloche.egress.streams import Stream, told


def host_trust() -> ssl.SSLContext:
    """For connections to servers: what the host trusts, and the certificates in this process's SSL_CERT_FILE."""
    context = ssl.create_default_context()  # with SSL_CERT_FILE, this leaves the host's own file out
    usual = ssl.get_default_verify_paths().openssl_cafile
    if os.path.exists(usual):
        context.load_verify_locations(usual)
    context.set_alpn_protocols(["http/1.1"])
    return context


_host_trust = cache(host_trust)


async def relay_tls(
    client: socket.socket,
    name: str,
    port: int,
    dial: Callable[[], Awaitable[socket.socket]],
    authority: Authority,
    exchange: Exchange,
    meter: Meter,
    count: Count,
    *,
    trust: ssl.SSLContext | None = None,
    idle_s: float = IDLE_S,
) -> str:
    """Serve the HTTPS requests on an accepted connection whose ClientHello asks for `name`; close everything.

    `dial` connects to the server, without TLS.  `count` and `meter` see the bytes of HTTP, not those of TLS.  Return ""
    or the reason that ended it, as `relay_http` does.
    """

    async def dial_tls() -> Stream:
        sock = await dial()
        try:
            return await Stream.of(sock, trust or _host_trust(), server_name=name)
        except ssl.SSLCertVerificationError as failed:
            raise Refusal(
                502,
                f"The certificate of {name}:{port} is not trusted: {failed.verify_message}.",
                "Cloche checks it in the program's place, because this host gets a secret. If it should be trusted, "
                "add its authority to the certificates that the host of Cloche trusts, or to SSL_CERT_FILE there.",
            ) from None
        except OSError as failed:
            raise Refusal(502, f"{name}:{port} does not agree on TLS: {told(failed)}.") from None

    try:
        stream = await Stream.of(client, authority.context(name))
    except OSError as failed:
        return f"The program does not agree on TLS: {told(failed)}."
    return await relay_http(
        stream, dial_tls, name, port, meter, count, exchange=exchange, scheme="https", idle_s=idle_s
    )
