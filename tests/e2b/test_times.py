"""Times that a client got from the door and sends back: nothing is lost by rounding."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from time import time
from typing import Any
from unittest.mock import MagicMock

import httpx2
import pytest

from cloche.doors.e2b.requests import ControlRequest, Place, Reply, paged
from cloche.doors.e2b.sandboxes import E2bSandbox
from cloche.doors.e2b.times import instant, is_within, moment, read_time


@pytest.fixture(scope="module")
def made(server: Any) -> Iterator[list[dict[str, Any]]]:
    """Several sandboxes that were created at once."""
    body = {"templateID": "base", "metadata": {"of": "test_times"}}
    with server.client() as http:
        with ThreadPoolExecutor(10) as pool:
            answers = list(pool.map(lambda _: http.post("/v2/sandboxes", json=body), range(10)))
        yield [answer.json() for answer in answers]
        for answer in answers:
            http.delete(f"/sandboxes/{answer.json()['sandboxID']}")


def listed(http: httpx2.Client, **query: str) -> list[dict[str, Any]]:
    """All sandboxes of these tests, page by page."""
    query = {"metadata": "of=test_times", **query}
    found = []
    while True:
        page = http.get("/v2/sandboxes", params=query)
        assert page.status_code == 200, page.text
        found += page.json()
        if "x-next-token" not in page.headers:
            return found
        query["nextToken"] = page.headers["x-next-token"]


def test_a_sandbox_is_among_those_that_started_when_it_did(http: httpx2.Client, made: list[dict[str, Any]]) -> None:
    for one in made:
        started = http.get(f"/sandboxes/{one['sandboxID']}").json()["startedAt"]
        for text in (started, started.replace("Z", "+00:00"), started.removesuffix("Z")):
            assert one["sandboxID"] in [other["sandboxID"] for other in listed(http, startedAfter=text)]


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_a_list_is_in_the_order_of_the_times_that_it_shows(
    http: httpx2.Client, made: list[dict[str, Any]], order: str
) -> None:
    found = listed(http, order=order, limit="3")

    assert len(found) == len(made)
    assert {one["sandboxID"] for one in found} == {one["sandboxID"] for one in made}
    times = [one["startedAt"] for one in found]
    assert times == sorted(times, reverse=order == "desc")


def test_items_of_one_millisecond_are_in_order_and_on_one_page_each() -> None:
    times = [1_794_999_471.000_1 + number / 1e6 for number in range(5)]
    items = [Place(instant(when), f"sbx{number:047x}") for when, number in zip(times, (3, 9, 1, 7, 5), strict=True)]

    def page(token: str) -> Reply:
        scope = {"query_string": f"limit=2&nextToken={token}".encode()}
        return paged(
            ControlRequest(scope, MagicMock(), MagicMock(), ""), items[::-1], lambda item: item, str, ascending=True
        )

    found: list[str] = []
    token = ""
    while not found or token:
        reply = page(token)
        found += reply.payload
        token = "".join(value.decode() for _, value in reply.headers)
    assert found == [str(item) for item in items]


def test_a_time_is_the_same_when_it_is_shown_and_when_it_is_compared() -> None:
    for step in range(1000):
        when = 1_794_999_471.0 + step * 1.000_000_337
        assert read_time(moment(when), "startedAfter") == instant(when)


def test_a_range_of_whole_seconds_contains_what_is_rounded_to_its_ends() -> None:
    for when in (100.0, 100.3, 100.5, 100.7, 100.999):
        for rounded in (int(when), round(when)):
            assert is_within(when, rounded, rounded)
        assert not is_within(when, 102, 200)
        assert not is_within(when, 0, 99)


def test_an_address_lives_to_the_end_of_its_last_second(http: httpx2.Client, made: list[dict[str, Any]]) -> None:
    one = made[0]
    signer = E2bSandbox(MagicMock(), MagicMock(id=one["sandboxID"]), one["envdAccessToken"], "")

    def status() -> int:
        until = str(int(time()))
        signature = signer.signature("/etc/hostname", "read", "", until)
        query = {"path": "/etc/hostname", "signature": signature, "signature_expiration": until}
        return http.get("/files", params=query).status_code

    assert 200 in [status() for _ in range(3)]  # one of them may come in the next second
