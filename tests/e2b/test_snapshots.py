"""Snapshots of a sandbox that lives on: it can go back to them with its variables, within bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from cloche.doors.e2b.sandboxes import from_e2b
from cloche.service.snapshot_copies import MOST


@pytest.fixture
def made(http: httpx2.Client) -> Iterator[tuple[str, str]]:
    """The paths of a sandbox: E2B's, and our own."""
    answer = http.post("/v2/sandboxes", json={"templateID": "base"})
    assert answer.status_code == 201, answer.text
    identity = answer.json()["sandboxID"]
    yield f"/sandboxes/{identity}", f"/v1/sandboxes/{from_e2b(identity)}"
    http.delete(f"/sandboxes/{identity}")


def run(http: httpx2.Client, ours: str, code: str, **more: Any) -> dict[str, Any]:
    result: dict[str, Any] = http.post(f"{ours}/run", json={"code": code, **more}).json()
    assert result["error"] is None, result
    return result


def taken(http: httpx2.Client, theirs: str, **body: Any) -> dict[str, Any]:
    answer = http.post(f"{theirs}/snapshots", json=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def checkpoints(http: httpx2.Client, ours: str) -> list[str]:
    return [one["id"] for one in http.get(f"{ours}/checkpoints").json()["items"]]


def test_a_sandbox_can_go_back_to_its_snapshot_with_its_variables(http: httpx2.Client, made: tuple[str, str]) -> None:
    theirs, ours = made
    run(http, ours, "x = [1]; open('f.txt', 'w').write('one')")
    run(http, ours, "a=1", language="bash")
    snapshot = taken(http, theirs, name="first")
    assert f"restoring its checkpoint {snapshot['checkpoint']} brings back" in snapshot["note"]
    assert snapshot["checkpoint"] in checkpoints(http, ours)
    run(http, ours, "x.append(2); open('f.txt', 'w').write('two')")
    restored = http.post(f"{ours}/checkpoints/{snapshot['checkpoint']}/restore")
    assert restored.status_code == 200, restored.text
    assert "of the context bash" in restored.json()["note"]
    assert run(http, ours, "x, open('f.txt').read()")["text"] == "([1], 'one')"
    (fork,) = http.post(f"{theirs}/fork", json={}).json()
    try:
        assert "checkpoint" not in fork["sandbox"]["note"]
    finally:
        http.delete(f"/sandboxes/{fork['sandbox']['sandboxID']}")
    http.delete(f"/templates/{snapshot['snapshotID']}").raise_for_status()
    assert checkpoints(http, ours) == []


def test_the_memory_that_snapshots_keep_is_bounded(http: httpx2.Client, made: tuple[str, str]) -> None:
    theirs, ours = made
    empty = taken(http, theirs)
    assert empty["checkpoint"] is None
    assert "restore" not in empty["note"]  # there is nothing to bring back
    run(http, ours, "x = 1")
    several = [taken(http, theirs) for _ in range(MOST + 1)]
    assert checkpoints(http, ours) == [one["checkpoint"] for one in several[-MOST:]]
    limit = http.get(ours).json()["limits"]["memory"]
    run(http, ours, f"large = bytearray({limit // 3})")
    large = taken(http, theirs)
    assert large["checkpoint"] is None
    assert "A restore within the sandbox cannot bring variables back either: it used" in large["note"]
    assert run(http, ours, "x, len(large)")["text"] == f"(1, {limit // 3})"
    for snapshot in (empty, large, *several):
        http.delete(f"/templates/{snapshot['snapshotID']}").raise_for_status()
    assert checkpoints(http, ours) == []


def test_code_that_runs_does_not_delay_a_snapshot(http: httpx2.Client, made: tuple[str, str]) -> None:
    theirs, ours = made
    run(http, ours, "x = 1")
    with http.stream(
        "POST",
        f"{ours}/run",
        json={"code": "print('on', flush=True)\nimport time\ntime.sleep(600)", "timeout": 600},
        headers={"Accept": "text/event-stream"},
    ) as events:
        assert any("on" in line for line in events.iter_lines())
        busy = taken(http, theirs)
    assert busy["checkpoint"] is None
    assert "code was running" in busy["note"]
    http.post(f"{ours}/interrupt", json={})
    http.delete(f"/templates/{busy['snapshotID']}").raise_for_status()
