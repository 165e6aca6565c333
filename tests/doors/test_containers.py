"""`/containers`: the same sandboxes in the words of container runners."""

from __future__ import annotations

from collections.abc import Callable

import httpx2
import pytest

NewKey = Callable[..., httpx2.Client]


def test_one_is_started_used_and_stopped(http: httpx2.Client) -> None:
    (kind,) = http.get("/containers").json()["items"]
    assert kind["name"] == "sandbox"
    assert {"python", "bash"} <= set(kind["languages"])
    started = http.post("/containers/start", json={"container": "sandbox", "timeout": 100, "env": {"WHO": "ada"}})
    assert started.status_code == 201
    one = started.json()["id"]
    assert started.json()["status"] == "running"

    told = http.post("/containers/exec", json={"id": one, "command": "echo $WHO; echo oh >&2; exit 3"}).json()
    assert (told["stdout"], told["stderr"], told["exit_code"]) == ("ada\n", "oh\n", 3)
    assert told["duration"] > 0
    assert http.post("/containers/exec", json={"id": one, "command": ["echo", "a b"]}).json()["stdout"] == "a b\n"
    code = {"id": one, "language": "python", "code": "open('kept', 'w').write('x'); print(6 * 7)"}
    assert http.post("/containers/exec", json=code).json()["stdout"] == "42\n"
    assert http.post("/containers/exec", json={"id": one, "command": "cat kept"}).json()["stdout"] == "x"
    late = http.post("/containers/exec", json={"id": one, "command": "sleep 30", "timeout": 0.5}).json()
    assert late["exit_code"] != 0
    assert "after 0.5 seconds" in late["error"]

    assert one in [each["id"] for each in http.get("/containers/status").json()["items"]]
    assert http.post("/containers/stop", json={"id": one}).json() == {"stopped": [one]}
    assert http.post("/containers/stop", json={"id": one}).status_code == 200
    assert one not in [each["id"] for each in http.get("/containers/status").json()["items"]]
    assert http.get("/containers/status", params={"id": one}).json()["items"][0]["status"] == "ended"
    assert http.post("/containers/exec", json={"id": one, "command": "true"}).status_code == 410


def test_cleanup_ends_what_was_started_here_and_nothing_else(new_key: NewKey) -> None:
    ada, bob = new_key("container-ada"), new_key("container-bob")
    mine = sorted(ada.post("/containers/start", json={}).json()["id"] for _ in range(2))
    theirs = bob.post("/containers/start", json={}).json()["id"]
    plain = ada.post("/v1/sandboxes", json={}).json()["id"]
    assert sorted(ada.post("/containers/cleanup").json()["stopped"]) == mine
    assert ada.get(f"/v1/sandboxes/{plain}").json()["state"] == "alive"
    assert bob.get("/containers/status").json()["items"][0]["id"] == theirs
    assert ada.post("/containers/cleanup").json() == {"stopped": []}
    for client, identity in ((ada, plain), (bob, theirs)):
        assert client.delete(f"/v1/sandboxes/{identity}").status_code == 204


@pytest.mark.parametrize(
    ("where", "body", "status"),
    [
        ("start", {"container": "ubuntu"}, 400),
        ("start", {"timeout": -1}, 400),
        ("exec", {"id": "sbx_none", "command": "true"}, 404),
        ("exec", {"id": "sbx_none"}, 400),
        ("exec", {"id": "sbx_none", "command": "true", "code": "1"}, 400),
        ("stop", {"id": "sbx_none"}, 404),
        ("stop", {}, 422),
    ],
)
def test_what_makes_no_sense_is_told(http: httpx2.Client, where: str, body: dict[str, object], status: int) -> None:
    answer = http.post(f"/containers/{where}", json=body)
    assert answer.status_code == status, answer.text
    assert set(answer.json()["error"]) == {"kind", "message", "hint", "details"}


def test_anothers_containers_do_not_exist(new_key: NewKey) -> None:
    ada, bob = new_key("container-ada"), new_key("container-bob")
    one = ada.post("/containers/start", json={}).json()["id"]
    for path, body in (("exec", {"command": "true"}), ("stop", {})):
        real = bob.post(f"/containers/{path}", json={"id": one, **body})
        made_up = bob.post(f"/containers/{path}", json={"id": "sbx_none", **body})
        assert (real.status_code, real.json()) == (made_up.status_code, made_up.json())
        assert real.status_code == 404
    assert bob.get("/containers/status", params={"id": one}).status_code == 404
    assert bob.get("/containers/status").json()["items"] == []
    assert ada.post("/containers/stop", json={"id": one}).status_code == 200
