"""Secrets over TLS: from a program that trusts the sandbox's authority to a server that the host trusts."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
from pathlib import Path

import pytest
from tests.egress.joined import pair
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from cloche.egress.authority import Authority
from cloche.egress.meter import Count, Meter
from cloche.egress.secrets import Exchange, Held
from cloche.egress.tls_relay import host_trust, relay_tls
from cloche.model.secret import new_placeholder

NAME = "api.example.org"
VALUE = "canary-8dZ/1+kQ=="


class World:
    """A server with a certificate of `public`, and programs in a sandbox with the authority `inside`."""

    def __init__(self) -> None:
        self.public, self.inside = Authority(), Authority()
        self.placeholder = new_placeholder("TOKEN")
        self.seen = b""
        self.certificate = NAME

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer with everything that came, in the head and in the body."""
        head = await reader.readuntil(b"\r\n\r\n")
        self.seen += head
        key = head.partition(b"Authorization: ")[2].partition(b"\r\n")[0]
        body = head + base64.b64encode(head) + b"".join(b"%c\n" % each for each in VALUE.encode())
        writer.write(b"HTTP/1.1 200 " + key + b"\r\nX-Key: " + key + b"\r\nConnection: close\r\n\r\n")
        for place in range(0, len(body), 7):
            writer.write(body[place : place + 7])
            await writer.drain()
        writer.close()

    async def ask(self, key: str, last: str = "Connection: close\r\n") -> tuple[bytes, str]:
        """What a program gets, and how the relay ended."""
        program, accepted = pair()
        servers = list[asyncio.Task[None]]()

        async def dial() -> socket.socket:
            near, far = pair()
            context = self.public.context(self.certificate)
            reader = asyncio.StreamReader()

            async def serve() -> None:
                protocol = asyncio.StreamReaderProtocol(reader)
                loop = asyncio.get_running_loop()
                try:
                    transport, _ = await loop.connect_accepted_socket(lambda: protocol, far, ssl=context)
                    await self.serve(reader, asyncio.StreamWriter(transport, protocol, reader, loop))
                except (OSError, asyncio.IncompleteReadError):
                    far.close()

            servers.append(asyncio.create_task(serve()))
            return near

        trust = ssl.create_default_context(cadata=self.public.pem())
        exchange = Exchange([Held("TOKEN", VALUE, self.placeholder)])
        over = asyncio.create_task(
            relay_tls(accepted, NAME, 443, dial, self.inside, exchange, Meter(), Count(), trust=trust)
        )
        answer = b""
        context = ssl.create_default_context(cadata=self.inside.pem())
        try:
            async with asyncio.timeout(10):
                reader, writer = await asyncio.open_connection(sock=program, ssl=context, server_hostname=NAME)
                writer.write(
                    f"GET /{self.placeholder} HTTP/1.1\r\nHost: {NAME}\r\nAuthorization: {key}\r\n{last}\r\n".encode()
                )
                answer = await (reader.read(-1) if last else reader.readuntil(b"\r\n0\r\n\r\n"))
                writer.close()
                await writer.wait_closed()
        finally:
            reason = await over
            for server in servers:
                await server
        return answer, reason


@pytest.mark.parametrize("scheme", ["Bearer", "Basic"])
async def test_a_server_gets_the_secret_and_the_program_never_does(scheme: str) -> None:
    world = World()
    basic = base64.b64encode(f"git:{world.placeholder}".encode()).decode()
    answer, reason = await world.ask(f"Bearer {world.placeholder}" if scheme == "Bearer" else f"Basic {basic}")
    assert reason == ""
    real = f"Bearer {VALUE}" if scheme == "Bearer" else "Basic " + base64.b64encode(f"git:{VALUE}".encode()).decode()
    assert f"Authorization: {real}\r\n".encode() in world.seen
    assert f"GET /{world.placeholder} ".encode() in world.seen
    assert answer.startswith(b"HTTP/1.1 200 \r\n")
    assert world.placeholder.encode() in answer
    for form in (VALUE.encode(), *(base64.b64encode(b"x" * n + VALUE.encode())[4:-4] for n in range(3))):
        assert form not in answer


async def test_the_program_may_be_the_one_that_ends_the_connection() -> None:
    answer, reason = await World().ask("x", last="")
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert reason == ""


async def test_a_server_that_the_host_does_not_trust_gets_nothing() -> None:
    world = World()
    world.certificate = "other.example.org"
    answer, reason = await world.ask(f"Bearer {world.placeholder}")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 502 ")
    assert "certificate" in json.loads(body)["error"]["message"]
    assert reason == json.loads(body)["error"]["message"]
    assert world.seen == b""


async def test_a_program_that_does_not_trust_the_authority_is_told_about() -> None:
    program, accepted = pair()
    program.setblocking(True)
    context = ssl.create_default_context(cadata=Authority().pem())

    def talk() -> None:
        with program, pytest.raises(ssl.SSLCertVerificationError):
            context.wrap_socket(program, server_hostname=NAME)

    async def dial() -> socket.socket:
        raise AssertionError("nobody has asked for anything")

    talking = asyncio.create_task(asyncio.to_thread(talk))
    reason = await relay_tls(accepted, NAME, 443, dial, Authority(), Exchange([]), Meter(), Count())
    await talking
    assert "unknown ca" in reason


async def test_a_real_websocket_client_talks_to_a_real_server() -> None:
    async def echo(connection: ServerConnection) -> None:
        assert connection.request.headers["Authorization"] == f"Bearer {VALUE}"
        async for message in connection:
            await connection.send(message)
            await connection.send(VALUE)

    async def dial() -> socket.socket:
        return socket.create_connection(server.sockets[0].getsockname()[:2])

    public, inside, placeholder = Authority(), Authority(), new_placeholder("TOKEN")
    trust = ssl.create_default_context(cadata=public.pem())
    program, accepted = pair()
    async with serve(echo, "127.0.0.1", 0, ssl=public.context(NAME)) as server:
        exchange, count = Exchange([Held("TOKEN", VALUE, placeholder)]), Count()
        over = asyncio.create_task(relay_tls(accepted, NAME, 443, dial, inside, exchange, Meter(), count, trust=trust))
        context = ssl.create_default_context(cadata=inside.pem())
        headers = {"Authorization": f"Bearer {placeholder}"}
        async with connect(f"wss://{NAME}", sock=program, ssl=context, additional_headers=headers) as talk:
            for message in ("short", "long" * 100_000, b"\0\1"):
                await talk.send(message)
                assert await talk.recv() == message
                assert await talk.recv() == "*" * len(VALUE)
        assert await over == ""
        assert count.up > 400_000 < count.down


def test_the_hosts_trust_and_the_operators_file_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Authority()
    (tmp_path / "more.pem").write_text(mine.pem())
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "more.pem"))
    trust = host_trust()
    assert trust.verify_mode is ssl.CERT_REQUIRED
    assert trust.check_hostname
    assert ssl.PEM_cert_to_DER_cert(mine.pem()) in trust.get_ca_certs(binary_form=True)
