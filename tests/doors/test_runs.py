"""One-shot runs, and all runs by their ids: results, streams, re-attaching, leaving, paging."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any

import httpx2
import pytest
from tests.doors.sse import STREAM, Event, all_events, events, text_of
from tests.waiting import eventually

NewKey = Callable[..., httpx2.Client]
_RESULT = {
    *("run_id", "stdout", "stderr", "exit_code", "duration", "cpu_time", "memory_peak", "error", "truncated", "wall"),
    *("results", "logs", "artifacts", "execution_count", "tool_calls", "restarted", "text", "context"),
    *("diagnostics", "build_time", "network"),
}


def state(http: httpx2.Client, run: str) -> str:
    """What became of a run."""
    return str(http.get(f"/v1/runs/{run}").json()["state"])


def test_a_result_has_all_that_the_library_has(http: httpx2.Client) -> None:
    code = "import sys\nprint('hé', len(sys.argv), input())\nprint('warn', file=sys.stderr)\nsys.exit(3)"
    answer = http.post("/v1/run", json={"code": code, "stdin": "ün\n", "args": ["a", "b"], "env": {"X": "1"}})
    result = answer.json()
    assert set(result) == _RESULT
    assert (result["stdout"], result["stderr"], result["exit_code"]) == ("hé 3 ün\n", "warn\n", 3)
    assert result["duration"] > 0
    assert result["memory_peak"] > 0
    assert result["run_id"].startswith("run_")


def test_bytes_that_are_no_text_are_told_as_such(http: httpx2.Client) -> None:
    data = bytes(range(256))
    code = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
    result = http.post("/v1/run", json={"code": code, "stdin_base64": b64encode(data).decode()}).json()
    assert result["stdout_base64"] == b64encode(data).decode()
    assert result["stdout"] == data.decode(errors="replace")
    assert "stderr_base64" not in result
    surrogate = http.post("/v1/run", content=b'{"code": "print(input())", "stdin": "\\udcff"}', headers=_JSON).json()
    assert surrogate["stdout_base64"] == b64encode(b"\xff\n").decode()


_JSON = {"Content-Type": "application/json"}


def test_a_project_of_several_files_runs(http: httpx2.Client) -> None:
    files = {
        "main.py": "import pack.mod, pathlib; print(pack.mod.word, pathlib.Path('data.bin').read_bytes())",
        "pack/mod.py": "word = 'hello'",
        "data.bin": {"base64": b64encode(b"\x00\xff").decode()},
    }
    result = http.post("/v1/run", json={"files": files, "entry": "main.py"}).json()
    assert result["stdout"] == "hello b'\\x00\\xff'\n", result
    with_code = {"code": "print(open('data.txt').read())", "files": {"data.txt": "x"}}
    assert http.post("/v1/run", json=with_code).json()["stdout"] == "x\n"


@pytest.mark.parametrize(
    ("language", "source"), [("python", "print(6 * 7)"), ("ruby", "puts 42"), (None, "#!/bin/sh\necho 42")]
)
def test_an_entry_whose_name_tells_nothing_is_of_the_language_that_is_named(
    http: httpx2.Client, language: str | None, source: str
) -> None:
    body = {"files": {"tool": source}, "entry": "tool", "language": language}
    assert http.post("/v1/run", json=body).json().get("stdout") == "42\n"


def test_other_languages_run(http: httpx2.Client) -> None:
    assert http.post("/v1/run", json={"language": "bash", "code": "echo $((6*7))"}).json()["stdout"] == "42\n"
    assert http.post("/v1/run", json={"language": "js", "code": "console.log(6*7)"}).json()["stdout"] == "42\n"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"code": "1", "build_timeout": -1}, 400),
        ({"entry": "x.py", "files": {"y.py": ""}}, 400),
        ({"code": 1}, 422),
        ({"code": "1", "unknown": 1}, 422),
        ({"code": "1", "language": "cobol"}, 400),
        ({"code": "1", "stdin": "a", "stdin_base64": "YQ=="}, 400),
        ({"code": "1", "stdin_base64": "!"}, 400),
        ({"code": "1", "timeout": -1}, 400),
        ({"code": "1", "timeout": 1e9}, 400),
        ({"code": "1", "memory": "1P"}, 400),
        ({"code": "1", "memory": "lots"}, 400),
        ({"code": "1", "memory": 10**400}, 400),
        ({"code": "1", "processes": -(10**400)}, 400),
        ({"code": "1", "cpu": 0}, 400),
        ({"code": "1", "network": True}, 400),
        ({"code": "1", "isolation": "none"}, 422),
        ({"code": "1", "env": {"A=B": "x"}}, 400),
        ({"code": "1", "env": {"A": "\0"}}, 400),
        ({"code": "1", "args": ["\0"]}, 400),
        ({"code": "1", "files": {"../usr/x": ""}}, 409),  # read-only
        ({"code": "1", "files": {"a\0b": ""}}, 400),
        ({"code": "1", "mounts": {"/etc": "/sandbox/x"}}, 409),
        ({"code": "1", "budget": 1}, 422),
        ([], 422),
        ("code", 422),
        (None, 422),
    ],
)
def test_what_makes_no_sense_is_told_clearly(http: httpx2.Client, body: Any, status: int) -> None:
    answer = http.post("/v1/run", json=body)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"kind", "message", "hint", "details"}
    assert error["kind"] in ("invalid", "refused", "file")
    assert error["message"]


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"", 422),
        (b"{", 422),
        (b"\xff\xfe", 400),
        (b"\xff{}", 400),
        (b"[" * 100_000, 400),
        (b'{"code": "1", "timeout": NaN}', 400),
        (b'{"code": "1", "timeout": Infinity}', 400),
        (b'{"code": "1", "timeout": 1e999}', 400),
        (b'{"code": "1", "memory": ' + b"9" * 5000 + b"}", 400),
        (b'{"code": "1", "processes": ' + b"9" * 300 + b"}", 400),
        (b'{"code": "\\ud800"}', 400),
    ],
)
def test_bodies_that_are_malformed_are_told_clearly(http: httpx2.Client, data: bytes, status: int) -> None:
    answer = http.post("/v1/run", content=data, headers=_JSON)
    assert answer.status_code in (400, 422), answer.text
    assert answer.json()["error"]["kind"] == "invalid"
    assert answer.status_code == status, answer.text


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain"])
def test_a_body_that_does_not_say_it_is_json_is_told_to(http: httpx2.Client, kind: str) -> None:
    answer = http.post("/v1/run", content=b'{"code": "1"}', headers={"Content-Type": kind})
    assert answer.status_code == 415
    assert "Content-Type: application/json" in answer.json()["error"]["hint"]


def test_a_body_that_is_too_large_is_refused(http: httpx2.Client) -> None:
    body = json.dumps({"code": "#" * (17 << 20)}).encode()
    assert http.post("/v1/run", content=body, headers=_JSON).status_code == 413

    def pieces() -> Any:
        for start in range(0, len(body), 1 << 16):
            yield body[start : start + (1 << 16)]

    try:
        answer = http.post("/v1/run", content=pieces(), headers=_JSON)  # in chunks: nobody says how long it will be
    except httpx2.HTTPError:
        return  # refused while it was being sent
    assert answer.status_code == 413
    assert answer.json()["error"]["kind"] == "invalid"


# --- streams


def test_a_stream_tells_what_happens_in_order(http: httpx2.Client) -> None:
    code = "import sys\nfor n in range(3):\n print(n, flush=True)\nprint('e', file=sys.stderr)\n1/0"
    found = all_events(http, "POST", "/v1/run", json={"code": code})
    assert [one.number for one in found] == list(range(1, len(found) + 1))
    assert found[0].kind == "started"
    assert found[0].data["run_id"].startswith("run_")
    assert found[0].data["pid"] > 0
    assert text_of(found) == "0\n1\n2\n"
    assert [one.kind for one in found[-2:]] == ["error", "end"]
    assert found[-2].data["error"]["name"] == "ZeroDivisionError"
    assert set(found[-1].data["result"]) == _RESULT
    assert found[-1].data["result"]["stdout"] == "0\n1\n2\n"


def test_a_character_is_never_split(http: httpx2.Client) -> None:
    code = """
import os, time
for byte in '€𝄞'.encode() + b'\\xff\\xe2':
    os.write(1, bytes([byte])); time.sleep(.02)
"""
    found = all_events(http, "POST", "/v1/run", json={"code": code})
    texts = [one.data for one in found if one.kind == "stdout"]
    assert "".join(told["text"] for told in texts if "data" not in told) == "€𝄞"
    assert [told["data"] for told in texts if "data" in told] != []


def test_events_come_while_it_runs(http: httpx2.Client) -> None:
    code = "print('first', flush=True)\ninput()\nprint('last')"
    with http.stream("POST", "/v1/run", json={"code": code, "interactive": True}, headers=STREAM) as answer:
        coming = events(answer)
        run = next(coming).data["run_id"]
        assert next(coming).data["text"] == "first\n"
        assert state(http, run) == "running"
        assert http.post(f"/v1/runs/{run}/input", json={"data": "go\n"}).status_code == 204
        rest = list(coming)
    assert text_of(rest) == "last\n"
    assert state(http, run) == "done"


def test_input_can_be_bytes_and_ends(http: httpx2.Client) -> None:
    code = "import sys; print('ready', flush=True); print(sys.stdin.buffer.read())"
    with http.stream("POST", "/v1/run", json={"code": code, "interactive": True}, headers=STREAM) as answer:
        coming = events(answer)
        run = next(coming).data["run_id"]
        next(coming)
        body = {"data_base64": b64encode(b"\xff\x00").decode(), "eof": True}
        assert http.post(f"/v1/runs/{run}/input", json=body).status_code == 204
        assert text_of(list(coming)) == "b'\\xff\\x00'\n"
    late = http.post(f"/v1/runs/{run}/input", json={"data": "x"})
    assert (late.status_code, late.json()["error"]["kind"]) == (404, "gone")


def test_a_run_without_input_takes_none(http: httpx2.Client) -> None:
    with http.stream("POST", "/v1/run", json={"code": "input()"}, headers=STREAM) as answer:
        coming = events(answer)
        run = next(coming).data["run_id"]
        refused = http.post(f"/v1/runs/{run}/input", json={"data": "x"})
        assert refused.status_code in (400, 404)  # 404: it was over by then


@pytest.mark.parametrize("how", ["stream", "json"])
def test_who_leaves_a_one_shot_run_ends_it(server: Any, http: httpx2.Client, how: str) -> None:
    before = {run["id"] for run in http.get("/v1/runs", params={"state": "running"}).json()["items"]}
    body = json.dumps({"code": "import time; time.sleep(60)", "timeout": 60}).encode()
    accept = "Accept: text/event-stream\r\n" if how == "stream" else ""
    head = f"POST /v1/run HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {server.key}\r\n{accept}"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    stream = socket.create_connection(("127.0.0.1", server.port), 10)
    with stream:
        stream.sendall(head.encode() + body)
        running = eventually(
            lambda: {run["id"] for run in http.get("/v1/runs", params={"state": "running"}).json()["items"]} - before
        )
        (run,) = running
        if how == "stream":
            got = b""
            while b"event: started" not in got:
                got += stream.recv(1 << 16)
        assert state(http, run) == "running"
    record = eventually(lambda: (found := http.get(f"/v1/runs/{run}").json())["state"] != "running" and found)
    assert record["state"] in ("failed", "interrupted")
    assert record["ended"] - record["started"] < 20


# --- attaching again


def test_who_comes_back_misses_nothing_and_gets_nothing_twice(http: httpx2.Client, sandbox: str) -> None:
    code = "import time\nfor n in range(40):\n print(n, flush=True); time.sleep(.02)"
    seen: list[Event] = []
    with http.stream("POST", f"{sandbox}/run", json={"code": code}, headers=STREAM) as answer:
        coming = events(answer)
        run = answer.headers["cloche-run"]
        seen += [next(coming) for _ in range(5)]
    for attempt in range(4):  # leave and come back while it runs, each time after what was seen last
        place = str(seen[-1].number)
        query, headers = ({"after": place}, {}) if attempt % 2 else ({}, {"Last-Event-ID": place})
        with http.stream("GET", f"/v1/runs/{run}/events", headers=headers, params=query) as answer:
            coming = events(answer)
            seen += [next(coming) for _ in range(4)]
    seen += all_events(http, "GET", f"/v1/runs/{run}/events", params={"after": seen[-1].number})
    assert [one.number for one in seen] == list(range(1, len(seen) + 1))
    assert text_of(seen) == "".join(f"{n}\n" for n in range(40))
    assert seen[-1].kind == "end"
    # and after the end: everything, the rest, nothing
    assert all_events(http, "GET", f"/v1/runs/{run}/events") == seen
    assert all_events(http, "GET", f"/v1/runs/{run}/events", params={"after": 10}) == seen[10:]
    assert all_events(http, "GET", f"/v1/runs/{run}/events", params={"after": len(seen)}) == []
    assert all_events(http, "GET", f"/v1/runs/{run}/events", params={"after": 10**9}) == []


def test_several_attach_to_one_run(http: httpx2.Client, server: Any, sandbox: str) -> None:
    code = "import time\nfor n in range(30):\n print(n, flush=True); time.sleep(.01)"

    def follow(run: str) -> list[Event]:
        with server.client() as client:
            return all_events(client, "GET", f"/v1/runs/{run}/events")

    with (
        http.stream("POST", f"{sandbox}/run", json={"code": code}, headers=STREAM) as answer,
        ThreadPoolExecutor() as pool,
    ):
        followers = [pool.submit(follow, answer.headers["cloche-run"]) for _ in range(4)]
        own = list(events(answer))
        assert all(follower.result() == own for follower in followers)


@pytest.mark.parametrize("query", [{"after": "-1"}, {"after": "x"}, {"after": "9" * 30}, {"after": ""}])
def test_a_place_that_is_none_is_refused(http: httpx2.Client, query: dict[str, str]) -> None:
    run = http.post("/v1/run", json={"code": "1"}).json()["run_id"]
    assert http.get(f"/v1/runs/{run}/events", params=query).status_code == 422
    for header in ("x", "-1", "1.5", "9" * 30):
        assert http.get(f"/v1/runs/{run}/events", headers={"Last-Event-ID": header}).status_code == 400


def test_a_sessions_run_goes_on_without_its_client(http: httpx2.Client, server: Any, sandbox: str) -> None:
    code = "import time\nfor n in range(20):\n print(n, flush=True); time.sleep(.05)\ndone = True"
    with http.stream("POST", f"{sandbox}/run", json={"code": code}, headers=STREAM) as answer:
        run = next(events(answer)).data["run_id"]
    eventually(lambda: state(http, run) != "running")
    assert state(http, run) == "done"
    body = json.dumps({"code": code + "\nwaited = True"}).encode()
    with socket.create_connection(("127.0.0.1", server.port), 10) as stream:  # the same for who waits for the result
        head = f"POST {sandbox}/run HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nX-API-Key: {server.key}\r\n"
        stream.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        name = sandbox.rpartition("/")[2]
        eventually(lambda: http.get("/v1/runs", params={"sandbox": name, "state": "running"}).json()["items"])
    assert http.post(f"{sandbox}/run", json={"code": "print(done, waited)"}).json()["stdout"] == "True True\n"


# --- views


def test_the_models_view(http: httpx2.Client) -> None:
    code = "print('x' * 100_000)"
    for more, query in (({"view": "model"}, {}), ({}, {"view": "model"})):
        told = http.post("/v1/run", json={"code": code, "budget": 100, **more}, params=query).json()
        assert set(told) == {"run_id", "view", "text", "images", "error", "exit_code", "artifacts"}
        assert told["view"] == "model"
        assert len(told["text"]) < 2000
    answer = http.post("/v1/run?view=model", json={"code": "print(6*7)"}, headers={"Accept": "text/plain"})
    assert answer.headers["content-type"].startswith("text/plain")
    assert "42" in answer.text
    assert http.post("/v1/run?view=other", json={"code": "1"}).status_code == 422


def test_the_models_view_of_a_session_has_its_pictures(http: httpx2.Client, sandbox: str) -> None:
    code = """
import base64
from IPython.display import Image, display
display(Image(base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")))
"""
    told = http.post(f"{sandbox}/run", json={"code": code, "view": "model"}).json()
    assert [image["mime"] for image in told["images"]] == ["image/png"]
    assert told["images"][0]["data"].startswith("iVBOR")


# --- records


def test_a_run_is_recorded_with_its_outcome(http: httpx2.Client) -> None:
    code = "print('x'); raise SystemExit(4)"
    run = http.post("/v1/run", json={"code": code}).json()["run_id"]
    told = http.get(f"/v1/runs/{run}").json()
    assert set(told) == {
        *("id", "sandbox", "context", "language", "state", "started", "ended", "exit_code", "error_kind", "duration"),
        *("cpu_time", "memory_peak", "code_sha256", "result"),
    }
    assert (told["state"], told["exit_code"], told["sandbox"]) == ("failed", 4, None)
    assert told["code_sha256"] == sha256(code.encode()).hexdigest()
    assert told["result"]["stdout"] == "x\n"
    listed = http.get("/v1/runs", params={"state": "failed", "limit": 5}).json()["items"]
    assert run in [one["id"] for one in listed]
    for path in ("", "/events"):
        answer = http.get(f"/v1/runs/run_none{path}")
        assert (answer.status_code, answer.json()["error"]["kind"]) == (404, "gone")


def test_runs_are_listed_page_by_page(new_key: NewKey) -> None:
    ada = new_key("pager")
    made = [ada.post("/v1/run", json={"code": str(number)}).json()["run_id"] for number in range(5)]
    found: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = ada.get("/v1/runs", params=query).json()
        found += [run["id"] for run in page["items"]]
        assert len(page["items"]) <= 2
        if page["next"] is None:
            break
        query["after"] = page["next"]
    assert found == made[::-1]
    for limit in ("0", "1001", "x", "-1"):
        assert ada.get("/v1/runs", params={"limit": limit}).status_code == 422
    for after in ("garbage", "\0", "x" * 501, "9" * 400, "é"):
        assert ada.get("/v1/runs", params={"after": after}).status_code in (200, 400, 422)
    assert ada.get("/v1/runs", params={"state": "odd"}).status_code == 422
    assert ada.get("/v1/runs", params={"sandbox": "sbx_\0none"}).status_code in (200, 400)


def test_a_program_is_cancelled(http: httpx2.Client) -> None:
    body = {"code": "print('on', flush=True)\nimport time; time.sleep(60)", "timeout": 60}
    with http.stream("POST", "/v1/run", json=body, headers=STREAM) as answer:
        coming = events(answer)
        run = next(coming).data["run_id"]
        next(coming)
        begin = time.monotonic()
        assert http.post(f"/v1/runs/{run}/cancel").status_code == 202
        rest = list(coming)
    assert time.monotonic() - begin < 10
    assert rest[-1].kind == "end"
    assert rest[-1].data["result"]["exit_code"] != 0
    assert rest[-1].data["result"]["error"]["message"] == rest[0].data["error"]["message"] == "The run was cancelled."
    assert http.post(f"/v1/runs/{run}/cancel").status_code == 202  # it is over, which is what was wanted
    assert http.post("/v1/runs/run_none/cancel").status_code == 404


def test_a_cell_is_cancelled_and_the_session_goes_on(http: httpx2.Client, sandbox: str) -> None:
    assert http.post(f"{sandbox}/run", json={"code": "kept = 1"}).status_code == 200
    code = "print('on', flush=True)\nimport time; time.sleep(60)"
    with http.stream("POST", f"{sandbox}/run", json={"code": code, "timeout": 60}, headers=STREAM) as answer:
        coming = events(answer)
        run = next(coming).data["run_id"]
        next(coming)
        assert http.post(f"/v1/runs/{run}/cancel").status_code == 202
        rest = list(coming)
    assert rest[-1].data["result"]["error"]["name"] == "KeyboardInterrupt"
    assert http.post(f"{sandbox}/run", json={"code": "print(kept)"}).json()["stdout"] == "1\n"


def test_many_runs_at_once_each_have_their_own_result(server: Any) -> None:
    def one(number: int) -> bool:
        with server.client() as client:
            answer = client.post("/v1/run", json={"code": f"print({number})"})
            return bool(answer.json()["stdout"] == f"{number}\n")

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(24)))


def test_a_full_server_says_when_to_come_back(serve: Callable[..., Any]) -> None:
    server = serve("--runs-at-once", "1", "--queue", "0")
    with server.client() as http, server.client() as other:
        body = {"code": "print('on', flush=True)\nimport time; time.sleep(60)", "timeout": 60}
        with http.stream("POST", "/v1/run", json=body, headers=STREAM) as answer:
            coming = events(answer)  # closed if nobody holds it, and the run with it
            next(coming)
            refused = other.post("/v1/run", json={"code": "1"})
            assert (refused.status_code, refused.json()["error"]["kind"]) == (503, "busy")
            assert int(refused.headers["retry-after"]) >= 1
        eventually(lambda: other.post("/v1/run", json={"code": "1"}).status_code == 200)


def test_a_stopping_server_finishes_what_is_under_way(serve: Callable[..., Any]) -> None:
    server = serve()
    with server.client() as http:
        body = {"code": "print('on', flush=True)\nimport time; time.sleep(1.5)\nprint('done')"}
        with http.stream("POST", "/v1/run", json=body, headers=STREAM) as answer:
            coming = events(answer)
            next(coming)
            next(coming)
            codes: list[int] = []
            stopping = threading.Thread(target=lambda: codes.append(server.stop()))
            stopping.start()
            rest = list(coming)
        stopping.join()
    assert text_of(rest) == "done\n"
    assert rest[-1].kind == "end"
    assert codes == [0]
    assert "Traceback" not in server.log.read_text()


def test_what_runs_have_printed_does_not_fill_the_servers_memory(http: httpx2.Client, server: Any) -> None:
    before = resident(server)
    for _ in range(20):
        result = http.post("/v1/run", json={"code": "print('x' * 9_000_000)"}).json()
        assert len(result["stdout"]) == 9_000_001

    assert resident(server) - before < 550 << 20  # all of them, with all that is kept of each, are 800 MB


def resident(server: Any) -> int:
    """Bytes of memory that the server has."""
    with open(f"/proc/{server.process.pid}/statm") as told:
        return int(told.read().split()[1]) * os.sysconf("SC_PAGESIZE")
