"""Environments over HTTP, WebSocket, MCP and the library: built, followed, used and removed, each owner its own."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from tests.conftest import Server
from tests.doors.test_mcp import client_of
from websockets.sync.client import connect

import cloche

SHOW = "import cowsay; print(cowsay.__version__, open('a.txt').read())"
SHOWN = "6.1 hi\n"


@pytest.fixture(scope="module")
def building(jail: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("building")
    running = Server(folder, env={"CLOCHE_WARM": "0", "CLOCHE_PACKAGES_FOLDER": str(folder / "packages")})
    yield running
    running.stop()


@pytest.fixture(scope="module")
def http(building: Server) -> Iterator[httpx2.Client]:
    with building.client() as client:
        client.timeout = 120
        yield client


def follow(http: httpx2.Client, name: str) -> list[dict[str, Any]]:
    with http.stream("GET", f"/v1/environments/{name}/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        return [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line.startswith("data: ")]


@pytest.fixture(scope="module")
def report(http: httpx2.Client) -> str:
    """An environment that was built over HTTP."""
    program = {"base64": b64encode(b"#!/bin/sh\necho moin\n").decode()}
    body = {
        "name": "report:v1",
        "packages": ["cowsay==6.1"],
        "files": {"a.txt": "hi", "bin/hello": program},
        "programs": ["bin/hello"],
        "setup": "echo from the setup\n",
        "steps": [{"folder": "below"}, {"env": {"A": "1"}}, {"run": "echo $A > made"}, {"files": {"b": "2"}}],
        "imports": ["cowsay"],
    }
    answer = http.post("/v1/environments", json=body)
    assert answer.status_code == 202, answer.text
    assert (answer.json()["name"], answer.json()["build"]["state"]) == ("report:v1", "queued")
    events = follow(http, "report:v1")
    assert events[-1]["kind"] == "end"
    assert events[-1]["state"] == "done", events[-1]
    assert "from the setup" in [each.get("text") for each in events]
    return "report:v1"


def test_an_environment_is_described_with_its_packages(http: httpx2.Client, report: str) -> None:
    found = http.get(f"/v1/environments/{report}").json()
    assert [each["name"] for each in found["packages"]] == ["cowsay"]
    assert (found["imports"], found["shared"], found["build"]["state"]) == (["cowsay"], False, "done")
    assert found in http.get("/v1/environments").json()["items"]


def test_runs_and_sandboxes_start_from_it(http: httpx2.Client, report: str) -> None:
    run = http.post("/v1/run", json={"code": SHOW, "environment": report}).json()
    assert (run["stdout"], run["error"]) == (SHOWN, None)
    box = f"/v1/sandboxes/{http.post('/v1/sandboxes', json={'environment': report}).json()['id']}"
    assert http.post(f"{box}/run", json={"code": SHOW}).json()["stdout"] == SHOWN
    command = {"command": "bin/hello; cat below/made below/b; echo $A", "wait": True}
    assert http.post(f"{box}/commands", json=command).json()["stdout"] == "moin\n1\n21\n"
    assert http.delete(box).status_code == 204


def test_the_library_starts_from_it(building: Server, report: str) -> None:
    where: dict[str, Any] = {"url": building.url, "api_key": building.key}
    assert cloche.run(SHOW, environment=report, **where).stdout == SHOWN
    with cloche.Sandbox(environment=report, **where) as box:
        assert box.run(SHOW).stdout == SHOWN


def test_a_websocket_starts_from_it(building: Server, report: str) -> None:
    headers = {"Authorization": f"Bearer {building.key}"}
    with connect(building.url.replace("http", "ws"), additional_headers=headers) as socket:

        def answer(message: dict[str, Any]) -> dict[str, Any]:
            socket.send(json.dumps({"type": "execute", **message}))
            while (found := json.loads(socket.recv(60)))["type"] == "progress":
                pass  # a busy host takes its time
            return dict(found)

        for session in (False, True):
            found = answer({"code": SHOW, "environment": report, "session": session})
            assert (found["type"], found.get("output")) == ("result", SHOWN), found
        refused = answer({"code": "1", "environment": "other", "session": True})
        assert (refused["type"], "another environment" in refused["message"]) == ("error", True), refused


async def test_a_model_finds_it_and_starts_from_it(building: Server, report: str) -> None:
    async with client_of(building) as client:
        listed = await client.call_tool("environment_list", {})
        assert report in [each["name"] for each in listed.structured_content["environments"]]
        answer = await client.call_tool("code_execution", {"code": SHOW, "environment": report})
        assert answer.structured_content["stdout"] == SHOWN
        again = await client.call_tool("code_execution", {"code": "1", "environment": "another"})
        assert again.is_error
        assert "The session exists already" in str(again.content)


def test_bills_and_audits_are_answered(http: httpx2.Client, report: str) -> None:
    bill = http.get(f"/v1/environments/{report}/sbom").json()
    assert [each["purl"] for each in bill["components"]] == ["pkg:pypi/cowsay@6.1"]
    audit = http.get(f"/v1/environments/{report}/audit").json()
    assert (audit["packages"], audit["findings"], audit["catalogue_age_days"]) == (1, [], None)


def test_another_tenant_finds_nothing(http: httpx2.Client, building: Server, report: str) -> None:
    key = http.post("/v1/keys", json={"owner": "bob", "name": "test", "scopes": ["run"]}).json()["key"]
    with building.client(key) as bob:
        for path in ("", "/events", "/sbom", "/audit"):
            answer = bob.get(f"/v1/environments/{report}{path}")
            assert answer.status_code == 404, (path, answer.text)
        assert bob.delete(f"/v1/environments/{report}").status_code == 404
        assert bob.post("/v1/run", json={"code": "1", "environment": report}).status_code == 404
        assert bob.post("/v1/sandboxes", json={"environment": report}).status_code == 404
        assert bob.get("/v1/environments").json()["items"] == []
    reader = http.post("/v1/keys", json={"owner": "bob", "name": "test", "scopes": ["read"]}).json()["key"]
    with building.client(reader) as client:
        assert client.post("/v1/environments", json={"name": "x"}).status_code == 403
    assert http.get(f"/v1/environments/{report}").status_code == 200


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"name": "../x"}, "cannot be the name"),
        ({"name": "x", "imports": ["os; print"]}, "not the name of a module"),
        ({"name": "x", "steps": [{"run": "a", "folder": "b"}]}, "exactly one"),
        ({"name": "x", "steps": [{"apt": "a"}]}, "apt"),
        ({"name": "x", "files": {"a": {"base64": "*"}}}, "not base64"),
        ({"name": "x", "base": "nothing"}, "There is no environment nothing"),
        ({"name": "x", "packages": ["not a package!"]}, "not a package"),
        ({"name": "x", "requirements": "-e ."}, "Line 1"),
    ],
)
def test_a_wrong_request_is_refused_before_a_build_begins(
    http: httpx2.Client, body: dict[str, Any], sentence: str
) -> None:
    answer = http.post("/v1/environments", json=body)
    assert answer.status_code in (400, 404, 422), answer.text
    assert sentence in answer.text
    assert http.get("/v1/environments/x").status_code == 404


def test_a_failed_build_is_answered_with_its_reason(http: httpx2.Client, new_name: Callable[[], str]) -> None:
    name = new_name()
    http.post("/v1/environments", json={"name": name, "setup": "echo no more >&2; false"})
    end = follow(http, name)[-1]
    assert end["state"] == "failed"
    assert "no more" in end["error"]["message"]
    found = http.get(f"/v1/environments/{name}").json()
    assert (found["digest"], found["build"]["error"]) == (None, end["error"])


def test_a_build_can_be_ended_and_an_environment_removed(http: httpx2.Client, new_name: Callable[[], str]) -> None:
    name = new_name()
    http.post("/v1/environments", json={"name": name, "setup": "sleep 1000"})
    assert http.delete(f"/v1/environments/{name}").status_code == 204
    assert http.get(f"/v1/environments/{name}").status_code == 404
    assert http.delete(f"/v1/environments/{name}").status_code == 404


@pytest.fixture
def new_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    return lambda: f"of-{abs(hash(request.node.name)) % 10**9}"
