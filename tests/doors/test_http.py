"""HTTP, version 1, as a client sees it."""

from __future__ import annotations

import httpx2


def test_a_program_runs(http: httpx2.Client) -> None:
    answer = http.post("/v1/run", json={"code": "print(6 * 7)"})
    assert answer.status_code == 200
    assert answer.json()["stdout"] == "42\n"
