"""`isolation="e2b"`: sandboxes of a second Cloche, by E2B's own client."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

import httpx2
import pytest
from tests.conftest import Server
from tests.e2b.clients import install

import cloche
from cloche.walls.e2b import carrier
from cloche.walls.e2b.wall import AsyncE2B
from cloche.walls.portable.archive import archive
from cloche.wire import frames


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with those packages of E2B's client that we do not have: ours stay as they are."""
    folder = tmp_path_factory.mktemp("client")
    [packages] = install.python().parent.parent.glob("lib/python*/site-packages")
    ours = {each.name.lower().replace("-", "_") for each in distributions()}
    for path in packages.iterdir():
        name = path.name.removesuffix(".py")
        is_missing = name.isidentifier() and not name.startswith("_") and find_spec(name) is None
        if is_missing or (path.suffix == ".dist-info" and path.name.partition("-")[0].lower() not in ours):
            (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="module", autouse=True)
def elsewhere(server: Server, client: Path) -> Iterator[Server]:
    """The server that has our sandboxes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path, str(client)])
        patch.setenv("CLOCHE_E2B_API_URL", server.url)
        patch.setenv("CLOCHE_E2B_API_KEY", server.key)
        yield server
        carrier.close()


@pytest.fixture(scope="module")
def box(elsewhere: Server) -> Iterator[cloche.Sandbox]:
    """One that all share."""
    with cloche.Sandbox(isolation="e2b") as sandbox:
        yield sandbox


def alive(server: Server) -> set[str]:
    """The sandboxes that the service has."""
    with server.client() as http:
        return {each["id"] for each in http.get("/v1/sandboxes?state=alive").json()["items"]}


def await_gone(server: Server, before: set[str]) -> None:
    """Nothing tells when the service has ended a sandbox."""
    deadline = time.monotonic() + 20
    while alive(server) - before:
        assert time.monotonic() < deadline, "a sandbox is left on the service"
        time.sleep(0.1)


def test_a_program_runs_there(elsewhere: Server) -> None:
    before = alive(elsewhere)
    code = "import sys; print(input(), open('in.txt').read(), sys.argv[1]); sys.exit(3)"
    result = cloche.run(code, isolation="e2b", stdin="typed\n", files={"in.txt": "given"}, args=["said"])
    assert (result.stdout, result.exit_code, result.wall) == ("typed given said\n", 3, "e2b")
    await_gone(elsewhere, before)


def test_a_session_keeps_its_variables_and_can_go_back(box: cloche.Sandbox) -> None:
    box.run("x = 1")
    assert box.run("x += 1; x").text == "2"
    box.files.write("kept.txt", "before")
    checkpoint = box.checkpoint()
    box.run("x = 100; open('kept.txt', 'w').write('after')")
    box.restore(checkpoint)
    assert (box.run("x").text, box.files.read("kept.txt")) == ("2", b"before")
    failed = box.run("def f():\n    1 / 0\nf()")
    assert failed.error.name == "ZeroDivisionError"
    assert ".cloche" not in str(failed.error.traceback)  # nothing of ours is in it
    assert box.branch().language == "python"


@pytest.mark.parametrize(
    ("language", "code"), [("bash", "n=$((n+1)); echo $n"), ("javascript", "globalThis.n = (globalThis.n ?? 0) + 1")]
)
def test_other_languages_have_sessions_too(box: cloche.Sandbox, language: str, code: str) -> None:
    for count in ("1", "2"):
        result = box.run(code, language=language)
        assert (result.text or result.stdout).strip() == count


def test_a_cell_that_takes_too_long_is_interrupted_and_its_variables_stay(box: cloche.Sandbox) -> None:
    box.run("y = 5")
    assert box.run("while True: pass", timeout=0.5).error.kind == "timeout"
    assert box.run("y").text == "5"


def test_bytes_pass_unchanged_in_both_directions(box: cloche.Sandbox) -> None:
    data = os.urandom(1 << 20) + bytes(range(256)) + b"\n" * 1000
    box.files.write("data.bin", data)
    assert box.files.read("data.bin") == data
    echoed = box.commands.run("cat", stdin=data)
    assert echoed.stdout_bytes == data


def test_a_command_ends_with_what_it_left_behind(box: cloche.Sandbox) -> None:
    result = box.commands.run("setsid sleep 4242 & sleep 4243", timeout=1)
    assert result.error.kind == "timeout"
    assert "424" not in box.commands.run("ps -eo args | grep '[s]leep'").stdout


def test_servers_inside_are_reached_and_tools_outside_are_called(elsewhere: Server) -> None:
    with cloche.Sandbox(isolation="e2b", tools={"double": lambda n: 2 * n}) as box:
        box.commands.start(["python3", "-m", "http.server", "8000", "--directory", "data"])
        box.ports.wait(8000)
        with box.ports.connect(8000) as connection:
            connection.send("GET / HTTP/1.0\r\n\r\n")
            assert b"".join(connection).startswith(b"HTTP/1.0 200 OK")
        assert box.run("cloche.tools.double(21)").text == "42"
        assert box.usage().memory > 0
        with pytest.raises(cloche.Refused, match="cannot be paused"):
            box.pause()


async def test_with_asyncio_contexts_run_side_by_side_and_output_streams(elsewhere: Server) -> None:
    async with cloche.AsyncSandbox(wall=AsyncE2B(elsewhere.key, api_url=elsewhere.url)) as box:
        other = await box.contexts.create()
        meet = "import os, time\nopen({0!r}, 'w')\nwhile not os.path.exists({1!r}): time.sleep(0.01)\n{0!r}"
        both = await asyncio.gather(
            box.run(meet.format("a", "b")), box.run(meet.format("b", "a"), context=other)
        )  # each waits for the other
        assert [result.text for result in both] == ["'a'", "'b'"]
        told = [event.kind async for event in box.stream("print(1); 2")]
        assert told == ["started", "stdout", "result", "end"]
        much = await box.run("print('x' * 5_000_000)")
        assert len(much.stdout) == 5_000_001


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


def test_a_python_without_ipython_says_so(jail: None) -> None:
    cell = {"context": "python", "code": "1", "create": {"how": {"fork": "python"}}}
    with cloche.Sandbox() as box:
        box.files.write("/tmp/agent.pyz", archive("/tmp/agent.pyz"))
        asked = frames.encode_json(1, frames.CELL, cell)
        told = box.commands.run("python3 -S /tmp/agent.pyz", stdin=asked).stdout_bytes
    [(operation, kind, payload)] = frames.Decoder(frames.FROM_AGENT).feed(told)
    assert (operation, kind) == (1, frames.FAIL)
    assert "IPython" in frames.decode_json(payload)["message"]
