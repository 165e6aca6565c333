"""Files: written, read, looked at, moved, removed; with metadata, compressed, by signed addresses."""

from __future__ import annotations

import io
import json
import urllib.error
import urllib.request

import pytest
from e2b.sandbox.filesystem.filesystem import WriteEntry
from e2b_code_interpreter import AsyncSandbox, Sandbox

from e2b import (
    AuthenticationException,
    FileNotFoundException,
    FileType,
    InvalidArgumentException,
    NotEnoughSpaceException,
    SandboxException,
)


def test_what_is_written_is_read(shared: Sandbox) -> None:
    info = shared.files.write("new/folder/a.txt", "Hällo")
    assert (info.path, info.name, info.type) == ("/home/user/new/folder/a.txt", "a.txt", FileType.FILE)
    assert shared.files.read("~/new/folder/a.txt") == "Hällo"
    shared.files.write("/home/user/new/folder/a.txt", b"\x00\xff")
    assert shared.files.read("new/../new/folder/a.txt", format="bytes") == b"\x00\xff"
    shared.files.write("stream", io.BytesIO(b"x" * 3_000_000))
    pieces = list(shared.files.read("stream", format="stream"))
    assert len(pieces) > 1
    assert b"".join(pieces) == b"x" * 3_000_000
    shared.commands.run("touch empty")
    assert shared.files.read("empty") == ""
    assert float(shared.files.read("/proc/uptime").split()[0]) > 0  # the kernel says that it is empty


def test_many_at_once_and_as_another_user(shared: Sandbox) -> None:
    assert shared.files.write_files([]) == []
    infos = shared.files.write_files([WriteEntry(path=f"many/{n}", data=f"{n}") for n in range(10)])
    assert [info.path for info in infos] == [f"/home/user/many/{n}" for n in range(10)]
    assert [shared.files.read(info.path) for info in infos] == [str(n) for n in range(10)]
    assert shared.files.write("mine", "r", user="root").path == "/root/mine"
    assert shared.files.read("/root/mine") == "r"
    with pytest.raises(AuthenticationException):
        shared.files.read("mine", user="somebody")


def test_compressed_or_as_it_is(shared: Sandbox) -> None:
    shared.files.write("packed", "p" * 100_000, gzip=True)
    assert shared.files.read("packed") == shared.files.read("packed", gzip=True) == "p" * 100_000
    shared.files.write("raw", b"octets", use_octet_stream=True)
    assert shared.files.read("raw") == "octets"


def test_what_cannot_be_read_or_written(shared: Sandbox) -> None:
    shared.files.make_dir("folder")
    shared.files.write("file", "")
    for problem, path in ((FileNotFoundException, "nowhere"), (InvalidArgumentException, "folder")):
        with pytest.raises(problem):
            shared.files.read(path)
    for path in ("folder", "file/below"):
        with pytest.raises(InvalidArgumentException):
            shared.files.write(path, "x")
    with pytest.raises(SandboxException, match="Read-only file system"):
        shared.files.write("/etc/new", "x")


def test_a_full_disk(sandbox: Sandbox) -> None:
    sandbox.commands.run("fallocate -l $(( $(stat -f -c '%a*%S' .) )) big")
    with pytest.raises(NotEnoughSpaceException):
        sandbox.files.write("more", b"x" * 1_000_000)


def test_what_an_entry_tells(shared: Sandbox) -> None:
    shared.files.write("info/a.txt", "test")
    shared.commands.run("ln -s a.txt link; ln -s nowhere broken; mkdir sub; chmod 600 a.txt; mkfifo pipe", cwd="info")

    info = shared.files.get_info("info/a.txt")
    assert (info.name, info.path, info.type, info.size) == ("a.txt", "/home/user/info/a.txt", FileType.FILE, 4)
    assert (info.mode, info.permissions, info.owner, info.group) == (0o600, "-rw-------", "user", "user")
    assert info.modified_time.timestamp() > 1_700_000_000
    assert info.symlink_target is None
    link = shared.files.get_info("info/link")
    assert (link.type, link.symlink_target, link.mode) == (FileType.FILE, "/home/user/info/a.txt", 0o600)
    assert link.permissions == "Lrwxrwxrwx"
    folder = shared.files.get_info("info")
    assert (folder.type, folder.permissions, folder.size > 0) == (FileType.DIR, "drwxr-xr-x", True)
    assert [entry.name for entry in shared.files.list("info")] == ["a.txt", "link", "sub"]  # of a known type
    with pytest.raises(FileNotFoundException):
        shared.files.get_info("info/nowhere")


def test_folders_are_made_listed_moved_and_removed(shared: Sandbox) -> None:
    assert shared.files.make_dir("tree/b/c")
    assert not shared.files.make_dir("tree/b")
    shared.files.write("tree/a", "")
    shared.files.write("tree/b/d", "")
    names = [entry.path.removeprefix("/home/user/tree/") for entry in shared.files.list("tree", depth=3)]
    assert names == ["a", "b", "b/c", "b/d"]
    assert [entry.name for entry in shared.files.list("tree")] == ["a", "b"]
    with pytest.raises(InvalidArgumentException):
        shared.files.make_dir("tree/a")
    with pytest.raises(InvalidArgumentException):
        shared.files.list("tree/a")
    with pytest.raises(FileNotFoundException):
        shared.files.list("nowhere")

    moved = shared.files.rename("tree/b", "/tmp/other/place")  # to another mount, which needs a copy
    assert (moved.path, moved.type) == ("/tmp/other/place", FileType.DIR)
    assert shared.files.exists("/tmp/other/place/d")
    assert not shared.files.exists("tree/b")
    with pytest.raises(FileNotFoundException):
        shared.files.rename("nowhere", "somewhere")
    shared.files.remove("tree")
    shared.files.remove("tree")
    assert not shared.files.exists("tree")


def test_a_folder_of_many_files_is_listed_whole(shared: Sandbox) -> None:
    shared.commands.run("mkdir crowd; cd crowd; name=$(printf 'x%.0s' $(seq 200)); seq -f $name%.0f 5000 | xargs touch")
    assert len(shared.files.list("crowd")) == 5000  # more than the agent tells at once


def test_metadata(shared: Sandbox) -> None:
    metadata = {"author": "somebody", "purpose": "a test"}
    assert shared.files.write("noted", "1", metadata=metadata).metadata == metadata
    assert shared.files.get_info("noted").metadata == metadata
    assert shared.files.rename("noted", "renamed").metadata == metadata
    assert {entry.name: entry.metadata for entry in shared.files.list(".")}["renamed"] == metadata
    assert shared.files.write("renamed", "2").metadata is None
    assert shared.files.get_info("renamed").metadata is None
    shared.commands.run("setfattr -n user.e2b.by -v 'a program' renamed")
    assert shared.files.get_info("renamed").metadata == {"by": "a program"}


def test_signed_addresses(shared: Sandbox) -> None:
    shared.files.write("signed file.txt", "seen")
    with urllib.request.urlopen(shared.download_url("signed file.txt")) as answer:
        assert answer.read() == b"seen"
    ranged = urllib.request.Request(
        shared.download_url("signed file.txt", use_signature_expiration=60), headers={"Range": "bytes=1-2"}
    )
    with urllib.request.urlopen(ranged) as answer:
        assert (answer.status, answer.read(), answer.headers["Content-Range"]) == (206, b"ee", "bytes 1-2/4")
    upload = urllib.request.Request(
        shared.upload_url("uploaded"), data=b"sent", headers={"Content-Type": "application/octet-stream"}
    )
    with urllib.request.urlopen(upload) as answer:
        assert json.load(answer)[0]["path"] == "/home/user/uploaded"
    assert shared.files.read("uploaded") == "sent"
    with pytest.raises(urllib.error.HTTPError) as expired:
        urllib.request.urlopen(shared.download_url("signed file.txt", use_signature_expiration=-10))
    with expired.value as answer:
        assert json.load(answer) == {"code": 401, "message": "signature is already expired"}
    with pytest.raises(urllib.error.HTTPError) as forged:
        urllib.request.urlopen(shared.download_url("signed file.txt").replace("signed", "other"))
    with forged.value as answer:
        assert answer.status == 401


async def test_asyncio(async_sandbox: AsyncSandbox) -> None:
    files = async_sandbox.files
    assert (await files.write("a/b", "1")).path == "/home/user/a/b"
    assert [info.name for info in await files.write_files([WriteEntry(path="a/c", data=b"2")])] == ["c"]
    assert await files.read("a/b") == "1"
    pieces = [piece async for piece in await files.read("a/b", format="stream")]
    assert pieces == [b"1"]
    assert [entry.name for entry in await files.list("a")] == ["b", "c"]
    assert (await files.get_info("a/b")).size == 1
    assert (await files.exists("a/b"), await files.exists("a/d")) == (True, False)
    assert (await files.make_dir("d"), await files.make_dir("d")) == (True, False)
    assert (await files.rename("a/b", "d/e")).path == "/home/user/d/e"
    await files.remove("d")
    with pytest.raises(FileNotFoundException):
        await files.read("d/e")
