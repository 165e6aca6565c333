"""T40, clock jumps: the host's time of day is set a day or ten years forwards or back while a server works."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from struct import pack
from time import monotonic, time
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from tests.waiting import eventually

import cloche

if TYPE_CHECKING:
    from tests.conftest import Server

DAY = 86400
JUMPS = {"a day on": DAY, "ten years on": 3650 * DAY, "a day back": -DAY, "ten years back": -3650 * DAY}
SOURCE = Path(cloche.__file__).parent

LISTENS = """
from http.server import HTTPServer, SimpleHTTPRequestHandler
from threading import Thread

Thread(target=HTTPServer(("127.0.0.1", 8000), SimpleHTTPRequestHandler).serve_forever, daemon=True).start()
"""


class JumpingClock:
    """A time of day of a process's own; `env` is what the process is started with."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            assert not os.environ.get("CI"), "there is no C compiler"
            pytest.skip("there is no C compiler")
        library, self._offset = folder / "jumping_clock.so", folder / "offset"
        source = Path(__file__).parent / "jumping_clock.c"
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
        self._offset.write_bytes(pack("q", 0))
        self.env = {"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(self._offset)}

    def set(self, seconds: int) -> None:
        with open(self._offset, "r+b") as file:
            file.write(pack("q", seconds))


@pytest.fixture
def clock(tmp_path: Path) -> JumpingClock:
    return JumpingClock(tmp_path)


def ran(http: httpx2.Client, code: str, **more: Any) -> dict[str, Any]:
    answer = http.post("/v1/run", json={"code": code, **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def has_ended(http: httpx2.Client, box: str) -> bool:
    return bool(http.get(f"/v1/sandboxes/{box}").json()["state"] == "ended")


@pytest.mark.timeout(180)
def test_what_lives_stays_and_what_is_over_ends_whatever_the_clock_says(
    clock: JumpingClock, serve: Callable[..., Server]
) -> None:
    server = serve(env=clock.env)
    browser = httpx2.Client(base_url=server.url, trust_env=False, follow_redirects=True)
    with server.client() as http, browser:
        assert browser.get("/", params={"key": server.key}).status_code == 200
        box = http.post("/v1/sandboxes", json={"ttl": 600, "idle_timeout": 600}).json()["id"]
        grant = http.post(f"/v1/sandboxes/{box}/ports/8000", json={"ttl": 600}).json()["path"]
        key = http.post("/v1/keys", json={"owner": "few", "name": "few", "limits": {"bytes_per_day": 1000}}).json()
        with server.client(key["key"]) as few:
            ran(few, "print('x' * 2000)")
            http.post(f"/v1/sandboxes/{box}/run", json={"code": LISTENS + "kept = 1"})
            for name, seconds in JUMPS.items():
                brief = http.post("/v1/sandboxes", json={"ttl": 1}).json()["id"]
                clock.set(seconds)
                begun = monotonic()
                endless = ran(http, "while True: pass", timeout=1)
                assert endless["error"]["kind"] == "timeout", name
                assert endless["duration"] < 30, name
                assert monotonic() - begun < 30, name
                kept = http.post(f"/v1/sandboxes/{box}/run", json={"code": "print(kept)"})
                assert kept.json()["stdout"] == "1\n", name
                assert browser.get("/v1/sandboxes").status_code == 200, name  # the browser's session
                assert http.get(grant, headers={"Authorization": ""}).status_code == 200, name
                assert few.post("/v1/run", json={"code": "1"}).status_code == 429, name
                eventually(partial(has_ended, http, brief), what=f"the end of a sandbox, {name}")
                clock.set(0)


RETENTION = """
import asyncio, sys
from pathlib import Path
from types import SimpleNamespace
from cloche.policy.caller import ANYBODY
from cloche.service.shares import Shares
from cloche.service.snapshots import Snapshot, Snapshots
from cloche.service.workspaces.workspaces import Workspaces

AGE_S = 30 * 86400.0

async def main(folder, offset):
    nothing = SimpleNamespace(sharing="anybody", note=lambda *_: None)
    shares = Shares(folder / "shares", nothing, nothing)
    await shares.create(ANYBODY, "title", b"{}")
    workspaces = Workspaces(folder / "workspaces")
    workspace, _ = await workspaces.begin(ANYBODY.owner, "box")
    await workspaces.release(workspace)
    snapshots = Snapshots(folder / "snapshots", nothing)
    kept, _ = await snapshots._workspaces.begin(ANYBODY.owner, "box")
    await snapshots._workspaces.release(kept)
    snapshots._known[kept.id] = Snapshot(kept.id, ANYBODY.owner, "", "box", kept.about.created)
    offset.write_bytes(int(sys.argv[3]).to_bytes(8, "little", signed=True))
    for each in (shares, workspaces, snapshots):
        await each.remove_old(AGE_S)
    print(len(shares.list(ANYBODY)), len(workspaces.list(ANYBODY, 9, None)[0]), len(snapshots.list(ANYBODY)))

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
"""


@pytest.mark.parametrize("jump", JUMPS)
def test_nothing_is_removed_for_its_age_because_the_clock_was_set(
    clock: JumpingClock, tmp_path: Path, jump: str
) -> None:
    command = [sys.executable, "-c", RETENTION, str(tmp_path), clock.env["CLOCK_OFFSET"], str(JUMPS[jump])]
    done = subprocess.run(command, env={**os.environ, **clock.env}, capture_output=True, text=True, check=False)
    assert done.stdout == "1 1 1\n", done.stderr


def test_the_preloaded_clock_jumps(clock: JumpingClock) -> None:
    clock.set(DAY)
    command = [sys.executable, "-c", "import time; print(time.time())"]
    told = subprocess.run(command, env={**os.environ, **clock.env}, capture_output=True, text=True, check=True).stdout
    assert DAY - 60 < float(told) - time() < DAY + 60


# Where the time of day is only written down or shown, or comes from a client and so can be compared with nothing else.
SHOWN = {
    "clock.py": "makes the clocks that decide",
    "doors/e2b/envd/__init__.py": "shows the time",
    "doors/e2b/tokens.py": "a signature says by the time of day how long it is valid",
    "doors/e2b/results.py": "shows the time",
    "engine/cell_output.py": "a line of output says when it came",
    "engine/checkpoints.py": "a checkpoint says when it was taken",
    "policy/keys.py": "the default of a clock that the service gives",
    "policy/meter.py": "the default of a clock that the service gives",
    "sandbox/sandbox.py": "moments of a history",
    "doors/e2b/template_builds.py": "E2B's clients read when each line of a build's log was written; links expire",
    "service/archives.py": "uploads are removed a day after their last use",
    "service/audit.py": "an entry says when it happened",
    "service/builds.py": "a record says when a build ended",
    "service/commands.py": "a command says when it began",
    "service/environments.py": "a record says when a build began, and an audit how old the catalogue is",
    "service/event_log.py": "an event says when it happened",
    "service/identity.py": "ids begin with the time, so that they are listed in order",
    "service/lifecycle.py": "a record says when a sandbox ended",
    "service/runs.py": "a record says when a run began and ended",
    "service/sandboxes.py": "a record says when a sandbox was made and ended",
    "service/service.py": "records of runs that a killed server left; the day that its counts begin with",
    "service/shares.py": "a share says when it was made",
    "service/snapshots.py": "a snapshot says when it was taken",
    "service/workspaces/save.py": "a workspace says when it was saved",
    "service/workspaces/workspaces.py": "a workspace says when it was made and opened",
    "store/store.py": "usage is listed by day",
}


def reads_the_time_of_day(path: Path) -> bool:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "time" and any(one.name == "time" for one in node.names):
            return True
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("time.time", "time.time_ns", "datetime.now"):
            return True
    return False


def test_only_modules_that_say_why_read_the_time_of_day() -> None:
    folders = ("doors", "engine", "policy", "sandbox", "service", "store", "walls")
    paths = [*SOURCE.glob("*.py"), *(path for folder in folders for path in (SOURCE / folder).rglob("*.py"))]
    assert {str(path.relative_to(SOURCE)) for path in paths if reads_the_time_of_day(path)} == set(SHOWN)
