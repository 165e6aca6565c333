"""What E2B's clients do not show of envd: the protocol itself, and what becomes of those who do not keep to it."""

from __future__ import annotations

import gzip
import json
import struct
import time
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from tests.waiting import eventually

from cloche.doors.e2b.answers import BrokenOff
from cloche.doors.e2b.envd import transfers


class Envd:
    """Requests to the agent of one sandbox, by hand."""

    def __init__(self, http: httpx2.Client) -> None:
        self._http, self.url = http, str(http.base_url).rstrip("/")
        made = http.post("/sandboxes", json={"templateID": "base"}).raise_for_status().json()
        self.id = made["sandboxID"]
        self.headers = {
            "E2b-Sandbox-Id": self.id,
            "E2b-Sandbox-Port": "49983",
            "X-Access-Token": made["envdAccessToken"],
        }

    def request(self, method: str, path: str, headers: dict[str, str] | None = None, **options: Any) -> httpx2.Response:
        return self._http.request(method, path, headers={**self.headers, **(headers or {})}, **options)

    def call(self, name: str, told: Any, headers: dict[str, str] | None = None) -> httpx2.Response:
        return self.request("POST", f"/{name}", headers, json=told)

    def stream(self, name: str, *told: Any, headers: dict[str, str] | None = None) -> list[tuple[int, Any]]:
        body = b"".join(envelope(one) for one in told)
        kind = {"Content-Type": "application/connect+json", **(headers or {})}
        answer = self.request("POST", f"/{name}", kind, content=body)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/connect+json"
        return messages(answer.content)

    def kill(self) -> None:
        self._http.delete(f"/sandboxes/{self.id}")


def envelope(told: Any) -> bytes:
    data = json.dumps(told).encode()
    return struct.pack(">BI", 0, len(data)) + data


def messages(body: bytes) -> list[tuple[int, Any]]:
    found = []
    while body:
        flags, size = struct.unpack(">BI", body[:5])
        found.append((flags, json.loads(body[5 : 5 + size])))
        body = body[5 + size :]
    return found


def shell(line: str, **more: Any) -> dict[str, Any]:
    return {"process": {"cmd": "/bin/bash", "args": ["-c", line]}, **more}


@pytest.fixture(scope="module")
def envd(server: Any) -> Iterator[Envd]:
    with server.client() as http:
        made = Envd(http)
        yield made
        made.kill()


@pytest.fixture
def another(server: Any) -> Iterator[Envd]:
    with server.client() as http:
        made = Envd(http)
        yield made
        made.kill()


def test_a_stream_tells_start_data_end_in_that_order(envd: Envd) -> None:
    first, second, third, last = envd.stream("process.Process/Start", shell("printf out; exit 3"))

    assert first == (0, {"event": {"start": {"pid": first[1]["event"]["start"]["pid"]}}})
    assert b64decode(second[1]["event"]["data"]["stdout"]) == b"out"
    end = {"exitCode": 3, "exited": True, "status": "exit status 3", "error": "exit status 3"}
    assert third == (0, {"event": {"end": end}})
    assert last == (2, {})


def test_output_comes_in_pieces_that_are_not_too_large(envd: Envd) -> None:
    told = envd.stream("process.Process/Start", shell("head -c 200000 /dev/zero"))
    pieces = [b64decode(one["event"]["data"]["stdout"]) for _, one in told if "data" in one.get("event", {})]
    assert sum(map(len, pieces)) == 200_000
    assert max(map(len, pieces)) <= 32 << 10


def test_half_a_character_does_not_wait_for_its_other_half(envd: Envd) -> None:
    body = envelope(shell("printf '\\342'; read line; printf '\\202\\254'", tag="half"))
    with envd._http.stream("POST", "/process.Process/Start", headers=envd.headers, content=body) as answer:
        pieces = answer.iter_raw()
        heard = b""
        while b64encode(b"\xe2") not in heard:
            heard += next(pieces)
        told = {"process": {"tag": "half"}, "input": {"stdin": b64encode(b"go\n").decode()}}
        assert envd.call("process.Process/SendInput", told).json() == {}
        heard += b"".join(pieces)
    events = [one["event"] for _, one in messages(heard) if "event" in one]
    assert b"".join(b64decode(one["data"]["stdout"]) for one in events if "data" in one) == "€".encode()


def test_silence_is_filled_and_time_ends_the_process(envd: Envd) -> None:
    headers = {"Keepalive-Ping-Interval": "1", "Connect-Timeout-Ms": "1500"}
    start, *rest, (flags, last) = envd.stream("process.Process/Start", shell("sleep 60", tag="slow"), headers=headers)
    assert "start" in start[1]["event"]
    assert rest
    assert all(one == {"event": {"keepalive": {}}} for _, one in rest)
    assert (flags, last["error"]["code"]) == (2, "deadline_exceeded")
    assert envd.call("process.Process/List", {}).json() == {"processes": []}
    connected = envd.stream("process.Process/Connect", {"process": {"tag": "slow"}})
    assert connected[-1][1]["error"]["code"] == "deadline_exceeded"


@pytest.mark.parametrize(
    ("call", "told", "status", "code"),
    [
        ("process.Process/SendSignal", {"process": {"pid": 999}, "signal": "SIGNAL_SIGKILL"}, 404, "not_found"),
        ("process.Process/SendSignal", {"signal": "SIGNAL_SIGKILL"}, 400, "invalid_argument"),
        ("filesystem.Filesystem/Stat", {"path": "nowhere"}, 404, "not_found"),
        ("filesystem.Filesystem/Stat", {"path": "~other/x"}, 400, "invalid_argument"),
        ("filesystem.Filesystem/Stat", {"path": 5}, 400, "invalid_argument"),
        ("filesystem.Filesystem/MakeDir", {"path": "/etc/new"}, 403, "permission_denied"),
        ("filesystem.Filesystem/MakeDir", {"path": "/tmp"}, 409, "already_exists"),
        ("filesystem.Filesystem/ListDir", {"path": "/tmp", "depth": -1}, 400, "invalid_argument"),
        ("filesystem.Filesystem/GetWatcherEvents", {"watcherId": "w"}, 404, "not_found"),
        ("filesystem.Filesystem/Stat", [], 400, "invalid_argument"),
    ],
)
def test_a_call_that_fails_has_a_code_and_its_status(envd: Envd, call: str, told: Any, status: int, code: str) -> None:
    answer = envd.call(call, told)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


@pytest.mark.parametrize("call", ["SendSignal", "SendInput", "CloseStdin", "Update"])
@pytest.mark.parametrize(
    "selector",
    [{"pid": "9" * 5000}, {"pid": 10**4000}, {"pid": -1}, {"tag": "x" * 9_000_000}, {"tag": ["\u202e" * 9000]}],
)
def test_a_process_that_cannot_be_is_not_found_in_few_words(envd: Envd, call: str, selector: Any) -> None:
    answer = envd.call(f"process.Process/{call}", {"process": selector})
    assert answer.status_code == 404
    assert len(answer.json()["message"]) < 11_000


def test_a_tag_is_short(envd: Envd) -> None:
    (flags, end), *_ = envd.stream("process.Process/Start", shell("true", tag="x" * 9_000_000))
    assert (flags, end["error"]["code"]) == (2, "invalid_argument")


@pytest.mark.parametrize("when", [10**13, -(10**13), 253_402_300_800])
def test_a_file_may_have_any_time(envd: Envd, when: int) -> None:
    program = f"import os; open('/tmp/odd', 'w').close(); os.utime('/tmp/odd', ({when}, {when}))"
    envd.stream("process.Process/Start", {"process": {"cmd": "python3", "args": ["-c", program]}})
    for call, path in (("Stat", "/tmp/odd"), ("ListDir", "/tmp")):
        answer = envd.call(f"filesystem.Filesystem/{call}", {"path": path})
        assert answer.status_code == 200, answer.text
    moved = {"source": "/tmp/odd", "destination": "/tmp/odder"}
    expected = "9999-12-31T23:59:59" if when > 0 else "1970-01-01T00:00:00"
    entry = envd.call("filesystem.Filesystem/Move", moved).json()["entry"]
    assert entry["modifiedTime"].startswith(expected)


def test_a_stream_that_fails_says_so_at_its_end(envd: Envd) -> None:
    wrong: tuple[dict[str, Any], ...] = (
        {},
        {"process": {}},
        {"process": {"cmd": "/nowhere"}},
        {"process": {"cmd": "ls", "args": "no list"}},
        {"process": {"cmd": "ls", "envs": {"A": 1}}},
        shell("true", pty={"size": {"cols": -1, "rows": "many"}}),
    )
    for told in wrong:
        ((flags, last),) = envd.stream("process.Process/Start", told)
        assert (flags, last["error"]["code"]) == (2, "invalid_argument")
    somebody = {"Authorization": "Basic " + b64encode(b"somebody:").decode()}
    assert envd.stream("process.Process/Start", shell("true"), headers=somebody) == [
        (2, {"error": {"code": "unauthenticated", "message": "invalid username: 'somebody'"}})
    ]
    ((_, last),) = envd.stream("process.Process/StreamInput", {"data": {"input": {"stdin": ""}}})
    assert last["error"]["code"] == "invalid_argument"


FILL = """
import os, time
if os.fork():
    os._exit(0)
os.setsid()
os.closerange(0, 3)
while True:
    try:
        if os.fork() == 0: time.sleep(60)
    except OSError: time.sleep(0.001)
"""


def test_a_process_for_which_there_is_no_room_is_refused_with_the_reason(another: Envd) -> None:
    another.stream("process.Process/Start", {"process": {"cmd": "python3", "args": ["-c", FILL]}})
    said: list[Any] = []

    def is_full() -> bool:
        said[:] = another.stream("process.Process/Start", {"process": {"cmd": "true"}})
        return len(said) == 1

    eventually(is_full)
    assert said[0][1]["error"]["code"] == "invalid_argument"
    assert "processes" in said[0][1]["error"]["message"]


def test_who_may_come_in(envd: Envd) -> None:
    assert envd.request("GET", "/health", {"X-Access-Token": ""}).status_code == 204
    for path in ("/process.Process/List", f"{envd.url}//process.Process/List"):
        assert envd.request("POST", path, json={}).status_code == 200
        refused = envd.request("POST", path, {"X-Access-Token": "wrong"}, json={})
        assert (refused.status_code, refused.json()["code"]) == (401, 401)
    assert envd.request("GET", "/files?path=x", {"X-Access-Token": "wrong"}).status_code == 401
    assert envd.request("GET", "/nothing").status_code == 404
    gone = envd.request("GET", "/health", {"E2b-Sandbox-Id": "sbxnowhere"})
    assert gone.status_code == 502
    assert gone.json() == {"sandboxId": "sbxnowhere", "message": "The sandbox was not found", "code": 502}


def test_a_signal_reaches_what_a_tag_names(envd: Envd) -> None:
    line = "trap 'echo ended; exit 9' TERM; echo ready; while :; do sleep 0.05; done"
    body = envelope(shell(line, tag="mine"))
    with envd._http.stream("POST", "/process.Process/Start", headers=envd.headers, content=body) as answer:
        pieces = answer.iter_raw()
        heard = b""
        while b64encode(b"ready\n") not in heard:
            heard += next(pieces)
        told = {"process": {"tag": "mine"}, "signal": "SIGNAL_SIGTERM"}
        assert envd.call("process.Process/SendSignal", told).json() == {}
        rest = b"".join(pieces)
    assert messages(heard + rest)[-2][1]["event"]["end"]["exitCode"] == 9


def test_a_listener_who_is_slow_is_waited_for_and_one_who_leaves_is_not(envd: Envd) -> None:
    body = envelope(shell("head -c 25000000 /dev/zero; touch /tmp/done"))

    def is_done() -> bool:
        return envd.call("filesystem.Filesystem/Stat", {"path": "/tmp/done"}).status_code == 200

    with envd._http.stream("POST", "/process.Process/Start", headers=envd.headers, content=body) as answer:
        pieces = answer.iter_raw()
        next(pieces)
        time.sleep(1)  # that nothing happens can only be seen by waiting
        assert not is_done()
    eventually(is_done)


def test_a_watch_that_nobody_reads_says_all_when_it_is_asked(envd: Envd) -> None:
    envd.call("filesystem.Filesystem/MakeDir", {"path": "busy"})
    watcher = envd.call("filesystem.Filesystem/CreateWatcher", {"path": "busy"}).json()
    envd.stream("process.Process/Start", shell("cd /home/user/busy; seq 9000 | xargs touch"))
    events = envd.call("filesystem.Filesystem/GetWatcherEvents", watcher).json()["events"]
    assert len({one["name"] for one in events if one["type"] == "EVENT_TYPE_CREATE"}) > 8000  # the kernel keeps 16384
    assert envd.call("filesystem.Filesystem/GetWatcherEvents", watcher).json() == {"events": []}
    assert envd.call("filesystem.Filesystem/RemoveWatcher", watcher).json() == {}


class Unsized:
    """Stands in for a file in /proc, whose size the kernel does not tell; counts the pieces that were read."""

    size = 0

    def __init__(self, pieces: int) -> None:
        self._pieces, self.read = pieces, 0

    async def __aenter__(self) -> Unsized:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(self._pieces):
            self.read += 1
            yield bytes(1 << 20)


@pytest.mark.parametrize(("method", "size"), [("GET", 40), ("GET", 64), ("GET", 65), ("HEAD", 40), ("GET", 0)])
async def test_a_file_without_a_size_is_sent_as_it_is_read(method: str, size: int) -> None:
    """A program can make files of 45 MB in /proc; the server must not keep one for each client that reads slowly."""
    file, sent = Unsized(size), []

    async def take(message: Any) -> None:
        if body := message.get("body"):
            sent.append(len(body))
            assert file.read == len(sent), "the server reads on before the client has taken what there is"

    async def opened(*_: object) -> Unsized:
        return file

    service = SimpleNamespace(files=SimpleNamespace(open=opened))
    call: Any = SimpleNamespace(headers={}, service=service, caller=None, identity="", send=take)
    with pytest.raises(BrokenOff) if size > 64 else nullcontext():
        await transfers._read(call, "/proc/1/smaps", with_body=method == "GET")
    assert sum(sent) == (0 if method == "HEAD" else min(size, 64) << 20)


def test_a_file_without_a_size_arrives_whole(envd: Envd) -> None:
    answer = envd.request("GET", "/files?path=/proc/filesystems")
    assert answer.status_code == 200
    assert "tmpfs\n" in answer.text
    assert answer.text.endswith("\n")
    assert envd.request("HEAD", "/files?path=/proc/filesystems").status_code == 200
    envd.request("POST", "/files?path=empty", {"Content-Type": "application/octet-stream"}, content=b"")
    empty = envd.request("GET", "/files?path=empty")
    assert (empty.status_code, empty.content, empty.headers["content-length"]) == (200, b"", "0")


def test_files_by_hand(envd: Envd) -> None:
    def upload(parts: list[tuple[str, Any]], query: str = "") -> httpx2.Response:
        return envd.request("POST", f"/files{query}", files=parts)

    answer = upload([("file", ("a/x", b"1")), ("file", ("a/y", b"2"))])
    assert [one["path"] for one in answer.json()] == ["/home/user/a/x", "/home/user/a/y"]
    twice = upload([("file", ("z", b"1")), ("file", ("./z", b"2"))])
    assert (twice.status_code, twice.json()["code"]) == (400, 400)
    octets = {"Content-Type": "application/octet-stream"}
    assert envd.request("POST", "/files", octets, content=b"x").status_code == 400  # to where?
    assert envd.request("POST", "/files?path=x", {"Content-Type": "text/plain"}, content=b"x").status_code == 400
    packed = {**octets, "Content-Encoding": "gzip"}
    assert envd.request("POST", "/files?path=x", packed, content=b"no gzip").status_code == 400
    odd = {**octets, "X-Metadata-A": "a\tb"}
    assert envd.request("POST", "/files?path=x", odd, content=b"x").status_code == 400
    assert envd.request("GET", "/files?path=a/x", {"Range": "bytes=9-"}).status_code == 416
    assert envd.request("GET", "/files?path=a/x", {"Range": "bytes=-1"}).content == b"1"
    assert envd.request("HEAD", "/files?path=a/x").headers["content-length"] == "1"
    assert envd.request("DELETE", "/files?path=a/x").status_code == 405

    composed = envd.request("POST", "/files/compose", json={"source_paths": ["a/x", "a/y"], "destination": "xy"})
    assert composed.json() == {"path": "/home/user/xy", "name": "xy", "type": "file"}
    assert envd.request("GET", "/files?path=xy").content == b"12"
    assert envd.request("GET", "/files?path=a/x").status_code == 404


def test_what_envd_tells_of_itself(envd: Envd) -> None:
    envd.request("GET", "/metrics")
    envd.stream("process.Process/Start", shell("timeout 0.3 sh -c 'while :; do :; done'"))
    metrics = envd.request("GET", "/metrics").json()
    assert metrics["cpu_used_pct"] > 1
    assert 0 < metrics["mem_used"] < metrics["mem_total"]
    assert metrics["disk_total"] > 1 << 20
    assert envd.request("GET", "/envs").json()["E2B_SANDBOX"] == "true"


def test_a_watch_breaks_off_with_its_sandbox(another: Envd) -> None:
    body = envelope({"path": "/tmp"})
    with another._http.stream(
        "POST", "/filesystem.Filesystem/WatchDir", headers=another.headers, content=body
    ) as answer:
        pieces = answer.iter_raw()
        assert messages(next(pieces)) == [(0, {"start": {}})]
        another.kill()
        with pytest.raises(httpx2.RemoteProtocolError):
            list(pieces)


def test_an_upload_in_several_members_of_gzip_is_whole(envd: Envd) -> None:
    kind = {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"}
    large = b"x" * (5 << 20)
    cases = {
        b"one": gzip.compress(b"one"),
        b"onetwo": gzip.compress(b"one") + gzip.compress(b"two"),
        b"one" + large + b"two": gzip.compress(b"one")
        + gzip.compress(large)
        + gzip.compress(b"")
        + gzip.compress(b"two"),
        b"": gzip.compress(b""),
    }
    for contents, packed in cases.items():
        for step in (len(packed), 7 if len(packed) < 1000 else 1000, 1 if len(packed) < 1000 else 4096):
            pieces = [packed[start : start + step] for start in range(0, len(packed), step)]
            answer = envd.request("POST", "/files?path=/tmp/unzipped", kind, content=iter(pieces))
            assert answer.status_code == 200, answer.text
            assert envd.request("GET", "/files?path=/tmp/unzipped").content == contents
    for wrong in (b"", b"x", packed[:-1], gzip.compress(b"a") + b"x", gzip.compress(b"a") + gzip.compress(b"b")[:-1]):
        answer = envd.request("POST", "/files?path=/tmp/wrong", kind, content=wrong)
        assert (answer.status_code, answer.json()["code"]) == (400, 400), wrong


def test_a_command_that_is_too_long_is_told_what_to_do(envd: Envd) -> None:
    process = {"cmd": "/bin/bash", "args": ["-l", "-c", "true " + "x" * 200_000]}
    ((flags, told),) = envd.stream("process.Process/Start", {"process": process})

    assert (flags, told["error"]["code"]) == (2, "invalid_argument")
    assert told["error"]["message"].endswith("are too long. Pass large data as stdin or as files.")


def field(disposition: str, contents: str) -> str:
    """One part of a form."""
    return f"--b\r\nContent-Disposition: form-data; {disposition}\r\n\r\n{contents}\r\n"


def test_a_form_may_hold_a_file_without_a_name(envd: Envd) -> None:
    kind = {"Content-Type": "multipart/form-data; boundary=b"}

    def send(path: str, *fields: str) -> httpx2.Response:
        return envd.request("POST", f"/files{path}", kind, content="".join((*fields, "--b--\r\n")).encode())

    sent = send("?path=/tmp/nameless", field('name="note"', "no file"), field('name="file"', "text"))
    assert (sent.status_code, [one["path"] for one in sent.json()]) == (200, ["/tmp/nameless"]), sent.text
    assert envd.request("GET", "/files?path=/tmp/nameless").text == "text"
    assert send("?path=/tmp/none", field('name="note"', "no file")).json() == []
    assert envd.request("GET", "/files?path=/tmp/none").status_code == 404
    for wrong in (
        send("", field('name="file"', "where to?")),
        send("", field('name="file"; filename=""', "where to?")),
        send("?path=/tmp/twice", field('name="file"', "1"), field('name="file"', "2")),
    ):
        assert (wrong.status_code, wrong.json()["code"]) == (400, 400), wrong.text


def test_a_file_that_may_not_be_used_is_no_reason_to_ask_again(envd: Envd) -> None:
    kind = {"Content-Type": "application/octet-stream"}
    assert envd.request("POST", "/files?path=/tmp/closed", kind, content=b"x").status_code == 200
    assert envd.stream(
        "process.Process/Start", {"process": {"cmd": "/bin/chmod", "args": ["0", "/tmp/closed"]}, "stdin": False}
    )

    for answer in (
        envd.request("GET", "/files?path=/tmp/closed"),
        envd.request("POST", "/files?path=/tmp/closed", kind, content=b"y"),
        envd.request("POST", "/files?path=/usr/new", kind, content=b"y"),
    ):
        assert answer.status_code == 400, answer.text


def test_what_an_upload_unpacks_to_is_bounded(serve: Callable[..., Any]) -> None:
    with serve("--max-upload", "4M").client() as http:
        made = http.post("/sandboxes", json={"templateID": "base"}).json()
        envd = {"E2b-Sandbox-Id": made["sandboxID"], "E2b-Sandbox-Port": "49983"}
        envd |= {"X-Access-Token": made["envdAccessToken"], "Content-Encoding": "gzip"}
        part = b'--b\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n'
        kinds = {"application/octet-stream": (b"", b""), "multipart/form-data; boundary=b": (part, b"\r\n--b--\r\n")}
        for kind, (start, end) in kinds.items():
            for size, status in ((3 << 20, 200), (8 << 20, 413)):
                packed = gzip.compress(start) + gzip.compress(b"x" * size) + gzip.compress(end)
                for body in (packed, gzip.compress(b"") * 3 + packed):
                    answer = http.post("/files?path=/tmp/f", content=body, headers={**envd, "Content-Type": kind})
                    assert answer.status_code == status, (kind, size, answer.text)


def test_an_upload_of_a_member_for_each_byte(envd: Envd) -> None:
    kind = {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"}
    members = (gzip.compress(b"") * 3 + gzip.compress(b"x")) * 3000
    assert envd.request("POST", "/files?path=/tmp/members", kind, content=members).status_code == 200
    assert envd.request("GET", "/files?path=/tmp/members").content == b"x" * 3000
    twice = [*envd.headers.items(), *kind.items(), ("Content-Encoding", "gzip")]
    answer = envd._http.post("/files?path=/tmp/twice", headers=twice, content=gzip.compress(gzip.compress(b"x")))
    assert answer.status_code == 415
