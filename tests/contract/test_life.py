"""Behind every wall: how a sandbox is measured, paused, and ends."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from socket import socket

import pytest
from tests.contract.conftest import Contract

import cloche
from cloche.blocking.walls import registry
from cloche.blocking.walls.wall import Hold
from cloche.model.limits import Limits
from cloche.model.order import Order
from cloche.wire import frames


@pytest.fixture
def hold(isolation: str) -> Iterator[Callable[[], Hold]]:
    """Makes sandboxes as the engine does, without the engine."""
    made: list[Hold] = []

    def make() -> Hold:
        made.append(registry.wall(isolation).hold(Order(Limits())))
        return made[-1]

    yield make
    for each in made:
        each.abandon()


def answers(sandbox: Hold) -> bool:
    """Has the sandbox an agent that answers?"""
    sandbox.stream.send(frames.encode_json(1, frames.CALL, {"method": "disk"}))
    return bool(sandbox.stream.receive(1024, 20))


def copy_of_stream(sandbox: Hold) -> socket:
    return socket(fileno=os.dup(sandbox.stream._socket.fileno()))


def await_end(stream: socket) -> None:
    """Wait until the agent's end is closed, which only the sandbox's end does."""
    stream.settimeout(20)
    try:
        while stream.recv(1024):
            pass
    except ConnectionResetError:
        pass  # it was closed with something unread
    stream.close()


def test_usage_is_measured(box: cloche.Sandbox) -> None:
    box.run("kept = 'x' * 50_000_000")
    usage = box.usage()
    assert usage.memory > 0
    assert usage.disk >= 0


def test_folders_of_the_host_are_mounted_or_refused(isolation: str, contract: Contract, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("from the host")
    tmp_path.chmod(0o755)
    code = "print(open('data/in.txt').read()); open('data/in.txt', 'w')"
    mounts = {str(tmp_path): "/sandbox/data"}
    if not contract.can("mounts"):
        with contract.refuses("mounts") as caught:
            cloche.run(code, isolation=isolation, mounts=mounts)
        assert caught.value.hint
        return
    result = cloche.run(code, isolation=isolation, mounts=mounts)
    assert result.stdout == "from the host\n"
    assert result.error.name == "OSError"  # read-only
    assert (tmp_path / "in.txt").read_text() == "from the host"


def test_it_is_paused_and_goes_on_or_says_that_it_cannot(box: cloche.Sandbox, contract: Contract) -> None:
    box.run("n = 1")
    if not contract.can("pause"):
        with contract.refuses("pause") as caught:
            box.pause()
        assert caught.value.hint
    else:
        ticks = "import time\nwhile True: print('tick', flush=True); time.sleep(0.01)"
        process = box.start_program(ticks)
        events = iter(process)
        while not getattr(next(events), "data", b""):
            pass
        box.pause()
        assert box.paused
        box.resume()
        for _ in range(200):  # more than was on the way
            assert next(events).kind == "stdout"
        process.kill()
    assert box.run("n").text == "1"


async def test_its_lifetime_ends_it(isolation: str) -> None:
    box = cloche.AsyncSandbox(isolation=isolation, lifetime=30)
    await box.open()
    assert (await box.run("1")).text == "1"
    await box.set_lifetime(0.2)
    assert await box.ended() == "timeout"
    with pytest.raises(cloche.Gone, match="its time was up"):
        await box.run("1")
    await box.close()


def test_a_sandbox_that_is_closed_is_gone(isolation: str) -> None:
    box = cloche.Sandbox(isolation=isolation)
    assert box.run("1").text == "1"
    box.close()
    assert box.ended() == "closed"
    with pytest.raises(cloche.Gone):
        box.run("1")
    box.close()  # again: no harm


def test_an_end_is_told_once_and_may_be_asked_for_twice(hold: Callable[[], Hold]) -> None:
    sandbox = hold()
    assert answers(sandbox)
    assert sandbox.end().reason == ""
    assert sandbox.end() == sandbox.end()
    sandbox.gone()
    assert sandbox.ended() == "lost"  # its owner knows why; the wall saw no reason of its own


def test_whoever_waits_for_the_end_does_not_keep_others_from_asking(hold: Callable[[], Hold]) -> None:
    sandbox, reasons = hold(), list[str]()
    assert answers(sandbox)
    waiting = threading.Thread(target=lambda: reasons.append(sandbox.ended()))
    waiting.start()
    sandbox.usage()
    sandbox.set_lifetime(0.1)
    waiting.join(20)
    assert reasons == ["timeout"]


def test_the_death_of_the_agent_is_the_end_of_the_sandbox(hold: Callable[[], Hold]) -> None:
    sandbox = hold()
    assert answers(sandbox)
    sandbox.stream.send(b"\xff" * 64)  # no frame: the agent gives up
    assert sandbox.ended() == "lost"
    sandbox.gone()


def test_a_sandbox_ends_when_its_leash_closes(hold: Callable[[], Hold]) -> None:
    sandbox = hold()
    assert answers(sandbox)
    stream = copy_of_stream(sandbox)
    sandbox.abandon()
    await_end(stream)


def test_one_that_is_abandoned_at_once_does_no_harm(hold: Callable[[], Hold]) -> None:
    for _ in range(3):
        hold().abandon()
    assert answers(hold())


def test_one_that_is_forgotten_ends(isolation: str) -> None:
    box = cloche.Sandbox(isolation=isolation)
    assert box.run("1").text == "1"
    hold = getattr(box.backend, "_hold")  # noqa: B009  (the backend's own, behind a protocol)
    stream = copy_of_stream(hold)
    del hold
    del box
    gc.collect()
    await_end(stream)


def test_many_live_side_by_side(isolation: str) -> None:
    boxes = [cloche.Sandbox(isolation=isolation) for _ in range(3)]
    try:
        for number, box in enumerate(boxes):
            box.run(f"n = {number}")
        assert [box.run("n").text for box in boxes] == ["0", "1", "2"]
    finally:
        for box in boxes:
            box.close()


def test_a_run_does_not_see_the_files_of_the_one_before(isolation: str) -> None:
    cloche.run("open('/tmp/mark', 'w').write('1')", isolation=isolation)
    begin = time.monotonic()
    assert cloche.run("import os; print(os.path.exists('/tmp/mark'))", isolation=isolation).stdout == "False\n"
    assert time.monotonic() - begin < 20
