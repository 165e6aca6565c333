"""Checkpoints, restore, history and undo: what comes back, how often, after what, and what is said of the rest."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

import cloche
from cloche.sandbox.attempts import AsyncAttempt

pytestmark = pytest.mark.usefixtures("jail")


@pytest.fixture
def undoing(jail: None) -> Iterator[cloche.Sandbox]:
    """A sandbox that makes a checkpoint before every run."""
    with cloche.Sandbox(undo=True, checkpoints=3) as sandbox:
        yield sandbox


def value(box: cloche.Sandbox, expression: str) -> object:
    """What an expression is in the session."""
    result = box.run(expression)
    assert result.error is None, result
    return result.text


# --- what comes back


def test_restore_brings_back_variables_as_often_as_wanted(box):
    box.run("x = 1; seen = [1]")
    point = box.checkpoint()
    for _ in range(3):
        box.run("x = 2; seen.append(2); new = 3")
        box.restore(point)
        assert value(box, "x, seen, 'new' in globals()") == "(1, [1], False)"


def test_restore_brings_back_files_modes_folders_and_links(box):
    box.run("""
        import os
        open('text', 'w').write('one'); open('gone', 'w').write('back'); open('run.sh', 'w').write('#!/bin/sh')
        os.chmod('run.sh', 0o755); os.makedirs('empty/inner')
        os.symlink('text', 'link'); os.symlink('/nowhere', 'dead')
    """)
    point = box.checkpoint("files")
    box.run("""
        import shutil
        open('text', 'a').write('two'); os.remove('gone'); os.chmod('run.sh', 0o600); shutil.rmtree('empty')
        os.remove('link'); os.symlink('run.sh', 'link'); os.remove('dead'); os.mkdir('dead')
        open('new', 'w').close(); os.makedirs('new folder/deep'); open('new folder/deep/f', 'w').close()
    """)
    restored = box.restore(point)
    assert restored.files["removed"] >= 2
    found = value(
        box,
        "open('text').read(), open('gone').read(), oct(os.stat('run.sh').st_mode & 0o777), os.listdir('empty'), "
        "os.readlink('link'), os.readlink('dead'), os.path.exists('new'), os.path.exists('new folder')",
    )
    assert found == "('one', 'back', '0o755', ['inner'], 'text', '/nowhere', False, False)"


def test_files_that_the_owner_wrote_are_restored_too(box):
    box.files.write("given.csv", "a,b\n")
    box.checkpoint("given")
    box.files.write("given.csv", "spoilt")
    box.restore("given")
    assert box.files.read_text("given.csv") == "a,b\n"


def test_a_name_that_is_not_utf8_comes_back(box):
    box.run("import os; open(b'caf\\xe9', 'w').write('x')")
    point = box.checkpoint()
    box.run("os.remove(b'caf\\xe9')")
    box.restore(point)
    assert value(box, "open(b'caf\\xe9').read()") == "'x'"


@pytest.mark.parametrize(
    "end",
    ["import os; os._exit(3)", "import ctypes; ctypes.string_at(0)", "import os, signal; os.kill(os.getpid(), 9)"],
    ids=["exit", "segfault", "kill"],
)
def test_restore_works_after_the_kernel_has_ended(box, end):
    box.run("x = 41")
    point = box.checkpoint()
    assert box.run(end).restarted
    assert box.run("x").error.name == "NameError"
    box.restore(point)
    assert value(box, "x + 1") == "42"


def test_a_checkpoint_survives_an_out_of_memory_of_the_session():
    with cloche.Sandbox(memory="256M", timeout=60) as box:
        box.run("x = bytes(20 << 20)")
        point = box.checkpoint()
        result = box.run("y = bytearray(1 << 20)\nwhile True: y += bytes([1]) * (8 << 20)")
        assert result.error.kind == "memory"
        restored = box.restore(point)
        assert restored.restarted == ()
        assert value(box, "len(x)") == str(20 << 20)


def test_restore_works_after_a_restart_and_after_the_context_was_removed(box):
    context = box.contexts.create()
    context.run("mine = 'kept'")
    box.run("x = 1")
    point = box.checkpoint()
    box.restart()
    context.remove()
    box.restore(point)
    assert value(box, "x") == "1"
    assert context.run("mine").text == "'kept'"
    assert not context.removed


def test_contexts_are_restored_together_and_those_made_since_are_gone(box):
    first, second = box.contexts.create(), box.contexts.create()
    first.run("v = 'first'")
    second.run("v = 'second'")
    point = box.checkpoint()
    late = box.contexts.create()
    for context in (first, second, late):
        context.run("v = 'late'")
    box.restore(point)
    assert (first.run("v").text, second.run("v").text) == ("'first'", "'second'")
    assert late.removed
    with pytest.raises(cloche.Gone, match="python-3"):
        late.run("1")


def test_the_context_of_another_language_starts_anew_and_is_named(box):
    first = box.run("a=1", language="bash")
    if first.error is not None and first.error.kind == "unavailable":
        pytest.skip("no Bash kernel here")
    box.run("x = 1")
    point = box.checkpoint()
    note = "Not kept: the variables (only Python's variables can be copied) of the context bash."
    assert (point.lost, point.note) == ({"bash": {"variables": "language"}}, note)
    restored = box.restore(point)
    assert restored.restarted == ("bash",)
    assert (restored.lost, restored.note) == (point.lost, note)
    assert box.run("echo [$a]", language="bash").stdout == "[]\n"
    assert value(box, "x") == "1"


def test_a_checkpoint_of_a_session_that_has_not_begun(box):
    point = box.checkpoint()
    box.run("x = 1; open('f', 'w').close()")
    box.restore(point)
    assert box.run("x").error.name == "NameError"
    assert not box.files.exists("f")


def test_an_open_file_goes_on_where_it_stood(box):
    box.files.write("lines", "1\n2\n3\n4\n")
    box.run("f = open('lines'); f.readline(); out = open('out', 'w'); _ = out.write('before '); out.flush()")
    point = box.checkpoint()
    for _ in range(2):
        box.run("f.read(); _ = out.write('other'); out.flush()")
        box.restore(point)
        assert value(box, "f.readline()") == "'2\\n'"
        box.run("_ = out.write('after'); out.flush()")
        assert box.files.read_text("out") == "before after"


def test_a_working_directory_that_was_removed_since_is_there_again(box):
    box.run("import os; os.makedirs('work'); os.chdir('work')")
    point = box.checkpoint()
    box.run("os.chdir('/sandbox'); os.rmdir('work')")
    box.restore(point)
    assert value(box, "os.getcwd()") == "'/sandbox/work'"
    box.run("open('f', 'w').close()")
    assert box.files.exists("work/f")


def test_generators_go_on_as_they_were_and_what_must_be_unique_is(box):
    box.run("import random, uuid, numpy, secrets, tempfile; random.seed(1); numpy.random.seed(1)")
    point = box.checkpoint()
    drawn, unique = set(), set()
    for _ in range(3):
        box.restore(point)
        drawn.add(value(box, "random.random(), numpy.random.rand()"))
        unique.add(value(box, "uuid.uuid4(), secrets.token_hex()"))
        unique.add(value(box, "tempfile.mktemp()"))
    assert (len(drawn), len(unique)) == (1, 6)


def test_the_count_of_cells_goes_back(box):
    box.run("1")
    point = box.checkpoint()
    box.run("2")
    box.restore(point)
    assert box.run("Out[1]").execution_count == 2


# --- what does not


def test_what_cannot_be_carried_is_told_at_the_checkpoint_and_at_restore(box):
    box.run("""
        import socket, subprocess, threading, time
        threading.Thread(target=time.sleep, args=(600,), name='napper', daemon=True).start()
        pair, child = socket.socketpair(), subprocess.Popen(['sleep', '600'])
    """)
    lost = {"python": {"threads": ["napper"], "children": 1, "sockets": 2}}
    point = box.checkpoint()
    note = "Not kept: 1 thread, 1 child process, 2 sockets of the context python."
    assert (point.lost, point.note) == (lost, note)
    for _ in range(2):
        restored = box.restore(point)
        assert (restored.lost, restored.note) == (lost, note)
    branch = box.branch(point)
    assert branch.lost == {branch.id: lost["python"]}
    assert branch.note == note.replace("python", branch.id)


def test_nothing_is_told_where_nothing_is_lost(box):
    box.run("import asyncio; await asyncio.sleep(0)")
    point = box.checkpoint()
    assert (point.lost, point.note) == ({}, "")
    restored = box.restore(point)
    assert (restored.lost, restored.note) == ({}, "")


def test_children_of_the_session_end_at_restore(box):
    point = box.checkpoint()
    box.run("import subprocess; child = subprocess.Popen(['sleep', '600'])")
    box.restore(point)
    assert "sleep 600" not in box.commands.run("ps ax -o args").stdout.split("\n")


# --- names and bounds


def test_checkpoints_are_found_by_name_by_id_and_as_they_are(box):
    box.run("x = 1")
    point = box.checkpoint("loaded")
    for which in ("loaded", point.id, point):
        box.run("x = 2")
        box.restore(which)
        assert value(box, "x") == "1"
    assert box.checkpoints.list() == [point]


def test_a_name_is_given_once(box):
    box.checkpoint("a")
    with pytest.raises(cloche.InvalidRun, match="'a' already"):
        box.checkpoint("a")
    box.checkpoints.remove("a")
    box.checkpoint("a")


@pytest.mark.parametrize("which", ["unknown", "", "checkpoint-99", 7, None])
def test_an_unknown_checkpoint_is_gone(box, which):
    box.checkpoint()
    with pytest.raises(cloche.Gone, match="no checkpoint"):
        box.restore(which)


def test_a_removed_checkpoint_is_gone(box):
    point = box.checkpoint("p")
    point.remove()
    assert point.removed
    for act in (point.restore, point.branch, point.remove, lambda: box.restore("p")):
        with pytest.raises(cloche.Gone, match="no checkpoint"):
            act()


def test_the_checkpoint_of_another_sandbox_is_not_taken_for_ones_own(box):
    box.checkpoint()
    with cloche.Sandbox() as other, pytest.raises(cloche.Gone):
        box.restore(other.checkpoint())


@pytest.mark.parametrize("name", [7, "x" * 201, b"bytes"])
def test_a_name_that_is_none(box, name):
    with pytest.raises(cloche.InvalidRun, match="name"):
        box.checkpoint(name)


@pytest.mark.parametrize("most", [0, 61, True, 2.5, "3"])
def test_a_number_of_checkpoints_out_of_range(most):
    with pytest.raises(cloche.InvalidRun, match="1 to 60"):
        cloche.Sandbox(checkpoints=most)


def test_the_oldest_unnamed_go_and_named_ones_stay(jail):
    with cloche.Sandbox(checkpoints=3) as box:
        named = box.checkpoint("named")
        unnamed = [box.checkpoint() for _ in range(4)]
        assert box.checkpoints.list() == [named, *unnamed[-2:]]
        assert [point.removed for point in unnamed] == [True, True, False, False]
        with pytest.raises(cloche.Gone):
            box.restore(unnamed[0])
        box.restore(named)


def test_named_ones_alone_are_not_thrown_away(jail):
    with cloche.Sandbox(checkpoints=2) as box:
        box.checkpoint("a")
        box.checkpoint("b")
        with pytest.raises(cloche.Refused, match="2 named"):
            box.checkpoint()
        assert [point.name for point in box.checkpoints.list()] == ["a", "b"]
        box.attempt("1").discard()  # what we need for ourselves is not counted


# --- while something runs


def test_a_checkpoint_waits_for_the_cell_that_runs(box):
    box.run("x = 'before'")
    with _running(box, "import time\nopen('begun', 'w').close()\ntime.sleep(0.5)\nx = 'after'"):
        point = box.checkpoint()
    box.run("x = 'later'")
    box.restore(point)
    assert value(box, "x") == "'after'"


def test_a_restore_waits_for_the_cell_that_runs(box):
    box.run("x = 'before'")
    point = box.checkpoint()
    with _running(box, "import time\nopen('begun', 'w').close()\ntime.sleep(0.5)\nx = 'after'") as results:
        box.restore(point)
    assert results[0].error is None
    assert value(box, "x") == "'before'"


class _running:
    """A cell that runs in a thread of its own, and has begun."""

    def __init__(self, box: cloche.Sandbox, code: str) -> None:
        self.results: list[cloche.Result] = []
        self._box = box
        self._thread = threading.Thread(target=lambda: self.results.append(box.run(code)))

    def __enter__(self) -> list[cloche.Result]:
        self._thread.start()
        while not self._box.files.exists("begun"):
            pass
        return self.results

    def __exit__(self, *_: object) -> None:
        self._thread.join()


def test_two_checkpoints_of_one_name_at_once_are_not_both_made(box):
    outcomes: list[object] = []

    def make() -> None:
        try:
            outcomes.append(box.checkpoint("same"))
        except cloche.InvalidRun as problem:
            outcomes.append(problem)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(outcome, cloche.InvalidRun) for outcome in outcomes) == 3
    assert len(box.checkpoints.list()) == 1


# --- what it costs, and what when there is no room


def test_a_checkpoint_of_much_data_costs_little_memory(jail):
    with cloche.Sandbox(memory="1G") as box:
        box.run("import numpy; data = numpy.ones(300 * 2**20 // 8)")
        before = box.usage().memory
        point = box.checkpoint()
        assert before > 300 << 20
        assert box.usage().memory - before < 15 << 20
        box.restore(point)
        assert value(box, "data.sum() * 8 // 2**20") == "np.float64(300.0)"
        assert box.usage().memory - before < 30 << 20


def test_equal_contents_are_stored_once(box):
    box.run("import os; data = os.urandom(8 << 20); [open(f'f{n}', 'wb').write(data) for n in range(3)]")
    before = box.usage().disk
    for _ in range(5):
        box.checkpoint()
    assert box.usage().disk - before < 9 << 20
    for point in box.checkpoints.list():
        point.remove()
    assert box.usage().disk - before < 1 << 20


def test_a_checkpoint_without_room_on_the_disk_is_not_half_made(jail):
    with cloche.Sandbox(disk="20M") as box:
        box.run("import os; x = 1; open('big', 'wb').write(os.urandom(12 << 20))")
        processes = box.usage().processes
        with pytest.raises(cloche.FileProblem, match="room"):
            box.checkpoint("p")
        assert box.checkpoints.list() == []
        assert value(box, "x, os.path.getsize('big')") == f"(1, {12 << 20})"
        while box.usage().processes > processes:  # ends when the copy has
            pass
        box.files.remove("big")
        box.checkpoint("p")


def test_a_checkpoint_without_room_for_a_process_is_not_half_made(jail):
    with cloche.Sandbox(processes=12) as box:
        box.run("x = 1; import subprocess; ps = []")
        box.run("while True: ps.append(subprocess.Popen(['sleep', '600']))")
        with pytest.raises(cloche.FileProblem, match=r"(?i)copied|temporarily unavailable|resource"):
            box.checkpoint("p")
        assert box.checkpoints.list() == []
        box.run("[p.kill() for p in ps]; [p.wait() for p in ps]")
        box.restore(box.checkpoint("p"))
        assert value(box, "x") == "1"


def test_a_copy_that_the_code_has_killed_is_told(box):
    box.run("x = 1")
    point = box.checkpoint()
    killed = box.run("""
        import os
        others = [pid for pid in os.listdir('/proc') if pid.isdigit() and int(pid) not in (1, os.getpid())]
        for pid in others:
            os.kill(int(pid), 9)
            while os.path.exists(f'/proc/{pid}'):
                pass
    """)
    assert killed.error is None
    with pytest.raises(cloche.FileProblem, match="killed"):
        box.branch(point)
    restored = box.restore(point)
    assert restored.restarted == ("python",)
    assert restored.lost == {"python": {"variables": "killed"}}
    assert "possibly because memory ran out" in restored.note


def test_code_that_keeps_its_kernel_busy_for_ever_harms_only_the_checkpoint(box):
    other = box.contexts.create()
    other.run("v = 1")
    box.run("import signal, os; os.kill(os.getpid(), signal.SIGSTOP) if os.fork() else os._exit(0)", timeout=0.2)
    # Whatever became of that cell: a checkpoint ends, well or with a sentence, and the sandbox lives.
    with contextlib.suppress(cloche.FileProblem):
        box.checkpoint()
    assert other.run("v").text == "1"


# --- history


def test_history_tells_what_happened_in_order(box):
    box.run("x = 1")
    box.checkpoint("p")
    box.run("1/0")
    box.restore("p")
    branch = box.branch()
    box.restart()
    moments = box.history()
    assert [moment.kind for moment in moments][:5] == ["run", "checkpoint", "run", "restore", "branch"]
    assert {moment.kind for moment in moments[5:]} == {"restart"}
    assert (moments[0].code, moments[0].error, moments[0].context) == ("x = 1", None, "python")
    assert (moments[1].name, moments[3].name) == ("p", "p")
    assert moments[2].error == "runtime"
    assert moments[4].context == branch.id
    assert [moment.time for moment in moments] == sorted(moment.time for moment in moments)


def test_history_is_bounded(box):
    for number in range(1005):
        box.run(str(number))
    moments = box.history()
    assert len(moments) == 1000
    assert moments[-1].code == "1004"


# --- undo


def test_undo_goes_one_run_back_and_twice_two(undoing):
    undoing.run("x = 1; open('f', 'w').write('1')")
    undoing.run("x = 2; open('f', 'w').write('2')")
    undoing.run("x = 3; open('f', 'w').write('3')")
    undoing.undo()
    assert undoing.files.read_text("f") == "2"
    undoing.undo()
    assert undoing.files.read_text("f") == "1"
    assert undoing.history()[-1].kind == "undo"
    assert value(undoing, "x") == "1"


def test_undo_of_a_run_that_failed_or_crashed(undoing):
    undoing.run("x = 1")
    undoing.run("x = 2; 1/0")
    undoing.undo()
    undoing.run("import os; os._exit(1)")
    undoing.undo()
    assert value(undoing, "x") == "1"


def test_undo_with_nothing_left(undoing):
    with pytest.raises(cloche.Gone, match="no run left"):
        undoing.undo()
    undoing.run("x = 1")
    undoing.undo()
    with pytest.raises(cloche.Gone, match="no run left"):
        undoing.undo()


def test_undo_reaches_as_far_as_there_are_checkpoints(undoing):
    for number in range(5):
        undoing.run(f"open('f', 'w').write('{number}')")
    for _ in range(3):
        undoing.undo()
    assert undoing.files.read_text("f") == "1"
    with pytest.raises(cloche.Gone, match="no run left"):
        undoing.undo()


def test_undo_goes_back_over_an_attempt_that_was_kept(undoing):
    undoing.run("x = 1")
    undoing.attempt("x = 2").keep()
    undoing.undo()
    assert value(undoing, "x") == "1"


def test_undo_wants_the_option(box):
    box.run("1")
    with pytest.raises(cloche.InvalidRun, match=re.escape("undo=True")):
        box.undo()


def test_a_run_goes_on_without_room_for_its_checkpoint_and_undo_tells_so(jail):
    with cloche.Sandbox(undo=True, checkpoints=2) as box:
        box.run("x = 1")
        box.checkpoint("a")
        box.checkpoint("b")
        assert box.run("x = 2").ok
        with pytest.raises(cloche.Gone, match="2 named"):
            box.undo()
        assert value(box, "x") == "2"


async def test_the_asynchronous_sandbox_has_the_same(async_box):
    await async_box.run("x = 1")
    point = await async_box.checkpoint("p")
    await async_box.run("x = 2")
    await async_box.restore("p")
    assert (await async_box.run("x")).text == "1"
    branch = await point.branch()
    assert (await branch.run("x")).text == "1"
    await point.remove()


@pytest.mark.embedded  # what was called off on its way to a server may be done all the same
async def test_what_is_called_off_midway_leaves_nothing_inside(async_box):
    await async_box.run("x = 1; open('f', 'w').write('1')")
    base = await async_box.checkpoint("base")
    before = await async_box.usage()
    acts: list[Callable[[], Coroutine[Any, Any, object]]] = [
        async_box.checkpoint,
        async_box.branch,
        lambda: async_box.restore(base),
        lambda: async_box.branch(files="copy"),
        lambda: async_box.attempt("x = 2; open('f', 'w').write('2')"),
        lambda: async_box.best_of(["x = 2", "x = 3"], "x"),
    ]
    for number in range(24):
        done = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.003 * number):
                done = await acts[number % len(acts)]()
        if isinstance(done, AsyncAttempt):  # on a fast machine: it waits to be decided on
            await done.discard()
        await async_box.restore(base)
        assert (await async_box.run("x, open('f').read()")).text == "(1, '1')"
    for point in async_box.checkpoints.list():
        await point.remove()
    while (await async_box.usage()).processes > before.processes:  # ends when they have
        await asyncio.sleep(0.01)
    assert (await async_box.usage()).disk <= before.disk


def test_a_session_that_has_drawn_a_chart_can_be_restored(box: cloche.Sandbox) -> None:
    # Matplotlib holds its fonts open, and closes them in every fork: their descriptors are something else then.
    box.run("import matplotlib.pyplot as plt; x = 1; plt.plot([1, 2]);")
    before = box.checkpoint()
    box.run("x = 2")
    for _ in range(2):
        box.restore(before)
        assert box.run("x").text == "1"
    assert box.run("plt.plot([3, 4]);").results[0].png


def test_workers_that_libraries_keep_are_started_anew_in_a_copy(place: str) -> None:
    code = "Parallel(2)(delayed(abs)(n) for n in range(2)), await asyncio.to_thread(abs, -1)"
    with cloche.Sandbox(memory="1G", processes=100) as box:
        first = box.run(f"import asyncio\nfrom joblib import Parallel, delayed\n{code}")
        assert first.text == "([0, 1], 1)", first.error
        box.restore(box.checkpoint())
        again = box.run(code)
        assert again.text == "([0, 1], 1)", again.error


POOLS = """
import threading, time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
threads, one, processes, older = ThreadPoolExecutor(2), ThreadPoolExecutor(1), ProcessPoolExecutor(1), ThreadPool(1)
threads.submit(abs, 1).result(), processes.submit(abs, 1).result(), older.map(abs, [1])
running = one.submit(threading.Event().wait)
waiting, elsewhere = one.submit(abs, -2), processes.submit(time.sleep, 60)
while not running.running(): time.sleep(0.001)
"""


def test_pools_of_a_copy_work_or_say_why_not(place: str) -> None:
    with cloche.Sandbox(memory="1G", processes=100, timeout=20) as box:
        assert box.run(POOLS).ok
        before = box.checkpoint()
        for _ in range(2):
            box.restore(before)
            assert box.run(
                "list(threads.map(abs, [-1, -2, -3])), waiting.result(), one.submit(abs, -4).result()"
            ).text == ("([1, 2, 3], 2, 4)")
            for code in ("running.result()", "elsewhere.result()", "processes.submit(abs, 1)"):
                error = box.run(code).error
                assert error is not None
                assert "not restored" in error.message
            assert getattr(box.run("older.map(abs, [1])").error, "message", "") == "Pool not running"


# --- files outside of the workspace


def test_files_outside_of_the_workspace_come_back_too(box):
    box.run("""
        import os
        os.makedirs('/workspace/src'); open('/workspace/src/a', 'w').write('one'); open('/root/.rc', 'w').write('one')
        os.chmod('/workspace/src/a', 0o640); os.symlink('src/a', '/workspace/link')
    """)
    point = box.checkpoint()
    box.run("""
        open('/workspace/src/a', 'w').write('two'); os.remove('/workspace/link'); os.remove('/root/.rc')
        os.makedirs('/app/logs'); open('/app/logs/new', 'w').close(); open('/tmp/kept', 'w').close()
    """)
    box.restore(point)
    assert box.files.read_text("/workspace/link") == box.files.read_text("/root/.rc") == "one"
    assert value(box, "oct(os.stat('/workspace/src/a').st_mode), os.path.exists('/app')") == "('0o100640', False)"
    assert box.files.exists("/tmp/kept")  # as before, temporary files are not part of a checkpoint


def test_an_attempt_tells_of_files_outside_of_the_workspace_and_undoes_them(box):
    box.files.write("/workspace/a", b"one")
    with box.attempt("import os\nopen('/workspace/a', 'w').write('two'); open('/new', 'w').close()") as attempt:
        assert attempt.files.changed == ("/workspace/a",)
        assert attempt.files.created == ("/new",)
        attempt.discard()
    assert box.files.read_text("/workspace/a") == "one"
    assert not box.files.exists("/new")


def test_candidates_that_write_outside_of_the_workspace_do_not_meet(box):
    best = box.best_of(
        [f"open('/shared', 'a').write('{number}'); n = len(open('/shared').read())" for number in range(3)],
        score="-n",
    )
    assert [candidate.score for candidate in best.candidates] == [-1.0, -1.0, -1.0]
    assert box.files.read_text("/shared") == "0"
