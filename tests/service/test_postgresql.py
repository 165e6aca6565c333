"""The whole server on a real PostgreSQL, which goes away and comes back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from tests.store import postgresql as databases

if TYPE_CHECKING:
    from tests.conftest import Server


@pytest.fixture
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


def test_the_password_is_told_to_nobody(database: databases.PostgreSQL, serve: Callable[..., Server]) -> None:
    with pytest.raises(AssertionError) as failed:
        serve("--database-url", database.url("there_is_no_such", databases.PASSWORD))
    assert "there_is_no_such" in str(failed.value)
    assert databases.PASSWORD not in str(failed.value)
