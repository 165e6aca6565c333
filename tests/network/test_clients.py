"""Sixteen clients, each allowed and refused; none is configured for a proxy."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from tests.network import outside
from tests.network.conftest import TRUSTED
from tests.network.outside import World
from tests.network.world import REDIS
from tests.store import postgresql

import cloche

ALLOWED, REFUSED = "world.test", "refused.test"
HERE = "the-database"  # stands for its port, which is known later
SITE = f"/sandbox/.local/lib/python3.{sys.version_info[1]}/site-packages"
PAGE = "Hello from outside."


class Client(NamedTuple):
    """A client, in a language of Cloche; its code has a place for the host."""

    name: str
    language: str
    code: str
    shows: str = PAGE
    port: int | str = 443
    needs: str = "sh"


CLIENTS = (
    Client("curl", "bash", "curl -sS https://{host}/"),
    Client("wget", "bash", "wget -q -O - --ca-certificate=$SSL_CERT_FILE https://{host}/"),
    Client(
        "pip",
        "bash",
        "pip install -q --no-cache-dir --target /tmp/pip-{host} --index-url https://{host}/simple/ tiny-wheel"
        " && ls /tmp/pip-{host}",
        "tiny_wheel.py",
    ),
    Client(
        "uv",
        "bash",
        "python -m uv pip install --no-cache --target /tmp/uv-{host} --default-index https://{host}/simple/ tiny-wheel"
        " && ls /tmp/uv-{host}",
        "tiny_wheel.py",
    ),
    Client(
        "npm",
        "bash",
        "mkdir -p /tmp/npm-{host} && cd /tmp/npm-{host} && npm install --registry https://{host}/npm/ tiny-package"
        " && node -p 'require(`tiny-package`)'",
        "tiny package",
        needs="npm",
    ),
    Client(
        "git",
        "bash",
        "git clone -q https://{host}/git/tiny.git /tmp/git-{host} && cat /tmp/git-{host}/README",
        "tiny repository",
        needs="git",
    ),
    Client("requests", "python", "import requests; print(requests.get('https://{host}/').text)"),
    Client("httpx", "python", "import httpx; print(httpx.get('https://{host}/').text)"),
    Client(
        "aiohttp",
        "python",
        "import aiohttp\nasync with aiohttp.ClientSession() as session, session.get('https://{host}/') as answer:\n"
        "    print(await answer.text())",
    ),
    Client("fetch", "javascript", "console.log(await (await fetch('https://{host}/')).text())", needs="node"),
    Client(
        "https",
        "javascript",
        "const https = require('https'); await new Promise((done, fail) => https.get('https://{host}/', (answer) => "
        "answer.pipe(process.stdout).on('unpipe', done)).on('error', fail));",
        needs="node",
    ),
    Client(
        "go",
        "go",
        'package main\nimport ("io"; "log"; "net/http"; "os")\nfunc main() {\n answer, err := http.Get("https://{host}/")\n'
        " if err != nil { log.Fatal(err) }\n io.Copy(os.Stdout, answer.Body)\n}",
        needs="go",
    ),
    Client(
        "java",
        "java",
        """
import java.io.FileInputStream;
import java.net.URI;
import java.net.http.*;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.*;

public class Main {
    public static void main(String[] words) throws Exception {
        var store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        var certificate = new FileInputStream(System.getenv("SSL_CERT_FILE"));
        store.setCertificateEntry("world", CertificateFactory.getInstance("X.509").generateCertificate(certificate));
        var trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        var context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        var request = HttpRequest.newBuilder(URI.create("https://{host}/")).build();
        var client = HttpClient.newBuilder().sslContext(context).build();
        System.out.print(client.send(request, HttpResponse.BodyHandlers.ofString()).body());
    }
}""",
        needs="java",
    ),
    Client(
        "r",
        "r",
        "download.file('https://{host}/', '/tmp/page', quiet = TRUE); cat(readLines('/tmp/page'))",
        needs="Rscript",
    ),
    Client(
        "cargo",
        "bash",
        "mkdir -p /tmp/{host}/src && cd /tmp/{host} && touch src/lib.rs\n"
        "export CARGO_HOME=/tmp/{host}/home CARGO_REGISTRIES_WORLD_INDEX=sparse+https://{host}/cargo/\n"
        'printf \'[package]\\nname = "user"\\nversion = "0.1.0"\\n[dependencies.tinycrate]\\nversion = "1"\\n'
        'registry = "world"\\n\' > Cargo.toml\ncargo fetch -q && ls home/registry/src/*',
        "tinycrate-1.0.0",
        needs="cargo",
    ),
    Client(
        "psycopg",
        "python",
        "import psycopg\nwith psycopg.connect('host={host} port={port} user=cloche password=correct-horse "
        "dbname=postgres') as found:\n    print(found.execute('SELECT 6 * 7').fetchall())",
        "[(42,)]",
        HERE,
        "psql",
    ),
    Client(
        "redis",
        "python",
        # Its own patience is ten attempts.
        "import redis, redis.retry, redis.backoff\n"
        "found = redis.Redis('{host}', retry=redis.retry.Retry(redis.backoff.NoBackoff(), 1))\n"
        "print(found.ping(), found.set('a', 'b'), found.get('a'))",
        "True True b'b'",
        REDIS,
    ),
)


@pytest.fixture(scope="module")
def database(world: World) -> Iterator[int]:
    """The port of a real PostgreSQL at the world's address."""
    if port := os.environ.get(outside.DATABASE):
        yield int(port)
        return
    for server in postgresql.running(world.address):
        yield server.port


@pytest.fixture(scope="module")
def reaching(world: World, trust: dict[str, str], database: int) -> Iterator[cloche.Sandbox]:
    """A sandbox that may reach one name, on three ports."""
    policy = [ALLOWED, f"{ALLOWED}:{REDIS}", f"{ALLOWED}:{database}"]
    mounts = {str(world.ca): TRUSTED, str(outside.clients()): SITE}
    with cloche.Sandbox(network=policy, env=trust, mounts=mounts, memory="1G", disk="1G") as box:
        yield box


def run(box: cloche.Sandbox, client: Client, host: str, database: int) -> tuple[cloche.Result, int]:
    """The result of a client that goes to a host, and the port."""
    if shutil.which(client.needs) is None:
        # A user may not see the folder in which root has a tool.
        assert not os.environ.get("CI") or os.geteuid() != 0, f"no {client.needs}"
        pytest.skip(f"{client.needs} is not installed on this host")
    port = database if client.port == HERE else int(client.port)
    code = client.code.replace("{host}", host).replace("{port}", str(port))
    return box.run(code, language=client.language, timeout=30), port


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_an_allowed_client_transfers(reaching: cloche.Sandbox, client: Client, database: int):
    result, port = run(reaching, client, ALLOWED, database)
    assert result.error is None, f"{result.error}\n{result.stderr}"
    assert client.shows in result.stdout
    assert result.network
    for attempt in result.network:
        rule = ALLOWED if port == 443 else f"{ALLOWED}:{port}"
        assert (attempt.host, attempt.port, attempt.verdict, attempt.rule) == (ALLOWED, port, "allowed", rule)
        assert attempt.reason == ""
    assert sum(attempt.bytes_up for attempt in result.network) > 10
    assert sum(attempt.bytes_down for attempt in result.network) > 10


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_refused_client_fails_at_once_and_says_why(
    reaching: cloche.Sandbox, client: Client, database: int, world: World
):
    before = world.count()
    result, port = run(reaching, client, REFUSED, database)
    said = f"{result.stdout}\n{result.stderr}\n{result.error}"
    assert result.error is not None, said
    assert result.error.kind == "network", said
    assert REFUSED in result.error.message
    assert (REFUSED if port == 443 else f"{REFUSED}:{port}") in result.error.hint
    assert client.shows not in result.stdout
    assert result.network
    for attempt in result.network:
        assert (attempt.host, attempt.port, attempt.verdict, attempt.rule) == (REFUSED, port, "refused", "")
        assert "no rule" in attempt.reason
        assert attempt.bytes_up == attempt.bytes_down == 0
    # The starts of some clients take longer on a busy machine; from the first connection on, nothing is waited for.
    first, last = result.network[0], result.network[-1]
    assert last.time + last.duration - first.time < 2
    assert result.duration < 15
    assert world.count() == before  # not even a handshake
