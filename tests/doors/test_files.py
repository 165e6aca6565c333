"""Files over HTTP: ranges and tags, uploads that are all or nothing, many at once, archives, odd names, watching."""

from __future__ import annotations

import hashlib
import io
import json
import os
import socket
import stat
import tarfile
import threading
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from urllib.parse import quote, quote_from_bytes

import httpx2
import pytest
from tests.doors.sse import Event, events

BINARY = {"Content-Type": "application/octet-stream"}


def put(http: httpx2.Client, sandbox: str, path: str, data: bytes, **query: Any) -> httpx2.Response:
    """Write a file."""
    return http.put(f"{sandbox}/files/{quote(path, safe='/')}", content=data, params=query)


def inside(http: httpx2.Client, sandbox: str, command: str) -> str:
    """What a shell inside says."""
    told = http.post(f"{sandbox}/commands", json={"command": command, "wait": True}).json()
    assert told["exit_code"] == 0, told
    return str(told["stdout"])


# --- one file


def test_a_file_is_written_and_read(http: httpx2.Client, shared: str) -> None:
    data = os.urandom(300_000)
    entry = put(http, shared, "deep/down/data.bin", data, mode="640").json()
    assert set(entry) == {"path", "kind", "size", "mode", "modified", "target"}
    assert (entry["path"], entry["kind"], entry["size"]) == ("/sandbox/deep/down/data.bin", "file", len(data))
    assert stat.S_IMODE(entry["mode"]) == 0o640
    answer = http.get(f"{shared}/files/deep/down/data.bin")
    assert answer.content == data
    assert answer.headers["content-length"] == str(len(data))
    assert put(http, shared, "deep/down/data.bin", b"more", append="true").json()["size"] == len(data) + 4
    assert http.get(f"{shared}/stat", params={"path": "deep/down/data.bin"}).json()["size"] == len(data) + 4
    assert http.delete(f"{shared}/files/deep").status_code == 204
    missing = http.get(f"{shared}/files/deep/down/data.bin")
    assert (missing.status_code, missing.json()["error"]["kind"]) == (404, "missing")
    assert http.delete(f"{shared}/files/deep").status_code == 404


def test_a_file_is_written_only_if_it_is_as_expected(http: httpx2.Client, shared: str) -> None:
    def digest(data: bytes) -> str:
        return hashlib.sha256(data).hexdigest()

    assert put(http, shared, "agreed.txt", b"one", expected="").status_code == 200
    taken = put(http, shared, "agreed.txt", b"other", expected="")
    assert (taken.status_code, taken.json()["error"]["kind"]) == (412, "file")
    assert put(http, shared, "agreed.txt", b"two", expected=digest(b"one")).status_code == 200
    assert put(http, shared, "agreed.txt", b"late", expected=digest(b"one")).status_code == 412
    assert put(http, shared, "agreed.txt", b"three", expected="two").status_code == 422
    inside(http, shared, "ln agreed.txt second-name.txt")  # a file with two names is written in place
    assert put(http, shared, "agreed.txt", b"late", expected=digest(b"one")).status_code == 412
    assert http.get(f"{shared}/files/agreed.txt").content == b"two"
    assert put(http, shared, "agreed.txt", b"four", expected=digest(b"two")).status_code == 200
    assert http.get(f"{shared}/files/second-name.txt").content == b"four"
    assert put(http, shared, "gone/away.txt", b"x", expected=digest(b"x")).status_code == 412
    assert inside(http, shared, "ls").count("gone") == 0  # no folder was made for it


def test_of_many_who_expect_the_same_file_one_writes_it(http: httpx2.Client, shared: str) -> None:
    put(http, shared, "raced.txt", b"begin")
    known = hashlib.sha256(b"begin").hexdigest()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: put(http, shared, "raced.txt", b"%d" % n * 5000, expected=known), range(24)))
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * 23
    [won] = [n for n, answer in enumerate(answers) if answer.status_code == 200]
    assert http.get(f"{shared}/files/raced.txt").content == b"%d" % won * 5000


def test_an_absolute_path_is_percent_encoded(http: httpx2.Client, shared: str) -> None:
    assert http.put(f"{shared}/files/%2Ftmp%2Fabsolute.txt", content=b"x").json()["path"] == "/tmp/absolute.txt"
    assert inside(http, shared, "cat /tmp/absolute.txt") == "x"
    assert http.get(f"{shared}/files/%2Ftmp%2Fabsolute.txt").content == b"x"


def test_a_file_is_renamed(http: httpx2.Client, shared: str) -> None:
    put(http, shared, "old name.txt", b"x")
    entry = http.patch(f"{shared}/files/old%20name.txt", json={"new_path": "new/näme.txt"}).json()
    assert entry["path"] == "/sandbox/new/näme.txt"
    assert http.get(f"{shared}/files/old%20name.txt").status_code == 404
    assert http.get(f"{shared}/files/new/n%C3%A4me.txt").content == b"x"


@pytest.mark.parametrize(
    ("wanted", "status", "part", "told"),
    [
        ("bytes=0-3", 206, b"0123", "bytes 0-3/10"),
        ("bytes=4-", 206, b"456789", "bytes 4-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=-30", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=8-100", 206, b"89", "bytes 8-9/10"),
        ("bytes=0-0", 206, b"0", "bytes 0-0/10"),
        ("bytes=10-", 416, None, "bytes */10"),
        ("bytes=-0", 416, None, "bytes */10"),
        ("bytes=999999999999999999-", 416, None, "bytes */10"),
        ("bytes=9999999999999999999999-", 200, b"0123456789", None),
        ("bytes=0-1,3-4", 200, b"0123456789", None),
        ("bytes=-", 200, b"0123456789", None),
        ("lines=1-2", 200, b"0123456789", None),
        ("bytes", 200, b"0123456789", None),
        ("", 200, b"0123456789", None),
    ],
)
def test_ranges(
    http: httpx2.Client, shared: str, wanted: str, status: int, part: bytes | None, told: str | None
) -> None:
    put(http, shared, "range.txt", b"0123456789")
    answer = http.get(f"{shared}/files/range.txt", headers={"Range": wanted})
    assert answer.status_code == status
    assert answer.headers.get("content-range") == told
    assert answer.headers["x-content-type-options"] == "nosniff"
    if part is None:
        assert answer.json()["error"]["kind"] == "invalid"
    else:
        assert answer.content == part
    head = http.head(f"{shared}/files/range.txt", headers={"Range": wanted})
    assert head.status_code == status
    assert head.content == b""
    assert head.headers.get("content-range") == told


def test_tags(http: httpx2.Client, shared: str) -> None:
    put(http, shared, "tag.txt", b"one")
    first = http.get(f"{shared}/files/tag.txt")
    tag = first.headers["etag"]
    assert http.head(f"{shared}/files/tag.txt").headers["etag"] == tag
    assert http.head(f"{shared}/files/tag.txt").headers["content-length"] == "3"
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        answer = http.get(f"{shared}/files/tag.txt", headers={"If-None-Match": known})
        assert (answer.status_code, answer.content) == (304, b""), known
    for unknown in ('"other"', "", tag[:-2] + '"'):
        assert http.get(f"{shared}/files/tag.txt", headers={"If-None-Match": unknown}).content == b"one", unknown
    put(http, shared, "tag.txt", b"two")  # as long as before
    changed = http.get(f"{shared}/files/tag.txt", headers={"If-None-Match": tag})
    assert changed.content == b"two"
    part = {"Range": "bytes=0-0", "If-Range": tag}
    assert http.get(f"{shared}/files/tag.txt", headers=part).content == b"two"  # the rest would not fit
    part["If-Range"] = changed.headers["etag"]
    assert http.get(f"{shared}/files/tag.txt", headers=part).content == b"t"


def test_a_link_is_read_but_has_no_tag_that_could_lie(http: httpx2.Client, shared: str) -> None:
    put(http, shared, "target.txt", b"one")
    inside(http, shared, "ln -sf target.txt link; ln -sf nowhere dangling; ln -sf loop loop")
    answer = http.get(f"{shared}/files/link")
    assert answer.content == b"one"
    assert "etag" not in answer.headers
    assert http.get(f"{shared}/files/link", headers={"Range": "bytes=1-"}).content == b"ne"
    assert http.get(f"{shared}/files/dangling").status_code == 404
    assert http.get(f"{shared}/files/loop").status_code == 409
    assert http.get(f"{shared}/stat", params={"path": "link"}).json()["target"] == "target.txt"


def test_what_is_no_file_is_not_read(http: httpx2.Client, shared: str) -> None:
    inside(http, shared, "mkdir -p folder; mkfifo -m 600 pipe 2>/dev/null || true")
    for path in ("folder", "pipe", "%2Fdev%2Fzero"):
        answer = http.get(f"{shared}/files/{path}")
        assert answer.status_code in (400, 409), path
        assert answer.json()["error"]["kind"] in ("invalid", "file")


def test_an_empty_file(http: httpx2.Client, shared: str) -> None:
    assert put(http, shared, "empty", b"").json()["size"] == 0
    assert http.get(f"{shared}/files/empty").content == b""
    assert http.get(f"{shared}/files/empty", headers={"Range": "bytes=0-"}).status_code == 416


@pytest.mark.parametrize(
    "path",
    [
        "../../etc/shadow",
        "..%2F..%2Fetc%2Fshadow",
        "%2e%2e/%2e%2e/etc/shadow",
        "%2Fetc%2Fshadow",
        "x/../../../etc/shadow",
        "%2Fproc%2F1%2Froot%2Fetc%2Fshadow",
        "nul%00byte",
        "a" * 5000,
        "a/" * 3000 + "x",
        "%E2%80%AE%EF%BC%8E%EF%BC%8E%EF%BC%8Fetc",
    ],
)
def test_path_tricks_stay_inside(server: Any, http: httpx2.Client, shared: str, path: str) -> None:
    """Sent as they are: an HTTP library would tidy them up."""
    with open("/etc/passwd", "rb") as host:
        ours = host.read()
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        body = b'{"new_path": "y"}' if method == "PATCH" else b"mine"
        kind = "Content-Type: application/json\r\n" if method == "PATCH" else ""
        head = f"{method} {shared}/files/{path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n"
        head += f"{kind}X-API-Key: {server.key}\r\nContent-Length: {len(body)}\r\n\r\n"
        got = raw(server, head.encode() + body)
        status = int(got.split()[1])
        assert status < 500, got
        assert ours not in got
        if method != "PUT":
            assert status in (204, 400, 404, 409), got
    assert http.get("/v1/health").status_code == 200
    with open("/etc/passwd", "rb") as host:
        assert host.read() == ours


def raw(server: Any, request: bytes) -> bytes:
    """What comes back for these very bytes."""
    with socket.create_connection(("127.0.0.1", server.port), 10) as stream:
        stream.sendall(request)
        got = b""
        while part := stream.recv(1 << 16):
            got += part
        return got


def test_names_that_are_not_utf8(http: httpx2.Client, sandbox: str) -> None:
    name = quote_from_bytes(b"odd\xff\xfe name")
    entry = json.loads(http.put(f"{sandbox}/files/{name}", content=b"x").content)
    assert entry["path"] == "/sandbox/odd\udcff\udcfe name"
    assert http.get(f"{sandbox}/files/{name}").content == b"x"
    assert json.loads(http.get(f"{sandbox}/stat?path={name}").content)["path"] == entry["path"]
    listed = json.loads(http.get(f"{sandbox}/files").content)["items"]
    assert entry["path"] in [one["path"] for one in listed]
    missing = http.get(f"{sandbox}/files/{quote_from_bytes(bytes([0xFF]))}")
    assert (missing.status_code, missing.json()["error"]["kind"]) == (404, "missing")
    body = b'{"new_path": "again\\udcff"}'
    renamed = http.patch(f"{sandbox}/files/{name}", content=body, headers={"Content-Type": "application/json"})
    assert json.loads(renamed.content)["path"] == "/sandbox/again\udcff"


# --- folders


def test_folders_are_made_and_listed(http: httpx2.Client, sandbox: str) -> None:
    assert http.post(f"{sandbox}/folders", json={"path": "a/b"}).json() == {"created": True}
    assert http.post(f"{sandbox}/folders", json={"path": "a/b"}).json() == {"created": False}
    put(http, sandbox, "a/b/c.txt", b"x")
    shallow = http.get(f"{sandbox}/files", params={"path": "a"}).json()
    assert [one["path"] for one in shallow["items"]] == ["/sandbox/a/b"]
    assert (shallow["next"], shallow["truncated"]) == (None, False)
    deep = http.get(f"{sandbox}/files", params={"path": "a", "depth": 9}).json()["items"]
    assert [(one["path"], one["kind"]) for one in deep] == [
        ("/sandbox/a/b", "directory"),
        ("/sandbox/a/b/c.txt", "file"),
    ]
    assert http.get(f"{sandbox}/files", params={"path": "nowhere"}).status_code == 404
    assert http.get(f"{sandbox}/files", params={"path": "a/b/c.txt"}).status_code == 409
    assert http.get(f"{sandbox}/files", params={"depth": 0}).status_code == 422


def test_a_long_list_comes_page_by_page(http: httpx2.Client, sandbox: str) -> None:
    inside(http, sandbox, "mkdir many; cd many; touch $(seq 25)")
    found: list[str] = []
    query: dict[str, Any] = {"path": "many", "limit": 10}
    while True:
        page = http.get(f"{sandbox}/files", params=query).json()
        found += [one["path"] for one in page["items"]]
        if page["next"] is None:
            break
        query["after"] = page["next"]
    assert len(found) == len(set(found)) == 25
    assert http.get(f"{sandbox}/files", params={"after": "garbage"}).status_code in (200, 422)


def test_the_disk_is_told_and_its_limit_kept(http: httpx2.Client, new_sandbox: Callable[..., str]) -> None:
    small = new_sandbox(disk="2M")
    disk = http.get(f"{small}/disk").json()
    assert set(disk) == {"total", "free", "inodes", "inodes_free"}
    assert 0 < disk["free"] <= disk["total"] <= 3 << 20
    answer = put(http, small, "big", bytes(8 << 20))
    assert answer.status_code == 507, answer.text
    assert answer.json()["error"]["kind"] == "file"
    assert answer.json()["error"]["details"]["errno"] == 28
    assert http.get(f"{small}/files/big").status_code == 404
    assert put(http, small, "small", b"fits").status_code == 200


# --- uploads that break off


def upload(server: Any, sandbox: str, name: str, headers: str, body: bytes) -> bytes:
    """Send an upload as it is and, unless an answer is waited for, hang up; whatever came back."""
    head = f"PUT {sandbox}/files/{name} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
    head += f"X-API-Key: {server.key}\r\n{headers}\r\n"
    with socket.create_connection(("127.0.0.1", server.port), 10) as stream:
        stream.sendall(head.encode() + body)
        got = b""
        if "Connection: close" not in headers:
            with suppress(OSError):  # it may have been closed already
                stream.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            while part := stream.recv(1 << 16):
                got += part
        return got


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ("Content-Length: 1000\r\n", b"x" * 999),
        ("Content-Length: 1000000\r\n", b"x" * 500_000),
        ("Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n"),
        ("Transfer-Encoding: chunked\r\n", b"5\r\nhel"),
        ("Transfer-Encoding: chunked\r\n", b"5\r\nhelloXX\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", b"zz\r\n"),
        ("Transfer-Encoding: chunked\r\n", b"ffffffffffffffffff\r\nx"),
    ],
)
def test_an_upload_that_breaks_off_leaves_what_was_there(
    server: Any, http: httpx2.Client, shared: str, headers: str, body: bytes
) -> None:
    put(http, shared, "kept.txt", b"before")
    upload(server, shared, "kept.txt", headers, body)
    upload(server, shared, "never.txt", headers, body)
    assert http.get(f"{shared}/files/kept.txt").content == b"before"
    assert http.get(f"{shared}/files/never.txt").status_code == 404
    assert "tmp" not in inside(http, shared, "ls -A | grep -v kept || true").lower()
    assert "Traceback" not in server.log.read_text()


def test_an_upload_in_chunks_is_taken(server: Any, http: httpx2.Client, shared: str) -> None:
    """The counterpart: the same request, complete, does write the file."""
    body = b"5\r\nhello\r\n6;ext=1\r\n world\r\n0\r\n\r\n"
    assert b" 200 " in upload(
        server, shared, "chunked.txt", "Transfer-Encoding: chunked\r\nConnection: close\r\n", body
    )
    assert http.get(f"{shared}/files/chunked.txt").content == b"hello world"


def test_what_comes_after_the_promised_length_is_not_the_files(server: Any, http: httpx2.Client, shared: str) -> None:
    got = upload(server, shared, "short.txt", "Content-Length: 5\r\nConnection: close\r\n", b"hello and more")
    assert got.startswith((b"HTTP/1.1 200", b"HTTP/1.1 400"))  # what follows is no request
    assert http.get(f"{shared}/files/short.txt").content == b"hello"


def test_an_upload_that_is_too_large_is_refused(serve: Callable[..., Any]) -> None:
    server = serve("--max-upload", "1M")
    with server.client() as http:
        sandbox = f"/v1/sandboxes/{http.post('/v1/sandboxes', json={}).json()['id']}"
        assert put(http, sandbox, "fits", bytes(1 << 20)).status_code == 200
        told = upload(server, sandbox, "big", "Content-Length: 10000000000\r\nConnection: close\r\n", b"")
        assert told.startswith(b"HTTP/1.1 413")
        chunks = b"80000\r\n" + bytes(0x80000) + b"\r\n"
        told = upload(
            server, sandbox, "big", "Transfer-Encoding: chunked\r\nConnection: close\r\n", chunks * 3 + b"0\r\n\r\n"
        )
        assert told.startswith(b"HTTP/1.1 413")
        assert http.get(f"{sandbox}/files/big").status_code == 404
        files = {"a": ("a.txt", b"x" * 10), "b": ("b.txt", bytes(2 << 20))}
        assert http.post(f"{sandbox}/files", files=files).status_code == 413
        assert http.get(f"{sandbox}/files/b.txt").status_code == 404


def test_large_files_pass_without_filling_memory(server: Any, http: httpx2.Client, sandbox: str) -> None:
    size, piece = 96 << 20, bytes(1 << 20)

    def memory() -> int:
        with open(f"/proc/{server.process.pid}/status") as told:
            return next(int(line.split()[1]) << 10 for line in told if line.startswith("VmRSS"))

    before = memory()
    http.put(f"{sandbox}/files/large", content=(piece for _ in range(96))).raise_for_status()
    after_upload = memory()
    taken = 0
    with http.stream("GET", f"{sandbox}/files/large") as answer:
        for part in answer.iter_bytes():
            taken += len(part)
    assert taken == size
    assert max(after_upload, memory()) - before < 40 << 20


# --- many at once


def test_many_files_in_one_upload(http: httpx2.Client, sandbox: str) -> None:
    files = [("f", ("a.txt", b"A")), ("f", ("deep/b.bin", bytes(200_000))), ("f", ("ünï.txt", b"U")), ("f", ("e", b""))]
    answer = http.post(f"{sandbox}/files", params={"path": "in"}, files=files)
    assert answer.status_code == 200
    entries = {one["path"]: one["size"] for one in answer.json()["items"]}
    assert entries == {
        "/sandbox/in/a.txt": 1,
        "/sandbox/in/deep/b.bin": 200_000,
        "/sandbox/in/ünï.txt": 1,
        "/sandbox/in/e": 0,
    }
    assert http.get(f"{sandbox}/files/in/a.txt").content == b"A"
    assert http.get(f"{sandbox}/files/in/deep/b.bin").content == bytes(200_000)


def part(name: str, data: bytes = b"x", extra: str = "") -> bytes:
    """One part of a multipart body."""
    return (
        f'--B\r\nContent-Disposition: form-data; name="f"; filename="{name}"\r\n{extra}\r\n'.encode() + data + b"\r\n"
    )


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "multipart/form-data; boundary=B"),
        (b"--B--\r\n", "multipart/form-data; boundary=B"),
        (b"garbage", "multipart/form-data; boundary=B"),
        (part("a") + b"--B--\r\n", "multipart/form-data"),
        (part("a") + b"--B--\r\n", "multipart/form-data; boundary="),
        (part("a") + b"--B--\r\n", "multipart/form-data; boundary=" + "x" * 5000),
        (part("a") + b"--B--\r\n", "application/json"),
        (part("a") + b"--B--\r\n", ""),
        (part("half")[:-6], "multipart/form-data; boundary=B"),
        (b"--B\r\nContent-Dispo", "multipart/form-data; boundary=B"),
        (b"--B\r\nno colon\r\n\r\nx\r\n--B--\r\n", "multipart/form-data; boundary=B"),
        (part("a", extra="X: " + "y" * 100_000 + "\r\n") + b"--B--\r\n", "multipart/form-data; boundary=B"),
        (b'--B\r\nContent-Disposition: form-data; name="f"\r\n\r\nx\r\n--B--\r\n', "multipart/form-data; boundary=B"),
        (b"--B\r\n\r\nx\r\n--B--\r\n", "multipart/form-data; boundary=B"),
        (part("") + b"--B--\r\n", "multipart/form-data; boundary=B"),
        (part("a\0b") + b"--B--\r\n", "multipart/form-data; boundary=B"),
        (b"--B\n" + part("a") + b"--B--\r\n", "multipart/form-data; boundary=B"),
    ],
)
def test_malformed_uploads_are_told_clearly(http: httpx2.Client, shared: str, body: bytes, kind: str) -> None:
    answer = http.post(f"{shared}/files", content=body, headers={"Content-Type": kind})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["kind"] == "invalid"
    assert http.get(f"{shared}/files/half").status_code == 404


def test_an_upload_of_too_many_files_is_refused(http: httpx2.Client, sandbox: str) -> None:
    body = b"".join(part(f"f{number}") for number in range(1001)) + b"--B--\r\n"
    answer = http.post(f"{sandbox}/files", content=body, headers={"Content-Type": "multipart/form-data; boundary=B"})
    assert answer.status_code == 400
    assert "1000" in answer.json()["error"]["message"]


def test_names_in_an_upload_stay_inside(http: httpx2.Client, sandbox: str) -> None:
    body = part("../../../../tmp/up.txt") + part("/absolute.txt") + b"--B--\r\n"
    answer = http.post(
        f"{sandbox}/files",
        params={"path": "in"},
        content=body,
        headers={"Content-Type": "multipart/form-data; boundary=B"},
    )
    assert answer.status_code == 200, answer.text
    assert [one["path"] for one in answer.json()["items"]] == ["/tmp/up.txt", "/sandbox/in/absolute.txt"]
    assert not os.path.exists("/tmp/up.txt")  # that was the sandbox's own /tmp


# --- archives


@pytest.fixture
def tree(http: httpx2.Client, new_sandbox: Callable[..., str]) -> str:
    """A sandbox with a folder of all kinds of things."""
    sandbox = new_sandbox()
    put(http, sandbox, "tree/a.txt", b"alpha", mode="755")
    put(http, sandbox, "tree/deep/b.bin", os.urandom(300_000))
    put(http, sandbox, "tree/empty", b"")
    http.put(f"{sandbox}/files/tree/{quote_from_bytes(bytes([0xFF]))}odd", content=b"odd").raise_for_status()
    http.put(f"{sandbox}/files/tree/line%0Abreak", content=b"line").raise_for_status()
    inside(http, sandbox, "cd tree; ln -s a.txt link; ln -s /etc/passwd out; mkdir -p none; touch -- '..x' 'a\\b'")
    return sandbox


def test_a_zip_has_the_files_and_no_links(http: httpx2.Client, tree: str) -> None:
    answer = http.get(f"{tree}/archive", params={"path": "tree"})
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"] == 'attachment; filename="tree.zip"'
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        names = set(archive.namelist())
        assert names == {"a.txt", "deep/", "deep/b.bin", "empty", "\ufffdodd", "line_break", "none/", "..x", "a\\b"}
        assert archive.read("a.txt") == b"alpha"
        assert archive.read("deep/b.bin") == http.get(f"{tree}/files/tree/deep/b.bin").content
        assert archive.getinfo("a.txt").external_attr >> 16 & 0o777 == 0o755


@pytest.mark.parametrize("form", ["tar", "tar.gz"])
def test_a_tar_has_the_links_too(http: httpx2.Client, tree: str, form: str) -> None:
    answer = http.get(f"{tree}/archive", params={"path": "tree", "format": form})
    with tarfile.open(fileobj=io.BytesIO(answer.content), mode="r:gz" if form == "tar.gz" else "r:") as archive:
        members = {member.name: member for member in archive.getmembers()}
        assert set(members) == {
            *("a.txt", "deep", "deep/b.bin", "empty", "\ufffdodd", "line_break", "none", "..x", "a\\b", "link", "out")
        }
        assert (members["link"].issym(), members["link"].linkname) == (True, "a.txt")
        assert (members["out"].issym(), members["out"].linkname) == (
            True,
            "/etc/passwd",
        )  # a link, not what it points to
        assert archive.extractfile("deep/b.bin").read() == http.get(f"{tree}/files/tree/deep/b.bin").content
        assert members["a.txt"].mode == 0o755
    for name in members:
        assert not name.startswith("/")
        assert ".." not in name.split("/")


def test_an_archive_of_nothing_and_of_everything(http: httpx2.Client, tree: str) -> None:
    empty = http.get(f"{tree}/archive", params={"path": "tree/none"}).content
    with zipfile.ZipFile(io.BytesIO(empty)) as archive:
        assert archive.namelist() == []
    whole = http.get(f"{tree}/archive").content
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        assert "tree/a.txt" in archive.namelist()
    assert http.get(f"{tree}/archive", params={"path": "nowhere"}).status_code == 404
    assert http.get(f"{tree}/archive", params={"path": "tree/a.txt"}).status_code == 409
    assert http.get(f"{tree}/archive", params={"format": "rar"}).status_code == 422


def test_who_leaves_an_archive_leaves_nothing_behind(server: Any, http: httpx2.Client, sandbox: str) -> None:
    inside(http, sandbox, "head -c 50000000 /dev/urandom > big")
    for form in ("zip", "tar"):
        with http.stream("GET", f"{sandbox}/archive", params={"format": form}) as answer:
            next(answer.iter_bytes())
    assert inside(http, sandbox, "echo on") == "on\n"
    assert "Traceback" not in server.log.read_text()


# --- watching


def test_changes_are_told_as_they_happen(http: httpx2.Client, server: Any, sandbox: str) -> None:
    with server.client() as other, other.stream("GET", f"{sandbox}/watch", params={"recursive": "true"}) as answer:
        coming = events(answer)
        assert next(coming)[1:] == ("ready", {})
        put(http, sandbox, "new.txt", b"x")
        found: list[Event] = []
        while not found or found[-1].data["path"] != "/sandbox/new.txt":
            found.append(next(coming))
        assert {one.kind for one in found} == {"change"}
        assert found[-1].number == len(found) + 1
        http.delete(f"{sandbox}/files/new.txt")
        while found[-1].data != {"kind": "remove", "path": "/sandbox/new.txt"}:
            found.append(next(coming))


def test_watching_ends_with_the_sandbox(http: httpx2.Client, server: Any, sandbox: str) -> None:
    begun = threading.Event()
    ended: list[Event] = []

    def watch() -> None:
        with server.client() as other, other.stream("GET", f"{sandbox}/watch") as answer:
            coming = events(answer)
            ended.append(next(coming))
            begun.set()
            ended.extend(coming)

    watching = threading.Thread(target=watch)
    watching.start()
    assert begun.wait(10)
    http.delete(sandbox)
    watching.join(10)
    assert not watching.is_alive()
    assert http.get(f"{sandbox}/watch").status_code == 410


def test_a_folder_that_is_not_there_cannot_be_watched(http: httpx2.Client, shared: str) -> None:
    assert http.get(f"{shared}/watch", params={"path": "nowhere"}).status_code == 404


@pytest.mark.parametrize("unseen", [*"\u202e\u2066\u200b\u200f\ufeff\u2028\x1b\x7f\xad\n", "\U000e0041", "\udcff"])
def test_a_name_that_disguises_a_file(http: httpx2.Client, shared: str, unseen: str) -> None:
    name = f"photo{unseen}gpj.exe"
    address = f"{shared}/files/odd/{quote(name.encode('utf-8', 'surrogateescape'))}"
    assert http.put(address, content=b"MZ").status_code == 200

    read = http.get(address)
    assert (read.status_code, read.content) == (200, b"MZ")
    assert read.headers["content-disposition"] == "attachment; filename*=UTF-8''photo_gpj.exe"
    listed = http.get(f"{shared}/files", params={"path": "odd"})
    assert [one["path"] for one in listed.json()["items"]] == [f"/sandbox/odd/{name}"]
    assert listed.content.isascii()
    assert http.delete(address).status_code == 204
