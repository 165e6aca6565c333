"""The gate: web pages, guessed keys and odd requests get nothing; each attack is one change away from being let in."""

from __future__ import annotations

import hmac
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from cloche.configuration import load
from cloche.doors.gate.cookies import COOKIE
from cloche.errors import Misconfigured
from cloche.policy.keys import Keyring
from cloche.store.store import Store

Serve = Callable[..., Any]
RUN = {"code": "print(1)"}


@pytest.fixture
def bare(server: Any) -> Iterator[httpx2.Client]:
    """A client without a key."""
    with httpx2.Client(base_url=server.url, timeout=30, trust_env=False) as client:
        yield client


@pytest.fixture
def cookie(server: Any, bare: httpx2.Client) -> str:
    """A browser's cookie."""
    answer = bare.get("/", params={"key": server.key})
    assert answer.status_code == 303
    bare.cookies.clear()
    return f"{COOKIE}={answer.cookies[COOKIE]}"


def kind(answer: httpx2.Response) -> str:
    """What an error is."""
    error = answer.json()["error"]
    assert set(error) == {"kind", "message", "hint", "details"}
    return str(error["kind"])


# --- keys


@pytest.mark.parametrize(
    "path", ["/v1/version", "/v1/sandboxes", "/v1/keys", "/v1/key", "/v1/usage/keys", "/metrics", "/x"]
)
def test_nothing_without_a_key(bare: httpx2.Client, http: httpx2.Client, path: str) -> None:
    answer = bare.get(path)
    assert answer.status_code == 401
    assert kind(answer) == "unauthorized"
    assert answer.headers["www-authenticate"] == "Bearer"
    assert http.get(path).status_code == (404 if path == "/x" else 200)


def test_an_unknown_address_is_not_found_by_people_and_programs(http: httpx2.Client, bare: httpx2.Client) -> None:
    assert http.get("/nowhere").json()["error"]["kind"] == "gone"
    page = http.get("/nowhere", headers={"Accept": "text/html,*/*"})
    assert page.status_code == 404
    assert page.headers["content-type"].startswith("text/html")
    assert bare.get("/nowhere", headers={"Accept": "text/html,*/*"}).status_code == 401


@pytest.mark.parametrize("path", ["/v1/health", "/v1/ready"])
def test_health_needs_no_key(bare: httpx2.Client, path: str) -> None:
    assert bare.get(path).json() == {"status": "ok"}


def test_a_key_in_the_usual_places_is_taken(bare: httpx2.Client, server: Any) -> None:
    for headers in (
        {"Authorization": f"Bearer {server.key}"},
        {"authorization": f"bearer   {server.key}"},
        {"X-API-Key": server.key},
    ):
        assert bare.post("/v1/run", json=RUN, headers=headers).json()["stdout"] == "1\n"


def test_a_key_in_any_other_place_is_not(bare: httpx2.Client, server: Any) -> None:
    wrong = server.key[:-1] + ("A" if server.key[-1] != "A" else "B")
    for headers in (
        {"Authorization": f"Bearer {wrong}"},
        {"Authorization": "Bearer"},
        {"Authorization": server.key},
        {"Authorization": f"Basic {server.key}"},
        {"Authorization": f"Bearer {server.key}x"},
        {"Authorization": f"Bearer {server.key.upper()}"},
        {"X-API-Key": wrong},
        {"X-API-Key": ""},
        {"X-Key": server.key},
        {"Cookie": f"{COOKIE}={server.key}"},
        {"Cookie": f"key={server.key}"},
        {"Cookie": f"{COOKIE}="},
        {"Cookie": "@=;;=" + COOKIE},
    ):
        assert bare.post("/v1/run", json=RUN, headers=headers).status_code == 401, headers
    assert bare.post(f"/v1/run?key={server.key}", json=RUN).status_code == 401
    assert bare.post("/v1/run", json={**RUN, "key": server.key}).status_code == 401
    assert bare.get(f"/v1/version?key={server.key}&api_key={server.key}").status_code == 401


async def test_keys_are_kept_as_digests_and_compared_in_constant_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What decides is a digest, which nobody can steer, and the comparison takes the same time wherever they differ."""
    compared: list[tuple[str, str]] = []

    def watched(known: str, given: str) -> bool:
        compared.append((known, given))
        return real(known, given)

    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", watched)
    store = await Store.open(f"sqlite:///{tmp_path / 'cloche.db'}")
    try:
        keyring = Keyring(store)
        _, secret = await keyring.create("ada", "test")
        assert keyring.find(secret) is not None
        assert keyring.find(secret[:-1]) is None
        assert len(compared) == 2
        assert all(secret[:-1] not in one for pair in compared for one in pair)
        assert all(len(given) == 64 for _, given in compared)
    finally:
        await store.close()
    assert secret not in repr(vars(keyring))
    assert secret.encode() not in (tmp_path / "cloche.db").read_bytes()


# --- who asks: other sites' pages


def test_a_host_that_is_not_ours_is_refused(http: httpx2.Client, server: Any) -> None:
    """DNS rebinding: a page's own name that suddenly resolves to this machine."""
    for host in (
        "evil.example",
        f"evil.example:{server.port}",
        f"127.0.0.1.evil.example:{server.port}",
        f"localhost.evil:{server.port}",
        f"evil-localhost:{server.port}",
        f"127.0.0.2:{server.port}",
        f"0.0.0.0:{server.port}",
        "localhost:",
        "",
    ):
        answer = http.get("/v1/version", headers={"Host": host})
        assert answer.status_code == 421, host
        assert kind(answer) == "forbidden"
        assert http.get("/v1/health", headers={"Host": host}).status_code == 421, host
    for host in (
        f"127.0.0.1:{server.port}",
        f"localhost:{server.port}",
        f"LOCALHOST:{server.port}",
        "[::1]",
        "127.0.0.1",
    ):
        assert http.get("/v1/version", headers={"Host": host}).status_code == 200, host


def test_two_hosts_or_none_are_refused(server: Any) -> None:
    head = f"GET /v1/version HTTP/1.1\r\nAuthorization: Bearer {server.key}\r\nConnection: close\r\n"
    good = f"Host: 127.0.0.1:{server.port}\r\n"
    assert raw(server, f"{head}{good}\r\n").startswith(b"HTTP/1.1 200")
    assert raw(server, f"{head}\r\n").startswith(b"HTTP/1.1 421")
    assert raw(server, f"{head}{good}Host: evil.example\r\n\r\n").startswith(b"HTTP/1.1 421")
    assert raw(server, f"{head}Host: evil.example\r\n{good}\r\n").startswith(b"HTTP/1.1 421")
    absolute = head.replace("/v1/version", "http://evil.example/v1/version")
    assert raw(server, f"{absolute}Host: evil.example\r\n\r\n").startswith(b"HTTP/1.1 421")


def test_a_name_that_the_operator_adds_is_ours(serve: Serve) -> None:
    server = serve("--hosts", "cloche.example")
    with server.client() as http:
        for host, status in (("cloche.example", 200), ("x.cloche.example", 421), ("cloche.example.evil", 421)):
            assert http.get("/v1/version", headers={"Host": host}).status_code == status, host


def origins(port: int) -> list[str]:
    """Pages that are not ours."""
    return [
        "null",
        "https://evil.example",
        "http://localhost.evil",
        f"http://127.0.0.1:{port}.evil",
        f"http://127.0.0.1:{port}@evil.example",
        f"http://evil.example:{port}",
        f"http://127.0.0.1:{port}0",
        f"http://127.0.0.1:{port + 1}",
        "http://127.0.0.1",
        f"http://localhost:{port}",  # ours, but not where this request went
        f"ftp://127.0.0.1:{port}",
        f"http://127.0.0.1:{port}/",
        f"http://127.0.0.1:{port} http://evil.example",
        "chrome-extension://abcdefghijklmnop",
        "",
    ]


def test_pages_of_other_origins_are_refused(http: httpx2.Client, server: Any, cookie: str) -> None:
    for origin in origins(server.port):
        for headers in ({}, {"Authorization": "", "Cookie": cookie}):
            answer = http.post("/v1/run", json=RUN, headers={**headers, "Origin": origin})
            assert answer.status_code == 403, origin
            assert kind(answer) == "forbidden"
            assert not any(name.startswith("access-control") for name in answer.headers)
    for headers in ({}, {"Authorization": "", "Cookie": cookie}):
        ours = {**headers, "Origin": server.url}
        assert http.post("/v1/run", json=RUN, headers=ours).status_code == 200


def test_two_origins_are_no_better_than_the_worse_one(server: Any) -> None:
    head = (
        f"GET /v1/version HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nX-API-Key: {server.key}\r\nConnection: close\r\n"
    )
    ours, other = f"Origin: {server.url}\r\n", "Origin: https://evil.example\r\n"
    assert raw(server, f"{head}{ours}\r\n").startswith(b"HTTP/1.1 200")
    for both in (ours + other, other + ours):
        assert raw(server, f"{head}{both}\r\n").startswith(b"HTTP/1.1 403")


def test_what_another_sites_page_asks_for_is_refused(http: httpx2.Client, cookie: str) -> None:
    """Browsers tell who asks, also where they send no Origin: images, scripts, frames, navigations."""
    with_cookie = {"Authorization": "", "Cookie": cookie}
    for site in ("cross-site", "same-site"):
        for mode, place in (
            ("no-cors", "image"),
            ("no-cors", "script"),
            ("navigate", "iframe"),
            ("navigate", "document"),
        ):
            headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": place, **with_cookie}
            assert http.get("/v1/sandboxes", headers=headers).status_code == 403, headers
    for site in ("same-origin", "none"):
        assert http.get("/v1/sandboxes", headers={"Sec-Fetch-Site": site, **with_cookie}).status_code == 200


def test_a_link_on_another_page_leads_to_our_page_but_not_into_a_frame(http: httpx2.Client) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert http.get("/", headers=link).status_code == 200
    assert http.get("/", headers={**link, "Sec-Fetch-Dest": "iframe"}).status_code == 403
    assert http.post("/", headers=link).status_code == 403
    assert "frame-ancestors 'none'" in http.get("/").headers["content-security-policy"]


def test_forms_of_other_sites_get_nothing(bare: httpx2.Client, server: Any, cookie: str) -> None:
    """What a form can send needs no preflight, so it has to be refused for where it comes from."""
    body = b'{"code": "print(1)"}'
    for form in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        headers = {"Content-Type": form, "Cookie": cookie, "Origin": "https://evil.example"}
        assert bare.post("/v1/run", content=body, headers=headers).status_code == 403
        # and even a page of ours could not run code with a form
        assert bare.post("/v1/run", content=body, headers={**headers, "Origin": server.url}).status_code == 415
    right = {"Content-Type": "application/json", "Cookie": cookie, "Origin": server.url}
    assert bare.post("/v1/run", content=body, headers=right).status_code == 200


def test_a_preflight_gets_nothing(bare: httpx2.Client) -> None:
    headers = {
        "Origin": "https://evil.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
        "Access-Control-Request-Private-Network": "true",
    }
    answer = bare.options("/v1/run", headers=headers)
    assert answer.status_code == 403
    assert not any(name.startswith("access-control") for name in answer.headers)


def test_a_site_that_the_operator_names_may_call(serve: Serve) -> None:
    server = serve("--origins", "https://app.example")
    page = {"Origin": "https://app.example", "Sec-Fetch-Site": "cross-site"}
    with server.client() as http:
        preflight = http.options("/v1/run", headers={**page, "Authorization": ""})
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-origin"] == "https://app.example"
        assert "authorization" in preflight.headers["access-control-allow-headers"].lower()
        assert "access-control-allow-credentials" not in preflight.headers
        answer = http.post("/v1/run", json=RUN, headers=page)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        assert answer.headers["vary"] == "Origin"
        assert http.post("/v1/run", json=RUN, headers={**page, "Authorization": ""}).status_code == 401
        for origin in ("https://app.example.evil", "http://app.example", "https://evil.example", "null"):
            refused = http.post("/v1/run", json=RUN, headers={**page, "Origin": origin})
            assert refused.status_code == 403
            assert "access-control-allow-origin" not in refused.headers
        assert "access-control-allow-origin" not in http.post("/v1/run", json=RUN).headers


def test_websockets_are_checked_like_requests(server: Any, cookie: str) -> None:
    """Browsers let any page open a WebSocket to anywhere, with cookies: nothing but these checks is in the way."""
    address = server.url.replace("http", "ws") + "/v1/sandboxes/sbx_none/terminal"
    key = {"Authorization": f"Bearer {server.key}"}
    for headers, status in (
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({**key, "Origin": "https://evil.example"}, 403),
        ({**key, "Origin": "null"}, 403),
        ({"Cookie": cookie, "Origin": "https://evil.example"}, 403),
        ({"Cookie": cookie, "Origin": f"http://localhost:{server.port + 1}"}, 403),
        ({**key, "Sec-Fetch-Site": "cross-site"}, 403),
    ):
        with pytest.raises(InvalidStatus) as refused, connect(address, additional_headers=headers, proxy=None):
            pass
        assert refused.value.response.status_code == status, headers
    raw_handshake = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    raw_handshake += f"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nAuthorization: Bearer {server.key}\r\n"
    got = raw(server, f"GET / HTTP/1.1\r\nHost: evil.example\r\n{raw_handshake}\r\n")
    assert got.startswith(b"HTTP/1.1 421")


def test_a_websocket_of_ours_is_let_through(server: Any, cookie: str) -> None:
    """The same handshakes with the one thing put right reach whatever answers there."""
    reached = []
    for headers in (
        {"Authorization": f"Bearer {server.key}"},
        {"Authorization": f"Bearer {server.key}", "Origin": server.url},
        {"Cookie": cookie, "Origin": server.url, "Sec-Fetch-Site": "same-origin"},
    ):
        try:
            with connect(server.url.replace("http", "ws") + "/", additional_headers=headers, proxy=None):
                reached.append(headers)
        except InvalidStatus:
            pass
    assert len(reached) == 3


# --- browsers: a key in the address becomes a cookie


def test_the_key_in_the_address_becomes_a_cookie(bare: httpx2.Client, server: Any) -> None:
    answer = bare.get("/", params={"key": server.key})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    given = answer.headers["set-cookie"].lower()
    assert "httponly" in given
    assert "samesite=strict" in given
    assert "path=/" in given
    assert "domain" not in given
    assert server.key.lower() not in given
    assert bare.get("/").status_code == 200  # httpx keeps the cookie
    assert bare.get("/v1/sandboxes").status_code == 200
    assert bare.post("/v1/run", json=RUN, headers={"Origin": server.url}).status_code == 200
    assert bare.post("/v1/run", json=RUN, headers={"Origin": "https://evil.example"}).status_code == 403


def test_a_wrong_key_in_the_address_gets_no_cookie(bare: httpx2.Client, server: Any) -> None:
    for key in ("wrong", server.key[:-1], server.key + "\x00"):
        answer = bare.get("/", params={"key": key})
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
        assert key not in answer.text
    assert bare.get("/v1/version", params={"key": server.key}).status_code == 401  # nor at any other address
    assert "set-cookie" not in bare.get("/v1/version", params={"key": server.key}).headers


def test_the_page_without_a_key_says_where_to_find_it(bare: httpx2.Client) -> None:
    answer = bare.get("/")
    assert answer.status_code == 401
    assert "cloche key" in answer.text


def test_our_cookie_is_found_among_others(bare: httpx2.Client, cookie: str) -> None:
    for given in (cookie, f"a=b; {cookie}", f"{cookie};a=b", f'a="b;c"; x; ;{cookie}', f"{COOKIE}=wrong; {cookie}"):
        assert bare.get("/v1/version", headers={"Cookie": given}).status_code == 200, given
    for given in (f"x{cookie}", f'a="{cookie}"', f"{cookie}x", f"{cookie}; {COOKIE}=", COOKIE, f"{COOKIE}=\xff"):
        assert bare.get("/v1/version", headers={b"Cookie": given.encode("latin-1")}).status_code == 401, given


@pytest.mark.parametrize("inside", ["\\", "\\a", "\\303", '"', "=", ";", "; a="])
def test_a_long_cookie_holds_nobody_up(bare: httpx2.Client, inside: str) -> None:
    """tests/loop_watch.py watches: Python's own parser needs the square of the length for some of these."""
    long = inside * (20_000 // len(inside))
    for given in (f'a="{long}"', f"{COOKIE}={long}", f'{COOKIE}="{long}"'):
        assert bare.get("/v1/version", headers={"Cookie": given}).status_code == 401


def test_a_cookie_dies_with_its_key(http: httpx2.Client, bare: httpx2.Client) -> None:
    made = http.post("/v1/keys", json={"owner": "ada", "name": "browser"}).json()
    bare.get("/", params={"key": made["key"]})
    assert bare.get("/v1/sandboxes").status_code == 200
    assert http.delete(f"/v1/keys/{made['id']}").status_code == 204
    assert bare.get("/v1/sandboxes").status_code == 401
    assert bare.get("/", params={"key": made["key"]}).status_code == 401


# --- what every answer says


def test_every_answer_has_the_headers_that_keep_it_harmless(http: httpx2.Client, bare: httpx2.Client) -> None:
    sandbox = http.post("/v1/sandboxes", json={}).json()["id"]
    try:
        page = b"<script>alert(1)</script>"
        assert http.put(f"/v1/sandboxes/{sandbox}/files/x.html", content=page).status_code == 200
        answers = {
            "page": http.get("/"),
            "docs": http.get("/docs"),
            "json": http.get("/v1/version"),
            "result": http.post("/v1/run", json=RUN),
            "nothing there": http.get("/nowhere"),
            "wrong method": http.delete("/v1/version"),
            "no key": bare.get("/v1/version"),
            "invalid": http.post("/v1/run", json={"nonsense": 1}),
            "not json": http.post("/v1/run", content=b"{", headers={"Content-Type": "application/json"}),
            "file": http.get(f"/v1/sandboxes/{sandbox}/files/x.html"),
            "head": http.head(f"/v1/sandboxes/{sandbox}/files/x.html"),
            "archive": http.get(f"/v1/sandboxes/{sandbox}/archive"),
            "metrics": http.get("/metrics"),
            "other host": http.get("/v1/version", headers={"Host": "evil.example"}),
        }
        for name, answer in answers.items():
            assert answer.headers["x-content-type-options"] == "nosniff", name
            assert answer.headers["referrer-policy"] == "no-referrer", name
            assert "default-src 'none'" in answer.headers["content-security-policy"], name
            assert answer.headers["cross-origin-resource-policy"] == "same-origin", name
            assert "server" not in answer.headers, name
        for name in ("file", "head", "archive"):
            assert answers[name].headers["content-disposition"].startswith("attachment"), name
            assert answers[name].headers["content-security-policy"].startswith("sandbox"), name
        assert answers["file"].headers["content-type"] == "application/octet-stream"
    finally:
        http.delete(f"/v1/sandboxes/{sandbox}")


@pytest.mark.parametrize("form", ["text", "json"])
def test_keys_and_code_are_in_no_log_and_no_error(serve: Serve, form: str) -> None:
    server = serve("--log-level", "debug", "--log-format", form)
    wrong = "clo_" + "w" * 40
    code = "print('very private code')"
    texts = []
    with server.client() as http, server.client(key=wrong) as stranger:
        made = http.post("/v1/keys", json={"owner": "ada", "name": "secret test"}).json()
        with server.client(key=made["key"]) as ada:
            texts.append(ada.post("/v1/run", json={"code": code}).text)
            texts.append(ada.post("/v1/run", json={"code": code, "language": made["key"]}).text)
            texts.append(ada.get("/v1/keys").text)
            texts.append(ada.get("/v1/nowhere").text)
        texts += [stranger.get("/v1/version").text, stranger.get("/", params={"key": wrong}).text]
        http.get("/", params={"key": server.key})
        cookie = http.cookies[COOKIE]
        http.get("/v1/version")
        texts += [http.get("/v1/keys").text, http.get("/v1/audit").text, http.get("/metrics").text]
    assert server.stop() == 0
    log = server.log.read_text()
    assert "POST /v1/run 200" in log or '"POST /v1/run 200' in log  # it does say something
    for secret in (server.key, made["key"], wrong, cookie, "very private code"):
        assert secret not in log
    texts[1] = texts[1].replace(made["key"], "", 1)  # that was what the caller gave as a language
    for secret in (server.key, made["key"], wrong, cookie):
        assert not any(secret in text for text in texts)


def test_no_auth_is_for_loopback_only(serve: Serve) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "cloche.example"):
        with pytest.raises(Misconfigured):
            load({"auth": False, "host": host}, environ={})
    server = serve("--no-auth")
    with httpx2.Client(base_url=server.url, timeout=30, trust_env=False) as anybody:
        assert anybody.post("/v1/run", json=RUN).status_code == 200
        # and pages of other sites still get nothing
        for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            assert anybody.post("/v1/run", json=RUN, headers=headers).status_code == 403
        assert anybody.get("/v1/version", headers={"Host": "evil.example"}).status_code == 421
    assert "every program on this machine" in server.log.read_text()


def test_compressed_bodies_are_not_taken(http: httpx2.Client) -> None:
    for names in (["gzip"], ["identity", "gzip"], ["", "deflate"], ["identity", "identity, br"]):
        headers = [("Content-Type", "application/json"), *(("Content-Encoding", name) for name in names)]
        answer = http.post("/v1/run", content=b"\x1f\x8b", headers=headers)
        assert answer.status_code == 415, names
        assert kind(answer) == "invalid"


def raw(server: Any, request: str) -> bytes:
    """What comes back for these very bytes."""
    with socket.create_connection(("127.0.0.1", server.port), 10) as stream:
        stream.sendall(request.encode("latin-1"))
        got = b""
        while part := stream.recv(1 << 16):
            got += part
        return got
