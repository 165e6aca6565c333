"""Templates over plain HTTP: whose they are, what outlives the server, and how files arrive."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from tests.conftest import Server

DIGEST = sha256(b"files").hexdigest()
Build = Callable[..., dict[str, Any]]


@pytest.fixture
def name(http: httpx2.Client) -> Iterator[str]:
    """A name for a template, which is deleted at the end."""
    chosen = f"test-{uuid4().hex[:12]}"
    yield chosen
    http.delete(f"/templates/{chosen}")


def build(client: httpx2.Client, name: str, *steps: dict[str, Any], **body: Any) -> dict[str, Any]:
    """Build a template and return the last status."""
    made = client.post("/v3/templates", json={"name": name})
    assert made.status_code == 202, made.text
    where = f"/templates/{made.json()['templateID']}/builds/{made.json()['buildID']}"
    begun = client.post(f"/v2{where}", json={"fromImage": "e2bdev/base", "steps": list(steps), **body})
    assert begun.status_code == 202, begun.text
    return finished(client, where)


def finished(client: httpx2.Client, where: str) -> dict[str, Any]:
    """Ask for the status until the build is over, as clients do."""
    until = monotonic() + 60
    while monotonic() < until:
        status: dict[str, Any] = client.get(f"{where}/status").json()
        if status["status"] not in ("waiting", "building"):
            return status
    raise AssertionError("the build takes too long")


def run(command: str, user: str = "") -> dict[str, Any]:
    return {"type": "RUN", "args": [command, *([user] if user else [])], "force": False}


def archive(**files: bytes | tarfile.TarInfo) -> bytes:
    """An archive with files, or with entries that no client makes."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as packed:
        for path, content in files.items():
            entry = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(path)
            data = b"" if isinstance(content, tarfile.TarInfo) else content
            entry.size = len(data)
            packed.addfile(entry, io.BytesIO(data))
    return gzip.compress(target.getvalue())


def uploaded(client: httpx2.Client, name: str, content: bytes) -> dict[str, Any]:
    """Upload an archive as a client does, without a key, and return the step that copies from it."""
    digest = sha256(content).hexdigest()
    link = client.get(f"/templates/{name}/files/{digest}").json()
    if not link["present"]:
        assert httpx2.put(link["url"], content=content, trust_env=False).status_code == 200
    return {"type": "COPY", "args": ["a", "/app/a", "", ""], "filesHash": digest}


def ended_with(status: dict[str, Any], step: str, text: str) -> bool:
    reason = status.get("reason") or {}
    return status["status"] == "error" and reason.get("step") == step and text in reason["message"]


def test_another_owners_template_is_not_found(http: httpx2.Client, server: Server, name: str) -> None:
    assert build(http, name, run("echo mine > secret"))["status"] == "ready"
    told = http.post("/v1/keys", json={"owner": "eve", "name": "test"}).json()
    with server.client(key=told["key"]) as eve:
        missing = eve.post("/v2/sandboxes", json={"templateID": f"{name}-not"})
        hidden = eve.post("/v2/sandboxes", json={"templateID": name})
        assert missing.status_code == hidden.status_code == 404
        assert hidden.json()["message"] == missing.json()["message"].replace(f"{name}-not", name)
        assert eve.get(f"/templates/aliases/{name}").status_code == 404
        assert eve.get(f"/templates/{name}/tags").status_code == 404
        assert eve.delete(f"/templates/{name}").status_code == 404
        assert name not in [each["templateID"] for each in eve.get("/templates").json()]
        refused = build(eve, "x", fromImage=None, fromTemplate=name)
        assert ended_with(refused, "base", "not found")
    http.delete(f"/v1/keys/{told['id']}")
    assert name in [each["templateID"] for each in http.get("/templates").json()]


def test_a_template_outlives_the_server(jail: None, tmp_path: Path) -> None:
    env = {"CLOCHE_WARM": "0", "CLOCHE_PACKAGES_FOLDER": str(tmp_path / "packages")}
    first = Server(tmp_path, env=env)
    try:
        with first.client() as client:
            status = build(client, "lasting", run("echo kept > /home/user/kept"))
            assert status["status"] == "ready", status
    finally:
        first.stop()
    second = Server(tmp_path, env=env)
    try:
        with second.client() as client:
            again = client.get(f"/templates/lasting/builds/{status['buildID']}/status").json()
            assert (again["status"], again["buildID"]) == ("ready", status["buildID"])
            made = client.post("/v2/sandboxes", json={"templateID": "lasting"})
            assert made.status_code == 201, made.text
            headers = {"X-Access-Token": made.json()["envdAccessToken"], "E2b-Sandbox-Id": made.json()["sandboxID"]}
            found = client.get("/files?path=kept", headers={**headers, "E2b-Sandbox-Port": "49983"})
            assert found.text == "kept\n"
            assert client.delete("/templates/lasting").status_code == 204
            assert client.post("/v2/sandboxes", json={"templateID": "lasting"}).status_code == 404
    finally:
        second.stop()


def test_an_upload_needs_the_link_for_these_files(http: httpx2.Client, server: Server, name: str) -> None:
    link = http.get(f"/templates/{name}/files/{DIGEST}").json()
    assert link["present"] is False
    path, _, token = link["url"].partition("?token=")
    with httpx2.Client(trust_env=False) as anybody:
        assert anybody.put(path, content=b"x").status_code == 401
        other = path.replace(DIGEST, sha256(b"others").hexdigest())
        assert anybody.put(f"{other}?token={token}", content=b"x").status_code == 401
        assert anybody.put(f"{path.replace(name, 'other')}?token={token}", content=b"x").status_code == 401
        key, _, rest = token.partition(".")
        assert anybody.put(f"{path}?token={key}.1{rest}", content=b"x").status_code == 401
        assert anybody.get(link["url"]).status_code == 401
        assert anybody.put(link["url"], content=b"x").status_code == 200
    assert http.get(f"/templates/{name}/files/{DIGEST}").json()["present"] is True
    assert http.get(f"/templates/{name}/files/..%2Fkey").status_code == 400


def test_files_are_unpacked_where_they_belong(http: httpx2.Client, name: str) -> None:
    step = uploaded(http, name, archive(a=b"content"))
    status = build(http, name, step, run("grep -q content /app/a && echo found"))
    assert status["status"] == "ready", status
    assert "found" in [entry["message"] for entry in status["logEntries"]]


def link_to(path: str, target: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    return entry


def device() -> tarfile.TarInfo:
    entry = tarfile.TarInfo("a")
    entry.type = tarfile.CHRTYPE
    return entry


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (lambda: b"no archive", "cannot be unpacked"),
        (lambda: archive(**{"../../etc/out": b"x", "a": b"y"}), "cannot be unpacked"),
        (lambda: archive(link=link_to("a", "/tmp/elsewhere"), **{"a/inside": b"x"}), "cannot be unpacked"),
        (lambda: archive(a=device()), "cannot be unpacked"),
        (lambda: archive(b=b"other"), "has no file a"),
        (lambda: gzip.compress(b"\0" * (64 << 20)), "no file a"),
    ],
    ids=["garbage", "parents", "through a link", "device", "other file", "empty bomb"],
)
def test_a_crafted_archive_fails_its_step(
    http: httpx2.Client, name: str, content: Callable[[], bytes], reason: str
) -> None:
    status = build(http, name, uploaded(http, name, content()))
    assert ended_with(status, "1", reason), status


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ({"type": "VOLUME", "args": ["/data"]}, "VOLUME /data"),
        ({"type": "COPY", "args": ["a", "b"], "filesHash": "../../key"}, "no hash"),
        ({"type": "COPY", "args": ["a", "b"], "filesHash": sha256(b"never").hexdigest()}, "not uploaded"),
        ({"type": "ENV", "args": ["A B", "c"]}, "A B"),
        ({"type": "RUN", "args": [1]}, "list of texts"),
        (run("docker build ."), "docker"),
        (run("id", "postgres"), "postgres"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_step_that_cannot_be_expressed_is_refused(
    http: httpx2.Client, name: str, step: dict[str, Any], reason: str
) -> None:
    status = build(http, name, run("true"), step)
    assert status["status"] == "error"
    assert reason in status["reason"]["message"]
    assert http.get(f"/templates/aliases/{name}").status_code == 404


def test_the_log_comes_in_pages(http: httpx2.Client, name: str) -> None:
    status = build(http, name, run("seq 250"))
    where = f"/templates/{name}/builds/{status['buildID']}/status"
    first, second = (http.get(where, params={"logsOffset": at}).json()["logEntries"] for at in (0, 100))
    assert len(first) == len(second) == 100
    assert first != second
    assert http.get(where, params={"logsOffset": 10_000}).json()["logEntries"] == []
    assert {"timestamp", "level", "message"} == first[0].keys()


def test_a_build_is_started_once(http: httpx2.Client, name: str) -> None:
    status = build(http, name)
    where = f"/v2/templates/{name}/builds/{status['buildID']}"
    assert http.post(where, json={"steps": []}).status_code == 400
    assert http.post(f"/v2/templates/{name}/builds/{uuid4()}", json={"steps": []}).status_code == 404


@pytest.mark.parametrize(
    "body",
    [{}, {"name": ""}, {"name": "a:b:c"}, {"name": "x", "tags": "v1"}, {"name": "x", "cpuCount": "many"}, {"name": 1}],
    ids=str,
)
def test_a_request_that_makes_no_sense(http: httpx2.Client, body: dict[str, Any]) -> None:
    answer = http.post("/v3/templates", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, 400)


def test_the_clients_oldest_way_to_ask_works_too(http: httpx2.Client, name: str) -> None:
    made = http.post("/v2/templates", json={"alias": name}).json()
    assert made["aliases"] == [name]
    assert made["tags"] == ["default"]
