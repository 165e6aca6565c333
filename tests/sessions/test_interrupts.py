"""Time limits and interrupts: the code stops, and keeps its variables if it can; nobody else notices."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
from tests.waiting import eventually, eventually_async

import cloche
from cloche.model.events import End

BEGIN = "open('/sandbox/begun', 'w').close()\n"
ENDLESS = f"import time\n{BEGIN}time.sleep(60)"
STUBBORN = f"import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n{BEGIN}time.sleep(60)"


def until_begun(box: cloche.Sandbox) -> None:
    """Wait for code that starts with BEGIN."""
    eventually(lambda: box.files.exists("begun"))
    box.files.remove("begun")


def once_begun(box: cloche.Sandbox, act: Callable[[], object]) -> threading.Thread:
    """Act in another thread as soon as the code runs, which starts with BEGIN."""

    def wait_and_act() -> None:
        until_begun(box)
        act()

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    return thread


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time; time.sleep(60)",
        "!sleep 60",
        "%%bash\nsleep 60",
        "import subprocess; subprocess.run(['sleep', '60'])",
        "import asyncio; await asyncio.sleep(60)",
        "import asyncio; asyncio.run(asyncio.sleep(60))",
        "import threading; threading.Event().wait()",
        "import queue; queue.Queue().get()",
        "import threading; t = threading.Thread(target=threading.Event().wait, daemon=True); t.start(); t.join()",
        "import socket; a, b = socket.socketpair(); a.recv(1)",
        "class Slow:\n    def __repr__(self):\n        while True: pass\nSlow()",
        "from multiprocessing import Pool\nimport time\nwith Pool(2) as pool: pool.map(time.sleep, [60, 60])",
        "import numpy as np\nwhile True: np.ones(1000) @ np.ones(1000)",
    ],
)
def test_code_whose_time_is_up_is_interrupted_and_keeps_its_variables(shared: cloche.Sandbox, code: str) -> None:
    shared.run("kept = 'kept'")
    result = shared.run(f"{'' if code.startswith('%') else 'begun = 1'}\n{code}".lstrip(), timeout=0.4)
    assert (result.error.kind, result.exit_code, result.restarted) == ("timeout", 124, False), result
    assert "0.4 seconds" in result.error.message
    assert shared.run("kept").text == "'kept'"


def test_output_from_before_the_time_was_up_is_kept(shared: cloche.Sandbox) -> None:
    result = shared.run("import time; print('x' * 200_000); print('half', end='')\ntime.sleep(60)", timeout=1)
    assert result.stdout == "x" * 200_000 + "\nhalf"


def test_where_it_was_stopped_is_told(shared: cloche.Sandbox) -> None:
    result = shared.run("def wait():\n    while True: pass\nwait()", timeout=1)
    assert "line 2, in wait" in (result.error.traceback or "")


def test_code_may_tidy_up_when_it_is_interrupted(shared: cloche.Sandbox) -> None:
    result = shared.run("import time\ntry: time.sleep(60)\nfinally: tidied = True; print('tidied')", timeout=1)
    assert (result.error.kind, result.stdout) == ("timeout", "tidied\n")
    assert shared.run("tidied").text == "True"


def test_code_that_does_not_yield_loses_its_kernel_alone(box: cloche.Sandbox) -> None:
    box.run("x = 1; open('kept', 'w').write('kept')")
    other = box.contexts.create()
    other.run("y = 2")
    box.run("import subprocess; subprocess.Popen(['sleep', '77'])")
    result = box.run(STUBBORN, timeout=1)
    assert (result.error.kind, result.restarted, result.exit_code) == ("timeout", True, 124)
    assert "variables are gone" in result.error.message
    again = box.run("'x' in globals(), open('kept').read()")
    assert (again.text, again.restarted, again.execution_count) == ("(False, 'kept')", False, 1)
    assert other.run("y").text == "2"
    assert "sleep 77" not in box.commands.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout


def test_there_is_no_way_to_stay(box: cloche.Sandbox) -> None:
    ways = [
        "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\ntime.sleep(60)",
        "import time\nwhile True:\n    try: time.sleep(60)\n    except BaseException: pass",
        "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
        "import ctypes; ctypes.PyDLL(None).sleep(60)",  # which holds the interpreter's lock
    ]
    told: dict[str, cloche.Result] = {}

    def stay(code: str) -> None:
        told[code] = box.contexts.create().run(code, timeout=0.5)

    threads = [threading.Thread(target=stay, args=(code,)) for code in ways]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert [told[code].error.kind for code in ways] == ["timeout"] * 4
    assert [told[code].restarted for code in ways][:3] == [True] * 3
    assert all(result.duration < 5 for result in told.values())
    assert [context.run("1").text for context in box.contexts.list()] == ["1"] * 4


def test_a_time_limit_counts_from_the_cells_own_begin(shared: cloche.Sandbox) -> None:
    threads = [threading.Thread(target=shared.run, args=("import time; time.sleep(1.5)",)) for _ in range(2)]
    for thread in threads:
        thread.start()
    result = shared.run("time.sleep(0.4); 'done'", timeout=2.5)
    for thread in threads:
        thread.join()
    assert result.text == "'done'"


def test_interrupting_from_another_thread_stops_the_code_and_keeps_its_variables(shared: cloche.Sandbox) -> None:
    shared.run("kept = 1")
    thread = once_begun(shared, shared.interrupt)
    result = shared.run(ENDLESS)
    thread.join()
    assert (result.error.kind, result.error.name, result.restarted) == ("killed", "KeyboardInterrupt", False)
    assert "interrupted" in result.error.message
    assert result.duration < 2
    assert shared.run("kept").text == "1"


def test_interrupting_code_that_does_not_yield_ends_its_kernel(box: cloche.Sandbox) -> None:
    thread = once_begun(box, box.interrupt)
    result = box.run(STUBBORN, timeout=3600)
    thread.join()
    assert (result.error.kind, result.restarted) == ("killed", True)
    assert result.duration < 60  # of the program's sleep


def test_an_interrupt_at_the_very_beginning_is_not_lost(shared: cloche.Sandbox) -> None:
    shared.run("kept = 1")
    events = shared.stream("import time; time.sleep(60)")
    next(events)
    shared.interrupt()
    *_, end = events
    assert isinstance(end, End)
    assert (end.result.error.kind, end.result.restarted) == ("killed", False)
    assert shared.run("kept").text == "1"


def test_one_context_is_interrupted_and_the_other_is_not(box: cloche.Sandbox) -> None:
    one, two = box.contexts.create(), box.contexts.create()
    results: list[cloche.Result] = []
    waits = "import os, time\nopen('waits', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.01)\n'whole'"
    other = threading.Thread(target=lambda: results.append(two.run(waits)))
    other.start()
    eventually(lambda: box.files.exists("waits"))
    thread = once_begun(box, one.interrupt)
    assert one.run(ENDLESS).error.kind == "killed"
    thread.join()
    box.files.write("go", b"")
    other.join()
    assert results[0].text == "'whole'"


def test_an_interrupt_when_nothing_runs_does_nothing(shared: cloche.Sandbox) -> None:
    shared.run("kept = 1")
    shared.interrupt()
    assert shared.run("kept").text == "1"


def test_a_cell_that_waits_for_its_turn_survives_an_interrupt_of_the_one_before_it(shared: cloche.Sandbox) -> None:
    results: list[cloche.Result] = []
    first = threading.Thread(target=lambda: results.append(shared.run(ENDLESS)))
    first.start()
    until_begun(shared)
    # Nothing announces that a cell waits for its turn.  If it does not yet, the test sees less, but does not fail.
    timer = threading.Timer(0.3, shared.interrupt)
    timer.start()
    assert shared.run("'second'").text == "'second'"
    first.join()
    timer.join()
    assert results[0].error.kind == "killed"


def test_a_restart_ends_what_runs_and_says_so(box: cloche.Sandbox) -> None:
    box.run("x = 1")
    thread = once_begun(box, box.restart)
    result = box.run(ENDLESS)
    thread.join()
    assert (result.error.kind, result.restarted) == ("killed", True)
    assert "restarted" in result.error.message
    again = box.run("'x' in globals()")
    assert (again.text, again.execution_count) == ("False", 1)


def test_a_sandbox_that_is_closed_ends_what_runs(warm: None) -> None:
    box = cloche.Sandbox()
    box.run("1")
    thread = once_begun(box, box.close)
    result = box.run(ENDLESS)
    thread.join()
    assert result.error.kind == "killed"
    assert "closed" in result.error.message


async def test_interrupting_from_another_task(async_box: cloche.AsyncSandbox) -> None:
    task = asyncio.create_task(async_box.run(ENDLESS))
    await eventually_async(lambda: async_box.files.exists("begun"))
    await async_box.interrupt()
    assert (await task).error.kind == "killed"
