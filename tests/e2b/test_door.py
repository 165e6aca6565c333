"""The door itself, by plain requests: whose they are, who may come in, and how it says no."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

FORGED = {"E2b-Sandbox-Id": "sbx0123", "E2b-Sandbox-Port": "49983"}


@pytest.fixture
def made(http: httpx2.Client) -> Iterator[dict[str, Any]]:
    """A sandbox, as a client is told of it."""
    answer = http.post("/v2/sandboxes", json={"templateID": "base"})
    assert answer.status_code == 201, answer.text
    yield answer.json()
    http.delete(f"/sandboxes/{answer.json()['sandboxID']}")


@pytest.fixture
def new_key(http: httpx2.Client, server: Any) -> Iterator[Callable[..., tuple[str, httpx2.Client]]]:
    """Makes keys of others, with clients that show them."""
    clients: list[tuple[str, httpx2.Client]] = []

    def make(**more: Any) -> tuple[str, httpx2.Client]:
        told = http.post("/v1/keys", json={"owner": "ada", "name": "test", **more}).json()
        clients.append((told["id"], server.client(key=told["key"])))
        return clients[-1]

    yield make
    for identity, client in clients:
        client.close()
        http.delete(f"/v1/keys/{identity}")


def test_old_and_new_paths_make_the_same(http: httpx2.Client, made: dict[str, Any]) -> None:
    detail = http.get(f"/sandboxes/{made['sandboxID']}").json()
    assert detail["envdAccessToken"] == made["envdAccessToken"]
    assert http.post(f"/sandboxes/{made['sandboxID']}/connect", json={"timeout": 10}).status_code == 200
    assert http.post(f"/sandboxes/{made['sandboxID']}/resume", json={}).status_code == 409
    assert http.post(f"/sandboxes/{made['sandboxID']}/refreshes", json={"duration": 10}).status_code == 204
    assert http.get("/sandboxes/metrics", params={"sandbox_ids": made["sandboxID"]}).json()["sandboxes"].keys() == {
        made["sandboxID"]
    }
    assert http.get(f"/sandboxes/{made['sandboxID']}/logs").json() == {"logs": [], "logEntries": []}
    assert http.delete(f"/sandboxes/{made['sandboxID']}").status_code == 204
    assert http.delete(f"/sandboxes/{made['sandboxID']}").json()["code"] == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/sandboxes", b"[]", 400),
        ("POST", "/sandboxes", b"{", 400),
        ("POST", "/sandboxes", b'{"templateID": "base", "timeout": "soon"}', 400),
        ("POST", "/sandboxes", b'{"templateID": "base", "envVars": {"A": 1}}', 400),
        ("POST", "/sandboxes", b'{"templateID": "base", "metadata": []}', 201),
        ("POST", "/sandboxes", b'{"templateID": "base", "autoResume": true}', 400),
        ("POST", "/sandboxes", b"[" * 100_000, 400),
        ("POST", "/sandboxes", b'{"templateID": "no-such"}', 404),
        ("GET", "/v2/sandboxes?limit=0", b"", 400),
        ("GET", "/v2/sandboxes?nextToken=zzz", b"", 400),
        ("GET", "/v2/sandboxes?nextToken=999999999999999999-sbx" + "0" * 47, b"", 400),
        ("GET", "/v2/sandboxes?startedAfter=then", b"", 400),
        ("DELETE", "/templates/base", b"", 400),
        ("PATCH", "/v2/templates/base", b'{"public": false}', 400),
        ("GET", "/sandboxes/sbxnone", b"", 404),
        ("GET", "/v2/no-such", b"", 404),
        ("POST", "/volumes", b"{}", 400),
        ("GET", "/files?path=x&signature=v1_x", b"", 401),
    ],
)
def test_every_error_has_a_code_and_a_message(
    http: httpx2.Client, method: str, path: str, body: bytes, status: int
) -> None:
    answer = http.request(method, path, content=body)

    assert answer.status_code == status, answer.text
    if status >= 400:
        assert answer.json()["code"] == status
        assert answer.json()["message"]
    else:
        http.delete(f"/sandboxes/{answer.json()['sandboxID']}")


def test_a_key_is_wanted_and_says_whose_sandboxes_there_are(
    http: httpx2.Client, server: Any, made: dict[str, Any], new_key: Callable[..., tuple[str, httpx2.Client]]
) -> None:
    with server.client(key="wrong") as nobody:
        assert nobody.get("/v2/sandboxes").json()["code"] == 401
    _, ada = new_key()
    assert ada.get("/v2/sandboxes").json() == []
    assert ada.get(f"/sandboxes/{made['sandboxID']}").status_code == 404
    assert ada.delete(f"/sandboxes/{made['sandboxID']}").status_code == 404
    _, reader = new_key(scopes=["read"])
    assert reader.post("/v2/sandboxes", json={"templateID": "base"}).status_code == 403
    assert reader.get("/v2/sandboxes").status_code == 200


def test_a_key_that_may_only_look_is_not_told_the_token(new_key: Callable[..., tuple[str, httpx2.Client]]) -> None:
    _, ada = new_key()
    _, reader = new_key(scopes=["read"])
    path = f"/sandboxes/{ada.post('/v2/sandboxes', json={'templateID': 'base'}).json()['sandboxID']}"

    assert ada.get(path).json()["envdAccessToken"]
    assert reader.get(path).json()["state"] == "running"
    assert "envdAccessToken" not in reader.get(path).json()
    ada.delete(path)


def test_a_token_ends_with_the_key_that_made_its_sandbox(
    http: httpx2.Client, new_key: Callable[..., tuple[str, httpx2.Client]]
) -> None:
    identity, ada = new_key()
    told = ada.post("/v2/sandboxes", json={"templateID": "base"}).json()
    headers = {"E2b-Sandbox-Id": told["sandboxID"], "X-Access-Token": told["envdAccessToken"]}
    execute = {**headers, "E2b-Sandbox-Port": "49999"}
    assert http.post("/execute", json={"code": "1"}, headers=execute).status_code == 200
    assert http.post("/execute", json={"code": "1"}, headers={**execute, "X-Access-Token": "x"}).status_code == 401

    http.delete(f"/v1/keys/{identity}")
    assert http.post("/execute", json={"code": "1"}, headers=execute).status_code == 401
    files = {**headers, "E2b-Sandbox-Port": "49983"}
    assert http.get("/files", params={"path": "x"}, headers=files).status_code == 401


def test_clients_that_name_the_agent_when_they_ask_the_server_for_a_sandbox(
    http: httpx2.Client, made: dict[str, Any]
) -> None:
    named = {"E2b-Sandbox-Id": made["sandboxID"], "E2b-Sandbox-Port": "49983"}

    connected = http.post(f"/sandboxes/{made['sandboxID']}/connect", json={"timeout": 60}, headers=named)

    assert connected.status_code == 200
    assert connected.json()["envdAccessToken"] == made["envdAccessToken"]


def test_clients_that_name_no_sandbox_are_known_by_its_token(
    http: httpx2.Client, server: Any, made: dict[str, Any]
) -> None:
    token = {"X-Access-Token": made["envdAccessToken"]}
    with server.client(key="none") as client:
        assert client.get("/health", headers=token).status_code == 204
        assert client.post("/filesystem.Filesystem/Stat", json={"path": "/tmp"}, headers=token).status_code == 200
        assert client.get("/files", params={"path": "/etc/hostname"}, headers=token).text == "cloche\n"
        assert client.get("/health", headers={"X-Access-Token": "0" * 64}).status_code == 502
        assert client.get("/v1/sandboxes", headers=token).status_code == 401
        http.delete(f"/sandboxes/{made['sandboxID']}")
        assert client.get("/health", headers=token).status_code == 502


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_who_kills_what_a_page_lists_gets_the_next_page(http: httpx2.Client, order: str) -> None:
    for _ in range(3):
        http.post("/v2/sandboxes", json={"templateID": "base", "metadata": {"pages": order}})
    query = {"limit": "1", "metadata": f"pages={order}", "order": order}
    killed = []
    page = http.get("/v2/sandboxes", params=query)
    while page.json():
        killed.append(page.json()[0]["sandboxID"])
        assert http.delete(f"/sandboxes/{killed[-1]}").status_code == 204
        if "x-next-token" not in page.headers:
            break
        page = http.get("/v2/sandboxes", params={**query, "nextToken": page.headers["x-next-token"]})

    assert len(killed) == 3
    assert killed == sorted(killed, reverse=order == "desc")


@pytest.mark.parametrize("count", [0, -1, 21, 10**30, 1.5, 1.0, True, "2", []])
def test_a_number_of_forks_that_makes_no_sense_makes_none(
    http: httpx2.Client, made: dict[str, Any], count: object
) -> None:
    refused = http.post(f"/sandboxes/{made['sandboxID']}/fork", json={"count": count})

    assert (refused.status_code, refused.json()["message"]) == (400, "count may be 1 to 20.")
    too_long = http.post(f"/sandboxes/{made['sandboxID']}/fork", json={"timeout": 10**9})
    assert (too_long.status_code, "Timeout cannot be greater" in too_long.text) == (400, True)
    assert http.get("/snapshots", params={"sandboxID": made["sandboxID"]}).json() == []


def test_snapshots_and_forks_name_what_they_lose(http: httpx2.Client, made: dict[str, Any]) -> None:
    path = f"/sandboxes/{made['sandboxID']}"
    interpreter = {"E2b-Sandbox-Id": made["sandboxID"], "E2b-Sandbox-Port": "49999"}
    interpreter["X-Access-Token"] = made["envdAccessToken"]
    http.post("/execute", json={"code": "x = 1"}, headers=interpreter).raise_for_status()
    own = made["sandboxID"].replace("sbx", "sbx_", 1)
    started = http.post(f"/v1/sandboxes/{own}/commands", json={"command": ["sleep", "60"]}).json()

    snapshot = http.post(f"{path}/snapshots", json={}).json()
    (fork,) = http.post(f"{path}/fork", json={}).json()
    for answer in (snapshot, fork["sandbox"]):
        assert "python" in answer["lost"]["contexts"]
        assert {"pid": started["pid"], "command": "sleep 60"} in answer["lost"]["processes"]
        assert "Not kept: the variables of" in answer["note"]
        assert "temporary files, in /tmp" in answer["note"]
        assert f"({started['pid']}" in answer["note"]
    copy = fork["sandbox"]["sandboxID"]
    again = http.post(f"/sandboxes/{copy}/snapshots", json={}).json()
    assert again["lost"] == {"contexts": [], "processes": []}
    for name in (snapshot["snapshotID"], again["snapshotID"]):
        assert http.delete(f"/templates/{name}").status_code == 204
    http.delete(f"/sandboxes/{copy}")


def test_templates_are_described_in_full(http: httpx2.Client, made: dict[str, Any]) -> None:
    described, sandbox = http.get("/templates").json(), http.get(f"/sandboxes/{made['sandboxID']}").json()

    for template in described:
        assert {name: template[name] for name in ("cpuCount", "memoryMB", "diskSizeMB", "envdVersion")} == {
            name: sandbox[name] for name in ("cpuCount", "memoryMB", "diskSizeMB", "envdVersion")
        }
        assert template["createdAt"] < sandbox["startedAt"]
        assert template.keys() >= {"buildID", "buildStatus", "buildCount", "createdBy", "lastSpawnedAt", "spawnCount"}


def test_a_paused_sandbox_has_no_time_to_be_set(http: httpx2.Client, made: dict[str, Any]) -> None:
    path = f"/sandboxes/{made['sandboxID']}"
    assert http.post(f"{path}/pause").status_code == 204

    assert http.post(f"{path}/timeout", json={"timeout": 60}).json()["code"] == 404
    assert http.post(f"{path}/resume", json={"timeout": 60}).status_code == 201
    assert http.post(f"{path}/timeout", json={"timeout": 60}).status_code == 204


def test_code_wants_the_token_unless_the_client_said_that_it_has_none(
    http: httpx2.Client, made: dict[str, Any]
) -> None:
    open_one = http.post("/sandboxes", json={"templateID": "base", "secure": False}).json()
    asked = {"E2b-Sandbox-Port": "49999", "E2b-Sandbox-Id": open_one["sandboxID"]}

    assert http.post("/execute", json={"code": "1"}, headers=asked).status_code == 200
    assert http.get("/files", params={"path": "x"}, headers={**asked, "E2b-Sandbox-Port": "49983"}).status_code == 401
    asked["E2b-Sandbox-Id"] = made["sandboxID"]
    assert http.post("/execute", json={"code": "1"}, headers=asked).status_code == 401
    http.delete(f"/sandboxes/{open_one['sandboxID']}")


def test_no_such_context_whatever_its_name(http: httpx2.Client, made: dict[str, Any]) -> None:
    asked = {"E2b-Sandbox-Id": made["sandboxID"], "X-Access-Token": made["envdAccessToken"]}
    body = b'{"code": "1", "context_id": "\\ud800"}'

    assert http.post("/execute", content=body, headers={**asked, "E2b-Sandbox-Port": "49999"}).status_code == 404


def test_limits_of_a_key_are_a_rate_limit_to_the_client(new_key: Callable[..., tuple[str, httpx2.Client]]) -> None:
    _, ada = new_key(limits={"sandboxes": 1})
    first = ada.post("/v2/sandboxes", json={"templateID": "base"})
    second = ada.post("/v2/sandboxes", json={"templateID": "base"})

    assert (first.status_code, second.status_code) == (201, 429)
    assert int(second.headers["retry-after"]) >= 1
    ada.delete(f"/sandboxes/{first.json()['sandboxID']}")


def test_a_sandbox_that_is_not_there(http: httpx2.Client) -> None:
    answer = http.get("/health", headers=FORGED)

    assert answer.status_code == 502
    assert answer.json() == {"sandboxId": "sbx0123", "message": "The sandbox was not found", "code": 502}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "3000-sbx0123.evil.example"}, 421),
        ({"Host": "0-sbx0123.localhost", "Origin": "http://evil.example"}, 404),
        ({"Host": "evil.example", **FORGED}, 421),
        ({"Origin": "http://evil.example", **FORGED}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site", **FORGED}, 403),
    ],
)
def test_other_sites_and_other_names_stay_outside(http: httpx2.Client, headers: dict[str, str], status: int) -> None:
    assert http.get("/v2/sandboxes", headers=headers).status_code == status


def test_our_own_addresses_stay_ours(http: httpx2.Client) -> None:
    assert http.get("/v1/sandboxes").json().keys() == {"items", "next"}
    assert http.get("/no-such").json()["error"]["kind"] == "gone"


def test_a_body_that_is_too_large(http: httpx2.Client) -> None:
    answer = http.post("/v2/sandboxes", content=b" " * (17 << 20))

    assert answer.status_code == 413
    assert answer.json()["code"] == 413
