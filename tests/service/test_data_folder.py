"""The data folder: closed to others, and checked for room before the server says that it is ready."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import eventually

from cloche.errors import Unavailable
from cloche.service import data_folder
from cloche.service.data_folder import DataFolder


def open_to_others(folder: Path) -> list[str]:
    """Everything in a folder that others may look at or change, and the folder itself."""
    paths = [folder, *folder.rglob("*")]
    modes = {path: path.lstat().st_mode for path in paths}
    return [f"{path} {stat.filemode(mode)}" for path, mode in modes.items() if mode & 0o077 and not path.is_symlink()]


def test_nobody_else_may_look_at_what_the_server_writes(serve: Callable[..., Any]) -> None:
    server = serve()
    data = server.folder / "data"
    with server.client() as http:
        sandbox = http.post("/v1/sandboxes", json={"persistent": True}).json()
        path = f"/v1/sandboxes/{sandbox['id']}"
        http.put(f"{path}/files/a.txt", content=b"a", params={"mode": "666"})
        http.post(f"{path}/run", json={"code": "x = 1"})
        made = http.post(f"/sandboxes/{sandbox['id'].replace('_', '')}/snapshots", json={"name": "one"})
        assert made.status_code == 201, made.text
        assert http.post("/v1/shares", json={"title": "t", "files": [], "runs": []}).status_code == 201
        assert http.post("/v1/keys", json={"owner": "a", "name": "a"}).status_code == 201
        http.delete(path)
        assert open_to_others(data) == []
    assert server.stop() == 0
    assert {path.name for path in data.iterdir()} >= {
        "key",
        "cloche.db",
        "journal",
        "workspaces",
        "snapshots",
        "shares",
    }
    assert open_to_others(data) == []

    # what an earlier server has left open is closed at the next start
    for path in (data, *data.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    serve(folder=server.folder.name)
    assert open_to_others(data) == []


async def test_what_is_not_the_servers_stays_as_it_is(tmp_path: Path) -> None:
    other, linked = tmp_path / "data" / "other", tmp_path / "linked"
    other.mkdir(parents=True)
    linked.mkdir()
    (tmp_path / "data" / "shares").symlink_to(linked)
    for path in (other, linked, tmp_path / "data"):
        path.chmod(0o755)
    await DataFolder(tmp_path / "data").open()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "data", other, linked)] == [0o700, 0o755, 0o755]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A data folder with a disk of its own."""
    folder = tmp_path / "small" / "data"
    folder.mkdir(parents=True)
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40M", "none", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_server_whose_disk_is_full_is_not_ready(small_disk: Path, serve: Callable[..., Any]) -> None:
    server = serve(folder="small")
    with server.client() as http:
        assert http.get("/v1/ready").json() == {"status": "ok"}
        filler = small_disk / "filler"
        with pytest.raises(OSError, match="No space"):
            filler.write_bytes(bytes(64 << 20))
        eventually(lambda: http.get("/v1/ready").status_code == 503)
        answer = http.get("/v1/ready", headers={"Authorization": ""})
        assert answer.json()["error"]["message"] == "The server's disk is full."
        assert int(answer.headers["retry-after"]) > 0
        # whatever else fails now, it does not say where the server keeps its data
        for method, path, body in (
            ("POST", "/v1/run", {"code": "1"}),
            ("POST", "/v1/sandboxes", {"persistent": True}),
            ("POST", "/sandboxes", {"templateID": "base"}),
            ("POST", "/v1/shares", {"title": "t", "files": [{"path": "a", "text": "b" * 99999}], "runs": []}),
            ("POST", "/v1/keys", {"owner": "a", "name": "a"}),
            ("GET", "/v1/runs", None),
            ("GET", "/v1/audit", None),
        ):
            text = http.request(method, path, json=body).text
            assert str(small_disk) not in text, (path, text)
            assert "sqlite" not in text.lower(), (path, text)
        filler.unlink()
        eventually(lambda: http.get("/v1/ready").status_code == 200)
        assert http.post("/v1/run", json={"code": "print(1)"}).json()["stdout"] == "1\n"


async def test_strangers_cannot_make_it_write_all_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, looks = DataFolder(tmp_path), []

    def look(path: Path) -> str:
        looks.append(path)
        return "The server's disk is full."

    monkeypatch.setattr(data_folder, "_find_problem", look)
    for _ in range(100):
        with pytest.raises(Unavailable, match="disk is full"):
            await folder.check_room()
    assert len(looks) == 1
