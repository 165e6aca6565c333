"""Whoever calls, and however: scripts, threads, tasks, forks, notebooks; and owners who forget."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import cloche

pytestmark = pytest.mark.usefixtures("jail")


def script(code: str, timeout: float = 60) -> str:
    """What a plain Python script prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def eventually(holds: Callable[[], bool], seconds: float = 10) -> None:
    """Wait for something that nothing announces."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


def is_gone(process: int) -> bool:
    """Has a process, of which we hold a pidfd, ended?"""
    return bool(select.select([process], [], [], 0)[0])


def marked(mark: str) -> list[int]:
    """Processes on this host with this among their arguments."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if mark.encode() in words:
                found.append(int(name))
    return found


def unique() -> str:
    """A number of seconds that nobody else sleeps for."""
    return f"{1_000_000 + int.from_bytes(os.urandom(4), 'big')}"


# --- a plain script


def test_a_script_runs_and_leaves_without_a_word() -> None:
    assert script("import cloche; print(cloche.run('print(6*7)').stdout, end='')") == "42\n"


@pytest.mark.embedded  # a server's sandbox outlives its client, until its time is up
def test_a_script_that_closes_nothing_leaves_no_process() -> None:
    mark = unique()
    said = script(f"""
        import cloche
        box = cloche.Sandbox()
        process = box.commands.start(["sleep", "{mark}"])
        print(process.pid > 0)
    """)
    assert said == "True\n"
    eventually(lambda: not marked(mark))


@pytest.mark.embedded  # a server's sandbox outlives its client, until its time is up
def test_a_script_that_is_killed_leaves_no_process() -> None:
    mark = unique()
    code = f"import cloche\nbox = cloche.Sandbox()\nbox.commands.start(['sleep', '{mark}'])\nprint('ready')\ninput()"
    with subprocess.Popen([sys.executable, "-u", "-c", code], stdin=-1, stdout=-1, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        eventually(lambda: bool(marked(mark)))
        child.kill()
    eventually(lambda: not marked(mark), 5)


def test_a_script_that_is_interrupted_ends_and_leaves_no_process() -> None:
    mark = unique()
    code = f"import cloche\nbox = cloche.Sandbox()\nprint('ready', flush=True)\nbox.commands.run(['sleep', '{mark}'])"
    with subprocess.Popen([sys.executable, "-c", code], stdout=-1, stderr=-1, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        eventually(lambda: bool(marked(mark)))
        child.send_signal(signal.SIGINT)
        _, stderr = child.communicate(timeout=20)
    assert "KeyboardInterrupt" in stderr
    eventually(lambda: not marked(mark), 5)


def test_a_script_may_run_code_at_its_exit() -> None:
    said = script("""
        import atexit, cloche
        cloche.run("")
        atexit.register(lambda: print(cloche.run("print('late')").stdout, end=""))
    """)
    assert said == "late\n"


def test_closed_standard_streams_do_not_matter() -> None:
    code = (
        "import os; os.closerange(0, 3)\nimport cloche\nraise SystemExit(cloche.run('raise SystemExit(7)').exit_code)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 7


# --- ends


def test_a_closed_sandbox_is_gone_and_says_so() -> None:
    box = cloche.Sandbox()
    box.files.write("f", "x")
    box.close()
    box.close()
    for use in (
        lambda: box.files.read("f"),
        lambda: box.commands.run("true"),
        lambda: box.commands.start("true"),
        lambda: box.run_program(""),
        lambda: list(box.stream_program("")),
        box.usage,
        box.open,
        box.__enter__,
    ):
        with pytest.raises(cloche.Gone, match="ended") as caught:
            use()
        assert caught.value.hint


def test_a_sandbox_that_was_never_used_can_be_closed() -> None:
    box = cloche.Sandbox()
    box.close()
    with pytest.raises(cloche.Gone):
        box.files.list()


def test_sandboxes_may_be_nested_and_do_not_see_each_other() -> None:
    with cloche.Sandbox() as outer, cloche.Sandbox() as inner:
        outer.files.write("f", "outer")
        inner.files.write("f", "inner")
        assert (outer.files.read("f"), inner.files.read("f")) == (b"outer", b"inner")
        inner.close()
        assert outer.files.read("f") == b"outer"


def test_a_sandbox_ends_with_its_block_also_after_an_error() -> None:
    mark = unique()

    def fail() -> None:
        with cloche.Sandbox() as box:
            box.commands.start(["sleep", mark])
            eventually(lambda: bool(marked(mark)))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not marked(mark)


def test_a_process_whose_sandbox_is_closed_ends_as_killed() -> None:
    box = cloche.Sandbox()
    process = box.commands.start("sleep 60")
    box.close()
    result = process.wait()
    assert result.error is not None
    assert result.error.kind in ("killed", "lost")
    assert result.exit_code == 137


@pytest.mark.embedded  # it looks into the process
def test_a_wait_in_another_thread_ends_with_the_sandbox() -> None:
    box = cloche.Sandbox()
    process = box.commands.start("echo ready; sleep 60")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(process.wait)
        eventually(lambda: bool(process._backend._kept["stdout"]))  # type: ignore[attr-defined]
        box.close()
        assert waiting.result(timeout=20).exit_code == 137


@pytest.mark.embedded  # a server's sandbox outlives its client, until its time is up
def test_a_forgotten_sandbox_ends() -> None:
    mark = unique()
    box = cloche.Sandbox()
    box.commands.start(["sleep", mark])
    eventually(lambda: len(marked(mark)) == 1)
    [pid] = marked(mark)
    process = os.pidfd_open(pid)
    del box
    gc.collect()
    eventually(lambda: is_gone(process))
    os.close(process)


@pytest.mark.embedded  # a server's sandbox outlives its client, until its time is up
async def test_a_forgotten_asynchronous_sandbox_ends() -> None:
    mark = unique()
    box = cloche.AsyncSandbox()
    await box.commands.start(["sleep", mark])
    eventually(lambda: bool(marked(mark)))
    del box
    gc.collect()
    eventually(lambda: not marked(mark))


def test_a_sandbox_lives_no_longer_than_its_lifetime() -> None:
    with cloche.Sandbox(lifetime=0.5) as box:
        result = box.commands.run("sleep 60")
        assert result.error is not None
        assert result.error.kind == "timeout"
        with pytest.raises(cloche.Gone):
            box.commands.run("true")


@pytest.mark.parametrize("lifetime", [0, -1, "1", True, float("nan")])
def test_an_impossible_lifetime_is_refused(lifetime: float) -> None:
    with pytest.raises(cloche.InvalidRun, match="lifetime"):
        cloche.Sandbox(lifetime=lifetime)


BAD_OPTIONS = [{"memory": "x"}, {"timeout": 0}, {"cpu": -1}, {"disk": 5}, {"processes": 0}, {"output": -1}, {"env": 5}]


@pytest.mark.parametrize("options", BAD_OPTIONS, ids=str)
def test_bad_options_of_a_sandbox_are_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(cloche.InvalidRun):
        cloche.Sandbox(**options)
    with pytest.raises(cloche.InvalidRun):
        cloche.AsyncSandbox(**options)


@pytest.mark.embedded  # connections to a server are kept
def test_a_run_leaves_no_descriptor_behind() -> None:
    def descriptors() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    cloche.run("")
    before = descriptors()
    for _ in range(10):
        cloche.run("print(1)")
        with cloche.Sandbox() as box:
            box.commands.start("true").wait()
            box.files.write("f", "x")
            with pytest.raises(cloche.FileMissing):
                box.commands.run(["missing"])
    assert descriptors() <= before


# --- threads


def test_eight_threads_with_a_sandbox_each() -> None:
    def work(n: int) -> str:
        with cloche.Sandbox() as box:
            box.files.write("n", str(n))
            return box.run_program("print(int(open('n').read()) ** 2)").stdout

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(16))) == [f"{n * n}\n" for n in range(16)]


def test_eight_threads_run_programs() -> None:
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: cloche.run(f"print({n})").stdout, range(40)))
    assert results == [f"{n}\n" for n in range(40)]


def test_eight_threads_with_one_sandbox(box: cloche.Sandbox) -> None:
    def work(n: int) -> None:
        box.files.write(f"{n}", str(n) * 1000)
        assert box.commands.run(f"cat {n}; head -c 300000 /dev/zero").stdout[: len(str(n)) * 1000] == str(n) * 1000
        assert box.run_program(f"print({n})").stdout == f"{n}\n"
        assert box.files.read(f"{n}") == str(n).encode() * 1000

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(24)))


def test_threads_that_open_one_sandbox_at_once_open_one() -> None:
    box = cloche.Sandbox()
    barrier = threading.Barrier(6)

    def work(n: int) -> str:
        barrier.wait()
        return box.commands.run(f"echo {n} >> all; cat /proc/sys/kernel/random/boot_id").stdout

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert sorted(box.files.read("all").split()) == [b"%d" % n for n in range(6)]
    box.close()


# --- asyncio


async def test_twenty_sandboxes_at_once() -> None:
    async def work(n: int) -> str:
        async with cloche.AsyncSandbox() as box:
            await box.files.write("n", str(n))
            return (await box.run_program("print(int(open('n').read()) ** 2)")).stdout

    results = await asyncio.gather(*(work(n) for n in range(20)))
    assert results == [f"{n * n}\n" for n in range(20)]


async def test_the_loop_turns_while_a_program_runs() -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0.01)

    turning = asyncio.create_task(turn())
    await cloche.async_run("import time; time.sleep(0.5)")
    turning.cancel()
    assert turns > 15


async def test_a_cancelled_run_leaves_no_process() -> None:
    mark = unique()
    task = asyncio.create_task(cloche.async_run(f"exec sleep {mark}", language="bash"))
    while not marked(mark):
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    eventually(lambda: not marked(mark))


async def test_a_blocking_run_works_inside_a_running_loop() -> None:
    assert cloche.run("print(1)").stdout == "1\n"
    with cloche.Sandbox() as box:
        assert box.commands.run("echo 2").stdout == "2\n"


async def test_a_blocking_run_works_in_a_thread_of_a_loop() -> None:
    results = await asyncio.gather(*(asyncio.to_thread(cloche.run, f"print({n})") for n in range(6)))
    assert [result.stdout for result in results] == [f"{n}\n" for n in range(6)]


def test_one_loop_after_another() -> None:
    for n in range(3):
        assert asyncio.run(cloche.async_run(f"print({n})")).stdout == f"{n}\n"


async def test_tasks_that_open_one_sandbox_at_once_open_one() -> None:
    box = cloche.AsyncSandbox()
    await asyncio.gather(*(box.files.write(f"data/{n}", "") for n in range(10)))
    assert len(await box.files.list("data")) == 10
    await box.close()


# --- forks


def test_a_forked_child_uses_cloche_while_the_parent_goes_on(box: cloche.Sandbox) -> None:
    box.files.write("f", "parent")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, cloche.run("print('child')").stdout.encode())
        finally:
            os._exit(0)
    os.close(writing)
    assert cloche.run("print('parent')").stdout == "parent\n"
    with os.fdopen(reading) as said:
        assert said.read() == "child\n"
    os.waitpid(child, 0)
    assert box.files.read("f") == b"parent"
    assert cloche.run("print('still')").stdout == "still\n"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_of_processes_uses_cloche(method: str) -> None:
    cloche.run("")  # so that a fork has a nursery to forget
    with multiprocessing.get_context(method).Pool(2) as pool:
        results = pool.map(cloche.run, [f"print({n})" for n in range(4)])
    assert [result.stdout for result in results] == [f"{n}\n" for n in range(4)]


def test_a_child_that_exits_does_not_end_the_parents_sandbox() -> None:
    said = script("""
        import os, sys, cloche
        box = cloche.Sandbox()
        box.files.write("f", "x")
        child = os.fork()
        if child == 0:
            sys.exit(0)  # with all that is done at an exit
        os.waitpid(child, 0)
        print(box.files.read("f"))
    """)
    assert said == "b'x'\n"


@pytest.mark.embedded  # a server's sandbox outlives its client, until its time is up
def test_a_forgotten_sandbox_ends_even_if_a_child_was_forked_meanwhile() -> None:
    mark = unique()
    box = cloche.Sandbox()
    box.commands.start(["sleep", mark])
    eventually(lambda: bool(marked(mark)))
    child = os.fork()
    if child == 0:
        signal.pause()
    try:
        del box
        gc.collect()
        eventually(lambda: not marked(mark))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
