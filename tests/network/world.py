"""The world outside, for tests of the network: servers on loopback addresses of their own, in a process of their own.

`python world.py` prints one line of JSON when everything listens, and ends when its input does:

    address  of all servers; `private` in the settings has to open it
    closed   another address with the same servers, which nobody opens
    ca       the certificate of the authority that signed those of `names`
    folder   has all files; only its owner may read keys
    log      a file with a line of JSON for each TLS handshake and each request that arrived
    pid      of the process
    names    the names on the certificate, for `network_hosts`; `closed.test` is at `closed`
    settings environment variables that make Cloche find the names

HTTPS is on port 443 and HTTP on 80 (see world_web.py), TLS also on 8443 and HTTP on 8080.  6379 speaks Redis's
protocol.  On 2525 the server speaks first, and then repeats each line.  9999 accepts and never says anything.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from tests.network import world_packages
from tests.network.world_web import Log, serve_web

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]

NAMES = ("world.test", "api.world.test", "other.test", "refused.test", "closed.test")
HTTPS_PORTS, HTTP_PORTS = (443, 8443), (80, 8080)
REDIS, GREETING, SILENT = 6379, 2525, 9999
GREETING_TEXT = b"220 the world is ready\r\n"
LIMIT = 1 << 20  # bytes of a line


def make_certificates(folder: Path, addresses: tuple[str, ...]) -> None:
    """Make an authority, and a certificate for all names and addresses."""
    names = [f"DNS:{name}" for name in (*NAMES, "*.world.test")] + [f"IP:{address}" for address in addresses]
    extensions = folder / "extensions"
    extensions.write_text(
        f"subjectAltName={','.join(names)}\nbasicConstraints=CA:FALSE\n"
        "keyUsage=digitalSignature\nextendedKeyUsage=serverAuth\n"
    )
    curve = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    authority = "-addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign"
    for command in (
        f"req -x509 {curve} -keyout ca-key.pem -out ca.pem -days 30 -subj /CN=World {authority}",
        f"req {curve} -keyout key.pem -out request.pem -subj /CN={NAMES[0]}",
        "x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -out own.pem -days 30 "
        f"-extfile {extensions.name}",
    ):
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True, timeout=30)
    (folder / "cert.pem").write_text((folder / "own.pem").read_text() + (folder / "ca.pem").read_text())


def tls(folder: Path, log: Log) -> ssl.SSLContext:
    """The server's side of TLS; it notes the name that a client asks for."""

    def note(connection: ssl.SSLObject, name: str, context: ssl.SSLContext) -> None:
        log.note(event="tls", sni=name)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    context.sni_callback = note
    return context


async def redis(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: dict[bytes, bytes]) -> None:
    """Redis's protocol, as far as clients need it for PING, SET and GET."""
    while (head := await reader.readline()).startswith(b"*"):
        words = []
        for _ in range(int(head[1:])):
            length = int((await reader.readline())[1:])
            words.append((await reader.readexactly(length + 2))[:-2])
        match words[0].upper(), *words[1:]:
            case (b"PING",):
                answer = b"+PONG\r\n"
            case b"SET", key, value, *_:
                kept[key] = value
                answer = b"+OK\r\n"
            case b"GET", key:
                found = kept.get(key)
                answer = b"$-1\r\n" if found is None else b"$%d\r\n%s\r\n" % (len(found), found)
            case b"HELLO", *_:
                answer = b"%1\r\n+proto\r\n:3\r\n"
            case b"CLIENT" | b"SELECT" | b"QUIT", *_:
                answer = b"+OK\r\n"
            case _:
                answer = b"-ERR unknown command\r\n"
        writer.write(answer)
        await writer.drain()


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Speak first, and repeat what comes."""
    writer.write(GREETING_TEXT)
    while line := await reader.readline():
        writer.write(line)
        await writer.drain()


async def be_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(1 << 16):
        pass


def surely_closed(handler: Handler) -> Handler:
    """A handler whose connection ends with it, whatever the client does."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except (OSError, EOFError, ValueError):
            pass
        finally:
            writer.close()

    return handle


async def listen(address: str, folder: Path, log: Log, context: ssl.SSLContext) -> None:
    """Start all servers at an address."""
    kept: dict[bytes, bytes] = {}
    content = folder / "content"
    for port in HTTPS_PORTS:
        web = partial(serve_web, content=content, log=log, scheme="https", port=port, address=address)
        await asyncio.start_server(
            surely_closed(web), address, port, ssl=context, ssl_handshake_timeout=30, limit=LIMIT, backlog=1024
        )
    for port in HTTP_PORTS:
        web = partial(serve_web, content=content, log=log, scheme="http", port=port, address=address)
        await asyncio.start_server(surely_closed(web), address, port, limit=LIMIT, backlog=1024)
    for port, handler in ((REDIS, partial(redis, kept=kept)), (GREETING, greet), (SILENT, be_silent)):
        await asyncio.start_server(surely_closed(handler), address, port, limit=LIMIT, backlog=1024)


def addresses() -> tuple[str, str]:
    """Addresses that no other process of the tests has: by our process id."""
    tail = f"{os.getpid() >> 8 & 255}.{max(1, os.getpid() & 255)}"
    return f"127.77.{tail}", f"127.78.{tail}"


async def serve(folder: Path) -> None:
    """Serve until our input ends."""
    address, closed = addresses()
    make_certificates(folder, (address, closed))
    world_packages.write(folder / "content")
    log = Log(folder / "log")
    context = tls(folder, log)
    await listen(address, folder, log, context)
    await listen(closed, folder, log, context)
    where = {name: closed if name == "closed.test" else address for name in NAMES}
    known = {
        "address": address,
        "closed": closed,
        "ca": str(folder / "ca.pem"),
        "folder": str(folder),
        "log": str(folder / "log"),
        "names": list(NAMES),
        "pid": os.getpid(),
        "settings": {
            "CLOCHE_NETWORK_PRIVATE": f"{address}/32",
            "CLOCHE_NETWORK_HOSTS": ",".join(f"{name}={at}" for name, at in where.items()),
        },
    }
    print(json.dumps(known), flush=True)
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(0, lambda: None if os.read(0, 4096) else ended.set())
    await ended.wait()


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="test-world-"))
    try:
        folder.chmod(0o755)  # tests of other users read the certificate; openssl writes keys for us alone
        asyncio.run(serve(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
