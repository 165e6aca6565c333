"""Two moments of a session side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2


def test_what_differs_between_two_moments(http: httpx2.Client, new_sandbox: Callable[..., str]) -> None:
    box = new_sandbox(undo=True)

    def run(code: str) -> None:
        assert http.post(f"{box}/run", json={"code": code}).json()["error"] is None

    def compare(before: str | None, after: str | None) -> dict[str, Any]:
        answer = http.post(f"{box}/compare", json={"before": before, "after": after})
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told

    run("a, b = 1, [1]; open('same.txt','w').write('same'); open('x.txt','w').write('one')")
    run("open('/log','w').write('one')")
    assert http.post(f"{box}/checkpoints", json={"name": "first"}).status_code == 201
    run("a = 2; c = 'new'; open('x.txt','w').write('two'); open('y.bin','wb').write(bytes(9))")
    run("open('/log','w').write('two')")
    assert http.post(f"{box}/checkpoints", json={"name": "second"}).status_code == 201
    run("del c; __import__('os').remove('x.txt'); b.append(2)")

    told = compare("first", "second")
    assert [(one["name"], one["kind"]) for one in told["variables"]] == [("a", "changed"), ("c", "created")]
    assert told["variables"][0]["before"] == {"type": "int", "shown": "1"}
    assert told["files"] == [
        {
            "path": "/log",
            "kind": "changed",
            "before": {"size": 3, "text": "one"},
            "after": {"size": 3, "text": "two"},
        },
        {
            "path": "x.txt",
            "kind": "changed",
            "before": {"size": 3, "text": "one"},
            "after": {"size": 3, "text": "two"},
        },
        {"path": "y.bin", "kind": "created", "before": None, "after": {"size": 9, "text": None}},
    ]
    now = compare("second", None)
    assert [(one["name"], one["kind"]) for one in now["variables"]] == [("b", "changed"), ("c", "removed")]
    assert [(one["path"], one["kind"]) for one in now["files"]] == [("x.txt", "removed")]
    # Nothing is left of the looking: neither contexts nor copies of files.
    assert len(http.get(f"{box}/contexts").json()["items"]) == 1
    assert http.post(f"{box}/compare", json={}).status_code == 400
    assert http.post(f"{box}/compare", json={"before": "never"}).status_code == 404
