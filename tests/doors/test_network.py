"""Network policies over HTTP, WebSocket, MCP and the library: bounded, in force, changed, and never with a secret."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.conftest import Server
from tests.doors.test_mcp import client_of
from websockets.sync.client import connect

import cloche

HOST, OTHER = "good.internal", "other.internal"
CANARY = "canary-8d1f2c5be1"
LOOPBACK = {
    "CLOCHE_NETWORK_PRIVATE": "127.0.0.0/8",
    "CLOCHE_NETWORK_HOSTS": f"{HOST}=127.0.0.1,{OTHER}=127.0.0.1",
}


class _Hello(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A web server on this host's loopback."""
    web = ThreadingHTTPServer(("127.0.0.1", 0), _Hello)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    yield web.server_port
    web.shutdown()
    web.server_close()


@pytest.fixture(scope="module")
def reaching(jail: None, port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose sandboxes may reach this host's loopback by two names."""
    folder = tmp_path_factory.mktemp("network")
    running = Server(folder, "--max-network", f"*.internal:{port}", env={"CLOCHE_WARM": "0", **LOOPBACK})
    yield running
    running.stop()


@pytest.fixture
def http(reaching: Server) -> Iterator[httpx2.Client]:
    with reaching.client() as client:
        yield client


@pytest.fixture
def rule(port: int) -> str:
    return f"{HOST}:{port}"


def get(host: str, port: int) -> str:
    return f"import urllib.request\nprint(urllib.request.urlopen('http://{host}:{port}/').read().decode())"


@pytest.fixture
def new_sandbox(http: httpx2.Client) -> Iterator[Callable[..., str]]:
    """Makes sandboxes that end with the test."""
    made: list[str] = []

    def make(**wish: Any) -> str:
        answer = http.post("/v1/sandboxes", json=wish)
        assert answer.status_code == 201, answer.text
        made.append(f"/v1/sandboxes/{answer.json()['id']}")
        return made[-1]

    yield make
    for path in made:
        http.delete(path)


def test_a_run_reaches_what_it_names_and_its_result_tells_of_the_rest(
    http: httpx2.Client, rule: str, port: int
) -> None:
    code = f"{get(HOST, port)}\n{get(OTHER, port)}"
    result = http.post("/v1/run", json={"code": code, "network": [rule]}).json()
    assert result["stdout"] == "hello\n"
    assert [(one["host"], one["verdict"], one["rule"]) for one in result["network"]] == [
        (HOST, "allowed", rule),
        (OTHER, "refused", ""),
    ]
    assert result["error"]["kind"] == "network"
    assert f'"network": ["{OTHER}:{port}"]' in result["error"]["hint"]
    assert http.post("/v1/run", json={"code": get(HOST, port)}).json()["network"] == []  # nothing was asked for


@pytest.mark.parametrize("network", [["example.org"], "public", {"allow": ["*"]}, {"allow": ["good.internal:22"]}])
def test_a_request_beyond_the_bound_is_refused_with_the_rule(http: httpx2.Client, network: Any) -> None:
    for path, body in (("/v1/run", {"code": "1"}), ("/v1/sandboxes", {})):
        answer = http.post(path, json={**body, "network": network})
        assert answer.status_code == 409, answer.text
        wanted = (
            network if isinstance(network, str) else (network["allow"] if isinstance(network, dict) else network)[0]
        )
        assert f" {wanted} " in answer.json()["error"]["message"]
        assert "max_network" in answer.json()["error"]["hint"]


@pytest.mark.parametrize("network", [True, 7, {"allowed": []}, {"secrets": {"A": {"value": CANARY}}}, ["http://x/"]])
def test_a_policy_that_makes_no_sense_is_refused_without_repeating_values(http: httpx2.Client, network: Any) -> None:
    answer = http.post("/v1/run", json={"code": "1", "network": network})
    assert answer.status_code in (400, 422)
    assert CANARY not in answer.text


def test_a_policy_is_shown_and_replaced_while_programs_run(
    http: httpx2.Client, new_sandbox: Callable[..., str], rule: str, port: int
) -> None:
    box = new_sandbox()
    policy = http.get(f"{box}/network").json()
    assert (policy["requested"]["allow"], policy["bound"]["allow"]) == ([], [f"*.internal:{port}"])
    assert http.post(f"{box}/run", json={"code": get(HOST, port)}).json()["error"]["kind"] != "network"

    changed = http.put(f"{box}/network", json={"allow": [rule], "bytes": "1M"}).json()
    assert (changed["effective"]["allow"], changed["effective"]["bytes"]) == ([rule], 1 << 20)
    assert http.post(f"{box}/run", json={"code": get(HOST, port)}).json()["stdout"] == "hello\n"
    assert http.put(f"{box}/network", json={"allow": ["example.org"]}).status_code == 409
    assert http.get(f"{box}/network").json()["effective"] == changed["effective"]  # as it was

    log = http.get(f"{box}/network/log").json()["items"]
    assert [(one["host"], one["verdict"]) for one in log] == [(HOST, "allowed")]
    assert http.get(f"{box}/network/log?since={log[-1]['number']}").json()["items"] == []
    assert http.get(f"{box}/usage").json()["network"]["received"] == log[0]["bytes_down"] > 0

    assert http.put(f"{box}/network", json={}).json()["effective"]["allow"] == []
    assert http.post(f"{box}/run", json={"code": get(HOST, port)}).json()["exit_code"] == 1


def test_a_key_has_a_bound_of_its_own(http: httpx2.Client, reaching: Server, rule: str, port: int) -> None:
    made = http.post("/v1/keys", json={"owner": "ada", "name": "narrow", "policy": {"network": [rule]}}).json()
    with reaching.client(made["key"]) as narrow:
        assert narrow.get("/v1/key").json()["network"]["allow"] == [rule]
        assert narrow.post("/v1/run", json={"code": get(HOST, port), "network": [rule]}).json()["stdout"] == "hello\n"
        answer = narrow.post("/v1/run", json={"code": "1", "network": [f"{OTHER}:{port}"]})
        assert answer.status_code == 409
        assert "key" in answer.json()["error"]["message"]
        # E2B's clients say nothing of the network, and get all that the bound allows.
        box = narrow.post("/sandboxes", json={"templateID": "base"}).json()["sandboxID"]
        assert narrow.get(f"/sandboxes/{box}").json()["allowInternetAccess"] is True
        path = f"/v1/sandboxes/{box.replace('sbx', 'sbx_', 1)}/network"
        assert narrow.get(path).json()["effective"]["allow"] == [rule]
        assert narrow.put(f"/sandboxes/{box}/network", json={"allow_internet_access": False}).status_code == 204
        assert narrow.get(path).json()["effective"]["allow"] == []
        assert narrow.get(f"/sandboxes/{box}").json()["allowInternetAccess"] is False
        assert narrow.put(f"/sandboxes/{box}/network", json={"rules": [HOST]}).status_code == 400
        narrow.delete(f"/sandboxes/{box}")


async def test_a_model_allows_a_host_with_its_next_call(reaching: Server, rule: str, port: int) -> None:
    async with client_of(reaching) as client:

        async def run(host: str, **more: Any) -> dict[str, Any]:
            answer = await client.call_tool("code_execution", {"code": get(host, port), **more})
            assert answer.structured_content is not None
            return dict(answer.structured_content)

        first = await run(OTHER, network=[rule])
        assert first["error"]["kind"] == "network"
        (refused,) = first["refused_hosts"]
        assert (refused["host"], refused["port"], refused["allow"]) == (OTHER, port, f"{OTHER}:{port}")
        assert f'`network` ["{OTHER}:{port}"]' in first["error"]["hint"]
        assert (await run(OTHER, network=[refused["allow"]]))["stdout"] == "hello\n"
        assert (await run(HOST))["stdout"] == "hello\n"  # it stays allowed, as the first call wished
        beyond = await client.call_tool("code_execution", {"code": "1", "network": ["example.org"]})
        assert beyond.is_error
        assert "example.org" in str(beyond.content[0])
        made = await client.call_tool("session_create", {"network": [rule]})
        assert made.structured_content is not None
        assert (await run(HOST, session=made.structured_content["session"]))["stdout"] == "hello\n"


def test_a_secret_is_kept_and_never_answered_or_written(
    http: httpx2.Client, reaching: Server, new_sandbox: Callable[..., str], rule: str
) -> None:
    secret = {"TOKEN": {"value": CANARY, "hosts": [rule]}}
    box = new_sandbox(network={"allow": [rule], "secrets": secret}, persistent=True)
    kept = {"TOKEN": {"hosts": [rule], "variable": True, "stored": ""}}
    shown = http.get(f"{box}/network")
    assert shown.json()["requested"]["secrets"] == shown.json()["effective"]["secrets"] == kept
    changed = http.put(f"{box}/network", json=shown.json()["requested"])  # as it was shown, without the value
    assert changed.status_code == 200, changed.text
    elsewhere = {"allow": [rule], "secrets": {"TOKEN": {"hosts": [OTHER]}}}
    assert http.put(f"{box}/network", json=elsewhere).status_code == 400  # the value was not given for that host
    run = http.post("/v1/run", json={"code": "print(1)", "network": {"allow": [rule], "secrets": secret}})
    info = http.get(box)
    http.delete(box)

    again = new_sandbox(workspace=info.json()["workspace"])
    policy = http.get(f"{again}/network")
    assert policy.json()["effective"]["allow"] == [rule]
    assert policy.json()["effective"]["secrets"] == {}
    assert policy.json()["lost_secrets"] == ["TOKEN"]

    audit = http.get("/v1/audit")
    assert any(entry["action"] == "network.replace" for entry in audit.json()["items"])
    for answer in (shown, changed, run, info, policy, audit, http.get("/v1/runs"), http.get("/metrics")):
        assert CANARY not in answer.text
    written = [path for path in reaching.folder.rglob("*") if path.is_file()]
    assert len(written) > 5
    assert [path for path in written if CANARY.encode() in path.read_bytes()] == []


def test_a_run_of_its_own_has_the_placeholder_of_a_secret(http: httpx2.Client, rule: str) -> None:
    network = {"allow": [rule], "secrets": {"TOKEN": {"value": CANARY, "hosts": [rule]}}}
    told = http.post("/v1/run", json={"code": "import os; print(os.environ['TOKEN'])", "network": network}).json()
    assert told["stdout"].startswith("cloche_secret_TOKEN_"), told


def test_the_library_uses_the_network_of_a_sandbox_on_a_server(reaching: Server, rule: str, port: int) -> None:
    where: Any = {"url": reaching.url, "api_key": reaching.key}
    assert cloche.run(get(HOST, port), network=[rule], **where).stdout == "hello\n"
    secrets = {"TOKEN": cloche.Secret(CANARY, [rule])}
    with cloche.Sandbox(network=cloche.Network(allow=[rule], secrets=secrets), **where) as box:
        refused = box.run(get(OTHER, port))
        assert refused.error is not None
        assert (refused.error.kind, refused.network[0].verdict) == ("network", "refused")
        assert f'network=["{OTHER}:{port}"]' in refused.error.hint
        policy = box.network.allow(f"{OTHER}:{port}")
        assert policy.effective.allow == (rule, f"{OTHER}:{port}")
        assert list(policy.effective.secrets) == ["TOKEN"]
        assert box.run(get(OTHER, port)).stdout == "hello\n"
        assert [one.verdict for one in box.network.log()] == ["refused", "allowed"]
        assert [one.number for one in box.network.log(since=1)] == [2]
        with pytest.raises(cloche.Refused, match=r"example\.org"):
            box.network.allow("example.org")


def test_a_websocket_message_has_the_network_too(reaching: Server, rule: str, port: int) -> None:
    headers = {"Authorization": f"Bearer {reaching.key}"}
    with connect(reaching.url.replace("http", "ws"), additional_headers=headers) as socket:
        for session in (False, True):
            message = {"type": "execute", "code": get(HOST, port), "network": [rule], "session": session}
            socket.send(json.dumps(message))
            while (answer := json.loads(socket.recv(30)))["type"] == "progress":
                pass  # it takes a while on a busy host
            assert (answer["type"], answer.get("output")) == ("result", "hello\n"), answer
            assert answer["network"][0]["host"] == HOST


def test_no_sandbox_reaches_the_server_itself(http: httpx2.Client, reaching: Server) -> None:
    """Its port is closed even where the operator has opened loopback, and the bound includes it."""
    named = {"CLOCHE_NETWORK_HOSTS": "self.internal=127.0.0.1", "CLOCHE_NETWORK_PRIVATE": "127.0.0.0/8"}
    running = Server(Path(reaching.folder, "self"), env={"CLOCHE_WARM": "0", **named})
    try:
        with running.client() as client:
            target = f"self.internal:{running.port}"
            code = get("self.internal", running.port)
            result = client.post("/v1/run", json={"code": code, "network": [target]}).json()
    finally:
        running.stop()
    assert result["error"]["kind"] == "network"
    assert "Cloche itself" in result["error"]["message"]
