"""Keys over HTTP: scopes, limits, owners who see nothing of each other, revoking, audit, usage, metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import httpx2
import pytest
from tests.doors.sse import STREAM, events

NewKey = Callable[..., httpx2.Client]


def test_a_key_is_made_shown_once_and_revoked_at_once(http: httpx2.Client, server: Any) -> None:
    made = http.post(
        "/v1/keys", json={"owner": "ada", "name": "for tests", "scopes": ["read"], "limits": {"sandboxes": 2}}
    )
    assert made.status_code == 201
    told = made.json()
    assert set(told) == {"id", "owner", "name", "scopes", "policy", "limits", "created", "revoked", "used", "key"}
    listed = next(one for one in http.get("/v1/keys").json()["items"] if one["id"] == told["id"])
    assert listed == {name: value for name, value in told.items() if name != "key"}
    assert told["key"] not in http.get("/v1/keys").text
    assert told["used"] is None
    with server.client(key=told["key"]) as ada:
        assert ada.get("/v1/sandboxes").status_code == 200
        used = next(one for one in http.get("/v1/keys").json()["items"] if one["id"] == told["id"])["used"]
        assert told["created"] <= used <= time.time() + 1
        assert http.delete(f"/v1/keys/{told['id']}").status_code == 204
        assert ada.get("/v1/sandboxes").status_code == 401
    assert http.delete(f"/v1/keys/{told['id']}").status_code == 204
    unknown = http.delete("/v1/keys/key_none")
    assert (unknown.status_code, unknown.json()["error"]["kind"]) == (404, "gone")
    assert next(one for one in http.get("/v1/keys").json()["items"] if one["id"] == told["id"])["revoked"] is not None


def test_what_a_key_has_open_ends_with_it(http: httpx2.Client, new_key: NewKey) -> None:
    leaver, other = new_key("leaver"), new_key("leaver")
    path = f"/v1/sandboxes/{leaver.post('/v1/sandboxes', json={}).json()['id']}"
    other.post(f"{path}/run", json={"code": "print(1)"})
    with (
        leaver.stream("GET", f"{path}/events?after=0", headers=STREAM) as cut,
        other.stream("GET", f"{path}/events?after=0", headers=STREAM) as kept,
    ):
        told, still_told = events(cut), events(kept)
        assert next(told).number == next(still_told).number
        http.delete(f"/v1/keys/{leaver.headers['x-test-key-id']}")
        with pytest.raises(httpx2.RemoteProtocolError):
            list(told)
        other.post(f"{path}/run", json={"code": "print(2)"})
        assert any(one.kind == "run.stdout" and one.data["text"] == "2\n" for one in still_told)
    other.delete(path)


def test_whoever_revokes_its_own_key_is_told_so(new_key: NewKey) -> None:
    admin = new_key("leaver", scopes=["admin"])
    assert admin.delete(f"/v1/keys/{admin.headers['x-test-key-id']}").status_code == 204
    assert admin.get("/v1/keys").status_code == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"owner": "", "name": "x"}, 400),
        ({"owner": "../x", "name": "x"}, 400),
        ({"owner": "a\0", "name": "x"}, 400),
        ({"owner": "a", "name": ""}, 400),
        ({"owner": "a", "name": "x" * 101}, 400),
        ({"owner": "a", "name": "x", "scopes": []}, 400),
        ({"owner": "a", "name": "x", "scopes": ["root"]}, 400),
        ({"owner": "a", "name": "x", "limits": {"odd": 1}}, 400),
        ({"owner": "a", "name": "x", "policy": {"odd": {}}}, 400),
        ({"owner": "a", "name": "x", "policy": {"limits": {}}, "limits": {}}, 400),
        ({"owner": "a", "name": "x", "limits": {"sandboxes": -1}}, 400),
        ({"owner": "a", "name": "x", "limits": {"sandboxes": 1.5}}, 400),
    ],
)
def test_a_key_that_makes_no_sense(http: httpx2.Client, body: dict[str, Any], status: int) -> None:
    assert http.post("/v1/keys", json=body).status_code == status


def test_keys_are_listed_page_by_page(http: httpx2.Client, new_key: NewKey) -> None:
    made = [new_key("paged").headers["x-test-key-id"] for _ in range(3)]
    found: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = http.get("/v1/keys", params=query).json()
        found += [one["id"] for one in page["items"]]
        if page["next"] is None:
            break
        query["after"] = page["next"]
    assert [one for one in found if one in made] == made
    assert len(found) == len(set(found))


def test_scopes(http: httpx2.Client, new_key: NewKey, server: Any) -> None:
    reader, runner, admin = (new_key("scopes", scopes=[scope]) for scope in ("read", "run", "admin"))
    sandbox = f"/v1/sandboxes/{runner.post('/v1/sandboxes', json={}).json()['id']}"
    for method, path, allowed in (
        ("GET", "/v1/sandboxes", (200, 200, 200)),
        ("GET", sandbox, (200, 200, 200)),
        ("GET", f"{sandbox}/files", (200, 200, 200)),
        ("POST", "/v1/run", (403, 200, 200)),
        ("POST", "/v1/sandboxes", (403, 201, 201)),
        ("PUT", f"{sandbox}/files/x", (403, 200, 200)),
        ("POST", f"{sandbox}/run", (403, 200, 200)),
        ("GET", f"{sandbox}/ports/1/", (403, None, None)),
        ("GET", "/v1/keys", (403, 403, 200)),
        ("GET", "/v1/%6beys", (403, 403, 200)),
        ("GET", "/v1/audit", (403, 403, 200)),
        ("GET", "/metrics", (403, 403, 200)),
        ("DELETE", "/v1/keys/key_none", (403, 403, 404)),
        ("POST", "/containers/start", (403, 201, 201)),
        ("DELETE", sandbox, (403, 204, 204)),
    ):
        for client, status in zip((reader, runner, admin), allowed, strict=True):
            body = {"code": "1"} if path.endswith("/run") else {}
            answer = client.request(method, path, json=body)
            assert status is None or answer.status_code == status, (method, path, answer.text)
            if status == 403:
                assert answer.json()["error"]["kind"] == "forbidden"
    # a request that needs no body cannot smuggle one past its scope
    assert reader.request("GET", "/v1/run", json={"code": "1"}).status_code == 405
    assert reader.post("/v1/run", json={"code": "1"}, headers={"X-HTTP-Method-Override": "GET"}).status_code == 403
    for one in runner.get("/v1/sandboxes", params={"state": "alive"}).json()["items"]:
        runner.delete(f"/v1/sandboxes/{one['id']}")


# --- limits


def refused(answer: httpx2.Response) -> int:
    """For how long a request was refused."""
    assert (answer.status_code, answer.json()["error"]["kind"]) == (429, "limit"), answer.text
    assert answer.json()["error"]["details"]["retry_after"] > 0
    return int(answer.headers["retry-after"])


def test_too_many_requests(new_key: NewKey) -> None:
    ada = new_key("hasty", limits={"requests_per_second": 2})
    answers = [ada.get("/v1/version") for _ in range(8)]
    assert [answer.status_code for answer in answers].count(200) in (4, 5, 6)
    wait = refused(answers[-1])
    assert 1 <= wait <= 2
    time.sleep(wait)
    assert ada.get("/v1/version").status_code == 200


def test_too_many_runs_at_once(new_key: NewKey) -> None:
    ada, bob = new_key("busy", limits={"runs_at_once": 1}), new_key("free")
    body = {"code": "print(1, flush=True)\nimport time; time.sleep(60)", "timeout": 60}
    with ada.stream("POST", "/v1/run", json=body, headers=STREAM) as answer:
        coming = events(answer)
        run = next(coming).data["run_id"]
        assert refused(ada.post("/v1/run", json={"code": "1"})) >= 1
        assert bob.post("/v1/run", json={"code": "1"}).status_code == 200
        ada.post(f"/v1/runs/{run}/cancel")
        list(coming)
    assert ada.post("/v1/run", json={"code": "1"}).status_code == 200


def test_too_many_sandboxes(new_key: NewKey) -> None:
    ada = new_key("crowd", limits={"sandboxes": 1})
    one = ada.post("/v1/sandboxes", json={}).json()["id"]
    refused(ada.post("/v1/sandboxes", json={}))
    assert ada.delete(f"/v1/sandboxes/{one}").status_code == 204
    again = ada.post("/v1/sandboxes", json={})
    assert again.status_code == 201
    ada.delete(f"/v1/sandboxes/{again.json()['id']}")


BUSY = "import time\nwhile time.process_time() < 0.3: pass"


def test_too_much_in_a_day(new_key: NewKey) -> None:
    worker = new_key("worker", limits={"cpu_seconds_per_day": 0.2})
    assert worker.post("/v1/run", json={"code": BUSY}).status_code == 200
    assert 1 <= refused(worker.post("/v1/run", json={"code": "1"})) <= 86400
    mover = new_key("mover", limits={"bytes_per_day": 100_000})
    sandbox = f"/v1/sandboxes/{mover.post('/v1/sandboxes', json={}).json()['id']}"
    assert mover.put(f"{sandbox}/files/x", content=bytes(60_000)).status_code == 200
    assert mover.get(f"{sandbox}/files/x").status_code == 200
    refused(mover.put(f"{sandbox}/files/y", content=b"x"))
    refused(mover.get(f"{sandbox}/files/x"))
    refused(mover.post("/v1/run", json={"code": "1"}))
    mover.delete(sandbox)


# --- owners


def test_nobody_sees_anothers_things(http: httpx2.Client, new_key: NewKey) -> None:
    """Every address that names something: another's answers exactly as one that was made up."""
    ada, bob = new_key("ada"), new_key("bob")
    sandbox = ada.post("/v1/sandboxes", json={"metadata": {"secret": "yes"}, "undo": True}).json()["id"]
    path = f"/v1/sandboxes/{sandbox}"
    run = ada.post(f"{path}/run", json={"code": "x = 1"}).json()["run_id"]
    ada.put(f"{path}/files/there.txt", content=b"secret")
    names = {
        "sandbox_id": sandbox,
        "run_id": run,
        "path": "there.txt",
        "command": ada.post(f"{path}/commands", json={"command": "cat"}).json()["id"],
        "context": ada.post(f"{path}/contexts", json={}).json()["id"],
        "checkpoint": ada.post(f"{path}/checkpoints", json={"name": "here"}).json()["id"],
        "attempt": ada.post(f"{path}/attempts", json={"code": "y = 2"}).json()["id"],
        "call": "1",
        "port": "8000",
    }
    bodies: dict[str, Any] = {
        "run": {"code": "1"},
        "input": {"data": "x"},
        "{call}": {"value": 1},
        "contexts": {},
        "attempts": {"code": "1"},
        "best_of": {"candidates": ["1"], "score": "1"},
        "commands": {"command": "true"},
        "signal": {"signal": 2},
        "resize": {"columns": 80, "rows": 24},
        "folders": {"path": "x"},
        "rows": {"path": "there.txt"},
        "packages": {"packages": ["six"]},
    }
    tried = 0
    for template, operations in http.get("/openapi.json").json()["paths"].items():
        if "{sandbox_id}" not in template and "{run_id}" not in template:
            continue
        for method in operations:
            answers = []
            for mine in (names["sandbox_id"], "sbx_" + "0" * 47):
                chosen = {**names, "sandbox_id": mine}
                if mine != sandbox:
                    chosen["run_id"] = "run_" + "0" * 47
                address = template
                for name, value in chosen.items():
                    address = address.replace(f"{{{name}}}", value)
                body = bodies.get(template.rpartition("/")[2], {})
                if method == "patch":
                    body = {"new_path": "x"} if "files" in template else {}
                is_json = method != "get" and not (method == "put" and "files" in template)
                answer = bob.request(method, address, json=body if is_json else None)
                answers.append((answer.status_code, answer.content, {*answer.headers} - {"date"}))
            assert answers[0] == answers[1], (method, template)
            assert answers[0][0] == 404, (method, template, answers[0])
            tried += 1
    assert tried > 40
    assert bob.get("/v1/sandboxes").json()["items"] == []
    assert bob.get("/v1/sandboxes", params={"metadata.secret": "yes"}).json()["items"] == []
    assert bob.get("/v1/runs").json()["items"] == []
    assert bob.get("/v1/runs", params={"sandbox": sandbox}).json()["items"] == []
    assert http.get(path).status_code == 404  # not even the admin's own key
    assert ada.get(path).json()["state"] == "alive"
    assert ada.get(f"{path}/files/there.txt").content == b"secret"
    ada.delete(path)
    assert bob.get(path).status_code == bob.get(f"{path}/files").status_code == 404  # also when it has ended


def test_keys_of_one_owner_share_what_is_theirs(new_key: NewKey) -> None:
    first, second = new_key("team"), new_key("team")
    sandbox = f"/v1/sandboxes/{first.post('/v1/sandboxes', json={}).json()['id']}"
    assert second.post(f"{sandbox}/run", json={"code": "1"}).status_code == 200
    assert second.delete(sandbox).status_code == 204


# --- what is written down


def test_the_audit_log_tells_who_ran_what(http: httpx2.Client, new_key: NewKey) -> None:
    ada = new_key("audited")
    code = "print('a word of ada')"
    run = ada.post("/v1/run", json={"code": code}).json()["run_id"]
    sandbox = ada.post("/v1/sandboxes", json={}).json()["id"]
    ada.delete(f"/v1/sandboxes/{sandbox}")
    found: list[dict[str, Any]] = []
    query: dict[str, Any] = {"owner": "audited", "limit": 2}
    while True:
        page = http.get("/v1/audit", params=query).json()
        found += page["items"]
        if page["next"] is None:
            break
        query["after"] = page["next"]
    assert [(one["action"], one["target"]) for one in found] == [
        ("sandbox.kill", sandbox),
        ("sandbox.create", sandbox),
        ("run", run),
    ]
    assert all(set(one) == {"id", "time", "owner", "key", "action", "target", "details"} for one in found)
    told = found[-1]["details"]
    assert told["code_sha256"] == sha256(code.encode()).hexdigest()
    assert (told["outcome"], told["exit_code"]) == ("done", 0)
    assert found[-1]["key"] == ada.headers["x-test-key-id"]
    assert "word of ada" not in http.get("/v1/audit").text
    made = http.get("/v1/audit", params={"owner": "admin"}).json()["items"]
    assert "key.create" in [one["action"] for one in made]


def test_usage_by_day(new_key: NewKey) -> None:
    ada = new_key("frugal")
    before = ada.get("/v1/usage").json()
    assert (before["owner"], before["sandboxes"], len(before["days"])) == ("frugal", 0, 30)
    assert not any(day["runs"] for day in before["days"].values())
    ada.post("/v1/run", json={"code": "print('x' * 1000)"})
    (day,) = [day for day in ada.get("/v1/usage").json()["days"].values() if day["runs"]]
    assert day["runs"] == 1
    assert day["cpu_time"] > 0
    assert day["bytes"] >= 1000
    assert ada.get("/v1/usage", params={"days": 0}).status_code == 422


def test_a_key_learns_what_it_may_do_and_what_is_left(new_key: NewKey) -> None:
    limits = {"cpu_seconds_per_day": 50, "sandboxes": 2}
    ada = new_key("limited", scopes=["run", "read"], limits=limits)
    before = ada.get("/v1/key").json()
    assert (before["owner"], before["name"], before["scopes"]) == ("limited", "test", ["run", "read"])
    assert before["id"] == ada.headers["x-test-key-id"]
    assert before["limits"] == limits
    assert before["in_use"] == {"runs_at_once": 0, "sandboxes": 0, "cpu_seconds_per_day": 0, "bytes_per_day": 0}
    made = ada.post("/v1/sandboxes", json={}).json()["id"]
    ada.post("/v1/run", json={"code": "for _ in range(10**6): pass"})
    in_use = ada.get("/v1/key").json()["in_use"]
    assert in_use["sandboxes"] == 1
    assert 0 < in_use["cpu_seconds_per_day"] < 50
    assert in_use["bytes_per_day"] > 0
    ada.delete(f"/v1/sandboxes/{made}")


def test_an_admin_sees_the_usage_of_every_key_and_others_only_their_own(http: httpx2.Client, new_key: NewKey) -> None:
    first, second = new_key("house"), new_key("house")
    for client, runs in ((first, 2), (second, 1)):
        for _ in range(runs):
            client.post("/v1/run", json={"code": "print('x' * 1000)"})
    used = {one["key"]: one["days"] for one in http.get("/v1/usage/keys", params={"limit": 1000}).json()["items"]}
    for client, runs in ((first, 2), (second, 1)):
        ((_, day),) = used[client.headers["x-test-key-id"]].items()
        assert day["runs"] == runs
        assert day["cpu_time"] > 0
        assert day["bytes"] >= 1000 * runs
    assert first.get("/v1/usage/keys").status_code == 403
    (total,) = [day for day in first.get("/v1/usage").json()["days"].values() if day["runs"]]
    assert total["runs"] == 3


def test_the_last_use_of_a_key_survives_a_restart_and_never_brings_it_back(serve: Callable[..., Any]) -> None:
    server = serve(folder="used")
    with server.client() as admin:
        kept = admin.post("/v1/keys", json={"owner": "ada", "name": "kept"}).json()
        ended = admin.post("/v1/keys", json={"owner": "ada", "name": "ended"}).json()
        for made in (kept, ended):
            with server.client(key=made["key"]) as ada:
                assert ada.get("/v1/key").status_code == 200
        admin.delete(f"/v1/keys/{ended['id']}")
        before = {one["id"]: one["used"] for one in admin.get("/v1/keys").json()["items"]}
    server.stop()
    again = serve(folder="used")
    with again.client() as admin, again.client(key=ended["key"]) as revoked:
        after = {one["id"]: one for one in admin.get("/v1/keys").json()["items"]}
        assert after[kept["id"]]["used"] == before[kept["id"]]
        assert after[ended["id"]]["used"] == before[ended["id"]]
        assert after[ended["id"]]["revoked"] is not None
        assert revoked.get("/v1/key").status_code == 401


def test_metrics(http: httpx2.Client) -> None:
    def value(name: str) -> float:
        text = http.get("/metrics").text
        return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))

    before = value('cloche_runs_total{outcome="done"}')
    requests = value('cloche_requests_total{method="POST",route="/v1/run",status="200"}')
    http.post("/v1/run", json={"code": "1"})
    assert value('cloche_runs_total{outcome="done"}') == before + 1
    assert value('cloche_requests_total{method="POST",route="/v1/run",status="200"}') == requests + 1
    http.get("/v1/nowhere/at/all/made-up")
    text = http.get("/metrics").text
    assert "made-up" not in text  # a label for each address that somebody makes up would fill memory
    assert "sbx_" not in text
    assert http.get("/metrics").headers["content-type"].startswith("text/plain")
    assert value("cloche_sandboxes ") >= 0
