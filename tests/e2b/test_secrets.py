"""Stored secrets: written through E2B's API, used in headers of `rules`, and read by nobody."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
import pytest
from tests.conftest import Server

HOST = "api.internal"
CANARY, NEXT = "canary-1f3a99c2b7", "canary-77e0d1b6aa"


class _Echo(BaseHTTPRequestHandler):
    """Sends the headers of each request back, and keeps them."""

    heads: list[dict[str, str]]

    def do_GET(self) -> None:
        head = {name.lower(): value for name, value in self.headers.items()}
        self.heads.append(head)
        body = json.dumps(head).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def echo() -> Iterator[ThreadingHTTPServer]:
    """A web server on this host's loopback."""
    _Echo.heads = []
    web = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    yield web
    web.shutdown()
    web.server_close()


@pytest.fixture(scope="module")
def rule(echo: ThreadingHTTPServer) -> str:
    return f"{HOST}:{echo.server_port}"


@pytest.fixture(scope="module")
def reaching(jail: None, rule: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose sandboxes may reach the web server by its name."""
    named = {"CLOCHE_NETWORK_PRIVATE": "127.0.0.0/8", "CLOCHE_NETWORK_HOSTS": f"{HOST}=127.0.0.1"}
    folder = tmp_path_factory.mktemp("secrets")
    running = Server(folder, "--max-network", rule, env={"CLOCHE_WARM": "0", **named})
    yield running
    running.stop()


@pytest.fixture
def http(reaching: Server) -> Iterator[httpx2.Client]:
    with reaching.client() as client:
        yield client


def _rules(rule: str) -> dict[str, Any]:
    headers = {"Authorization": "Bearer ${e2b.secrets.API-key}", "X-Plain": "costs ${money}"}
    return {rule: [{"transform": {"headers": headers}}]}


def _get(http: httpx2.Client, box: str, rule: str) -> dict[str, str]:
    """The headers that a program's request had, as the web server sends them back."""
    code = (
        f"import urllib.request as web\nwanted = web.Request('http://{rule}/', headers={{'Authorization': 'mine'}})\n"
        "print(web.urlopen(wanted).read().decode())"
    )
    path = f"/v1/sandboxes/{box.replace('sbx', 'sbx_', 1)}/run"
    result = http.post(path, json={"code": code}).json()
    assert result["error"] is None, result
    assert CANARY not in result["stdout"]
    assert NEXT not in result["stdout"]
    return dict(json.loads(result["stdout"]))


def test_a_rule_sends_the_current_value_of_a_stored_secret(http: httpx2.Client, reaching: Server, rule: str) -> None:
    made = http.post("/secrets", json={"name": "API-key", "value": CANARY})
    assert made.status_code == 201, made.text
    body = {"templateID": "base", "network": {"rules": _rules(rule)}}
    created = http.post("/sandboxes", json=body)
    assert created.status_code == 201, created.text
    box = created.json()["sandboxID"]
    seen = _get(http, box, rule)
    assert seen["authorization"].startswith("Bearer cloche_secret_")  # in place of the value, which the server echoed
    assert seen["x-plain"] == "costs ${money}"
    assert _Echo.heads[-1]["authorization"] == f"Bearer {CANARY}"

    changed = http.post("/secrets/api-key", json={"value": NEXT})
    assert changed.json()["currentVersion"] == 2
    _get(http, box, rule)
    assert _Echo.heads[-1]["authorization"] == f"Bearer {NEXT}"

    # A program has neither the value nor a placeholder that it could send elsewhere.
    path = f"/v1/sandboxes/{box.replace('sbx', 'sbx_', 1)}"
    environment = http.post(f"{path}/run", json={"code": "import os; print(dict(os.environ))"}).json()["stdout"]
    assert "cloche_secret" not in environment
    answers = [http.get(f"/sandboxes/{box}"), http.get(f"{path}/network"), http.get("/v1/audit"), http.get("/secrets")]
    assert answers[0].json()["network"]["rules"] == _rules(rule)
    assert answers[1].json()["effective"]["secrets"]["STORED_1"]["stored"] == "api-key"
    actions = {entry["action"] for entry in answers[2].json()["items"]}
    assert {"secret.create", "secret.update"} <= actions

    assert http.delete(f"/secrets/{made.json()['secretID']}").status_code == 204
    _get(http, box, rule)
    assert _Echo.heads[-1]["authorization"] == "mine"
    refused = http.post("/sandboxes", json=body)
    assert refused.status_code == 400
    assert "no secret" in refused.json()["message"]
    http.delete(f"/sandboxes/{box}")

    assert not any(value in answer.text for answer in answers for value in (CANARY, NEXT))
    written = [path for path in reaching.folder.rglob("*") if path.is_file()]
    assert any(path.name == "secrets-key" for path in written)
    assert [
        path for path in written if CANARY.encode() in path.read_bytes() or NEXT.encode() in path.read_bytes()
    ] == []


def test_literal_headers_are_set_and_shown_to_those_who_may_run(
    http: httpx2.Client, reaching: Server, rule: str
) -> None:
    rules = {rule: [{"transform": {"headers": {"X-Token": "plain-text"}}}, {"transform": {}}]}
    box = http.post("/sandboxes", json={"templateID": "base"}).json()["sandboxID"]
    assert http.put(f"/sandboxes/{box}/network", json={"rules": rules}).status_code == 204
    assert _get(http, box, rule)["x-token"] == "plain-text"  # a text in a rule is no secret: E2B's own test reads it
    assert http.get(f"/sandboxes/{box}").json()["network"]["rules"] == rules
    key = http.post("/v1/keys", json={"owner": "admin", "name": "reader", "scopes": ["read"]}).json()["key"]
    with reaching.client(key) as reader:
        assert "plain-text" not in reader.get(f"/sandboxes/{box}").text
        assert reader.post("/secrets", json={"name": "x", "value": "y"}).status_code == 403
    assert http.put(f"/sandboxes/{box}/network", json={}).status_code == 204  # E2B replaces everything
    assert "x-token" not in _get(http, box, rule)
    http.delete(f"/sandboxes/{box}")


@pytest.mark.parametrize(
    ("rules", "names"),
    [
        ({HOST: [{"transform": {"headers": {"Host": "other"}}}]}, "Host"),
        ({HOST: [{"transform": {"headers": {"X-A": "a\r\nX-B: b"}}}]}, "X-A"),
        ({HOST: [{"transform": {"headers": {"X A": "a"}}}]}, "X A"),
        ({"10.0.0.0/8": [{"transform": {"headers": {"X-A": "a"}}}]}, "10.0.0.0/8"),
        ({HOST: {"transform": {}}}, HOST),
        ({HOST: [{"transform": {"headers": ["X-A"]}}]}, "headers"),
        ([HOST], "rules"),
    ],
)
def test_rules_that_cannot_be_kept_are_refused_by_name(http: httpx2.Client, rules: Any, names: str) -> None:
    answer = http.post("/sandboxes", json={"templateID": "base", "network": {"rules": rules}})
    assert answer.status_code == 400
    assert names in answer.json()["message"]
