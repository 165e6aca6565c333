"""`isolation="e2b"`: sandboxes of a second Cloche, by E2B's own client.

How they behave otherwise: tests/contract.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from tests.conftest import Server
from tests.walls.e2b.service import alive, await_gone

import cloche
from cloche.walls.e2b.wall import AsyncE2B
from cloche.walls.portable.archive import archive
from cloche.wire import frames

pytestmark = pytest.mark.usefixtures("elsewhere")


@pytest.fixture(scope="module")
def box(elsewhere: Server) -> Iterator[cloche.Sandbox]:
    """One that all share."""
    with cloche.Sandbox(isolation="e2b") as sandbox:
        yield sandbox


def test_a_program_runs_there(elsewhere: Server) -> None:
    before = alive(elsewhere)
    code = "import sys; print(input(), open('in.txt').read(), sys.argv[1]); sys.exit(3)"
    result = cloche.run(code, isolation="e2b", stdin="typed\n", files={"in.txt": "given"}, args=["said"])
    assert (result.stdout, result.exit_code, result.wall) == ("typed given said\n", 3, "e2b")
    await_gone(elsewhere, before)


async def test_the_wall_can_be_made_as_an_object(elsewhere: Server) -> None:
    async with cloche.AsyncSandbox(wall=AsyncE2B(elsewhere.key, api_url=elsewhere.url)) as box:
        assert (await box.run("6 * 7")).text == "42"
        assert box.wall == "e2b"


async def test_its_time_can_be_limited_and_the_service_ends_it(elsewhere: Server) -> None:
    before = alive(elsewhere)
    box = cloche.AsyncSandbox(isolation="e2b", lifetime=30)
    await box.open()
    assert (await box.run("1")).text == "1"
    await box.set_lifetime(0.2)
    assert await box.ended() == "timeout"
    with pytest.raises(cloche.Gone, match="its time was up"):
        await box.run("1")
    await box.close()
    assert alive(elsewhere) <= before


async def test_one_that_is_ended_over_there_is_lost_here(elsewhere: Server) -> None:
    before = alive(elsewhere)
    async with cloche.AsyncSandbox(isolation="e2b") as box:
        assert (await box.run("1")).text == "1"
        [name] = alive(elsewhere) - before
        with elsewhere.client() as http:
            http.delete(f"/v1/sandboxes/{name}")
        assert await box.ended() == "lost"
        with pytest.raises(cloche.Gone):
            await box.run("1")


def test_one_that_is_forgotten_ends(elsewhere: Server) -> None:
    before = alive(elsewhere)
    box = cloche.Sandbox(isolation="e2b")
    assert box.run("1").text == "1"
    assert len(alive(elsewhere) - before) == 1
    del box
    gc.collect()
    await_gone(elsewhere, before)


@pytest.mark.parametrize(
    ("setting", "value", "hint"),
    [("CLOCHE_E2B_API_KEY", "wrong", "CLOCHE_E2B_API_KEY"), ("CLOCHE_E2B_TEMPLATE", "nothing-like-it", "address")],
)
def test_what_the_service_refuses_is_told(monkeypatch: pytest.MonkeyPatch, setting: str, value: str, hint: str) -> None:
    monkeypatch.setenv(setting, value)
    with pytest.raises(cloche.SandboxFailed, match="could not be built") as caught:
        cloche.run("1", isolation="e2b")
    assert hint in caught.value.hint
    assert "wrong" not in str(caught.value)


def test_what_cannot_be_is_said_before_anything_is_made(
    elsewhere: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = alive(elsewhere)
    with pytest.raises(cloche.Refused, match="cannot be mounted"):
        cloche.run("1", isolation="e2b", mounts={str(tmp_path): "/sandbox/data/in"})
    with pytest.raises(cloche.InvalidRun, match="no isolation 'moon'"):
        cloche.Sandbox(isolation="moon")
    monkeypatch.setitem(sys.modules, "e2b", None)
    with pytest.raises(cloche.Misconfigured, match="not installed") as caught:
        cloche.Sandbox(isolation="e2b")
    assert "cloche[e2b]" in caught.value.hint
    assert alive(elsewhere) <= before


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of newer Pythons: that is what the test is about
def test_a_forked_process_is_told_to_start_anew(box: cloche.Sandbox) -> None:
    with multiprocessing.get_context("fork").Pool(1) as pool, pytest.raises(cloche.Refused, match="forked"):
        pool.apply(cloche.run, ("1",), {"isolation": "e2b"})


def test_a_server_offers_it_when_its_operator_does(
    elsewhere: Server, serve: Callable[..., Server], client: Path, http: httpx2.Client
) -> None:
    refused = http.post("/v1/run", json={"code": "1", "isolation": "e2b"})
    assert refused.status_code == 409
    assert "CLOCHE_E2B_API_KEY" in refused.json()["error"]["hint"]
    service = {"CLOCHE_E2B_API_URL": elsewhere.url, "CLOCHE_E2B_API_KEY": elsewhere.key, "PYTHONPATH": str(client)}
    before, near = alive(elsewhere), serve(env=service)
    assert cloche.run("print(6 * 7)", url=near.url, api_key=near.key, isolation="e2b").stdout == "42\n"
    with cloche.Sandbox(url=near.url, api_key=near.key, isolation="e2b") as box:
        assert (box.run("6 * 7").text, box.wall) == ("42", "e2b")
        assert len(alive(elsewhere) - before) == 1
    await_gone(elsewhere, before)


def test_the_command_line_runs_there_and_leaves_nothing(elsewhere: Server, client: Path) -> None:
    before = alive(elsewhere)
    env = {**os.environ, "PYTHONPATH": str(client)}
    argv = [sys.executable, "-m", "cloche.cli.main", "run", "--isolation", "e2b", "--stats", "-c", "print(6 * 7)"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("42\n", 0), done.stderr
    assert done.stderr.rstrip().endswith("e2b")
    assert alive(elsewhere) <= before


def test_a_python_without_ipython_says_so(jail: None) -> None:
    cell = {"context": "python", "code": "1", "create": {"how": {"fork": "python"}}}
    with cloche.Sandbox() as box:
        box.files.write("/tmp/agent.pyz", archive("/tmp/agent.pyz"))
        asked = frames.encode_json(1, frames.CELL, cell)
        told = box.commands.run("python3 -S /tmp/agent.pyz", stdin=asked).stdout_bytes
    [(operation, kind, payload)] = frames.Decoder(frames.FROM_AGENT).feed(told)
    assert (operation, kind) == (1, frames.FAIL)
    assert "IPython" in frames.decode_json(payload)["message"]
