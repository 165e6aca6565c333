"""Long answers whose source breaks while they are sent: they end, cost little memory, and leave nothing in the log."""

from __future__ import annotations

import asyncio
import io
import tarfile
import zipfile
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import httpx2
import pytest
from tests.doors.test_files import inside
from tests.doors.test_readers import Scene, get, opened, websocket

from cloche.doors.http.archive import Contents, tar, zip_archive
from cloche.doors.http.streams import EventStream, LongAnswer
from cloche.model.files import Entry

PIECE = 256 << 10  # bytes of an archive that may exist at a time


async def test_a_tar_of_a_file_that_shrank_is_made_in_pieces() -> None:
    async def nothing(_: Entry) -> AsyncIterator[bytes]:
        async def pieces() -> AsyncIterator[bytes]:
            for _ in ():
                yield b""

        return pieces()

    size = 20 << 20
    entry = Entry("/sandbox/sparse", "file", size, 0o644, 0.0)
    made = [piece async for piece in tar("/sandbox", [entry], nothing, compressed=False)]
    assert max(map(len, made)) <= PIECE
    with tarfile.open(fileobj=io.BytesIO(b"".join(made))) as archive:
        assert [(member.name, member.size) for member in archive.getmembers()] == [("sparse", size)]


@pytest.mark.parametrize(
    "archive",
    [zip_archive, partial(tar, compressed=False), partial(tar, compressed=True)],
    ids=["zip", "tar", "tar.gz"],
)
async def test_an_archive_of_many_folders_lets_others_have_their_turn(archive: Callable[..., Any]) -> None:
    """Such an archive reads no file, and waits for nothing."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def nothing(_: Entry) -> None:
        raise AssertionError("there is no file")

    contents: Contents = nothing
    entries = [Entry(f"/sandbox/{number}", "directory", 0, 0o755, 0.0) for number in range(5000)]
    task = asyncio.create_task(others())
    made = 0
    before_the_end = []
    async for piece in archive("/sandbox", entries, contents):
        made += len(piece)
        before_the_end.append(turns)
    task.cancel()
    assert made
    assert before_the_end[-2] >= len(entries) // 200


@pytest.mark.parametrize("answer", [LongAnswer, EventStream])
async def test_the_source_of_an_answer_is_closed_when_its_client_leaves(answer: type[LongAnswer]) -> None:
    """The garbage collector would close it in any order: an archive after the buffer to which it writes."""
    closed, sent = False, asyncio.Event()

    async def source() -> AsyncIterator[bytes]:
        nonlocal closed
        try:
            while True:
                yield b"piece"
        finally:
            closed = True

    async def leave() -> dict[str, str]:
        await sent.wait()
        return {"type": "http.disconnect"}

    async def take(message: Any) -> None:
        if message.get("body"):
            sent.set()
        await asyncio.sleep(0)

    pieces = source()
    scope = {"type": "http", "state": {"abort": lambda: None, "reader": None}}
    await answer(pieces)(scope, leave, take)
    assert closed


@pytest.mark.parametrize("form", ["zip", "tar", "tar.gz"])
def test_an_archive_leaves_out_a_file_that_cannot_be_read(http: httpx2.Client, sandbox: str, form: str) -> None:
    inside(http, sandbox, "mkdir in; cd in; echo yes > readable; truncate -s 100G sparse; chmod 000 sparse")
    answer = http.get(f"{sandbox}/archive", params={"path": "in", "format": form})
    if form == "zip":
        with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
            assert archive.namelist() == ["readable"]
    else:
        with tarfile.open(fileobj=io.BytesIO(answer.content)) as packed:
            assert packed.getnames() == ["readable"]


STREAMS = {
    "a file": get("{s.path}/files/big"),
    "a zip file": get("{s.path}/archive"),
    "a tar file": get("{s.path}/archive?format=tar"),
    "a packed tar file": get("{s.path}/archive?format=tar.gz"),
    "events": get("{s.path}/commands/{s.command}/events"),
    "a feed": get("{s.path}/events"),
    "a watched folder": get("{s.path}/watch"),
    "usage": get("{s.path}/usage"),
    "a terminal": websocket("{s.path}/terminal?id={s.command}"),
    "a live page": websocket("{s.path}/live"),
}


@pytest.mark.parametrize("ends", ["the sandbox", "the key"])
def test_streams_end_with_their_sandbox_and_their_key(
    server: Any, http: httpx2.Client, new_key: Callable[..., httpx2.Client], ends: str
) -> None:
    key = new_key("broken")
    path = f"/v1/sandboxes/{key.post('/v1/sandboxes', json={}).json()['id']}"
    inside(key, path, "head -c 20000000 /dev/urandom > big")
    prints = {"command": "head -c 3000000 /dev/urandom | base64; sleep 600", "pty": True}
    command = key.post(f"{path}/commands", json=prints).json()["id"]

    class ByKey:
        port, key = server.port, ""

    ByKey.key = key.headers["authorization"].removeprefix("Bearer ")
    by_key: Any = ByKey
    scene = Scene(by_key, key, path.rpartition("/")[2], command, "", "", "", {})
    with ExitStack() as stack:
        readers = {name: stack.enter_context(opened(scene, request)) for name, request in STREAMS.items()}
        for name, reader in readers.items():
            assert reader.beginning().startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 101 ")), (name, reader.beginning())
        if ends == "the sandbox":
            assert key.delete(path).status_code == 204
        else:
            assert http.delete(f"/v1/keys/{key.headers['x-test-key-id']}").status_code == 204
        for name, reader in readers.items():
            reader.socket.settimeout(10)
            try:
                found = b""
                while not found.endswith(b"0\r\n\r\n") and (piece := reader.socket.recv(1 << 20)):
                    found = (found + piece)[-1000:]
                    if name in ("a terminal", "a live page") and b"\x88" in found:
                        break
            except ConnectionError:
                pass
            except TimeoutError:
                pytest.fail(f"{name} goes on: {found[-200:]!r}")
    log = server.log.read_text()
    assert "Traceback" not in log
    assert "without completing" not in log
