"""What people see who come with a wrong key, without one, or to an address that leads nowhere: pages, and no JSON."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cloche.doors.gate.cookies import COOKIE
from cloche.doors.page import files as page_files
from cloche.doors.page import plain

NewKey = Callable[..., httpx2.Client]
PERSON = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
ODD = "%3Cscript%3Ealert(1)%3C%2Fscript%3Ezebra"


@pytest.fixture
def browser(server: Any) -> Iterator[httpx2.Client]:
    """A person's browser, which has no cookie yet."""
    with httpx2.Client(base_url=server.url, headers=PERSON, trust_env=False) as client:
        yield client


def is_page(answer: httpx2.Response) -> bool:
    """Whether the answer is a page of ours: nothing loads in it but our own styles and scripts."""
    if not answer.headers["content-type"].startswith("text/html"):
        return False
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "'unsafe-inline'" not in policy.partition("script-src")[2].partition(";")[0]
    return "<title>" in answer.text


def test_a_wrong_key_leaves_the_address_and_is_said_to_be_wrong(browser: httpx2.Client, server: Any) -> None:
    answer = browser.get("/", params={"key": "cloche_wrong"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/?refused")
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert COOKIE not in answer.cookies
    assert browser.get("/?refused").status_code == 401
    program = browser.get("/", params={"key": "cloche_wrong"}, headers={"Accept": "*/*"})
    assert (program.status_code, program.json()["error"]["details"]) == (401, {"sent": "key"})
    spaced = browser.get("/", params={"key": f" {server.key}\n"})
    assert (spaced.status_code, spaced.headers["location"]) == (303, "/")


def test_a_refusal_says_what_was_sent_and_not_why_it_is_wrong(new_key: NewKey, server: Any, http: Any) -> None:
    """A mistyped key and a revoked one look the same, and so do a made-up cookie and one of a revoked key."""
    ada = new_key("leaver")
    with httpx2.Client(base_url=server.url, trust_env=False) as bare:
        cookie = bare.get("/", params={"key": ada.headers["authorization"].removeprefix("Bearer ")}).cookies[COOKIE]
        http.delete(f"/v1/keys/{ada.headers['x-test-key-id']}")
        bare.cookies.clear()
        refusals = [
            bare.get("/v1/version", headers=headers).json()["error"]
            for headers in (
                {},
                {"Authorization": ada.headers["authorization"]},
                {"X-API-Key": "mistyped"},
                {"Cookie": f"{COOKIE}={cookie}"},
                {"Cookie": f"{COOKIE}=mistyped"},
            )
        ]
    none, revoked, mistyped, old, made_up = refusals
    assert none["details"]["sent"] == "nothing"
    assert revoked == mistyped
    assert revoked["message"] == "This server does not know this key."
    assert old == made_up
    assert old["message"].startswith("This browser is not signed in any more")


def test_an_address_that_leads_nowhere_is_a_page_for_people_and_json_for_programs(
    browser: httpx2.Client, http: httpx2.Client, new_key: NewKey
) -> None:
    for path in (f"/{ODD}", f"/v1/{ODD}", "/v1/sandboxes", "/metrics", f"/v1/sandboxes/{ODD}"):
        answer = browser.get(path)
        assert (answer.status_code, is_page(answer)) == (401, True), path
        assert "zebra" not in answer.text
        # Without a key nobody can find out which addresses exist.
        assert answer.text == browser.get("/nowhere").text
    for path in (f"/{ODD}", f"/v1/sandboxes/{ODD}", f"/v1/runs/{ODD}"):
        answer = http.get(path, headers=PERSON)
        assert (answer.status_code, is_page(answer)) == (404, True), path
        assert "zebra" not in answer.text
        assert 'href="/docs"' in answer.text
        assert 'href="/"' in answer.text
        assert http.get(path).json()["error"]["kind"] == "gone"
    reader = new_key("reader", scopes=["read"])
    assert is_page(reader.get("/v1/keys", headers=PERSON))
    assert is_page(http.get("/v1/run", headers=PERSON))
    assert http.post(f"/v1/sandboxes/{ODD}/run", json={"code": "1"}, headers=PERSON).json()["error"]["kind"] == "gone"
    assert http.get("/v1/version", headers=PERSON).json()["name"] == "cloche"
    foreign = browser.get("/", headers={"Host": "evil.example"})
    assert (foreign.status_code, is_page(foreign)) == (421, True)
    assert "evil" not in foreign.text


def test_every_status_has_a_page_with_a_way_on() -> None:
    for status in (400, 401, 403, 404, 405, 410, 416, 429, 500, 503, 507):
        answer = plain.notice(status, {"Retry-After": "5"})
        text = bytes(answer.body).decode()
        assert (answer.status_code, answer.headers["retry-after"]) == (status, "5")
        assert "<h1" in text
        assert "<a " in text


def test_without_the_playground_there_are_plain_pages(serve: Callable[..., Any], tmp_path: Path) -> None:
    """A server that was installed without Node: sign-in with a form, reasons, a start page and the reference."""
    copy = tmp_path / "site" / "cloche"
    shutil.copytree(Path(page_files.__file__).parents[2], copy, ignore=shutil.ignore_patterns("built"))
    without = serve(env={"PYTHONPATH": str(copy.parent)})
    with httpx2.Client(base_url=without.url, headers=PERSON, trust_env=False, follow_redirects=True) as visitor:
        first = visitor.get("/")
        assert (first.status_code, is_page(first)) == (401, True)
        assert '<p role="alert">' not in first.text
        assert "form-action 'self'" in first.headers["content-security-policy"]
        assert re.search(r'<form method="get" action="/".*<input name="key" type="password"', first.text, re.DOTALL)
        wrong = visitor.get("/", params={"key": "zebra"})
        assert (wrong.status_code, str(wrong.url)) == (401, f"{without.url}/?refused")
        assert plain.WRONG_KEY in wrong.text
        assert "zebra" not in wrong.text
        assert plain.SIGNED_OUT in visitor.get("/", headers={"Cookie": f"{COOKIE}=old"}).text
        signed_in = visitor.get("/", params={"key": without.key})
        assert (signed_in.status_code, is_page(signed_in)) == (200, True)
        assert "make page" in signed_in.text
        assert is_page(visitor.get("/docs"))
