"""Browsers stay signed in: across restarts, not longer than their key, and not at the expense of others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

from cloche.clock import steady
from cloche.doors.gate.cookies import COOKIE
from cloche.policy.browser_sessions import MAX_PER_KEY, MAX_SESSIONS, BrowserSessions
from cloche.store.store import Store

Serve = Callable[..., Any]


async def test_a_key_that_signs_in_again_and_again_signs_nobody_else_out(tmp_path: Path) -> None:
    store = await Store.open(f"sqlite:///{tmp_path / 'sessions.db'}")
    sessions = BrowserSessions(store, now=steady)
    begin = sessions.begin
    admin, first = await begin("admin"), await begin("tenant")
    for _ in range(MAX_PER_KEY):
        last = await begin("tenant")
    assert sessions.key_id(admin) == "admin"
    assert not sessions.key_id(first)
    assert sessions.key_id(last) == "tenant"
    others = [await begin(f"key {number % (MAX_SESSIONS // 10)}") for number in range(MAX_SESSIONS + 200)]
    assert sessions.key_id(admin) == "admin"
    assert 0 < sum(bool(sessions.key_id(one)) for one in (*others, admin, last)) <= MAX_SESSIONS
    assert len(await store.browser_sessions()) <= MAX_SESSIONS  # nor does the store grow
    await store.close()


def test_a_browser_stays_signed_in_when_the_server_restarts(serve: Serve) -> None:
    first = serve(folder="kept")
    with httpx2.Client(base_url=first.url, trust_env=False) as browser, first.client() as admin:
        made = admin.post("/v1/keys", json={"owner": "ada", "name": "browser"}).json()
        cookies = {}
        for name, key in (("admin", first.key), ("ada", made["key"])):
            answer = browser.get("/", params={"key": key})
            browser.cookies.clear()
            cookies[name] = f"{COOKIE}={answer.cookies[COOKIE]}"
        assert admin.delete(f"/v1/keys/{made['id']}").status_code == 204
    first.stop()
    kept = b"".join(path.read_bytes() for path in (first.folder / "data").glob("cloche.db*"))
    assert not [name for name, cookie in cookies.items() if cookie.partition("=")[2].encode() in kept]
    second = serve(folder="kept")
    with httpx2.Client(base_url=second.url, trust_env=False) as browser:
        assert browser.get("/v1/version", headers={"Cookie": cookies["admin"]}).status_code == 200
        assert browser.get("/v1/version", headers={"Cookie": cookies["ada"]}).status_code == 401
