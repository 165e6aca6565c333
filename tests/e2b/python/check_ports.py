"""Servers inside sandboxes, reached by the names that `get_host` gives."""

from __future__ import annotations

import os
from collections.abc import Iterator

import httpx
import pytest
from e2b_code_interpreter import Sandbox

SERVER = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        told = f"{self.path} {self.headers['Host']} {self.headers.get('E2B-Traffic-Access-Token')}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *_): pass

server = ThreadingHTTPServer(("127.0.0.1", 3000), Handler)
Thread(target=server.serve_forever, daemon=True).start()
"""


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    """Asks the server, whatever name it is called by: not every resolver knows names below localhost."""
    with httpx.Client(base_url=os.environ["E2B_SANDBOX_URL"], timeout=30, trust_env=False) as client:
        yield client


def test_by_the_name_of_its_host_and_by_headers(sandbox: Sandbox, http: httpx.Client) -> None:
    sandbox.run_code(SERVER)
    named = http.get("/a/b?c=d", headers={"Host": sandbox.get_host(3000)})
    by_headers = http.get("/e", headers={"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "3000"})

    assert (named.status_code, named.text) == (200, "/a/b?c=d localhost:3000 None")
    assert by_headers.text == "/e localhost:3000 None"
    # Who was given such an address can visit it, and nothing else.
    answer = http.post("/execute", json={"code": "1"}, headers={"Host": sandbox.get_host(49999)})
    assert answer.status_code == 401


def test_a_port_that_nobody_listens_at(sandbox: Sandbox, http: httpx.Client) -> None:
    answer = http.get("/", headers={"Host": sandbox.get_host(4000)})

    assert answer.status_code == 502
    assert answer.json()["message"] == "The sandbox is running but port is not open"
    gone = http.get("/", headers={"Host": sandbox.get_host(4000).replace("4000-sbx", "4000-sbx0")})
    assert (gone.status_code, gone.json()["message"]) == (502, "The sandbox was not found")


def test_without_public_traffic_a_token_is_wanted(http: httpx.Client) -> None:
    network = {"allow_public_traffic": False, "mask_request_host": "inner.example:${PORT}"}
    with Sandbox.create(network=network) as sandbox:
        assert sandbox.run_code(SERVER).error is None
        host = {"Host": sandbox.get_host(3000)}
        assert http.get("/", headers=host).status_code == 403
        token = {"E2B-Traffic-Access-Token": sandbox.traffic_access_token}
        assert http.get("/", headers={**host, **token}).text == "/ inner.example:3000 None"
        assert Sandbox.connect(sandbox.sandbox_id).traffic_access_token == sandbox.traffic_access_token
        execute = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "49999"}
        assert http.post("/execute", json={"code": "1"}, headers=execute).status_code == 403
