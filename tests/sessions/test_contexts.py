"""Contexts: variables of their own, one cell at a time in each, and side by side."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.waiting import eventually

import cloche


def test_contexts_do_not_see_each_others_variables_but_the_same_files(box: cloche.Sandbox) -> None:
    one, two = box.contexts.create(), box.contexts.create()
    one.run("x = 'one'; open('file', 'w').write('by one')")
    two.run("x = 'two'")
    assert one.run("x").text == "'one'"
    assert two.run("x").text == "'two'"
    assert not box.run("x").ok
    assert two.run("open('file').read()").text == "'by one'"


def test_contexts_are_named_by_themselves_or_by_their_id(box: cloche.Sandbox) -> None:
    context = box.contexts.create()
    box.run("x = 5", context=context)
    assert box.run("x", context=context.id).text == "5"
    assert box.contexts.get(context.id) is context
    assert context.id in repr(context)


def test_a_context_has_a_language_a_working_directory_and_an_environment(box: cloche.Sandbox) -> None:
    box.files.mkdir("/sandbox/data/mine")
    context = box.contexts.create(language="python", cwd="/sandbox/data/mine", env={"A": "a"})
    assert (context.language, context.cwd) == ("python", "/sandbox/data/mine")
    code = "import os; os.getcwd(), os.environ['A']"
    assert context.run(code).text == "('/sandbox/data/mine', 'a')"
    context.restart()
    assert context.run(code).text == "('/sandbox/data/mine', 'a')"


def test_the_environment_of_the_sandbox_is_there_and_a_contexts_own_goes_before_it(warm: None) -> None:
    with cloche.Sandbox(env={"A": "sandbox", "B": "sandbox"}) as box:
        context = box.contexts.create(env={"A": "context"})
        code = "import os; os.environ['A'] + ' ' + os.environ['B']"
        assert box.run(code).text == "'sandbox sandbox'"
        assert context.run(code).text == "'context sandbox'"
        assert context.run(code, env={"B": "run"}).text == "'context run'"


def test_all_contexts_are_listed_in_order(box: cloche.Sandbox) -> None:
    assert box.contexts.list() == []
    box.run("1")
    made = [box.contexts.create() for _ in range(3)]
    assert [context.id for context in box.contexts.list()] == ["python", *(context.id for context in made)]
    made[1].remove()
    assert made[1] not in box.contexts.list()


def test_a_restart_forgets_variables_and_keeps_files(box: cloche.Sandbox) -> None:
    box.run("x = 1; open('file', 'w').write('kept')")
    box.restart()
    result = box.run("'x' in globals(), open('file').read()")
    assert (result.text, result.execution_count, result.restarted) == ("(False, 'kept')", 1, False)


def test_a_restart_of_one_context_leaves_the_others(box: cloche.Sandbox) -> None:
    one, two = box.contexts.create(), box.contexts.create()
    one.run("x = 1")
    two.run("x = 2")
    one.restart()
    assert one.run("'x' in globals()").text == "False"
    assert two.run("x").text == "2"


def test_a_context_that_no_cell_has_run_in_can_be_restarted_and_removed(box: cloche.Sandbox) -> None:
    box.restart()
    box.interrupt()
    context = box.contexts.create()
    context.restart()
    context.interrupt()
    context.remove()


def test_a_removed_context_is_gone(box: cloche.Sandbox) -> None:
    context = box.contexts.create()
    pid = context.run("import os; os.getpid()").text
    context.remove()
    for use in (lambda: context.run("1"), context.remove, lambda: box.contexts.get(context.id)):
        with pytest.raises(cloche.Gone, match=context.id) as caught:
            use()
        assert caught.value.hint
    assert box.commands.run(f"while [ -e /proc/{pid} ]; do sleep 0.01; done", timeout=5).ok


def test_removing_a_context_ends_the_cell_in_it_and_those_that_wait_for_their_turn(box: cloche.Sandbox) -> None:
    context = box.contexts.create()
    context.run("1")
    told: list[object] = []

    def run() -> None:
        try:
            told.append(context.run("import time; open('/sandbox/begun', 'w').close(); time.sleep(60)"))
        except cloche.Gone as gone:
            told.append(gone)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    eventually(lambda: box.files.exists("begun"))
    # Nothing announces the second, which waits for its turn; if it comes later, it hears the same.
    context.remove()
    for thread in threads:
        thread.join(10)
    kinds = sorted(type(each).__name__ for each in told)
    assert kinds == ["Gone", "Result"]
    assert context not in box.contexts.list()


def test_a_context_of_another_sandbox_is_refused(box: cloche.Sandbox, shared: cloche.Sandbox) -> None:
    theirs = shared.contexts.create()
    box.contexts.create()  # of the same id
    with pytest.raises(cloche.InvalidRun, match="another sandbox"):
        box.run("1", context=theirs)
    theirs.remove()


def test_a_context_speaks_its_language_alone(box: cloche.Sandbox) -> None:
    context = box.contexts.create()
    with pytest.raises(cloche.InvalidRun, match="bash"):
        box.run("1", context=context, language="bash")
    assert box.run("1", context=context, language="py").text == "1"


def test_what_a_context_cannot_be_is_refused(box: cloche.Sandbox) -> None:
    with pytest.raises(cloche.InvalidRun, match="cobol"):
        box.contexts.create(language="cobol")
    with pytest.raises(cloche.FileMissing, match="nowhere"):
        box.contexts.create(cwd="/sandbox/nowhere")
    with pytest.raises(cloche.InvalidRun):
        box.contexts.create(cwd="")
    with pytest.raises(cloche.InvalidRun, match="env"):
        box.contexts.create(env=["A"])  # type: ignore[arg-type]
    assert box.contexts.list() == []


def test_a_context_whose_folder_is_gone_works_at_home(box: cloche.Sandbox) -> None:
    box.files.mkdir("/sandbox/gone")
    context = box.contexts.create(cwd="/sandbox/gone")
    box.files.remove("/sandbox/gone")
    assert context.run("import os; os.getcwd()").text == "'/sandbox'"


def test_there_is_a_limit_to_the_number_of_contexts(warm: None) -> None:
    with cloche.Sandbox() as box:
        made = [box.contexts.create() for _ in range(32)]
        with pytest.raises(cloche.FileProblem, match="at most 32 contexts"):
            box.contexts.create()
        made[0].remove()
        assert box.contexts.create().run("1").text == "1"


def test_cells_of_one_context_wait_for_each_other(shared: cloche.Sandbox) -> None:
    shared.run("order = []")

    def run(number: int) -> None:
        shared.run(f"import time; order.append(('begin', {number})); time.sleep(0.05); order.append(('end', {number}))")

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    order = eval(shared.run("order").text or "")
    assert len(order) == 8
    assert all(order[n][1] == order[n + 1][1] for n in range(0, 8, 2))


async def test_cells_of_two_contexts_run_side_by_side(async_box: cloche.AsyncSandbox) -> None:
    one, two = [await async_box.contexts.create() for _ in range(2)]
    waits = "import os, time\nwhile not os.path.exists('/sandbox/{}'): time.sleep(0.01)\n'met'"
    first = one.run(f"open('/sandbox/a', 'w').close()\n{waits.format('b')}", timeout=10)
    second = two.run(f"open('/sandbox/b', 'w').close()\n{waits.format('a')}", timeout=10)
    assert [result.text for result in await asyncio.gather(first, second)] == ["'met'", "'met'"]


async def test_files_and_programs_work_while_a_cell_runs(async_box: cloche.AsyncSandbox) -> None:
    code = "import os, time\nwhile not os.path.exists('/sandbox/go'): time.sleep(0.01)\n'gone'"
    cell = asyncio.create_task(async_box.run(code, timeout=10))
    assert (await async_box.commands.run("echo hello")).stdout == "hello\n"
    await async_box.files.write("go", b"")
    assert (await cell).text == "'gone'"


def test_many_contexts_one_after_the_other_leave_nothing(shared: cloche.Sandbox) -> None:
    shared.run("1")
    before = shared.usage()
    for _ in range(40):
        context = shared.contexts.create()
        assert context.run("1").text == "1"
        context.remove()
    assert shared.usage().processes <= before.processes + 2
