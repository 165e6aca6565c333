"""The playground's files: what a browser may keep, what it may load, and what needs no key."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cloche.doors.gate.cookies import COOKIE
from cloche.doors.page.files import BUILT

pytestmark = pytest.mark.skipif(not (BUILT / "index.html").is_file(), reason="the page is not built: make page")


def assets(page: str) -> list[str]:
    """What the page loads first."""
    return re.findall(r'(?:src|href)="(/assets/[^"]+)"', page)


def policy(answer: httpx2.Response) -> dict[str, str]:
    """The content security policy, by directive."""
    parts = answer.headers["content-security-policy"].split("; ")
    return {name: rest for name, _, rest in (part.partition(" ") for part in parts)}


def test_the_page_is_there_for_whoever_has_a_cookie_and_asks_others_for_the_key(server: Any) -> None:
    with httpx2.Client(base_url=server.url, trust_env=False, follow_redirects=True) as browser:
        stranger = browser.get("/")
        assert (stranger.status_code, stranger.headers["cache-control"]) == (401, "no-store")
        assert browser.get("/v1/version").status_code == 401
        known = browser.get("/", params={"key": server.key})
        assert (known.status_code, str(known.url)) == (200, f"{server.url}/")
        assert COOKIE in browser.cookies
        assert known.text == stranger.text  # the page itself is no secret
        assert browser.get("/v1/version").status_code == 200
        again = browser.get("/", headers={"If-None-Match": known.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


def test_scripts_come_from_us_alone(http: httpx2.Client) -> None:
    told = policy(http.get("/"))
    assert told["default-src"] == "'none'"
    assert told["script-src"] == "'self' 'wasm-unsafe-eval'"
    for directive in ("connect-src", "worker-src", "font-src"):
        assert told[directive] == "'self'"
    assert told["frame-ancestors"] == told["base-uri"] == told["form-action"] == "'none'"
    page = http.get("/").text
    assert "://" not in page
    assert assets(page)


def test_frames_come_from_us_and_from_servers_in_sandboxes_alone(server: Any, http: httpx2.Client) -> None:
    with httpx2.Client(base_url=server.url, trust_env=False) as stranger:
        assert policy(stranger.get("/"))["frame-src"] == "'self'"
    assert policy(http.get("/"))["frame-src"] == f"'self' http://*.localhost:{server.port}"
    plain = http.get("/", headers={"Host": "localhost"})
    assert policy(plain)["frame-src"] == "'self' http://*.localhost"


def test_what_runs_displayed_is_shown_without_origin_or_network(server: Any) -> None:
    with httpx2.Client(base_url=server.url, trust_env=False) as stranger:
        frame = stranger.get("/assets/frame.html")
        still = stranger.get("/assets/frame.html?still")
    told = policy(frame)
    assert policy(still).pop("script-src").startswith("'sha256-")
    assert {**policy(still), "script-src": ""} == {**told, "script-src": ""}
    assert frame.headers["connection-allowlist"] == still.headers["connection-allowlist"] == "()"
    assert told["sandbox"] == "allow-scripts"
    assert told["default-src"] == "'none'"
    assert told["frame-ancestors"] == "'self'"
    assert not {"connect-src", "frame-src", "worker-src"} & set(told)
    assert frame.headers["cache-control"] == "no-cache"


def test_assets_are_kept_for_ever_and_sent_small(server: Any) -> None:
    with httpx2.Client(base_url=server.url, trust_env=False) as stranger:
        script = next(name for name in assets(stranger.get("/").text) if name.endswith(".js"))
        sizes = {}
        for encoding in ("br", "gzip", "identity"):
            answer = stranger.send(
                stranger.build_request("GET", script, headers={"Accept-Encoding": encoding}), stream=True
            )
            sizes[encoding] = len(b"".join(answer.iter_raw()))
            answer.close()
            assert answer.status_code == 200
            assert answer.headers.get("content-encoding", "identity") == encoding
            assert answer.headers["content-type"].startswith("text/javascript")
            assert "immutable" in answer.headers["cache-control"]
            assert answer.headers["vary"] == "Accept-Encoding"
        assert sizes["br"] < sizes["gzip"] < sizes["identity"] / 2


@pytest.mark.parametrize(
    "name",
    ["index.html", "..%2findex.html", ".stamp", "nothing-here.js", "%2e%2e/index.html", "frame.html.br", "x/y.js"],
)
def test_nothing_but_assets_is_served_as_one(server: Any, name: str) -> None:
    with httpx2.Client(base_url=server.url, trust_env=False) as stranger:
        assert stranger.get(f"/assets/{name}").status_code in (401, 404)
        assert stranger.post("/assets/frame.html").status_code == 405


def test_no_file_of_the_page_names_a_host_to_load_from(server: Any) -> None:
    """Fonts, styles and the page itself; scripts have addresses in them that they show, and the policy for the rest."""
    texts = [file for file in Path(BUILT).rglob("*") if file.suffix in (".css", ".html")]
    assert texts
    for file in texts:
        assert not re.search(r"""(?:url\(|src=|href=)["']?(?:https?:)?//""", file.read_text()), file.name
