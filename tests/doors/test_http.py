"""Sandboxes over HTTP: made once, listed, extended, ended; what they use, and what happens in them."""

from __future__ import annotations

import re
import resource
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx2
import pytest
from tests.conftest import Server
from tests.doors.sse import STREAM, Event, all_events, events

NewSandbox = Callable[..., str]
NewKey = Callable[..., httpx2.Client]
_SANDBOX = {
    *("id", "state", "created", "expires", "idle_timeout", "metadata", "limits", "wall", "persistent", "workspace"),
    "paused",
    *("ended", "reason"),
}


def until_ended(http: httpx2.Client, sandbox: str, within_s: float = 15) -> dict[str, Any]:
    """What is told of a sandbox once it has ended; its feed announces it."""
    begin = time.monotonic()
    with http.stream("GET", f"{sandbox}/events", params={"after": 0}, timeout=within_s) as answer:
        if answer.status_code == 200:
            assert [one.kind for one in events(answer)][-1] == "sandbox.ended"
    told: dict[str, Any] = http.get(sandbox).json()
    assert told["state"] == "ended"
    assert time.monotonic() - begin < within_s
    return told


def test_a_sandbox_from_its_beginning_to_its_end(http: httpx2.Client) -> None:
    body = {
        "metadata": {"project": "x"},
        "memory": "256M",
        "timeout": 7,
        "processes": 20,
        "ttl": 100,
        "idle_timeout": 50,
    }
    answer = http.post("/v1/sandboxes", json=body)
    assert answer.status_code == 201
    made = answer.json()
    assert set(made) == _SANDBOX
    assert (made["state"], made["metadata"], made["idle_timeout"]) == ("alive", {"project": "x"}, 50)
    assert made["expires"] - made["created"] == pytest.approx(100)
    assert made["limits"] == {
        "timeout": 7,
        "memory": 256 << 20,
        "cpu": 1.0,
        "disk": 1 << 30,
        "processes": 20,
        "output": 10 << 20,
        "build_timeout": 60,
    }
    path = f"/v1/sandboxes/{made['id']}"
    assert http.get(path).json() == made
    assert http.delete(path).status_code == 204
    ended = http.get(path).json()
    assert (ended["state"], ended["reason"]) == ("ended", "it was ended by its owner")
    assert ended["ended"] >= made["created"]
    assert http.delete(path).status_code == 204  # and again: it is gone, as was wanted
    for method, where in (("POST", "/run"), ("GET", "/files"), ("PATCH", ""), ("GET", "/usage"), ("GET", "/events")):
        gone = http.request(method, path + where, json={"code": "1"} if where == "/run" else {})
        assert (gone.status_code, gone.json()["error"]["kind"]) == (410, "gone"), where
        assert "ended by its owner" in gone.json()["error"]["message"]
    unknown = http.delete("/v1/sandboxes/sbx_none")
    assert (unknown.status_code, unknown.json()["error"]["kind"]) == (404, "gone")


def test_deleting_at_once_waits_for_all(http: httpx2.Client, server: Any, new_sandbox: NewSandbox) -> None:
    path = new_sandbox()

    def delete(_: int) -> tuple[int, str]:
        with server.client() as client:
            status = client.delete(path).status_code
            return status, client.get(path).json()["state"]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(delete, range(4))) == [(204, "ended")] * 4


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"ttl": 0}, 400),
        ({"ttl": -1}, 400),
        ({"ttl": 1e12}, 400),
        ({"idle_timeout": 0}, 400),
        ({"metadata": {"a": 1}}, 422),
        ({"metadata": {"": "x"}}, 400),
        ({"metadata": {"a" * 101: "x"}}, 400),
        ({"metadata": {"a": "x" * 1001}}, 400),
        ({"metadata": {str(n): "x" for n in range(51)}}, 400),
        ({"memory": "1T"}, 400),
        ({"disk": "1T"}, 400),
        ({"processes": 10**6}, 400),
        ({"timeout": 10**6}, 400),
        ({"output": "1T"}, 400),
        ({"mounts": {"/": "/sandbox/host"}}, 409),
        ({"mounts": [{"source": "/etc", "target": "/sandbox/x", "writable": True}]}, 409),
        ({"network": True}, 400),
        ({"checkpoints": -1}, 400),
        ({"tools": ["not a name"]}, 400),
        ({"tools": ["x" * 10_000]}, 422),
        ({"env": {"": ""}}, 400),
        ({"odd": 1}, 422),
    ],
)
def test_a_sandbox_that_makes_no_sense_is_not_made(http: httpx2.Client, body: dict[str, Any], status: int) -> None:
    answer = http.post("/v1/sandboxes", json=body)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["kind"] in ("invalid", "refused")


JSON = {"Content-Type": "application/json"}


def test_the_same_idempotency_key_gives_the_same_sandbox(http: httpx2.Client, server: Any, new_key: NewKey) -> None:
    def make(_: int) -> str:
        with server.client() as client:
            answer = client.post("/v1/sandboxes", json={}, headers={"Idempotency-Key": "once-only"})
            assert answer.status_code == 201
            return str(answer.json()["id"])

    with ThreadPoolExecutor(6) as pool:
        (identity,) = set(pool.map(make, range(6)))
    assert make(0) == identity
    other = http.post("/v1/sandboxes", json={}, headers={"Idempotency-Key": "another"}).json()["id"]
    stranger = new_key("stranger")
    theirs = stranger.post("/v1/sandboxes", json={}, headers={"Idempotency-Key": "once-only"}).json()["id"]
    assert len({identity, other, theirs}) == 3
    # what could not be made can be asked for again under the same key
    headers = {"Idempotency-Key": "second try"}
    assert http.post("/v1/sandboxes", json={"ttl": -1}, headers=headers).status_code == 400
    again = http.post("/v1/sandboxes", json={}, headers=headers)
    assert again.status_code == 201
    for client, made in ((http, identity), (http, other), (http, again.json()["id"]), (stranger, theirs)):
        assert client.delete(f"/v1/sandboxes/{made}").status_code == 204


def test_an_idempotency_key_is_for_one_request(http: httpx2.Client, new_key: NewKey) -> None:
    key = {"Idempotency-Key": "one-request"}
    first = http.post("/v1/sandboxes", json={"metadata": {"a": "1"}, "ttl": 60}, headers=key)
    same = http.post("/v1/sandboxes", content=b' {"ttl": 60.0, "metadata": {"a":"1"}}', headers={**key, **JSON})
    assert same.json()["id"] == first.json()["id"]
    others: tuple[tuple[str, dict[str, Any]], ...] = (
        ("/v1/sandboxes", {"metadata": {"a": "2"}, "ttl": 60}),
        ("/v1/sandboxes", {}),
        ("/sandboxes", {"templateID": "base"}),
        ("/v2/sandboxes", {"metadata": {"a": "1"}, "ttl": 60}),
    )
    for path, body in others:
        refused = http.post(path, json=body, headers=key)
        assert refused.status_code == 409, (path, refused.text)
        assert "different request" in refused.text
    # the keys of other callers are their own, even of the same owner
    for owner in ("one", "one", "two"):
        other = new_key(owner)
        made = other.post("/v1/sandboxes", json={}, headers=key)
        assert made.status_code == 201
        assert other.delete(f"/v1/sandboxes/{made.json()['id']}").status_code == 204
    http.delete(f"/v1/sandboxes/{first.json()['id']}")


def test_different_requests_at_the_same_time_with_one_idempotency_key(server: Any) -> None:
    def make(number: int) -> tuple[int, str]:
        with server.client() as client:
            body = {"templateID": "base", "metadata": {"half": str(number % 2)}}
            answer = client.post("/sandboxes", json=body, headers={"Idempotency-Key": "at-once"})
            return answer.status_code, answer.json().get("sandboxID", "")

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(make, range(6)))
    assert sorted(status for status, _ in answers) == [201] * 3 + [409] * 3
    (made,) = {identity for status, identity in answers if status == 201}
    with server.client() as client:
        assert client.delete(f"/sandboxes/{made}").status_code == 204


def test_the_filters_of_a_list_are_bounded(http: httpx2.Client) -> None:
    for count, status in ((20, 200), (21, 400), (3000, 400)):
        query = "&".join(f"metadata.k{number}=v" for number in range(count))
        assert http.get(f"/v1/sandboxes?{query}").status_code == status
        pairs = query.replace("metadata.", "").replace("=", "%3D").replace("&", "%26")
        assert http.get(f"/v2/sandboxes?metadata={pairs}").status_code == status


def test_sandboxes_are_listed_by_state_and_metadata_page_by_page(new_key: NewKey) -> None:
    ada = new_key("lister")
    made = [
        ada.post("/v1/sandboxes", json={"metadata": {"n": str(n % 2), "of": "lister"}}).json()["id"] for n in range(5)
    ]
    ada.delete(f"/v1/sandboxes/{made[0]}")

    def listed(**query: Any) -> list[str]:
        found: list[str] = []
        while True:
            page = ada.get("/v1/sandboxes", params=query).json()
            found += [one["id"] for one in page["items"]]
            if page["next"] is None:
                return found
            query["after"] = page["next"]

    assert listed() == listed(limit=2) == made[::-1]
    assert listed(state="alive", limit=1) == made[:0:-1]
    assert listed(state="ended") == made[:1]
    assert listed(state="lost") == []
    assert listed(**{"metadata.n": "1"}) == [made[3], made[1]]
    assert listed(**{"metadata.n": "1", "metadata.of": "x"}) == []
    assert listed(**{"metadata.of": "lister", "state": "alive", "limit": 3}) == made[:0:-1]
    assert listed(**{"metadata.no'such\"": "%"}) == []
    assert ada.get("/v1/sandboxes", params={"state": "odd"}).status_code == 422
    for identity in made:
        assert ada.delete(f"/v1/sandboxes/{identity}").status_code == 204


def test_a_sandbox_is_extended_and_described(http: httpx2.Client, new_sandbox: NewSandbox) -> None:
    path = new_sandbox(ttl=100, metadata={"a": "1"})
    changed = http.patch(path, json={"ttl": 1000, "idle_timeout": 77, "metadata": {"b": "2"}}).json()
    assert changed["expires"] == pytest.approx(time.time() + 1000, abs=10)
    assert (changed["idle_timeout"], changed["metadata"]) == (77, {"b": "2"})
    assert http.get(path).json() == changed
    longest = http.patch(path, json={"ttl": None}).json()["expires"]
    assert longest == pytest.approx(time.time() + 7 * 86400, abs=10)
    assert http.patch(path, json={}).json()["expires"] == longest
    for body, status in (
        ({"ttl": -1}, 400),
        ({"ttl": 1e9}, 400),
        ({"memory": "1G"}, 422),
        ({"metadata": {"": ""}}, 400),
    ):
        assert http.patch(path, json=body).status_code == status
    assert http.get(path).json()["expires"] == longest


def test_a_sandbox_ends_when_its_time_is_up(http: httpx2.Client, new_sandbox: NewSandbox) -> None:
    path = new_sandbox(ttl=1.5)
    with http.stream("POST", f"{path}/run", json={"code": "import time; time.sleep(60)"}, headers=STREAM) as answer:
        run = answer.headers["cloche-run"]
        list(events(answer))  # it ends with its sandbox
    assert until_ended(http, path)["reason"] == "its time was up"
    assert http.get(f"/v1/runs/{run}").json()["state"] != "running"


def test_a_sandbox_that_was_extended_lives_on(http: httpx2.Client, new_sandbox: NewSandbox) -> None:
    path = new_sandbox(ttl=1)
    assert http.patch(path, json={"ttl": 60}).status_code == 200
    younger = new_sandbox(ttl=1)
    assert until_ended(http, younger)["reason"] == "its time was up"
    assert http.get(path).json()["state"] == "alive"


def test_an_idle_sandbox_ends(http: httpx2.Client, new_sandbox: NewSandbox) -> None:
    path = new_sandbox(idle_timeout=0.3)
    assert http.post(f"{path}/run", json={"code": "1"}).status_code == 200
    assert until_ended(http, path, 8)["reason"] == "it was idle"


# Each kind of work lasts until there is a file.  The first two only wait: they use no processor.
WAITS = "tail --follow=name --retry --lines=+1 /sandbox/go 2>/dev/null | head -n 1"
WORK: dict[str, tuple[str, dict[str, Any]]] = {
    "cell": ("run", {"code": f"print('begun', flush=True)\nimport os; os.system({WAITS!r})"}),
    "command": ("commands", {"command": WAITS}),
    "background": ("commands", {"command": "(while [ ! -e /sandbox/go ]; do :; done) >/dev/null 2>&1 &"}),
}


@pytest.mark.parametrize("work", WORK)
def test_a_sandbox_that_works_is_not_idle(http: httpx2.Client, new_sandbox: NewSandbox, work: str) -> None:
    path = new_sandbox(idle_timeout=0.3)
    operation, body = WORK[work]
    with ExitStack() as stack:
        if work == "cell":
            answer = stack.enter_context(http.stream("POST", f"{path}/run", json=body, headers=STREAM))
            coming = events(answer)
            assert next(coming).kind == "started"
        else:
            assert http.post(f"{path}/{operation}", json=body).status_code == 201
        # It has been without requests for longer than another sandbox that ends because it is idle.
        idle = new_sandbox(idle_timeout=1.5)
        assert until_ended(http, idle, 12)["reason"] == "it was idle"
        assert http.get(path).json()["state"] == "alive"
        assert http.put(f"{path}/files/go", content=b"go\n").is_success
        if work == "cell":
            assert [event.kind for event in coming][-1] == "end"
    assert until_ended(http, path, 12)["reason"] == "it was idle"


def test_a_server_that_nobody_uses_does_not_keep_a_sandbox(http: httpx2.Client, new_sandbox: NewSandbox) -> None:
    path = new_sandbox(idle_timeout=0.5)
    command = ["python3", "-m", "http.server", "8000"]
    assert http.post(f"{path}/commands", json={"command": command}).status_code == 201
    assert until_ended(http, path, 12)["reason"] == "it was idle"


def test_a_full_server_says_when_to_come_back(serve: Callable[..., Any]) -> None:
    server = serve("--sandboxes", "1")
    with server.client() as http:
        first = http.post("/v1/sandboxes", json={}).json()["id"]
        refused = http.post("/v1/sandboxes", json={})
        assert (refused.status_code, refused.json()["error"]["kind"]) == (503, "busy")
        assert int(refused.headers["retry-after"]) >= 1
        http.delete(f"/v1/sandboxes/{first}")
        assert http.post("/v1/sandboxes", json={}).status_code == 201


# --- what it uses, what happens in it


def test_usage_once_and_again(http: httpx2.Client, sandbox: str) -> None:
    http.post(f"{sandbox}/run", json={"code": "x = bytearray(50_000_000)"})
    told = http.get(f"{sandbox}/usage").json()
    assert set(told) == {"memory", "memory_peak", "cpu_time", "disk", "processes", "network"}
    assert told["memory"] > 50_000_000
    assert told["network"] == {"sent": 0, "received": 0}
    with http.stream("GET", f"{sandbox}/usage", params={"interval": 0.1}, headers=STREAM) as answer:
        coming = events(answer)
        found = [next(coming) for _ in range(3)]
    assert [(one.number, one.kind) for one in found] == [(1, "usage"), (2, "usage"), (3, "usage")]
    assert all(one.data["memory"] > 50_000_000 for one in found)
    assert http.get(f"{sandbox}/usage", params={"interval": 0}, headers=STREAM).status_code == 422


def test_two_clients_see_each_other(http: httpx2.Client, server: Any, sandbox: str) -> None:
    """What one does in a sandbox, the other sees as it happens."""
    seen: list[list[Event]] = [[], []]
    ready = threading.Barrier(3)

    def follow(place: int) -> None:
        with server.client() as client, client.stream("GET", f"{sandbox}/events") as answer:
            ready.wait(10)
            for one in events(answer):
                seen[place].append(one)

    watchers = [threading.Thread(target=follow, args=(place,)) for place in (0, 1)]
    for watcher in watchers:
        watcher.start()
    ready.wait(10)
    with server.client() as first, server.client() as second:
        run = first.post(f"{sandbox}/run", json={"code": "print('from the first'); 6*7"}).json()["run_id"]
        second.put(f"{sandbox}/files/x.txt", content=b"hello")
        second.post(f"{sandbox}/commands", json={"command": "echo command", "wait": True})
        second.post(f"{sandbox}/commands", json={"command": "echo background"})
        first.post(f"{sandbox}/checkpoints", json={"name": "here"})
        first.post(f"{sandbox}/contexts", json={})
        first.post(f"{sandbox}/checkpoints/here/restore")
        second.delete(f"{sandbox}/files/x.txt")
    http.delete(sandbox)
    for watcher in watchers:
        watcher.join(10)
        assert not watcher.is_alive()
    assert seen[0] == seen[1]
    kinds = [one.kind for one in seen[0]]
    assert [one.number for one in seen[0]] == list(range(seen[0][0].number, seen[0][0].number + len(kinds)))
    for kind in ("run.started", "run.stdout", "run.result", "run.end", "file.write", "command.started", "checkpoint"):
        assert kind in kinds, kinds
    assert {"context", "restore", "file.remove"} <= set(kinds)
    waited = [one for one in seen[0] if one.kind.startswith("run.") and one.data["run_id"] != run]
    assert [one.kind for one in waited] == ["run.started", "run.stdout", "run.end"]
    assert kinds[-1] == "sandbox.ended"
    by_kind = {one.kind: one.data for one in reversed(seen[0])}
    assert all({"kind", "time"} <= set(one.data) for one in seen[0])
    assert by_kind["run.started"]["run_id"] == run
    assert by_kind["run.started"]["code"] == "print('from the first'); 6*7"
    assert by_kind["run.stdout"]["text"] == "from the first\n"
    assert by_kind["file.write"]["path"] == "/sandbox/x.txt"


def test_the_feed_can_be_followed_from_any_place(http: httpx2.Client, sandbox: str) -> None:
    for number in range(3):
        http.put(f"{sandbox}/files/{number}", content=b"x")
    with http.stream("GET", f"{sandbox}/events", params={"after": 0}) as answer:
        coming = events(answer)
        first = [next(coming) for _ in range(3)]
    with http.stream("GET", f"{sandbox}/events", headers={"Last-Event-ID": "1"}) as answer:
        coming = events(answer)
        assert [next(coming) for _ in range(2)] == first[1:]
    assert http.get(f"{sandbox}/events", params={"after": -1}).status_code == 422


def test_a_feed_that_is_too_long_says_what_is_missing(http: httpx2.Client, sandbox: str) -> None:
    with http.stream("GET", f"{sandbox}/events") as answer:  # somebody follows, so output goes into the feed
        next(answer.iter_bytes())
        code = "for n in range(60): print('x' * 100_000)"
        http.post(f"{sandbox}/run", json={"code": code})
    with http.stream("GET", f"{sandbox}/events", params={"after": 0}) as answer:
        first = next(events(answer))
    assert first.kind == "gap"
    assert first.data == {"from": 1, "to": first.number}


# --- the server itself


def test_languages_and_versions(http: httpx2.Client) -> None:
    languages = {one["name"]: one for one in http.get("/v1/languages").json()["items"]}
    assert languages["python"]["sessions"]
    assert "js" in languages["javascript"]["aliases"]
    first = http.get("/v1/languages", params={"limit": 1}).json()
    assert len(first["items"]) == 1
    second = http.get("/v1/languages", params={"limit": 1, "after": first["next"]}).json()
    assert second["items"] != first["items"]
    assert http.get("/v1/version").json()["api"] == "v1"


def test_who_looks_after_servers_may_ask_without_wanting_an_answer(http: httpx2.Client) -> None:
    assert [http.head(path).status_code for path in ("/v1/health", "/v1/ready")] == [200, 200]


def test_a_server_that_can_start_no_sandbox_says_so_and_is_not_ready(serve: Callable[..., Server]) -> None:
    server = serve(env={"CLOCHE_ENVIRONMENT": "/nowhere"})
    with server.client() as http:
        refused = http.get("/v1/ready")
        assert refused.status_code == 503
        assert refused.json()["error"]["message"] == "The sandboxes' Python environment is missing."
        assert http.get("/v1/health").status_code == 200
    assert "/nowhere" in server.log.read_text()
    assert server.greeting.startswith(f"Cloche is not ready ({server.url}): ")
    assert "/nowhere" in server.greeting


def test_what_is_not_there(http: httpx2.Client) -> None:
    for method, path, status in (
        ("GET", "/nowhere", 404),
        ("GET", "/v1/nowhere", 404),
        ("DELETE", "/v1/version", 405),
        ("PUT", "/v1/run", 405),
        ("GET", "/v1/run\0", 404),
        ("GET", "/%ff", 404),
    ):
        answer = http.request(method, path.replace("\0", "%00"))
        assert answer.status_code == status, path
        assert set(answer.json()["error"]) == {"kind", "message", "hint", "details"}


def test_the_documentation_needs_nothing_from_outside(http: httpx2.Client) -> None:
    page = http.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    for there in ("/v1/run", "/v1/sandboxes/{sandbox_id}/files/{path}", "SandboxBody", "idle_timeout"):
        assert there in page.text
    links = re.findall(r"""(?:src|href|url\()=?["']?([^"'>]*)""", page.text)
    assert links
    assert not [link for link in links if not link.startswith(("/", "#", "data:"))]
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "script-src 'sha256-" in policy
    assert "'unsafe-inline'" not in policy
    for path in http.get("/openapi.json").json()["paths"]:
        assert path in page.text


def test_a_stopping_server_is_not_ready_and_ends_sandboxes(serve: Callable[..., Any]) -> None:
    server = serve()
    with server.client() as http:
        sandbox = f"/v1/sandboxes/{http.post('/v1/sandboxes', json={}).json()['id']}"
        assert http.post(f"{sandbox}/run", json={"code": "1"}).status_code == 200
    assert server.stop() == 0
    again = serve(folder="server-0")
    with again.client() as http:
        told = http.get(sandbox).json()
        assert (told["state"], told["reason"]) == ("ended", "the server was stopped")
        assert [run["state"] for run in http.get("/v1/runs").json()["items"]] == ["done"]


def test_what_cannot_be_recorded_is_not_done(serve: Callable[..., Any]) -> None:
    server = serve()
    pid, kind = server.process.pid, resource.RLIMIT_FSIZE
    with server.client() as http:
        usual = resource.prlimit(pid, kind)
        resource.prlimit(pid, kind, (1, usual[1]))  # fails in every write to a file, as a full disk does
        refused = [http.post("/v1/run", json={"code": "1"}), http.post("/v1/keys", json={"owner": "a", "name": "b"})]
        resource.prlimit(pid, kind, usual)
        for answer in refused:
            assert answer.status_code == 503, answer.text
            assert answer.json()["error"]["kind"] == "unavailable"
            assert "Retry-After" in answer.headers
        assert http.post("/v1/run", json={"code": "print(1)"}).json()["stdout"] == "1\n"


def test_a_usage_stream_ends_with_its_sandbox(http: httpx2.Client, server: Any, sandbox: str) -> None:
    with server.client() as other, other.stream("GET", f"{sandbox}/usage?interval=0.1", headers=STREAM) as answer:
        coming = events(answer)
        next(coming)
        http.delete(sandbox)
        list(coming)
    assert "Traceback" not in server.log.read_text()
    assert all_events(http, "POST", "/v1/run", json={"code": "1"})[-1].kind == "end"


def test_numbers_that_are_none_are_null(http: httpx2.Client) -> None:
    box = http.post("/v1/sandboxes", json={}).json()["id"]
    code = "from IPython.display import JSON, display\ndisplay(JSON({'a': [float('nan'), float('inf'), 1.5]}))"
    answer = http.post(f"/v1/sandboxes/{box}/run", json={"code": code})
    assert "NaN" not in answer.text
    assert answer.json()["results"][0]["mime"]["application/json"] == {"a": [None, None, 1.5]}
    http.delete(f"/v1/sandboxes/{box}")
