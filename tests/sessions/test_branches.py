"""Branches: several contexts that go on from one point, side by side."""

from __future__ import annotations

import pytest

import cloche

pytestmark = pytest.mark.usefixtures("jail")


def test_a_branch_goes_on_from_the_live_variables_and_leaves_them_alone(box):
    box.run("x = [1]")
    branch = box.branch()
    assert branch.run("x.append(2); x").text == "[1, 2]"
    assert box.run("x").text == "[1]"


def test_a_branch_goes_on_from_a_checkpoint(box):
    box.run("x = 1")
    point = box.checkpoint("p")
    box.run("x = 2")
    assert box.branch("p").run("x").text == "1"
    assert point.branch().run("x").text == "1"
    assert box.run("x").text == "2"


def test_three_branches_live_side_by_side(box):
    box.run("x = 0")
    point = box.checkpoint()
    branches = [box.branch(point) for _ in range(3)]
    for number, branch in enumerate(branches):
        branch.run(f"x = {number} + 10")
    assert [branch.run("x").text for branch in branches] == ["10", "11", "12"]
    assert len({branch.run("import os; os.getpid()").text for branch in branches}) == 3
    assert box.contexts.list()[1:] == branches


def test_a_branch_of_a_branch(box):
    box.run("x = [1]")
    first = box.branch()
    first.run("x.append(2)")
    second = box.branch(context=first)
    second.run("x.append(3)")
    texts = [context.run("x").text for context in (box.contexts.get("python"), first, second)]
    assert texts == ["[1]", "[1, 2]", "[1, 2, 3]"]


def test_a_branch_when_nothing_has_run_yet(box):
    branch = box.branch()
    branch.run("x = 1")
    assert branch.run("x").text == "1"
    assert box.run("x").error.name == "NameError"


def test_a_branch_of_a_context_that_is_not_there_any_more(box):
    context = box.contexts.create()
    context.run("v = 5")
    point = box.checkpoint()
    context.remove()
    assert box.branch(point, context=context).run("v").text == "5"
    with pytest.raises(cloche.Gone):
        box.branch(context=context)


def test_a_branch_waits_for_the_cell_that_runs(box):
    events = box.stream("import time; time.sleep(0.3); x = 'done'")
    next(events)
    for _ in events:
        pass
    assert box.branch().run("x").text == "'done'"


# --- files


def test_files_are_shared_unless_asked_for(box):
    branch = box.branch()
    branch.run("open('f', 'w').write('from the branch')")
    assert box.run("open('f').read()").text == "'from the branch'"


def test_a_copy_of_the_files_is_the_branchs_own_for_relative_paths(box):
    box.files.write("data/in.txt", "before")
    box.run("x = 1")
    branch = box.branch(files="copy")
    branch.run("open('data/in.txt', 'a').write(' and after'); open('new', 'w').close()")
    assert branch.run("open('data/in.txt').read(), x").text == "('before and after', 1)"
    assert box.files.read_text("data/in.txt") == "before"
    assert not box.files.exists("new")
    branch.run("open('/sandbox/absolute', 'w').write('shared')")
    assert box.files.read_text("absolute") == "shared"


def test_a_copy_of_the_files_of_a_checkpoint(box):
    box.files.write("f", "then")
    point = box.checkpoint()
    box.files.write("f", "now")
    assert box.branch(point, files="copy").run("open('f').read()").text == "'then'"
    assert box.branch(files="copy").run("open('f').read()").text == "'now'"


def test_a_copy_keeps_the_place_in_which_the_code_worked(box):
    box.run("import os; os.makedirs('deep/er'); os.chdir('deep/er')")
    branch = box.branch(files="copy")
    branch.run("open('f', 'w').close()")
    assert branch.run("os.getcwd().endswith('deep/er'), os.listdir('.')").text == "(True, ['f'])"
    assert box.run("os.getcwd(), os.listdir('.')").text == "('/sandbox/deep/er', [])"


def test_the_copy_goes_with_its_branch(box):
    box.run("import os; open('big', 'wb').write(os.urandom(4 << 20))")
    before = box.usage().disk
    for _ in range(3):
        box.branch(files="copy").remove()
    box.checkpoint().remove()  # done when what was asked before is done
    assert box.usage().disk - before < 1 << 20


def test_files_of_another_kind(box):
    with pytest.raises(cloche.InvalidRun, match="'shared' or 'copy'"):
        box.branch(files="moved")


# --- their lives


def test_a_branch_crashes_alone(box):
    box.run("x = 1")
    branch = box.branch()
    assert branch.run("import os; os._exit(1)").restarted
    assert box.run("x").text == "1"
    assert branch.run("'x' in globals()").text == "False"


def test_branches_have_what_must_be_unique(box):
    box.run("import uuid, tempfile; tempfile.mktemp()")
    point = box.checkpoint()
    drawn = {box.branch(point).run("uuid.uuid4(), tempfile.mktemp()").text for _ in range(3)}
    assert len(drawn) == 3


def test_a_branch_reads_an_open_file_by_itself(box):
    box.files.write("lines", "1\n2\n3\n")
    box.run("f = open('lines'); f.readline()")
    branch = box.branch()
    assert branch.run("f.readline()").text == "'2\\n'"
    assert box.run("f.readline()").text == "'2\\n'"


def test_more_contexts_than_there_may_be_are_refused_with_a_sentence(jail):
    with cloche.Sandbox(processes=100) as box:
        branches = []
        with pytest.raises(cloche.FileProblem, match="at most 32 contexts"):
            branches = [box.branch() for _ in range(40)]
        assert branches == []
        assert box.run("1 + 1").text == "2"


def test_only_python_can_be_branched(box):
    context = box.contexts.create(language="javascript")
    with pytest.raises(cloche.InvalidRun, match="Only Python"):
        box.branch(context=context)


def test_output_of_branches_is_not_mixed(box):
    branches = [box.branch() for _ in range(3)]
    for number, branch in enumerate(branches):
        assert branch.run(f"import os; print({number}); os.system('echo {number}')").stdout == f"{number}\n" * 2
