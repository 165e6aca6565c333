"""Limits of a session: output, memory, disk, processes; each is told as itself, and the session goes on."""

# ruff: noqa: E501  (code is easier to compare when each piece is one line)

from __future__ import annotations

import time

import pytest

import cloche


def test_output_past_the_limit_is_cut_and_the_code_is_stopped() -> None:
    with cloche.Sandbox(output="1M") as box:
        box.run("x = 1")
        begin = time.monotonic()
        result = box.run("while True: print('y' * 999)")
        assert time.monotonic() - begin < 5
        assert (result.error.kind, result.truncated, result.restarted) == ("output", True, False)
        assert "1 MB" in result.error.message
        assert len(result.stdout) + len(result.stderr) == 1 << 20
        assert box.run("x").text == "1"


def test_the_output_limit_is_for_each_run() -> None:
    with cloche.Sandbox(output=1000) as box:
        for _ in range(3):
            exact = box.run("import sys; print('o' * 499); print('e' * 499, file=sys.stderr)")
            assert (exact.ok, exact.truncated) == (True, False)
        assert box.run("print('o' * 1000)").truncated


def test_output_of_a_command_counts_too() -> None:
    with cloche.Sandbox(output="100K") as box:
        assert box.run("!yes").error.kind == "output"
        assert box.run("import subprocess; subprocess.run('yes')").error.kind == "output"
        assert box.run("1").text == "1"


def test_a_full_disk_is_told_and_can_be_emptied() -> None:
    with cloche.Sandbox(disk="20M") as box:
        result = box.run("f = open('big', 'wb')\nfor _ in range(99): f.write(bytes(1 << 20))")
        assert (result.error.kind, result.error.name) == ("disk", "OSError")
        assert "20 MB" in result.error.message
        assert box.run("print('still here')").stdout == "still here\n"
        box.run("import os; f.close() if not f.closed else None; os.remove('big')")
        assert box.run("open('small', 'w').write('x' * 1000)").ok


def test_a_full_disk_does_not_keep_a_new_kernel_from_starting() -> None:
    with cloche.Sandbox(disk="20M") as box:
        box.run("import os\nfd = os.open('big', os.O_CREAT | os.O_WRONLY)\nwhile True: os.write(fd, bytes(4096))")
        box.restart()
        assert box.run("1 + 1").text == "2"
        assert box.contexts.create().run("2 + 2").text == "4"


@pytest.mark.parametrize(
    "code",
    [
        "import os, time\nfor _ in range(50):\n    if os.fork() == 0: time.sleep(30); os._exit(0)",
        "import threading\ne = threading.Event()\nfor _ in range(50): threading.Thread(target=e.wait, daemon=True).start()",
    ],
    ids=["processes", "threads"],
)
def test_too_many_processes_are_told_and_the_kernel_lives(code: str) -> None:
    with cloche.Sandbox(processes=16) as box:
        box.run("x = 1")
        result = box.run(code)
        assert result.error.kind == "processes", result
        assert "16 processes" in result.error.message
        assert box.run("x").text == "1"
        box.restart()
        assert box.run("2").text == "2"


def test_memory_that_was_let_go_can_be_used_again() -> None:
    with cloche.Sandbox(memory="400M") as box:
        for _ in range(5):
            assert box.run("x = bytearray(200 << 20); x = None").ok


def test_code_may_need_too_much_as_often_as_it_likes() -> None:
    with cloche.Sandbox(memory="100M") as box:
        box.files.write("kept", "still here")
        other = box.contexts.create()
        other.run("x = 1")
        kinds = [box.run("bytearray(200 << 20)[0]").error.kind for _ in range(12)]
        assert kinds == ["memory"] * 12
        assert (box.files.read("kept"), other.run("x").text) == (b"still here", "1")


def test_a_run_may_have_more_or_less_time_than_the_sandbox() -> None:
    with cloche.Sandbox(timeout=0.5) as box:
        assert box.run("import time; time.sleep(1); 'more'", timeout=5).text == "'more'"
        assert box.run("time.sleep(5)").error.kind == "timeout"
    with cloche.Sandbox(timeout=None) as box:
        assert box.run("import time; time.sleep(5)", timeout=0.3).error.kind == "timeout"
        assert box.run("'no limit'").text == "'no limit'"


def test_a_sandbox_whose_lifetime_is_over_ends_what_runs() -> None:
    with cloche.Sandbox(lifetime=1.0) as box:
        result = box.run("import time; time.sleep(60)")
        assert result.error.kind == "timeout"
        with pytest.raises(cloche.Gone):
            box.run("1")


def test_five_hundred_turns_do_not_grow_the_engine_or_the_sandbox(shared: cloche.Sandbox) -> None:
    import gc
    import resource

    shared.run("x = 0")
    for _ in range(100):
        shared.run("x += 1; x")
    gc.collect()
    engine, sandbox = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, shared.usage().memory
    for _ in range(500):
        assert shared.run("x += 1; x").ok
    assert shared.run("x").text == "600"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - engine < 8 << 10  # kB
    assert shared.usage().memory - sandbox < 30 << 20


def test_a_sandbox_full_of_processes_says_so_and_comes_back_when_they_end() -> None:
    with cloche.Sandbox(processes=12) as box:
        box.run("1")
        full = box.commands.start("for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do sleep 50 & done; wait")
        box.run("import os; os._exit(0)")
        result = box.run("1")
        assert result.ok or result.error.kind == "processes"
        full.kill()
        assert box.run("2").text == "2"


def test_a_session_begins_where_no_file_can_be_made(jail: None) -> None:
    with cloche.Sandbox(disk="1M") as box:
        box.commands.run("n=0; while : > f$n; do n=$((n+1)); done 2>/dev/null")
        assert box.run("6 * 7").text == "42"
        with pytest.raises(cloche.FileProblem, match="space"):
            box.checkpoint()
        box.commands.run("rm f*")
        before = box.checkpoint()
        box.restore(before)
        assert box.run("6 * 7").text == "42"
