"""Persistent workspaces: what was acknowledged is there in the next sandbox, whatever became of the last."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.conftest import Server
from tests.waiting import eventually

from cloche.service.workspaces.scan import ScannedEntry

Serve = Callable[..., Server]


class Box:
    """A sandbox of a server, by plain HTTP."""

    def __init__(self, client: httpx2.Client, **wish: Any) -> None:
        answer = client.post("/v1/sandboxes", json=wish)
        assert answer.status_code == 201, answer.text
        self.fields = answer.json()
        self.id, self.workspace = self.fields["id"], self.fields["workspace"]
        self._client, self.path = client, f"/v1/sandboxes/{self.id}"

    def run(self, code: str) -> str:
        answer = self.post("run", {"code": code})
        assert answer.status_code == 200, answer.text
        assert answer.json()["error"] is None, answer.json()["error"]
        return str(answer.json()["stdout"])

    def post(self, where: str, body: dict[str, Any]) -> httpx2.Response:
        return self._client.post(f"{self.path}/{where}", json=body)

    def put(self, name: str, data: bytes) -> httpx2.Response:
        return self._client.put(f"{self.path}/files/{name}", content=data)

    def read(self, name: str) -> bytes:
        answer = self._client.get(f"{self.path}/files/{name}")
        assert answer.status_code == 200, answer.text
        return answer.content

    def names(self) -> set[str]:
        found = self._client.get(f"{self.path}/files", params={"depth": 20}).json()["items"]
        return {entry["path"].removeprefix("/sandbox/") for entry in found}

    def end(self) -> None:
        assert self._client.delete(self.path).status_code == 204


FRESH = {"code", "data", "output", "temp"}

TREE = r"""
import os
os.makedirs("a/b/empty")
with open("a/text", "w") as file: file.write("kept")
with open("large", "wb") as file: file.write(bytes(range(256)) * 20_000)
with open(b"not-utf8-\xff", "wb") as file: file.write(b"odd")
with open("a/secret", "w") as file: file.write("hidden")
os.chmod("a/secret", 0)
with open("tool", "w") as file: file.write("#!/bin/sh\necho ran\n")
os.chmod("tool", 0o755)
os.symlink("a/text", "link")
os.symlink("nowhere/at/all", "dangling")
os.mkfifo("fifo")
with open("temp/scratch", "w") as file: file.write("not kept")
os.mkdir("closed"); open("closed/in", "w").write("in")
os.utime("a/text", ns=(10**18, 10**18 + 7))
os.chmod("closed", 0o500)
os.rmdir("output")
os.makedirs("/app/deep/empty"); os.chmod("/app/deep", 0o750)  # outside of the workspace
with open("/app/deep/secret", "w") as file: file.write("kept too")
os.chmod("/app/deep/secret", 0)
os.symlink("deep", "/app/link")
with open("/root/.rc", "w") as file: file.write("kept too")
with open("/top", "w") as file: file.write("kept too")
with open("/run/pid", "w") as file: file.write("not kept")
"""

LOOK = r"""
import hashlib, os
everything = [found for top in ("/sandbox", "/app", "/root", "/mnt", "/run") for found in sorted(os.walk(top))]
for folder, folders, files in [*everything, ("/", [], ["top"])]:
    for name in sorted(folders + files):
        path = os.path.join(folder, name)
        status = os.lstat(path)
        what = os.readlink(path) if os.path.islink(path) else ""
        if os.path.isfile(path) and not os.path.islink(path):
            mode = status.st_mode & 0o7777
            os.chmod(path, mode | 0o400)
            what = hashlib.sha256(open(path, "rb").read()).hexdigest()[:16] + f" {status.st_mtime_ns}"
            os.chmod(path, mode)
        if not path.startswith(("/sandbox/temp", "/run/")) and name != "fifo":
            print(ascii(path), oct(status.st_mode), what)
"""


def test_all_that_can_be_kept_is_kept(http: httpx2.Client) -> None:
    first = Box(http, persistent=True)
    first.run(TREE)
    seen = first.run(LOOK)
    assert "secret" in seen
    assert "closed/in" in seen
    first.end()
    second = Box(http, workspace=first.workspace)
    assert second.workspace == first.workspace
    assert second.fields["persistent"] is True
    assert second.run(LOOK) == seen
    names = second.names()
    assert "a/b/empty" in names
    assert not names & {"fifo", "output", "temp/scratch"}
    assert second.run("import subprocess; print(subprocess.check_output('./tool', text=True))") == "ran\n\n"
    second.end()


REPLACED = """
import os
os.unlink("/mnt/data"); os.makedirs("/mnt/data/deep"); open("/mnt/data/deep/x", "w").write("beside")
os.rmdir("/sandbox/data")
os.unlink("/var/tmp"); os.makedirs("/var/tmp"); open("/var/tmp/x", "w").write("beside, too")
os.rename("/home", "/moved"); os.makedirs("/home/user/x"); open("/home/user/y", "w").write("not kept")
open("/sandbox/x", "w").write("mine"); open("/sandbox/y", "w").write("mine, too")
"""


def test_folders_in_the_place_of_links_and_of_the_home_keep_nobody_out(http: httpx2.Client) -> None:
    first = Box(http, persistent=True)
    first.run(REPLACED)
    first.end()
    second = Box(http, workspace=first.workspace)
    look = "print(*(open(path).read() for path in ('/mnt/data/deep/x', '/var/tmp/x', '/home/user/x', '/sandbox/y')))"
    assert second.run(look) == "beside beside, too mine mine, too\n"
    assert second.names() == (FRESH - {"data"}) | {"x", "y"}
    assert second.run("import os; print(os.path.exists('/tmp/x'))") == "False\n"
    second.end()


def test_what_is_kept_goes_on_from_sandbox_to_sandbox(http: httpx2.Client) -> None:
    box = Box(http, persistent=True)
    workspace = box.workspace
    for turn in range(4):
        assert box.run(f"open('log', 'a').write('{turn}'); print(open('log').read())") == "0123"[: turn + 1] + "\n"
        box.end()
        box = Box(http, workspace=workspace)
    assert box.put("log", b"").status_code == 200
    assert http.delete(f"{box.path}/files/code").status_code == 204
    box.end()
    box = Box(http, workspace=workspace)
    assert box.read("log") == b""
    assert "code" not in box.names()
    box.end()


def test_one_sandbox_at_a_time_has_it(http: httpx2.Client) -> None:
    box = Box(http, persistent=True)
    place = f"/v1/workspaces/{box.workspace}"
    again = http.post("/v1/sandboxes", json={"workspace": box.workspace})
    assert (again.status_code, again.json()["error"]["kind"]) == (409, "refused")
    assert box.id in again.json()["error"]["message"]
    assert http.delete(place).status_code == 409
    fields = http.get(place).json()
    assert (fields["open"], fields["sandbox"], fields["files"]) == (True, box.id, 0)
    box.end()
    assert http.get(place).json()["open"] is False
    assert http.delete(place).status_code == 204
    assert http.get(place).status_code == 404
    assert http.delete(place).status_code == 404
    assert http.post("/v1/sandboxes", json={"workspace": box.workspace}).status_code == 404


def test_others_workspaces_do_not_exist(server: Server, http: httpx2.Client) -> None:
    box = Box(http, persistent=True)
    box.end()
    other = http.post("/v1/keys", json={"owner": "somebody-else", "name": "k", "scopes": ["run", "read"]}).json()
    with server.client(other["secret"] if "secret" in other else other["key"]) as stranger:
        answers = [
            stranger.get(f"/v1/workspaces/{box.workspace}"),
            stranger.delete(f"/v1/workspaces/{box.workspace}"),
            stranger.post("/v1/sandboxes", json={"workspace": box.workspace}),
        ]
        never = stranger.get("/v1/workspaces/wsp_0")
        assert {answer.status_code for answer in answers} == {404}
        assert answers[0].json() == never.json()
        assert box.workspace not in stranger.get("/v1/workspaces").text
    assert http.delete(f"/v1/workspaces/{box.workspace}").status_code == 204


@pytest.mark.parametrize("name", ["../../../etc", "/etc", "wsp_../x", "", "\0", "."])
def test_a_name_of_a_workspace_is_no_path(http: httpx2.Client, name: str) -> None:
    assert http.post("/v1/sandboxes", json={"workspace": name}).status_code == 404


def test_they_are_listed_in_pages(http: httpx2.Client) -> None:
    boxes = [Box(http, persistent=True) for _ in range(3)]
    for box in boxes:
        box.end()
    seen: list[str] = []
    after = None
    while True:
        page = http.get("/v1/workspaces", params={"limit": 2, **({"after": after} if after else {})}).json()
        assert len(page["items"]) <= 2
        seen += [item["id"] for item in page["items"]]
        after = page["next"]
        if after is None:
            break
    assert len(seen) == len(set(seen))
    assert [name for name in seen if name in {box.workspace for box in boxes}] == [b.workspace for b in boxes[::-1]]
    for box in boxes:
        assert http.delete(f"/v1/workspaces/{box.workspace}").status_code == 204


def test_a_sandbox_that_is_not_persistent_leaves_nothing(http: httpx2.Client) -> None:
    before = http.get("/v1/workspaces", params={"limit": 1000}).json()["items"]
    box = Box(http)
    assert (box.fields["persistent"], box.workspace) == (False, None)
    box.put("x", b"1")
    box.end()
    assert http.get("/v1/workspaces", params={"limit": 1000}).json()["items"] == before


UNSEEN = {
    "the same size and time": "s = os.stat('x'); open('x', 'w').write('new'); os.utime('x', ns=(1, s.st_mtime_ns))",
    "another file of the same time": "os.replace('y', 'x')",
    "written to in memory": "m[:3] = b'new'",
}


@pytest.mark.parametrize("change", UNSEEN.values(), ids=UNSEEN)
def test_a_change_that_hardly_shows_is_seen(http: httpx2.Client, change: str) -> None:
    first = Box(http, persistent=True)
    first.run(
        "import os, mmap\n"
        "for name, text in (('x', 'old'), ('y', 'new')):\n"
        "    open(name, 'w').write(text); os.utime(name, ns=(1, 10**18))\n"
        "f = open('x', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[0]\n"
    )
    time.sleep(0.05)  # until the kernel's clock has moved on: what is saved next is known for sure
    first.run("1")
    first.run(change)
    first.end()
    second = Box(http, workspace=first.workspace)
    assert second.read("x") == b"new"
    second.end()


def test_more_files_than_one_listing_tells(http: httpx2.Client) -> None:
    """And more than an agent has operations at a time: each that is over must be forgotten."""
    first = Box(http, persistent=True)
    first.run("import os\nfor i in range(4200):\n    os.close(os.open(f'data/{i:0250}', os.O_CREAT))")
    assert http.get(f"{first.path}/files", params={"depth": 2}).json()["truncated"] is True
    assert http.get(f"/v1/workspaces/{first.workspace}").json()["files"] == 4200
    first.end()
    second = Box(http, workspace=first.workspace)
    assert second.run("import os; print(len(os.listdir('data')))") == "4200\n"
    second.end()


def test_an_upload_of_many_is_kept(http: httpx2.Client) -> None:
    first = Box(http, persistent=True)
    parts = [("f", (f"up/{number}", str(number).encode())) for number in range(50)]
    assert http.post(f"{first.path}/files", files=parts).status_code == 200
    assert first.post("folders", {"path": "new/folder"}).status_code == 200
    assert http.patch(f"{first.path}/files/up%2F7", json={"new_path": "moved"}).status_code == 200
    fields = http.get(f"/v1/workspaces/{first.workspace}").json()
    assert fields["files"] == 50
    first.end()
    second = Box(http, workspace=first.workspace)
    assert second.read("moved") == b"7"
    assert {"up/49", "new/folder"} <= second.names()
    second.end()


def test_what_is_too_large_is_told_and_harms_nothing(http: httpx2.Client) -> None:
    box = Box(http, persistent=True, disk="8M")
    box.put("good", b"kept")
    answer = box.post("run", {"code": "import os; os.truncate(os.open('hole', os.O_CREAT | os.O_RDWR), 1 << 40)"})
    assert answer.status_code == 507
    error = answer.json()["error"]
    assert (error["kind"], "hole" in error["message"]) == ("file", True)
    assert box.put("more", b"x").status_code == 507
    with http.stream("GET", f"{box.path}/events", params={"after": 0}) as events:
        for line in events.iter_lines():
            if line.startswith("data: ") and '"workspace.problem"' in line:
                problem = json.loads(line.removeprefix("data: "))
                assert "larger than the sandbox's disk" in problem["message"]
                assert problem["hint"]
                break
    assert http.get(f"/v1/workspaces/{box.workspace}").json()["files"] == 1
    assert http.delete(f"{box.path}/files/hole").status_code == 204
    assert http.get(f"/v1/workspaces/{box.workspace}").json()["files"] == 2
    box.end()
    small = http.post("/v1/sandboxes", json={"workspace": box.workspace, "disk": "1M"})
    assert small.status_code == 201
    second = Box.__new__(Box)
    second._client, second.path = http, f"/v1/sandboxes/{small.json()['id']}"
    assert second.read("good") == b"kept"
    second.put("fat", b"x" * 900_000)
    second.end()


def test_a_smaller_disk_does_not_take_it(http: httpx2.Client) -> None:
    first = Box(http, persistent=True, disk="16M")
    first.put("fat", os.urandom(3_000_000))
    first.end()
    answer = http.post("/v1/sandboxes", json={"workspace": first.workspace, "disk": "2M"})
    assert answer.status_code == 400
    assert "disk" in answer.json()["error"]["hint"]
    second = Box(http, workspace=first.workspace)  # it was let go of
    second.end()


# --- servers of their own, which are killed, filled and aged


def folder_of(server: Server, workspace: str) -> Path:
    return server.folder / "data" / "workspaces" / workspace


def test_what_was_acknowledged_survives_a_kill(serve: Serve) -> None:
    server = serve(folder="one")
    with server.client() as client:
        box, other = Box(client, persistent=True), Box(client)
        other.put("x", b"lost")
        box.put("put", b"1")
        box.run("open('cell', 'w').write('2')")
        answer = box.post("commands", {"command": "echo 3 > command; mkdir folder", "wait": True})
        assert answer.status_code == 200
        box.put("gone", b"x")
        assert client.delete(f"{box.path}/files/gone").status_code == 204
        with client.stream(
            "POST", f"{box.path}/run", json={"code": "open('streamed', 'w').write('4')"}, headers={"Accept": EVENTS}
        ) as events:
            assert any(line == "event: end" for line in events.iter_lines())
        server.kill()
    server = serve(folder="one")
    with server.client() as client:
        assert client.get(box.path).json()["state"] == "lost"
        fields = client.get(f"/v1/workspaces/{box.workspace}").json()
        assert (fields["open"], fields["sandbox"], fields["files"]) == (False, box.id, 4)
        again = Box(client, workspace=box.workspace)
        assert again.names() == FRESH | {"put", "cell", "command", "folder", "streamed"}
        assert (again.read("put"), again.read("cell"), again.read("command")) == (b"1", b"2", b"3\n")
        assert again.read("streamed") == b"4"
        assert client.get(other.path).json()["workspace"] is None


EVENTS = "text/event-stream"


def test_what_a_command_writes_meanwhile_is_saved_too(serve: Serve) -> None:
    server = serve(folder="one")
    with server.client() as client:
        box = Box(client, persistent=True)
        box.post("commands", {"command": "for i in $(seq 100); do echo $i >> lines; sleep 0.1; done"})
        eventually(lambda: client.get(f"/v1/workspaces/{box.workspace}").json()["files"] > 0)
        server.kill()
    server = serve(folder="one")
    with server.client() as client:
        lines = Box(client, workspace=box.workspace).read("lines").split()
        assert lines == [str(number).encode() for number in range(1, len(lines) + 1)]
        assert lines


def test_stopping_the_server_saves_what_is_there(serve: Serve) -> None:
    server = serve(folder="one")
    with server.client() as client:
        box = Box(client, persistent=True)
        box.post("commands", {"command": "echo 1 > written; exec sleep 100"})
        eventually(lambda: "written" in box.names())
    assert server.stop() == 0
    server = serve(folder="one")
    with server.client() as client:
        assert Box(client, workspace=box.workspace).read("written") == b"1\n"


def test_what_a_crash_has_left_is_cleared_away(serve: Serve) -> None:
    server = serve(folder="one")
    with server.client() as client:
        box = Box(client, persistent=True)
        box.put("x", b"kept")
        server.kill()
    folder = folder_of(server, box.workspace)
    good = set(os.listdir(folder))
    (folder / "new-0123").write_bytes(b"half a file")
    (folder / ("a" * 64)).write_bytes(b"of no manifest")
    (folder.parent / "wsp_begun").mkdir()
    (folder.parent / "removed-01").mkdir()
    (folder.parent / "removed-01" / "manifest").write_text("{}")
    (folder.parent / "wsp_damaged").mkdir()
    (folder.parent / "wsp_damaged" / "manifest").write_text("{nonsense")
    server = serve(folder="one")
    with server.client() as client:
        assert [item["id"] for item in client.get("/v1/workspaces").json()["items"]] == [box.workspace]
        assert set(os.listdir(folder.parent)) == {box.workspace, "wsp_damaged"}
        assert Box(client, workspace=box.workspace).read("x") == b"kept"
        assert set(os.listdir(folder)) == good
    assert "wsp_damaged" in server.log.read_text()


def test_contents_that_rot_are_told_and_not_handed_out(serve: Serve) -> None:
    server = serve(folder="one")
    with server.client() as client:
        box = Box(client, persistent=True)
        box.put("x", b"kept")
        box.end()
        (blob,) = [path for path in folder_of(server, box.workspace).iterdir() if path.name != "manifest"]
        blob.write_bytes(b"flip")
        for _ in range(2):  # and the workspace is not left open
            answer = client.post("/v1/sandboxes", json={"workspace": box.workspace})
            assert (answer.status_code, answer.json()["error"]["kind"]) == (503, "failed")
            assert "damaged" in answer.json()["error"]["message"]
        blob.write_bytes(b"kept")
        assert Box(client, workspace=box.workspace).read("x") == b"kept"


def test_old_ones_are_removed(serve: Serve) -> None:
    server = serve(folder="one")
    with server.client() as client:
        old, young = Box(client, persistent=True), Box(client, persistent=True)
        old.end()
        young.end()
    assert server.stop() == 0
    place = folder_of(server, old.workspace) / "manifest"
    about, _, rest = place.read_text().partition("\n")
    fields = json.loads(about)
    fields.update(saved=time.time() - 10_000, opened=time.time() - 10_000)
    place.write_text(json.dumps(fields) + "\n" + rest)
    server = serve("--persistent-age", "3600", folder="one")
    with server.client() as client:
        eventually(lambda: client.get(f"/v1/workspaces/{old.workspace}").status_code == 404)
        assert [item["id"] for item in client.get("/v1/workspaces").json()["items"]] == [young.workspace]
        assert not folder_of(server, old.workspace).exists()


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a small disk")
def test_a_full_disk_of_the_server_is_told_and_loses_nothing(serve: Serve, tmp_path: Path) -> None:
    with small_disk(tmp_path / "one" / "data" / "workspaces", "2M"):
        server = serve(folder="one")
        with server.client() as client:
            box, neighbour = Box(client, persistent=True), Box(client)
            assert box.put("good", b"kept").status_code == 200
            answer = box.put("fat", os.urandom(4_000_000))
            assert answer.status_code == 507
            assert "disk is full" in answer.json()["error"]["message"]
            assert box.post("run", {"code": "1"}).status_code == 507
            assert neighbour.run("print(1)") == "1\n"
            assert len(list(folder_of(server, box.workspace).iterdir())) == 2  # nothing half written stays
            assert client.delete(f"{box.path}/files/fat").status_code == 204  # and it is as good as before
            assert box.put("small", b"fits").status_code == 200
            server.kill()
        assert "is not saved" in server.log.read_text()
        server = serve(folder="one")
        with server.client() as client:
            again = Box(client, workspace=box.workspace)
            assert (again.read("good"), again.read("small")) == (b"kept", b"fits")
            assert "fat" not in again.names()
        assert server.stop() == 0


def test_mounts_are_not_saved_nor_written_over(serve: Serve, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "of-the-host").write_text("host")
    server = serve("--mounts", str(shared))
    mounts = [{"source": str(shared), "target": "/sandbox/data/in", "writable": True}]
    with server.client() as client:
        first = Box(client, persistent=True, mounts=mounts)
        first.put("x", b"1")
        assert client.get(f"/v1/workspaces/{first.workspace}").json()["files"] == 1
        first.end()
        second = Box(client, workspace=first.workspace)
        second.run("import os; os.makedirs('data/in'); open('data/in/mine', 'w').write('2')")
        second.end()
        answer = client.post("/v1/sandboxes", json={"workspace": first.workspace, "mounts": mounts})
        assert answer.status_code == 400
        assert "data/in/mine" in answer.json()["error"]["message"]
    assert [path.name for path in shared.iterdir()] == ["of-the-host"]


# --- what an agent says is not believed

GOOD = ["a/b", "file", 0o644, 3, 1, 2, 3, True, None]


def test_an_honest_entry_is_taken() -> None:
    found = ScannedEntry(GOOD)
    assert (found.path, found.entry.kind, found.entry.size, found.sure) == ("a/b", "file", 3, True)
    assert ScannedEntry(["/app/x", *GOOD[1:]]).path == "/app/x"  # outside of the workspace


BAD = [
    *(
        {0: path}
        for path in (
            "",
            "/",
            "/etc/passwd",
            "/bin",
            "//etc/x",
            "/app/../etc/x",
            "../x",
            "a/../../x",
            "a//b",
            ".",
            "a\0b",
            "x" * 5000,
            None,
            7,
        )
    ),
    {0: "\ud800"},
    {1: "fifo"},
    {1: None},
    {2: -1},
    {2: 0o10000},
    {2: "0644"},
    {3: -1},
    {3: 1 << 63},
    {3: 1.5},
    {4: 1 << 80},
    {6: True},
    {1: "symlink"},
    {1: "symlink", 8: "a\0b"},
]


@pytest.mark.parametrize("change", BAD, ids=repr)
def test_an_entry_that_makes_no_sense_is_refused(change: dict[int, Any]) -> None:
    fields: list[Any] = list(GOOD)
    for place, value in change.items():
        fields[place] = value
    with pytest.raises((ValueError, TypeError)):
        ScannedEntry(fields)
