"""Which token opens which part of a sandbox: every address, credential and kind of sandbox."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from socket import create_connection
from typing import Any
from unittest.mock import MagicMock

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from cloche.configuration import Configuration
from cloche.doors.server import application

PORT = 3000  # of a server in each sandbox
SERVER = f"""
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
class Handler(BaseHTTPRequestHandler):
    def any(self):
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")
    do_GET = do_POST = do_DELETE = do_PUT = any
    def log_message(self, *_): pass
Thread(target=ThreadingHTTPServer(("127.0.0.1", {PORT}), Handler).serve_forever, daemon=True).start()
kept = "intact"
"""
# Without a path, envd would mean the home of the user, which it refuses to move or remove.
BODY = b'{"path": "/tmp/none", "source": "/tmp/none", "destination": "/tmp/none"}'
EVIL = {"Origin": "http://evil.example"}


def declared() -> list[tuple[str, str, str]]:
    """Every address in a sandbox as port, method, path; and a server of the sandbox's own."""
    service = MagicMock()
    service.configuration = Configuration()
    routes = application(service, MagicMock()).declarations()
    inside = [one for one in routes if one.door in ("E2B, port 49983", "E2B, port 49999")]
    ours = [(one.door[-5:], "GET" if one.method == "any" else one.method, one.path) for one in inside]
    signed = [("49983", method, "/files") for method in ("POST", "PUT", "OPTIONS")]
    return [*ours, *signed, *((str(PORT), method, "/x") for method in ("GET", "POST", "DELETE", "PUT"))]


ADDRESSES = declared()


@dataclass
class Made:
    """A sandbox, and the tokens that somebody with a key that may run code gets for it."""

    kind: str
    id: str  # E2B's
    own_id: str
    access: str = ""
    traffic: str = ""
    context: str = ""


CREATE: dict[str, dict[str, Any]] = {
    "secure": {"secure": True},
    "insecure": {"secure": False},
    "closed": {"secure": True, "network": {"allowPublicTraffic": False}},
    "insecure, closed": {"secure": False, "network": {"allowPublicTraffic": False}},
}
KINDS = (*CREATE, "native", "native, connected")


@pytest.fixture(scope="module")
def keys(server: Any) -> Iterator[dict[str, str]]:
    with server.client() as admin:
        made = [admin.post("/v1/keys", json={"owner": "tok", "name": s, "scopes": [s]}).json() for s in ("run", "read")]
        yield {"run": made[0]["key"], "read": made[1]["key"]}
        for one in made:
            admin.delete(f"/v1/keys/{one['id']}")


@pytest.fixture(scope="module")
def client(server: Any) -> Iterator[httpx2.Client]:
    """A client without any key."""
    with httpx2.Client(base_url=server.url, timeout=30, trust_env=False) as found:
        yield found


@pytest.fixture(scope="module")
def made(server: Any, keys: dict[str, str]) -> Iterator[dict[str, Made]]:
    """One sandbox of each kind, each with a server and a variable."""
    found = {}
    with server.client(key=keys["run"]) as http:
        for kind in KINDS:
            if kind in CREATE:
                answer = http.post("/sandboxes", json={"templateID": "base", **CREATE[kind]}).json()
                one = Made(kind, answer["sandboxID"], answer["sandboxID"].replace("sbx", "sbx_", 1))
            else:
                answer = {}
                own_id = http.post("/v1/sandboxes", json={}).json()["id"]
                one = Made(kind, own_id.replace("_", "", 1), own_id)
            if kind == "native, connected":
                answer = http.post(f"/sandboxes/{one.id}/connect", json={}).json()
            one.access, one.traffic = answer.get("envdAccessToken") or "", answer.get("trafficAccessToken") or ""
            assert http.post(f"/v1/sandboxes/{one.own_id}/run", json={"code": SERVER}).json()["exit_code"] == 0
            one.context = http.get(f"/v1/sandboxes/{one.own_id}/contexts").json()["items"][0]["id"]
            assert http.get(f"/v1/sandboxes/{one.own_id}/ports/{PORT}?wait=30").json()["listening"]
            found[kind] = one
        yield found
        for one in found.values():
            http.delete(f"/v1/sandboxes/{one.own_id}")


def credentials(one: Made, others: dict[str, Made], keys: dict[str, str]) -> dict[str, dict[str, str]]:
    other = others["closed" if one.kind != "closed" else "secure"]
    found = {
        "none": {},
        "wrong": {"X-Access-Token": "0" * 64, "E2B-Traffic-Access-Token": "0" * 64},
        "odd": {"X-Access-Token": "\xff\xfe", "E2B-Traffic-Access-Token": "\xff"},
        "swapped": {"X-Access-Token": one.traffic, "E2B-Traffic-Access-Token": one.access},
        "other's": {"X-Access-Token": other.access, "E2B-Traffic-Access-Token": other.traffic},
        "read key": {"X-API-Key": keys["read"]},
        "run key": {"Authorization": f"Bearer {keys['run']}"},
        "foreign": {**EVIL, "X-Access-Token": one.access, "E2B-Traffic-Access-Token": one.traffic},
        "access": {"X-Access-Token": one.access},
        "traffic": {"E2B-Traffic-Access-Token": one.traffic},
        "both": {"X-Access-Token": one.access, "E2B-Traffic-Access-Token": one.traffic},
    }
    return {name: {key: value for key, value in pairs.items() if value} for name, pairs in found.items()}


def admits(one: Made, port: str, path: str, credential: str, *, by_host: bool) -> bool:
    """The rule, written down a second time."""
    if credential == "foreign" and (port != str(PORT) or not by_host):
        return False  # a server in a sandbox is asked by pages of any origin, but by its own name only
    has_access = bool(one.access) and credential in ("access", "both")
    has_traffic = bool(one.traffic) and credential in ("traffic", "both", "foreign")
    by_client, is_public = one.kind in CREATE, one.kind in ("secure", "insecure")
    if port == str(PORT):
        return is_public or has_traffic
    if port == "49983":
        return has_access or (path == "/health" and by_client)
    if not (is_public or has_access or has_traffic):
        return False
    if path == "/health" or one.kind.startswith("insecure"):
        return True
    return has_access or (has_traffic and path.startswith("/contexts"))


@pytest.mark.parametrize("by_host", [True, False], ids=["by host", "by header"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_address_needs_its_token(
    client: httpx2.Client, server: Any, made: dict[str, Made], keys: dict[str, str], kind: str, by_host: bool
) -> None:
    one = made[kind]
    wrong = []
    for credential, headers in credentials(one, made, keys).items():
        for port, method, path in ADDRESSES:
            expected = admits(one, port, path, credential, by_host=by_host)
            # A refused request names a context that exists, so that it would do harm; an admitted one does not.
            address = path.replace("{context}", "none" if expected else one.context)
            place = {"E2b-Sandbox-Id": one.id, "E2b-Sandbox-Port": port}
            if by_host:
                place = {"Host": f"{port}-{one.id}.localhost:{server.port}"}
            sent = {**place, **{name: value.encode("latin-1") for name, value in headers.items()}}
            body = BODY if "Filesystem" in path else b""
            with client.stream(method, address, headers=sent, content=body) as answer:  # type: ignore[arg-type]
                status = answer.status_code
            if (status not in (401, 403)) is not expected or status >= 500:
                wrong.append((credential, port, method, path, status))
    assert wrong == []
    with server.client(key=keys["run"]) as http:
        ran = http.post(f"/v1/sandboxes/{one.own_id}/run", json={"code": "kept"}).json()
        assert ran["text"] == "'intact'", ran


@pytest.mark.parametrize("kind", KINDS)
def test_websockets_need_the_same_tokens(server: Any, made: dict[str, Made], keys: dict[str, str], kind: str) -> None:
    one = made[kind]
    for port in ("49983", "49999", str(PORT)):
        for credential, headers in credentials(one, made, keys).items():
            is_admitted = admits(one, str(PORT), "", credential, by_host=True)
            if credential == "odd" or (port == "49999" and is_admitted):
                continue  # the client sends no such headers; the server waits until something listens there
            host = f"{port}-{one.id}.localhost:{server.port}"
            with pytest.raises((InvalidStatus, ConnectionClosed)) as refused:
                connect(
                    f"ws://{host}/x",
                    sock=create_connection(("127.0.0.1", server.port)),
                    additional_headers=headers,
                    proxy=None,
                )
            status = refused.value.response.status_code if isinstance(refused.value, InvalidStatus) else 0
            if port == "49983":
                assert status == 403, (credential, status)
            elif not is_admitted:
                assert status == 403, (port, credential, status)
            else:  # the server inside speaks no WebSocket
                assert status in (200, 502), (port, credential, status)


def test_signed_addresses_open_one_file_for_one_operation(
    client: httpx2.Client, server: Any, keys: dict[str, str], made: dict[str, Made]
) -> None:
    from cloche.doors.e2b.sandboxes import E2bSandbox

    one = made["secure"]
    signer = E2bSandbox(MagicMock(), MagicMock(id=one.own_id), one.access, one.traffic)

    def address(path: str, operation: str, until: str = "") -> str:
        query = {"path": path, "signature": signer.signature(path, operation, "", until)}
        return f"/files?{httpx2.QueryParams({**query, **({'signature_expiration': until} if until else {})})}"

    with server.client(key=keys["run"]) as http:
        http.put(f"/v1/sandboxes/{one.own_id}/files/signed", content=b"contents")
    assert client.get(address("signed", "read")).content == b"contents"
    assert client.get(address("signed", "write")).status_code == 401
    assert client.post(address("signed", "read"), content=b"x").status_code == 401
    assert client.get(address("signed", "read", "99999999999")).content == b"contents"
    for until in ("1", "-1", "soon", "9" * 19, "9" * 5000, "1e9", "٩٩٩٩٩٩٩٩٩٩٩", "1.5", " 9999999999", "\x00", "²"):
        answer = client.get(address("signed", "read", until))
        assert (answer.status_code, answer.json()["message"]) == (401, "signature is already expired"), until
    # the last of several values counts, for the signature as for the path
    assert client.get(f"{address('signed', 'read')}&path=/etc/passwd").status_code == 401
    assert client.get(f"{address('signed', 'read')}&signature=%ff").status_code == 401


@pytest.mark.parametrize("query", ["signature=%ff", "path=%ff&signature=%ed%a0%80", "signature=\xff", "signature="])
def test_a_signature_that_is_no_text_is_wrong(client: httpx2.Client, made: dict[str, Made], query: str) -> None:
    for method in ("GET", "HEAD", "POST", "DELETE"):
        for headers in ({}, {"E2b-Sandbox-Id": made["secure"].id, "E2b-Sandbox-Port": "49983"}):
            assert client.request(method, f"/files?{query}", headers=headers).status_code == 401


def test_a_reader_gets_neither_tokens_nor_addresses(server: Any, keys: dict[str, str], made: dict[str, Made]) -> None:
    shared = {"title": "t", "files": [{"path": "a", "text": "b"}], "runs": []}
    with server.client(key=keys["run"]) as runner:
        share = runner.post("/v1/shares", json=shared).json()
        addresses = [runner.post(f"/v1/sandboxes/{one.own_id}/ports/{PORT}").json() for one in made.values()]
    secrets = {token for one in made.values() for token in (one.access, one.traffic) if token}
    secrets |= {address["token"] for address in addresses} | {share["path"].rpartition("/")[2]}
    paths = ["/v1/shares", "/v1/sandboxes", "/v2/sandboxes", "/sandboxes", "/v1/usage"]
    for one in made.values():
        paths += [f"/v1/sandboxes/{one.own_id}{rest}" for rest in ("", "/ports", "/contexts", "/commands")]
        paths += [f"/sandboxes/{one.id}", f"/v2/sandboxes/{one.id}/logs", f"/sandboxes/{one.id}/metrics"]
    with server.client(key=keys["read"]) as reader:
        for path in paths:
            answer = reader.get(path)
            assert answer.status_code in (200, 404), path
            assert not [secret for secret in secrets if secret in answer.text], path
        for one in made.values():
            for path in (
                f"/sandboxes/{one.id}/connect",
                f"/v2/sandboxes/{one.id}/connect",
                f"/sandboxes/{one.id}/resume",
                f"/sandboxes/{one.id}/fork",
                f"/v1/sandboxes/{one.own_id}/ports/{PORT}",
            ):
                assert reader.post(path, json={}).status_code == 403, path
            assert reader.get(f"/v1/sandboxes/{one.own_id}/ports/{PORT}/").status_code == 403
    with server.client(key=keys["run"]) as runner:
        runner.delete(f"/v1/shares/{share['id']}")


def test_strangers_do_not_wake_a_sandbox(client: httpx2.Client, server: Any, keys: dict[str, str]) -> None:
    wish = {"templateID": "base", "autoResume": {"enabled": True}, "network": {"allowPublicTraffic": False}}
    with server.client(key=keys["run"]) as http:
        one = http.post("/sandboxes", json=wish).json()
        path = f"/sandboxes/{one['sandboxID']}"
        assert http.post(f"{path}/pause").status_code == 204
        for port, method, address in ADDRESSES:
            if address != "/health" or port == "49999":
                place = {"Host": f"{port}-{one['sandboxID']}.localhost"}
                assert client.request(method, address, headers=place).status_code in (401, 403)
        assert http.get(path).json()["state"] == "paused"
        token = {"Host": f"49983-{one['sandboxID']}.localhost", "X-Access-Token": one["envdAccessToken"]}
        assert client.get("/envs", headers=token).status_code == 200
        assert http.get(path).json()["state"] == "running"
        http.delete(path)


def test_strangers_do_not_use_up_the_owners_requests(client: httpx2.Client, server: Any, http: httpx2.Client) -> None:
    key = http.post("/v1/keys", json={"owner": "few", "name": "few", "limits": {"requests_per_second": 5}}).json()
    with server.client(key=key["key"]) as few:
        one = few.post("/sandboxes", json={"templateID": "base"}).json()
        for _ in range(30):
            client.get("/envs", headers={"Host": f"49983-{one['sandboxID']}.localhost"})
        assert few.get(f"/sandboxes/{one['sandboxID']}").status_code == 200
        few.delete(f"/sandboxes/{one['sandboxID']}")
    http.delete(f"/v1/keys/{key['id']}")


@pytest.fixture
def ada(server: Any, http: httpx2.Client) -> Iterator[tuple[str, httpx2.Client]]:
    key = http.post("/v1/keys", json={"owner": "ada-revoked", "name": "test"}).json()
    with server.client(key=key["key"]) as client:
        yield key["id"], client
    for one in http.get("/v1/sandboxes?limit=1000").json()["items"]:
        http.delete(f"/v1/sandboxes/{one['id']}")


STREAM = f"""
import socket, threading
listening = socket.create_server(("127.0.0.1", {PORT}))
def serve():
    while True:
        peer, _ = listening.accept()
        peer.recv(1 << 16)
        peer.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Type: text/event-stream\\r\\n\\r\\ndata: 1\\n\\n")
        globals().setdefault("peers", []).append(peer)
threading.Thread(target=serve, daemon=True).start()
"""


@pytest.mark.parametrize("way", ["grant by host", "grant by path", "E2B's name"])
def test_a_visit_ends_when_the_key_is_revoked(
    client: httpx2.Client, http: httpx2.Client, server: Any, ada: tuple[str, httpx2.Client], way: str
) -> None:
    key_id, owner = ada
    one = owner.post("/sandboxes", json={"templateID": "base"}).json()
    sandbox = f"/v1/sandboxes/{one['sandboxID'].replace('sbx', 'sbx_', 1)}"
    assert owner.post(f"{sandbox}/run", json={"code": STREAM}).json()["exit_code"] == 0
    grant = owner.post(f"{sandbox}/ports/{PORT}").json()
    path, host = {
        "grant by host": ("/", f"{grant['token']}.localhost:{server.port}"),
        "grant by path": (grant["path"], f"localhost:{server.port}"),
        "E2B's name": ("/", f"{PORT}-{one['sandboxID']}.localhost:{server.port}"),
    }[way]
    with client.stream("GET", path, headers={"Host": host}) as visit:
        pieces = visit.iter_raw()
        assert b"data: 1" in next(pieces)
        assert http.delete(f"/v1/keys/{key_id}").status_code == 204
        with pytest.raises((httpx2.HTTPError, StopIteration)):
            next(pieces)
    assert client.get(path, headers={"Host": host}).status_code in (401, 403, 404)


def test_a_list_that_sees_a_sandbox_first_does_not_change_it(server: Any, keys: dict[str, str]) -> None:
    """A sandbox keeps the properties of its creation even if another request finds it before the creation answers."""
    from concurrent.futures import ThreadPoolExecutor

    with server.client(key=keys["run"]) as http, ThreadPoolExecutor(8) as pool:
        wish = {"templateID": "base", "secure": False}
        made = [pool.submit(http.post, "/sandboxes", json=wish) for _ in range(4)]
        lists = [pool.submit(http.get, "/v2/sandboxes") for _ in range(40)]
        assert all(one.result().status_code == 200 for one in lists)
        for one in made:
            assert one.result().json()["trafficAccessToken"] is None
            http.delete(f"/sandboxes/{one.result().json()['sandboxID']}")
