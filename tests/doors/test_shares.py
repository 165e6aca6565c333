"""Sharing: a link shows a frozen document to whoever may look, and nobody can do anything else with it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from starlette.datastructures import Headers

from cloche.configuration import load
from cloche.doors import sharing
from cloche.doors.page import files as page_files
from cloche.policy.caller import Caller
from cloche.policy.refusals import Forbidden
from cloche.service.service import Service
from cloche.service.shares import MAX_BYTES

DOCUMENT: dict[str, Any] = {
    "title": "A chart",
    "files": [{"path": "code/main.py", "text": "print('<script>')\n"}],
    "runs": [
        {
            "title": "main.py",
            "language": "python",
            "code": "print(1)",
            "time": 1.5,
            "exit_code": 0,
            "pieces": [
                {"type": "stdout", "text": "1\n"},
                {"type": "display", "mime": {"text/html": "<b>x</b>"}, "metadata": {}},
            ],
        }
    ],
}


def test_a_link_shows_it_without_a_key_until_it_is_revoked(http: httpx2.Client, server: Any) -> None:
    made = http.post("/v1/shares", json=DOCUMENT)
    assert made.status_code == 201, made.text
    share = made.json()
    assert share in http.get("/v1/shares").json()["items"]
    with httpx2.Client(base_url=server.url, trust_env=False) as nobody:
        answer = nobody.get(f"{share['path']}/document")
        assert answer.status_code == 200
        told = answer.json()
        assert (told["title"], told["files"]) == ("A chart", DOCUMENT["files"])
        assert told["runs"][0]["pieces"][0]["text"] == "1\n"
        assert told["created"] == share["created"]
        # The link is a key to this, and to nothing else.
        assert nobody.get("/v1/shares").status_code == 401
        assert nobody.post(f"{share['path']}/document").status_code == 401
        assert nobody.get(f"{share['path']}x/document").status_code == 404
        # A link on another site's page may lead here; that page itself may not read it.
        elsewhere = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        assert nobody.get(share["path"], headers=elsewhere).status_code in (200, 503)
        assert nobody.get(f"{share['path']}/document", headers=elsewhere).status_code == 403
        assert http.delete(f"/v1/shares/{share['id']}").status_code == 204
        assert nobody.get(f"{share['path']}/document").status_code == 404
    assert http.delete(f"/v1/shares/{share['id']}").status_code == 404
    noted = [one["action"] for one in http.get("/v1/audit").json()["items"] if one["target"] == share["id"]]
    assert sorted(noted) == ["share.create", "share.revoke"]


@pytest.mark.skipif(not (page_files.BUILT / "shared.html").exists(), reason="the page was never built")
def test_the_page_can_ask_for_what_is_shared_and_nothing_else(http: httpx2.Client) -> None:
    share = http.post("/v1/shares", json=DOCUMENT).json()
    answer = http.get(share["path"])
    policy = answer.headers["content-security-policy"]
    host = httpx2.URL(str(answer.url)).netloc.decode()
    assert f"connect-src {host}/shared/;" in policy
    assert "script-src 'self';" in policy
    assert http.get("/shared/nothing").status_code == 404
    http.delete(f"/v1/shares/{share['id']}")


def test_others_neither_see_nor_revoke_it(http: httpx2.Client, new_key: Callable[..., httpx2.Client]) -> None:
    share = http.post("/v1/shares", json=DOCUMENT).json()
    other = new_key("bob")
    assert other.get("/v1/shares").json()["items"] == []
    assert other.delete(f"/v1/shares/{share['id']}").status_code == 404
    reader = new_key("eve", scopes=["read"])
    assert reader.post("/v1/shares", json=DOCUMENT).status_code == 403
    assert http.delete(f"/v1/shares/{share['id']}").status_code == 204


def test_it_has_a_size_and_a_shape(http: httpx2.Client) -> None:
    large = {**DOCUMENT, "files": [{"path": "x", "text": "x" * (MAX_BYTES + 1)}]}
    answer = http.post("/v1/shares", json=large)
    assert answer.status_code == 400
    assert "limited to 8 MB" in answer.json()["error"]["message"]
    assert http.post("/v1/shares", json={**DOCUMENT, "more": 1}).status_code == 422


@pytest.mark.parametrize(
    ("setting", "client", "headers", "may"),
    [
        ("local", "127.0.0.1", {}, True),
        ("local", "::1", {}, True),
        ("local", "192.0.2.7", {}, False),
        ("local", "127.0.0.1", {"x-forwarded-for": "192.0.2.7"}, False),
        ("local", None, {}, False),
        ("everyone", "192.0.2.7", {}, True),
        ("off", "127.0.0.1", {}, False),
    ],
)
def test_who_may_look(setting: str, client: str | None, headers: dict[str, str], may: bool) -> None:
    scope = {"type": "http", "client": None if client is None else (client, 1)}
    if may:
        sharing.check(scope, Headers(headers), setting)
    else:
        with pytest.raises(Forbidden):
            sharing.check(scope, Headers(headers), setting)


async def test_it_outlives_the_server(tmp_path: Any) -> None:
    configuration = load({"data_dir": str(tmp_path)}, environ={"HOME": str(tmp_path)}).value
    ada = Caller("key_1", "ada", frozenset(("run",)))
    first = await Service.open(configuration)
    share = await first.shares.create(ada, "A\nchart", b'{"title":"A"}')
    other = await first.shares.create(ada, "Other", b"{}")
    await first.close()
    (tmp_path / "shares" / "fresh-1").write_bytes(b"half")
    second = await Service.open(configuration)
    assert second.shares.by_token(share.token) == share
    assert await second.shares.document(share) == b'{"title":"A"}'
    assert os.stat(tmp_path / "shares" / f"{share.id}.json").st_mode & 0o777 == 0o600
    assert not (tmp_path / "shares" / "fresh-1").exists()
    await second.shares.remove_old(0)
    assert second.shares.list(ada) == []
    await second.close()
    assert other.id != share.id
