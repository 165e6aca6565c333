"""Sessions over HTTP: cells, contexts, checkpoints, attempts, contests and the caller's own functions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from tests.doors.sse import STREAM, Event, events, text_of

NewSandbox = Callable[..., str]


def run(http: httpx2.Client, sandbox: str, code: str, **more: Any) -> dict[str, Any]:
    """A cell's result."""
    answer = http.post(f"{sandbox}/run", json={"code": code, **more})
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def test_variables_stay(http: httpx2.Client, shared: str) -> None:
    first = run(http, shared, "a = 20; 'shown'")
    assert first["text"] == "'shown'"
    assert first["results"][0]["is_main"] is True
    assert first["context"]
    second = run(http, shared, "print(a + 22, input())", stdin="typed\n", env={"X": "1"})
    assert second["stdout"] == "42 typed\n"
    assert second["execution_count"] == first["execution_count"] + 1
    assert run(http, shared, "1/0")["error"]["name"] == "ZeroDivisionError"
    assert run(http, shared, "while True: pass", timeout=0.5)["error"]["kind"] == "timeout"


def test_a_cells_stream(http: httpx2.Client, shared: str) -> None:
    code = """
from IPython.display import clear_output, display
print('out'); clear_output(); h = display({'a': 1}, display_id='x'); display({'b': 2}, display_id='x', update=True)
6*7
"""
    with http.stream("POST", f"{shared}/run", json={"code": code}, headers=STREAM) as answer:
        found = list(events(answer))
    kinds = [one.kind for one in found]
    assert kinds[0] == "started"
    assert kinds[-1] == "end"
    assert "clear" in kinds
    shown = [one.data for one in found if one.kind == "result"]
    assert [one["update"] for one in shown] == [False, True, False]
    assert shown[-1]["result"]["mime"]["text/plain"] == "42"
    assert found[-1].data["result"]["text"] == "42"


def test_input_while_a_cell_runs(http: httpx2.Client, shared: str) -> None:
    body = {"code": "print('say', flush=True); print('got', input())", "interactive": True}
    with http.stream("POST", f"{shared}/run", json=body, headers=STREAM) as answer:
        coming = events(answer)
        identity = next(coming).data["run_id"]
        next(coming)
        assert http.post(f"/v1/runs/{identity}/input", json={"data": "hello\n"}).status_code == 204
        assert "got hello" in text_of(list(coming))


def test_contexts(http: httpx2.Client, sandbox: str) -> None:
    run(http, sandbox, "x = 1")
    made = http.post(f"{sandbox}/contexts", json={"cwd": "/tmp", "env": {"WHO": "ada"}})
    assert made.status_code == 201
    context = made.json()
    assert set(context) == {"id", "language", "cwd", "is_branch"}
    told = run(http, sandbox, "import os; print('x' in dir(), os.getcwd(), os.environ['WHO'])", context=context["id"])
    assert told["stdout"] == "False /tmp ada\n"
    assert told["context"] == context["id"]
    known = http.get(f"{sandbox}/contexts").json()["items"]
    assert context["id"] in [one["id"] for one in known]
    page = http.get(f"{sandbox}/contexts", params={"limit": 1}).json()
    assert len(page["items"]) == 1
    assert page["next"] is not None
    assert http.delete(f"{sandbox}/contexts/{context['id']}").status_code == 204
    assert http.delete(f"{sandbox}/contexts/{context['id']}").status_code == 404
    gone = http.post(f"{sandbox}/run", json={"code": "1", "context": context["id"]})
    assert (gone.status_code, gone.json()["error"]["kind"]) == (404, "gone")
    assert http.post(f"{sandbox}/contexts", json={"language": "cobol"}).status_code == 400


def test_interrupt_and_restart(http: httpx2.Client, server: Any, sandbox: str) -> None:
    run(http, sandbox, "x = 1")
    with http.stream(
        "POST", f"{sandbox}/run", json={"code": "print(1, flush=True)\nwhile True: pass"}, headers=STREAM
    ) as r:
        coming = events(r)
        next(coming)
        next(coming)
        with server.client() as other:
            assert other.post(f"{sandbox}/interrupt").status_code == 204
        assert list(coming)[-1].data["result"]["error"]["name"] == "KeyboardInterrupt"
    assert run(http, sandbox, "x")["text"] == "1"
    assert http.post(f"{sandbox}/restart", json={}).status_code == 204
    assert run(http, sandbox, "x")["error"]["name"] == "NameError"
    assert http.post(f"{sandbox}/restart", json={"context": "none"}).status_code == 404
    assert http.post(f"{sandbox}/interrupt", json={"context": "none"}).status_code in (204, 404)


def test_checkpoints(http: httpx2.Client, sandbox: str) -> None:
    run(http, sandbox, "x = 1; open('f.txt', 'w').write('one')")
    made = http.post(f"{sandbox}/checkpoints", json={"name": "here"})
    assert made.status_code == 201
    assert set(made.json()) == {"id", "name", "time", "lost", "note"}
    run(http, sandbox, "x = 2; open('f.txt', 'w').write('two')")
    restored = http.post(f"{sandbox}/checkpoints/here/restore")
    assert restored.status_code == 200
    assert set(restored.json()) == {"lost", "restarted", "files", "note"}
    assert (made.json()["lost"], made.json()["note"]) == ({}, "")
    assert run(http, sandbox, "x, open('f.txt').read()")["text"] == "(1, 'one')"
    branch = http.post(f"{sandbox}/checkpoints/{made.json()['id']}/fork", json={"files": "copy"})
    assert branch.status_code == 201
    assert branch.json()["is_branch"] is True
    assert (branch.json()["lost"], branch.json()["note"]) == ({}, "")
    assert run(http, sandbox, "x", context=branch.json()["id"])["text"] == "1"
    assert http.post(f"{sandbox}/fork").status_code == 201
    assert http.get(f"{sandbox}/checkpoints").json()["items"][0]["name"] == "here"
    assert http.delete(f"{sandbox}/checkpoints/here").status_code == 204
    assert http.post(f"{sandbox}/checkpoints/here/restore").status_code == 404
    assert http.post(f"{sandbox}/undo").status_code in (400, 404, 409)  # it was not made with `undo`


def test_undo_and_history(http: httpx2.Client, new_sandbox: NewSandbox) -> None:
    sandbox = new_sandbox(undo=True)
    for number in range(3):
        run(http, sandbox, f"x = {number}")
    assert http.post(f"{sandbox}/undo").status_code == 200
    assert run(http, sandbox, "x")["text"] == "1"
    history = http.get(f"{sandbox}/history").json()["items"]
    assert [one["code"] for one in history if one["kind"] == "run"][:3] == ["x = 0", "x = 1", "x = 2"]
    found, after = [], None
    while True:
        page = http.get(f"{sandbox}/history", params={"limit": 2, **({"after": after} if after else {})}).json()
        found += page["items"]
        after = page["next"]
        if after is None:
            break
    assert found == history


def test_attempts(http: httpx2.Client, sandbox: str) -> None:
    run(http, sandbox, "x = 1")
    tried = http.post(f"{sandbox}/attempts", json={"code": "x = 2; y = 3; open('new.txt', 'w').write('n')"})
    assert tried.status_code == 201
    told = tried.json()
    assert told["files"]["created"] == ["new.txt"] or told["files"]["created"][0].endswith("new.txt")
    assert [one["name"] for one in told["variables"]["created"]] == ["y"]
    assert [one["name"] for one in told["variables"]["changed"]] == ["x"]
    assert run(http, sandbox, "x")["text"] == "1"
    assert http.post(f"{sandbox}/attempts/{told['id']}/keep").status_code == 200
    assert run(http, sandbox, "x + y")["text"] == "5"
    assert http.post(f"{sandbox}/attempts/{told['id']}/keep").status_code == 404
    other = http.post(f"{sandbox}/attempts", json={"code": "x = 9"}).json()["id"]
    assert http.post(f"{sandbox}/attempts/{other}/discard").status_code == 204
    assert run(http, sandbox, "x")["text"] == "2"


def test_best_of(http: httpx2.Client, sandbox: str) -> None:
    candidates = ["v = 1", "v = 3", "v = 2", "1/0"]
    best = http.post(f"{sandbox}/best_of", json={"candidates": candidates, "score": "v"}).json()
    assert best["index"] == 1
    assert [one["score"] for one in best["candidates"]] == [1, 3, 2, None]
    assert run(http, sandbox, "v")["text"] == "3"
    assert http.post(f"{sandbox}/best_of", json={"candidates": candidates}).status_code == 400
    assert http.post(f"{sandbox}/best_of", json={"candidates": [], "score": "v"}).status_code == 400


@pytest.mark.parametrize(("value", "ends"), [(None, "end"), ("no number", "error")])
def test_best_of_asks_the_caller(http: httpx2.Client, sandbox: str, value: Any, ends: str) -> None:
    body = {"candidates": ["v = 1; v", "v = 2; v"], "timeout": 20}
    with http.stream("POST", f"{sandbox}/best_of", json=body, headers=STREAM) as answer:
        found: list[Event] = []
        for one in events(answer):
            found.append(one)
            if one.kind == "score":
                path = f"/v1/runs/{found[0].data['run_id']}/calls/{one.data['call']}"
                score = int(one.data["result"]["text"]) if value is None else value
                assert http.post(path, json={"value": score}).status_code == 204
                assert http.post(path, json={"value": score}).status_code == 404  # answered already
    assert found[-1].kind == ends
    if ends == "end":
        assert found[-1].data["best"]["index"] == 1
    else:
        assert found[-1].data["error"]["kind"] == "invalid"


def test_tools_of_the_caller(http: httpx2.Client, new_sandbox: NewSandbox) -> None:
    sandbox = new_sandbox(tools=["look_up"])
    code = """
from cloche.tools import look_up
print(look_up('a', deep=[1]))
try: look_up('bad')
except Exception as problem: print(type(problem).__name__, problem)
"""
    with http.stream("POST", f"{sandbox}/run", json={"code": code}, headers=STREAM) as answer:
        found: list[Event] = []
        for one in events(answer):
            found.append(one)
            if one.kind == "tool":
                assert one.data["name"] == "look_up"
                path = f"/v1/runs/{found[0].data['run_id']}/calls/{one.data['call']}"
                if one.data["args"] == ["a"]:
                    assert one.data["kwargs"] == {"deep": [1]}
                    body: dict[str, Any] = {"value": {"found": "it"}}
                else:
                    body = {"error": {"name": "bad\0name", "message": "no such"}}
                assert http.post(path, json=body).status_code == 204
    printed = text_of(found)
    assert "{'found': 'it'}" in printed
    assert "no such" in printed


def test_a_sandbox_that_ends_ends_what_waits_for_the_caller(
    http: httpx2.Client, server: Any, new_sandbox: NewSandbox
) -> None:
    sandbox = new_sandbox()
    asked = threading.Event()
    seen: list[Event] = []

    def contest() -> None:
        body = {"candidates": ["v = 1"], "timeout": 20}
        with server.client() as other, other.stream("POST", f"{sandbox}/best_of", json=body, headers=STREAM) as answer:
            for one in events(answer):
                seen.append(one)
                if one.kind == "score":
                    asked.set()  # and never answered

    waiting = threading.Thread(target=contest)
    waiting.start()
    assert asked.wait(20)
    assert http.delete(sandbox).status_code == 204
    waiting.join(10)
    assert not waiting.is_alive()
    assert seen[-1].kind == "error"
    assert http.get(f"/v1/runs/{seen[0].data['run_id']}").json()["state"] in ("failed", "interrupted")
