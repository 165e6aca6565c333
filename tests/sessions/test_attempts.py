"""Attempts, and the best of several: what code would change, and then kept or discarded."""

from __future__ import annotations

import pytest

import cloche
from cloche.model.history import Variable

pytestmark = pytest.mark.usefixtures("jail")


def names(variables: tuple[Variable, ...]) -> set[str]:
    return {variable.name for variable in variables}


# --- what an attempt tells


def test_an_attempt_tells_what_it_changed_in_files_and_variables(box):
    box.run("x = 1; items = [1]; table = {'a': [1]}; same = 'same'; gone = 1; open('old', 'w').write('1')")
    box.run("import os; open('away', 'w').write('1')")
    with box.attempt("""
        y = 'new'; x = 2; items.append(2); table['a'].append(2); del gone; print(same)
        open('made', 'w').close(); open('old', 'a').write('2'); os.remove('away'); os.mkdir('folder')
    """) as attempt:
        assert attempt.result.stdout == "same\n"
        assert set(attempt.files.created) == {"made", "folder/"}
        assert attempt.files.changed == ("old",)
        assert attempt.files.removed == ("away",)
        assert names(attempt.variables.created) == {"y"}
        assert names(attempt.variables.changed) == {"x", "items", "table"}
        assert attempt.variables.removed == ("gone",)
        (created,) = attempt.variables.created
        assert (created.name, created.type, created.shown) == ("y", "str", "'new'")
        assert created.size > 0


def test_what_was_changed_in_place_is_seen(box):
    box.run("""
        import numpy, pandas
        array, frame = numpy.zeros(1000), pandas.DataFrame({'a': [1, 2]})
        class Account: pass
        account = Account(); account.sum = 1
        def tell(): return 1
    """)
    attempt = box.attempt("""
        array[5] = 1; frame.loc[0, 'a'] = 9; account.sum = 2
        def tell(): return 2
    """)
    assert names(attempt.variables.changed) == {"array", "frame", "account", "tell"}
    attempt.discard()


def test_looking_changes_nothing(box):
    box.run("import pandas; frame = pandas.DataFrame({'a': [1, 2]}); words = ['a'] * 3; f = lambda: 1")
    with box.attempt(
        "frame.describe(); len(words); f(); open('/sandbox/code/x', 'w').close() if False else 0"
    ) as tried:
        assert not tried.variables
        assert not tried.files


def test_hidden_names_and_those_of_the_shell_are_not_told(box):
    with box.attempt("_mine = 1; 5") as attempt:
        assert not attempt.variables


def test_a_thousand_variables_with_long_texts_are_told(box):
    box.run("for number in range(1000): globals()[f'v{number}'] = 'é' * 300")
    box.run("globals()['n' * 2_000_000] = 1")
    with box.attempt("v7 = 1") as attempt:
        assert names(attempt.variables.changed) == {"v7"}
        assert attempt.variables.created == ()


def test_a_thousand_long_paths_are_told_as_far_as_there_is_room(box):
    box.run("import os")
    with box.attempt("""
        for _ in range(8):
            os.mkdir('d' * 240); os.chdir('d' * 240)
        for number in range(1000):
            open(f'{number}-' + 'f' * 230, 'w').close()
        os.chdir('/sandbox')
    """) as attempt:
        assert attempt.result.error is None
        assert len(attempt.files.created) > 50
    assert box.run("1 + 1").text == "2"


def test_a_variable_that_cannot_be_looked_at_costs_only_the_attempt(box):
    box.run("x = 1")
    with pytest.raises(cloche.FileProblem):
        box.attempt("""
            import time
            class Slow:
                def __reduce__(self): time.sleep(600)
            slow = Slow()
            open('f', 'w').close()
        """)
    assert box.run("x, 'slow' in globals()").text == "(1, False)"
    assert not box.files.exists("f")
    assert len(box.contexts.list()) == 1


# --- kept or discarded


def test_a_discarded_attempt_has_never_been(box):
    box.run("x = [1]; open('f', 'w').write('before')")
    attempt = box.attempt("x.append(2); y = 1; open('f', 'w').write('after'); open('g', 'w').close()")
    attempt.discard()
    assert box.run("x, 'y' in globals(), open('f').read()").text == "([1], False, 'before')"
    assert not box.files.exists("g")


def test_an_attempt_that_is_kept_goes_on(box):
    box.run("x = [1]")
    attempt = box.attempt("x.append(2); open('f', 'w').write('after')")
    assert attempt.keep() is attempt.result
    assert box.run("x, open('f').read()").text == "([1, 2], 'after')"
    assert [context.id for context in box.contexts.list()] == ["python"]
    assert box.checkpoints.list() == []


def test_a_with_block_discards_unless_kept(box):
    with box.attempt("x = 1"):
        pass
    assert box.run("x").error.name == "NameError"
    with box.attempt("x = 1") as attempt:
        attempt.keep()
    assert box.run("x").text == "1"


def test_an_attempt_is_decided_once(box):
    kept, discarded = box.attempt("x = 1"), None
    kept.keep()
    for act in (kept.keep, kept.discard):
        with pytest.raises(cloche.Gone, match="kept already"):
            act()
    discarded = box.attempt("x = 2")
    discarded.discard()
    for act in (discarded.keep, discarded.discard):
        with pytest.raises(cloche.Gone, match="discarded already"):
            act()
    assert box.run("x").text == "1"


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        ("1/0", "runtime"),
        ("def", "syntax"),
        ("import os; os._exit(3)", "exit"),
        ("import ctypes; ctypes.string_at(0)", "killed"),
        ("import time; time.sleep(60)", "timeout"),
    ],
)
def test_an_attempt_that_fails_tells_and_is_discarded(box, end, kind):
    box.run("x = 1")
    code = end if kind == "syntax" else f"open('f', 'w').close(); x = 2\n{end}"
    attempt = box.attempt(code, timeout=1 if kind == "timeout" else 30)
    assert attempt.result.error.kind == kind
    attempt.discard()
    assert box.run("x").text == "1"
    assert not box.files.exists("f")


def test_a_crashed_attempt_that_is_kept_is_a_crash(box):
    box.run("x = 1")
    attempt = box.attempt("open('f', 'w').close(); import os; os._exit(3)")
    assert attempt.variables.removed == ("x",)
    attempt.keep()
    assert box.run("'x' in globals()").text == "False"
    assert box.files.exists("f")


def test_the_session_goes_on_while_an_attempt_waits(box):
    box.run("x = 1")
    attempt = box.attempt("y = 2")
    box.run("z = 3")
    attempt.discard()
    assert box.run("x, z").text == "(1, 3)"


def test_attempts_in_another_context(box):
    context = box.contexts.create()
    context.run("v = 1")
    box.attempt("v += 1", context=context).keep()
    assert context.run("v").text == "2"
    with pytest.raises(cloche.InvalidRun, match="Only Python"):
        box.attempt("1", context=box.contexts.create(language="javascript"))


async def test_the_asynchronous_attempt_is_the_same(async_box):
    async with await async_box.attempt("x = 1; open('f', 'w').close()") as attempt:
        assert attempt.files.created == ("f",)
    assert (await async_box.run("x")).error.name == "NameError"
    assert not await async_box.files.exists("f")


# --- the best of several


def test_the_best_is_kept_with_its_variables_and_files(box):
    box.run("x = 10; import os")
    best = box.best_of([f"x += {n}; open('f', 'w').write('{n}'); open('f{n}', 'w').close()" for n in (1, 3, 2)], "x")
    assert best.index == 1
    assert [candidate.score for candidate in best.candidates] == [11.0, 13.0, 12.0]
    assert best.result is best.candidates[1].result
    assert box.run("x, open('f').read(), os.path.exists('f3'), os.path.exists('f1')").text == "(13, '3', True, False)"
    assert [context.id for context in box.contexts.list()] == ["python"]
    assert box.checkpoints.list() == []


def test_the_session_goes_on_in_the_folder_in_which_it_was(box):
    box.run("import os; os.makedirs('deep'); os.chdir('deep')")
    box.best_of(["z = 1; open('f', 'w').close()", "z = 0"], "z")
    assert box.run("os.getcwd(), os.listdir('.')").text == "('/sandbox/deep', ['f'])"
    box.run("open('later', 'w').close()")
    assert box.files.exists("deep/later")


def test_candidates_run_side_by_side(box):
    box.run("import glob, time")
    meet = "open('/tmp/here-{0}', 'w').close(); z = {0}\nwhile len(glob.glob('/tmp/here-*')) < 3: time.sleep(0.01)"
    best = box.best_of([meet.format(number) for number in range(3)], "z")
    assert best.index == 2


def test_candidates_that_name_the_folder_run_one_after_the_other(box):
    box.run("x = 0; open('/sandbox/log', 'w').write('start ')")
    code = "f = open('/sandbox/log', 'a'); f.write('{0} '); f.close(); x = {0}; seen = open('/sandbox/log').read()"
    best = box.best_of([code.format(n) for n in (1, 3, 2)], "x")
    assert best.index == 1
    assert box.run("seen, open('/sandbox/log').read(), x").text == "('start 3 ', 'start 3 ', 3)"
    assert [context.id for context in box.contexts.list()] == ["python"]


def test_the_winner_is_what_was_scored_and_not_run_again(jail):
    calls: list[int] = []
    with cloche.Sandbox(tools={"count": lambda: calls.append(1)}) as box:
        code = "import secrets; r = secrets.randbits(32); cloche.tools.count(); open('/sandbox/r', 'w').write(str(r))"
        best = box.best_of([code] * 3, "r")
        assert len(calls) == 3
        assert best.index is not None
        assert float(box.files.read_text("r")) == best.candidates[best.index].score
        assert float(str(box.run("r").text)) == best.candidates[best.index].score


@pytest.mark.parametrize("folder", ["", "/sandbox/"])
def test_when_all_fail_nothing_changes(box, folder):
    box.run("x = 1")
    best = box.best_of([f"x = 2; open('{folder}f', 'w').close(); 1/0", "import os; os._exit(1)", "def"], "x")
    assert (best.index, best.result) == (None, None)
    assert [candidate.score for candidate in best.candidates] == [None] * 3
    assert [candidate.result.error.kind for candidate in best.candidates] == ["runtime", "exit", "syntax"]
    assert box.run("x").text == "1"
    assert not box.files.exists("f")


@pytest.mark.parametrize("score", ["nothing", "1/0", "'text'", "None", "float('nan')", "import os; os._exit(1)"])
def test_what_cannot_be_scored_is_not_kept(box, score):
    best = box.best_of(["x = 1", "x = 2"], score)
    assert best.index is None
    assert box.run("'x' in globals()").text == "False"


@pytest.mark.parametrize(
    ("score", "index"),
    [("x", 1), ("-x", 0), ("x == 1", 0), ("__import__('numpy').float32(x)", 1), ("5", 0), ("len(str(x))", 0)],
)
def test_scores_by_expression(box, score, index):
    assert box.best_of(["x = 1", "x = 2"], score).index == index


def test_scores_by_a_function_of_the_owners(box):
    best = box.best_of(["print('a')", "print('aaa')", "1/0"], lambda result: len(result.stdout))
    assert best.index == 1
    assert [candidate.score for candidate in best.candidates] == [2.0, 4.0, None]


def test_a_function_that_cannot_score_one_candidate_passes_it_over(box):
    best = box.best_of(["x = 1", "5", "7"], lambda result: float(result.text))
    assert [candidate.score for candidate in best.candidates] == [None, 5.0, 7.0]
    assert best.index == 2


@pytest.mark.parametrize("folder", ["", "/sandbox/"])
def test_a_function_that_can_score_none_raises_and_nothing_changes(box, folder):
    with pytest.raises(ZeroDivisionError):
        box.best_of([f"x = 1; open('{folder}f', 'w').close()", "x = 2"], lambda _: 1 / 0)
    assert box.run("'x' in globals()").text == "False"
    assert not box.files.exists("f")
    assert len(box.contexts.list()) == 1


async def test_the_asynchronous_best_of_takes_functions_of_both_kinds(async_box):
    async def score(result: cloche.Result) -> float:
        return float(result.text or 0)

    assert (await async_box.best_of(["1", "3", "2"], score)).index == 1
    assert (await async_box.best_of(["1", "3", "2"], lambda result: float(result.text or 0))).index == 1
    with pytest.raises(ZeroDivisionError):
        await async_box.best_of(["1", "2"], lambda _: 1 / 0)


@pytest.mark.parametrize("candidates", [[], "x = 1", ["1"] * 17])
def test_a_number_of_candidates_that_makes_no_sense(box, candidates):
    with pytest.raises(cloche.InvalidRun, match="1 to 16"):
        box.best_of(candidates, "1")


def test_many_candidates_leave_no_files_behind(box):
    box.run("import os; open('big', 'wb').write(os.urandom(2 << 20))")
    before = box.usage().disk
    for _ in range(3):
        box.best_of(["x = 1", "x = 2"], "x")
    box.checkpoint().remove()  # done when what was asked before is done
    assert box.usage().disk - before < 1 << 20
    assert box.commands.run("ls /tmp/branches").stdout == ""
