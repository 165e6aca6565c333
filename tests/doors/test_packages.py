"""Packages over HTTP, WebSocket, MCP and the library: installed, listed, removed, searched, and refused by policies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from tests.conftest import Server
from tests.doors.test_mcp import client_of
from websockets.sync.client import connect

import cloche
from cloche.doors.http.package_fields import PackagePolicyAnswer

# Small, without dependencies, and not in the sandboxes' environment.
PACKAGE, VERSION = "humanize", "4.9.0"
PINNED = f"{PACKAGE}=={VERSION}"
SHOW = f"import {PACKAGE}; print({PACKAGE}.__version__)"


@pytest.fixture(scope="module")
def installing(jail: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that keeps its packages in a folder of its own, and whose operator denies one name."""
    folder = tmp_path_factory.mktemp("installing")
    (folder / "packages.toml").write_text('deny = ["denied-here"]\nmin_age_days = "off"\n')
    settings = {"CLOCHE_PACKAGES": str(folder / "packages.toml"), "CLOCHE_PACKAGES_FOLDER": str(folder / "packages")}
    running = Server(folder, env={"CLOCHE_WARM": "0", **settings})
    yield running
    running.stop()


@pytest.fixture
def http(installing: Server) -> Iterator[httpx2.Client]:
    with installing.client() as client:
        client.timeout = 120
        yield client


def own(http: httpx2.Client, box: str) -> list[str]:
    """The packages that were installed in a sandbox."""
    items = http.get(f"{box}/packages").json()["items"]
    assert len(items) > 20  # those of the environment
    return [f"{each['name']} {each['version']}" for each in items if each["source"] == "sandbox"]


@pytest.mark.parametrize("packages", [[PINNED], {"python": [PINNED]}])
def test_a_run_can_import_the_packages_that_it_names(http: httpx2.Client, packages: Any) -> None:
    result = http.post("/v1/run", json={"code": SHOW, "packages": packages}).json()
    assert (result["stdout"], result["error"]) == (f"{VERSION}\n", None)
    assert result["duration"] < 5  # of the program, and not of the install


def test_a_sandbox_has_its_packages_and_gets_and_loses_others(
    http: httpx2.Client, new_sandbox: Callable[..., str]
) -> None:
    box = new_sandbox(packages=[PINNED])
    assert own(http, box) == [f"{PACKAGE} {VERSION}"]
    assert http.post(f"{box}/run", json={"code": SHOW}).json()["stdout"] == f"{VERSION}\n"

    done = http.post(f"{box}/packages", json={"packages": ["inflection==0.5.1", PINNED]})
    assert done.status_code == 200, done.text
    assert [each["name"] for each in done.json()["packages"]] == ["inflection"]
    assert [each["name"] for each in done.json()["satisfied"]] == [PACKAGE]
    result = http.post(f"{box}/run", json={"code": "import inflection; inflection.pluralize('box')"}).json()
    assert result["text"] == "'boxes'"

    gone = http.delete(f"{box}/packages?name=inflection&name=never-there")
    assert gone.json() == {"removed": ["inflection"]}
    assert own(http, box) == [f"{PACKAGE} {VERSION}"]
    actions = [(one["action"], one["details"]) for one in http.get("/v1/audit").json()["items"]]
    assert ("packages.install", {"packages": ["inflection 0.5.1"]}) in actions
    assert ("packages.uninstall", {"packages": ["inflection"]}) in actions


@pytest.mark.parametrize(
    ("packages", "status", "word"),
    [
        (["denied-here"], 409, "packages.deny"),
        (["no such name"], 400, "no such name"),
        (["six==0.0.0.1"], 400, "six"),
        ([f"name-{number}" for number in range(150)], 400, "At most"),
        ({"cobol": ["six"]}, 422, "cobol"),
        ("six", 422, "packages"),
    ],
)
def test_packages_that_cannot_be_had_make_nothing(
    http: httpx2.Client, new_sandbox: Callable[..., str], packages: Any, status: int, word: str
) -> None:
    box = new_sandbox()
    living = {one["id"] for one in http.get("/v1/sandboxes?state=alive").json()["items"]}
    for path, body in (("/v1/run", {"code": "1"}), ("/v1/sandboxes", {}), (f"{box}/packages", {})):
        answer = http.post(path, json={**body, "packages": packages})
        assert answer.status_code == status, answer.text
        assert word in answer.text
        assert answer.json()["error"]["hint"]
    assert {one["id"] for one in http.get("/v1/sandboxes?state=alive").json()["items"]} == living
    assert own(http, box) == []
    assert http.post(f"{box}/run", json={"code": "6 * 7"}).json()["text"] == "42"


def test_a_refusal_comes_before_the_events_of_a_run(http: httpx2.Client) -> None:
    body = {"code": "1", "packages": ["denied-here"]}
    answer = http.post("/v1/run", json=body, headers={"Accept": "text/event-stream"})
    assert (answer.status_code, answer.json()["error"]["kind"]) == (409, "refused")


def test_an_index_that_is_down_is_an_error_of_its_own(serve: Callable[..., Server], tmp_path: Any) -> None:
    nowhere = "http://operator:canary-5d21@127.0.0.1:9/simple"
    env = {"PIP_INDEX_URL": nowhere, "PIP_CONFIG_FILE": "/dev/null", "CLOCHE_PACKAGES_FOLDER": str(tmp_path / "p")}
    with serve(env=env).client() as client:
        client.timeout = 120
        for path, body in (("/v1/run", {"code": "1"}), ("/v1/sandboxes", {})):
            answer = client.post(path, json={**body, "packages": [PINNED]})
            assert answer.status_code == 503, answer.text
            assert answer.json()["error"]["kind"] == "unavailable"
            assert "canary" not in answer.text
        found = client.get("/v1/packages/search?q=requests").json()
        assert "requests" in [each["name"] for each in found["items"]]
        assert "did not answer" in found["warnings"][0]


def test_a_key_with_none_installs_nothing_by_any_way(
    http: httpx2.Client, installing: Server, new_key: Callable[..., httpx2.Client]
) -> None:
    made = http.post("/v1/keys", json={"owner": "ada", "name": "narrow", "policy": {"packages": "none"}}).json()
    with installing.client(made["key"]) as narrow:
        assert narrow.get("/v1/packages/policy").json()["allow"] == ["none"]
        answer = narrow.post("/v1/run", json={"code": "1", "packages": [PINNED]})
        assert answer.status_code == 409
        assert "packages.allow" in answer.json()["error"]["message"]
        box = f"/v1/sandboxes/{narrow.post('/v1/sandboxes', json={}).json()['id']}"
        assert narrow.post(f"{box}/packages", json={"packages": [PINNED]}).status_code == 409
        for path in ("/v1/run", f"{box}/run"):
            code = f"import subprocess\nprint(subprocess.run(['pip', 'install', '{PINNED}']).returncode)"
            result = narrow.post(path, json={"code": code}).json()
            assert result["stdout"].endswith("1\n"), result
            assert "packages.allow" in result["stderr"] + result["stdout"], result
        found = narrow.get("/v1/packages/search?q=humanize").json()
        assert "No packages may be installed" in found["warnings"][0]
        narrow.delete(box)


def test_a_key_obeys_its_policy_in_a_sandbox_of_a_wider_key(http: httpx2.Client, installing: Server) -> None:
    keys = [
        http.post("/v1/keys", json={"owner": "eve", "name": "key", "policy": {"packages": packages}}).json()["key"]
        for packages in (["humanize", "inflection"], ["inflection"])
    ]
    with installing.client(keys[0]) as wide, installing.client(keys[1]) as narrow:
        box = f"/v1/sandboxes/{wide.post('/v1/sandboxes', json={}).json()['id']}"
        assert narrow.post(f"{box}/packages", json={"packages": [PINNED]}).status_code == 409
        assert narrow.post(f"{box}/packages", json={"packages": ["inflection==0.5.1"]}).status_code == 200
        assert wide.post(f"{box}/packages", json={"packages": [PINNED]}).status_code == 200
        wide.delete(box)


def test_the_policy_in_force_is_shown(http: httpx2.Client, installing: Server) -> None:
    policy = http.get("/v1/packages/policy").json()
    assert set(policy) == set(PackagePolicyAnswer.model_fields)  # as it is described
    assert (policy["deny"], policy["min_age_days"], policy["size"]) == (["denied-here"], 0, 100 << 20)
    narrowed = {"owner": "ada", "name": "key", "policy": {"packages": {"size": "1M", "deny": ["six"]}}}
    with installing.client(http.post("/v1/keys", json=narrowed).json()["key"]) as narrow:
        policy = narrow.get("/v1/packages/policy").json()
        assert (policy["deny"], policy["size"]) == (["denied-here", "six"], 1 << 20)


def test_a_search_finds_names_with_versions_and_descriptions(http: httpx2.Client) -> None:
    found = http.get("/v1/packages/search?q=humanize").json()
    first = found["items"][0]
    assert first["name"] == "humanize"
    assert first["version"] > "4"
    assert len(found["items"]) <= 25
    numpy = http.get("/v1/packages/search?q=numpy").json()["items"][0]
    assert (numpy["name"], bool(numpy["installed"])) == ("numpy", True)
    assert http.get("/v1/packages/search?q=reqeusts").json()["items"][0]["name"] == "requests"  # a slip of the finger
    assert http.get("/v1/packages/search?q=%20").status_code == 400
    assert http.get("/v1/packages/search?q=a&language=cobol").status_code == 422


def test_a_websocket_message_has_packages_too(installing: Server) -> None:
    headers = {"Authorization": f"Bearer {installing.key}"}
    with connect(installing.url.replace("http", "ws"), additional_headers=headers) as socket:

        def answer(message: dict[str, Any]) -> dict[str, Any]:
            socket.send(json.dumps({"type": "execute", **message}))
            while (found := json.loads(socket.recv(60)))["type"] == "progress":
                pass  # to install takes a while on a busy host
            return dict(found)

        for session in (False, True):
            found = answer({"code": SHOW, "packages": [PINNED], "session": session})
            assert (found["type"], found.get("output")) == ("result", f"{VERSION}\n"), found
        assert answer({"code": SHOW, "session": True})["output"] == f"{VERSION}\n"
        for session in (False, True):
            refused = answer({"code": "1", "packages": ["denied-here"], "session": session})
            assert (refused["type"], "packages.deny" in refused["message"]) == ("error", True), refused


async def test_a_model_names_packages_with_its_code_and_installs_and_finds_others(installing: Server) -> None:
    async with client_of(installing) as client:
        first = await client.call_tool("code_execution", {"code": SHOW, "packages": [PINNED]})
        assert first.structured_content is not None
        assert first.structured_content["stdout"] == f"{VERSION}\n"
        assert first.structured_content["packages"]["installed"] == [f"{PACKAGE} {VERSION}"]
        assert f"Installed: {PACKAGE} {VERSION}." in str(first.content[0])
        again = await client.call_tool("packages_install", {"packages": [PINNED]})
        assert again.structured_content is not None
        assert again.structured_content["present"] == [f"{PACKAGE} {VERSION}"]
        refused = await client.call_tool("code_execution", {"code": "1", "packages": ["denied-here"]})
        assert refused.is_error
        assert "packages.deny" in str(refused.content[0])
        found = await client.call_tool("packages_search", {"query": PACKAGE})
        assert found.structured_content is not None
        assert found.structured_content["packages"][0]["name"] == PACKAGE


def test_the_library_behaves_as_on_this_host(
    installing: Server, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOCHE_PACKAGES_FOLDER", str(installing.folder / "packages"))
    monkeypatch.setenv("CLOCHE_PACKAGES", str(installing.folder / "packages.toml"))
    seen = []
    for where in ({"url": ""}, {"url": installing.url, "api_key": installing.key}):
        assert cloche.run(SHOW, packages=[PINNED], **where).stdout == f"{VERSION}\n"
        with cloche.Sandbox(packages=[PINNED], **where) as box:
            done = box.packages.install("inflection==0.5.1", PINNED)
            listed = [each for each in box.packages.list() if each.source == "sandbox"]
            removed = box.packages.uninstall("inflection", "never-there")
            found = box.packages.search(PACKAGE)
            with pytest.raises(cloche.Refused, match=r"packages\.deny") as refused:
                box.packages.install("denied-here")
            with pytest.raises(cloche.InvalidRun):
                box.packages.install("no such name")
            seen.append((done, listed, removed, list(found), found.warnings, refused.value.hint))
        with pytest.raises(cloche.Refused, match=r"packages\.deny"), cloche.Sandbox(packages=["denied-here"], **where):
            pass
    assert seen[0] == seen[1]
    assert [each.name for each in seen[0][0].packages] == ["inflection"]


def test_a_saved_workspace_keeps_its_packages(http: httpx2.Client, new_sandbox: Callable[..., str]) -> None:
    first = new_sandbox(packages=[PINNED], persistent=True)
    workspace = http.get(first).json()["workspace"]
    assert http.delete(first).status_code == 204
    second = new_sandbox(workspace=workspace)
    assert http.post(f"{second}/run", json={"code": SHOW}).json()["stdout"] == f"{VERSION}\n"
    assert own(http, second) == [f"{PACKAGE} {VERSION}"]


def test_a_workspace_cannot_ask_for_any_layer(http: httpx2.Client, new_sandbox: Callable[..., str]) -> None:
    first = new_sandbox(persistent=True)
    workspace = http.get(first).json()["workspace"]
    listed = {"f" * 64: 0, "../../etc": 1, "x": "y"}
    place = "/sandbox/.local/share/cloche/layers.json"
    code = f"import json, os; os.makedirs(os.path.dirname({place!r})); json.dump({listed!r}, open({place!r}, 'w'))"
    assert http.post(f"{first}/run", json={"code": code}).json()["error"] is None
    assert http.delete(first).status_code == 204
    second = new_sandbox(workspace=workspace)
    assert http.post(f"{second}/run", json={"code": "import os; os.listdir('/opt/layers/0')"}).json()["text"] == "[]"
