"""What a sandbox on a server has that one of this process has not: an id, others who use it, a life of its own."""

from __future__ import annotations

import asyncio
import gc
import time

import pytest
from tests.conftest import Server

import cloche
from cloche.blocking.client.sandbox import ServerSandbox
from cloche.client.sandbox import AsyncServerSandbox


def test_it_is_a_sandbox_like_any_other(server: Server, there: cloche.Sandbox) -> None:
    assert isinstance(there, cloche.Sandbox)
    assert isinstance(there.backend, ServerSandbox)
    assert isinstance(cloche.AsyncSandbox(url=server.url).backend, AsyncServerSandbox)
    assert isinstance(there.contexts.create(), cloche.Context)
    assert isinstance(there.checkpoint(), cloche.Checkpoint)
    assert isinstance(there.attempt("1"), cloche.Attempt)
    assert isinstance(there.commands.start("true"), cloche.Process)


def test_the_environment_says_where(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOCHE_URL", server.url)
    monkeypatch.setenv("CLOCHE_API_KEY", server.key)
    with cloche.Sandbox() as box:
        assert isinstance(box.backend, ServerSandbox)
        assert box.run("1").text == "1"
    assert cloche.run("print(2)").stdout == "2\n"


def test_the_empty_address_is_this_host(monkeypatch: pytest.MonkeyPatch, jail: None) -> None:
    monkeypatch.setenv("CLOCHE_URL", "http://127.0.0.1:1")
    with cloche.Sandbox(url="") as box:
        assert not isinstance(box.backend, ServerSandbox)
        assert box.run("1").text == "1"
    assert cloche.run("print(2)", url="").stdout == "2\n"


@pytest.mark.parametrize("name", ["id", "metadata", "idle_timeout", "persistent", "workspace", "api_key"])
def test_what_only_a_server_has_is_refused_without_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLOCHE_URL", raising=False)
    values = {"metadata": {"a": "b"}, "idle_timeout": 5.0, "persistent": True}
    with pytest.raises(cloche.InvalidRun, match=f"{name}= needs a server"):
        cloche.Sandbox(**{name: values.get(name, "x")})  # type: ignore[arg-type]


def test_who_knows_the_id_uses_the_same_sandbox(server: Server, there: cloche.Sandbox) -> None:
    there.run("x = 41")
    other_context = there.contexts.create(language="bash")
    there.checkpoint("before")
    with cloche.Sandbox(url=server.url, api_key=server.key, id=there.id) as same:
        assert same.run("x + 1").text == "42"
        assert [context.id for context in same.contexts.list()] == ["python", other_context.id]
        assert [checkpoint.name for checkpoint in same.checkpoints.list()] == ["before"]
        assert [moment.kind for moment in same.history()] == ["run", "checkpoint", "run"]
        assert same.limits == there.limits
        same.run("x = 5")
        same.restore("before")
    assert there.run("x").text == "41"  # its block has not ended it


def test_files_that_were_to_be_kept_are_found_by_the_name_that_was_told(server: Server) -> None:
    with cloche.Sandbox(url=server.url, api_key=server.key, persistent=True) as first:
        first.files.write("kept", "x")
    name = first.workspace
    with cloche.Sandbox(url=server.url, api_key=server.key, workspace=name) as second:
        assert second.files.read("kept") == b"x"
        assert second.workspace == name
    with cloche.Sandbox(url=server.url, api_key=server.key) as third:
        assert third.workspace is None


def test_a_guest_may_end_it_all_the_same(server: Server, there: cloche.Sandbox) -> None:
    guest = cloche.Sandbox(url=server.url, api_key=server.key, id=there.id)
    guest.kill()
    with pytest.raises(cloche.Gone, match="ended by its owner"):
        there.run("1")
    with pytest.raises(cloche.Gone, match="ended by its owner"):
        cloche.Sandbox(url=server.url, api_key=server.key, id=there.id).open()


def test_an_id_that_nobody_has_is_told(server: Server) -> None:
    for identity in ("sbx_nobody", "../keys", "a b?c#d%"):
        with pytest.raises(cloche.Gone):
            cloche.Sandbox(url=server.url, api_key=server.key, id=identity).open()


def test_a_guest_interrupts_what_the_owner_runs(server: Server, there: cloche.Sandbox) -> None:
    import threading

    there.run("x = 1")
    results: list[cloche.Result] = []
    code = "open('begun', 'w').close()\nimport time; time.sleep(60)"
    thread = threading.Thread(target=lambda: results.append(there.run(code)))
    thread.start()
    with cloche.Sandbox(url=server.url, api_key=server.key, id=there.id) as guest:
        deadline = time.monotonic() + 20
        while not guest.files.exists("begun") and time.monotonic() < deadline:
            time.sleep(0.01)
        guest.interrupt()
    thread.join()
    assert results[0].error.name == "KeyboardInterrupt"
    assert there.run("x").text == "1"


def test_metadata_and_lifetimes_are_the_servers(server: Server) -> None:
    options = {"metadata": {"who": "me"}, "idle_timeout": 77, "lifetime": 99}
    with cloche.Sandbox(url=server.url, api_key=server.key, **options) as box:  # type: ignore[arg-type]
        assert isinstance(box.backend, ServerSandbox)
        told = box.backend.call("GET", "")
        assert (told["metadata"], told["idle_timeout"]) == ({"who": "me"}, 77)
        assert 90 < told["expires"] - told["created"] < 101
        box.set_lifetime(500)
        assert box.backend.call("GET", "")["expires"] > told["expires"] + 300


def test_a_client_that_forgets_it_leaves_it_to_the_server(server: Server) -> None:
    box = cloche.Sandbox(url=server.url, api_key=server.key)
    box.run("x = 7")
    identity = box.id
    del box
    gc.collect()
    with cloche.Sandbox(url=server.url, api_key=server.key, id=identity) as found:
        assert found.run("x").text == "7"
        found.kill()


def test_the_servers_limits_are_told(server: Server) -> None:
    with pytest.raises(cloche.InvalidRun, match="memory"):
        cloche.Sandbox(url=server.url, api_key=server.key, memory="900G").open()


def test_one_end_is_told_to_whoever_waits_for_it(server: Server, there: cloche.Sandbox) -> None:
    import threading

    reasons: list[str] = []
    there.run("1")
    thread = threading.Thread(target=lambda: reasons.append(there.ended()))
    thread.start()
    cloche.Sandbox(url=server.url, api_key=server.key, id=there.id).kill()
    thread.join(20)
    assert reasons == ["closed"]


async def is_sleeping(box: cloche.AsyncSandbox) -> bool:
    return "sleep 66" in (await box.commands.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).stdout


@pytest.mark.parametrize("what", ["commands.run", "run", "run_program"])
async def test_what_is_called_off_is_ended_there(server: Server, what: str) -> None:
    codes = {"commands.run": "sleep 66", "run": "!sleep 66", "run_program": "import os; os.system('sleep 66')"}
    async with cloche.AsyncSandbox(url=server.url, api_key=server.key) as box:
        await box.run("1")
        act = {"commands.run": box.commands.run, "run": box.run, "run_program": box.run_program}[what]
        running = asyncio.ensure_future(act(codes[what]))  # type: ignore[operator]
        async with asyncio.timeout(20):
            while not await is_sleeping(box):
                await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        async with asyncio.timeout(20):
            while await is_sleeping(box):
                await asyncio.sleep(0.01)
        assert (await box.run("2")).text == "2"
