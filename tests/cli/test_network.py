"""`--network` and `--secret` of the command line."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.cli.command import run

from cloche.cli.network import policy
from cloche.errors import InvalidRun
from cloche.model.network import Network
from cloche.model.secret import Secret

LOOPBACK = {
    "CLOCHE_NETWORK_PRIVATE": "127.0.0.0/8",
    "CLOCHE_NETWORK_HOSTS": "good.internal=127.0.0.1,other.internal=127.0.0.1",
}


class _Hello(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    web = ThreadingHTTPServer(("127.0.0.1", 0), _Hello)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    yield web.server_port
    web.shutdown()
    web.server_close()


def get(host: str, port: int) -> str:
    return f"import urllib.request; print(urllib.request.urlopen('http://{host}:{port}/').read().decode())"


def test_a_program_reaches_the_host_that_the_option_names(jail: None, tmp_path: Path, port: int) -> None:
    done = run(tmp_path, "--network", f"good.internal:{port}", "-c", get("good.internal", port), **LOOPBACK)
    assert (done.stdout, done.returncode) == ("hello\n", 0), done.stderr


def test_a_refusal_names_the_option_that_allows_the_host(jail: None, tmp_path: Path, port: int) -> None:
    host = f"other.internal:{port}"
    done = run(tmp_path, "--network", f"good.internal:{port}", "-c", get("other.internal", port), **LOOPBACK)
    assert done.returncode == 1
    assert "cloche: network: " in done.stderr
    assert f"--network {host}" in done.stderr
    retried = run(tmp_path, "--network", host, "-c", get("other.internal", port), **LOOPBACK)
    assert retried.stdout == "hello\n"


def test_a_secret_comes_from_the_environment_and_its_hosts_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "x")
    found = policy(["b.example.org"], ["A_TOKEN@a.example.org,c.example.org"])
    assert found == Network(
        allow=["b.example.org", "a.example.org", "c.example.org"],
        secrets={"A_TOKEN": Secret("x", ["a.example.org", "c.example.org"])},
    )


@pytest.mark.parametrize(
    "text", ["A_TOKEN", "A_TOKEN@", "@host", "A_TOKEN=hunter2@a.example.org", "MISSING@a.example.org"]
)
def test_a_secret_without_host_or_value_is_refused(text: str) -> None:
    with pytest.raises(InvalidRun) as problem:
        policy([], [text])
    assert "hunter2" not in str(problem.value)
