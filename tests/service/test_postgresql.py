"""The whole server on a real PostgreSQL, which goes away and comes back."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.store import postgresql as databases
from tests.waiting import eventually

if TYPE_CHECKING:
    from tests.conftest import Server


@pytest.fixture(scope="module")
def database() -> Iterator[databases.PostgreSQL]:
    """One of its own: it is stopped in the middle."""
    yield from databases.running()


@pytest.mark.timeout(120)
def test_a_database_that_goes_away_is_no_outage(database: databases.PostgreSQL, serve: Callable[..., Server]) -> None:
    url = database.url(asyncio.run(database.create()))
    server = serve(env={"CLOCHE_DATABASE_URL": url}, folder="one")
    with server.client() as http:
        before = http.post("/v1/run", json={"code": "print('before')"}).json()["run_id"]
        assert http.get("/v1/runs").json()["items"][0]["id"] == before
        database.stop()
        during = http.post("/v1/run", json={"code": "print('during')"}).json()
        assert during["stdout"] == "during\n"
        assert http.get(f"/v1/runs/{during['run_id']}").json()["state"] == "done"  # still in memory
        refused = http.get("/v1/ready")
        assert refused.status_code == 503
        assert "Retry-After" in refused.headers
        assert http.get("/v1/health").status_code == 200
        database.start()
        deadline = time.monotonic() + 30
        while http.get("/v1/ready").status_code != 200:
            assert time.monotonic() < deadline
        assert {run["id"] for run in http.get("/v1/runs").json()["items"]} == {before, during["run_id"]}

        http.post("/v1/run", json={"code": "print('last')"})
        server.kill()
    again = serve(env={"CLOCHE_DATABASE_URL": url}, folder="one")
    with again.client() as http:
        runs = http.get("/v1/runs").json()["items"]
        assert [run["state"] for run in runs] == ["done"] * 3
        assert len({run["id"] for run in runs}) == 3


ROUTES = [
    *("/v1/ready", "/v1/runs", "/v1/runs/run_none", "/v1/sandboxes", "/v1/sandboxes?metadata=a:b", "/v1/usage"),
    *("/v1/sandboxes/sbx_none", "/v1/audit", "/v1/keys", "/v1/workspaces", "/v1/shares", "/metrics"),
]


def asked(server: Server, path: str) -> str:
    """A problem with an answer, if there is one; the client waits for half a minute at most."""
    with server.client() as http:
        answer = http.get(path)
    is_refusal = answer.status_code == 503 and "Retry-After" in answer.headers
    return "" if answer.status_code in (200, 404) or is_refusal else f"{path}: {answer.status_code} {answer.text}"


@pytest.mark.timeout(180)
@pytest.mark.parametrize("how", ["stopped", "frozen"])
def test_a_database_that_goes_away_while_all_are_busy_loses_nothing_that_was_acknowledged(
    database: databases.PostgreSQL, serve: Callable[..., Server], how: str
) -> None:
    url = database.url(asyncio.run(database.create()))
    server = serve(env={"CLOCHE_DATABASE_URL": url})
    acknowledged: list[str] = []
    over = threading.Event()

    def work() -> None:
        with server.client() as http:
            while not over.is_set():
                acknowledged.append(http.post("/v1/run", json={"code": "print('done')"}).json()["run_id"])

    with server.client() as http, ThreadPoolExecutor(len(ROUTES) + 2) as threads:
        workers = [threads.submit(work) for _ in range(2)]
        try:
            eventually(lambda: len(acknowledged) > 4)
            assert not list(filter(None, threads.map(partial(asked, server), ROUTES)))  # which leaves open connections
            with database.frozen() if how == "frozen" else stopped(database):
                assert not list(filter(None, threads.map(partial(asked, server), ROUTES)))
                assert http.get("/v1/health").status_code == 200
                reached = len(acknowledged)
                eventually(lambda: len(acknowledged) > reached + 4, what="runs while the database is away")
        finally:
            over.set()
        for worker in workers:
            worker.result()
        eventually(lambda: http.get("/v1/ready").status_code == 200, 60)
        stored: list[str] = []
        after = None
        while True:
            answer = http.get("/v1/runs", params={"limit": 1000, **({"after": after} if after else {})}).json()
            stored += [run["id"] for run in answer["items"] if run["state"] == "done"]
            after = answer["next"]
            if after is None:
                break
    assert sorted(stored) == sorted(acknowledged)


@contextmanager
def stopped(database: databases.PostgreSQL) -> Iterator[None]:
    database.stop()
    try:
        yield
    finally:
        database.start()


def test_the_password_is_told_to_nobody(database: databases.PostgreSQL, serve: Callable[..., Server]) -> None:
    with pytest.raises(AssertionError) as failed:
        serve("--database-url", database.url("there_is_no_such", databases.PASSWORD))
    assert "there_is_no_such" in str(failed.value)
    assert databases.PASSWORD not in str(failed.value)
