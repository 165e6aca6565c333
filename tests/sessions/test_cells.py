"""`box.run`: what a cell leaves, what it returns, what went wrong with it, and what a Jupyter user expects of one."""

# ruff: noqa: E501  (code is easier to compare when each piece is one line)

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

import cloche
from cloche.model.kinds import KINDS


def error_of(result: cloche.Result, kind: str) -> cloche.Error:
    """The error, which must be of this kind and say what a person needs."""
    assert result.error is not None, result
    assert result.error.kind == kind, result
    assert kind in KINDS
    assert result.error.message
    assert result.error.hint
    assert not result.ok
    assert result.exit_code
    return result.error


def value(result: cloche.Result) -> str | None:
    """The text of a cell that went well."""
    assert result.ok, result.error
    return result.text


# --- state


def test_variables_imports_functions_and_files_stay(shared: cloche.Sandbox) -> None:
    shared.run("import math\nx = 20\ndef double(n): return 2 * n\nopen('kept.txt', 'w').write('here')")
    assert value(shared.run("double(x) + int(math.sqrt(4)), open('kept.txt').read()")) == "(42, 'here')"


def test_what_ran_before_an_error_stays(shared: cloche.Sandbox) -> None:
    assert not shared.run("before = 1\n1 / 0\nbefore = 2").ok
    assert value(shared.run("before")) == "1"


def test_the_working_directory_stays_where_it_was_changed_to(shared: cloche.Sandbox) -> None:
    shared.run("import os; os.chdir('/tmp')")
    assert value(shared.run("os.getcwd()")) == "'/tmp'"
    shared.run("os.chdir('/sandbox')")


def test_earlier_results_and_inputs_have_names(shared: cloche.Sandbox) -> None:
    first = shared.run("'first'")
    shared.run("'second'")
    assert value(shared.run(f"_, __, Out[{first.execution_count}], In[{first.execution_count}]")) == (
        "('second', 'first', 'first', \"'first'\")"
    )


def test_cells_go_on_when_every_name_was_deleted(box: cloche.Sandbox) -> None:
    box.run("globals().clear()")
    assert value(box.run("6 * 7")) == "42"


def test_a_name_of_results_that_is_a_builtin_stays_that(box: cloche.Sandbox) -> None:
    box.run("import gettext; gettext.install('any')")
    box.run("'a result'")
    assert value(box.run("_('text')")) == "'text'"


def test_a_name_of_results_that_was_assigned_is_free_again_when_deleted(box: cloche.Sandbox) -> None:
    box.run("for _ in range(3): pass")
    box.run("'first'")
    assert value(box.run("_")) == "2"
    box.run("del _")
    box.run("'second'")
    assert value(box.run("_")) == "'second'"


# --- the last expression


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("1 + 1", "2"),
        ("x = 5\nx", "5"),
        ("x = 5\nx  # said", "5"),
        ("None", None),
        ("x = 5", None),
        ("5;", None),
        ("5;  # quiet", None),
        ("5;\n# quiet", None),
        ("5  # said;", "5"),
        ("'a;'", "'a;'"),
        ("for n in range(3): n", None),
        ("", None),
        ("   \n\n", None),
        ("# nothing", None),
        ("'ü 世界 🎉'", "'ü 世界 🎉'"),
        ("b'\\xff'", "b'\\xff'"),
        ("float('nan')", "nan"),
        ("10 ** 100", str(10**100)),
        ("'\\ud800'", "'\\ud800'"),
        ("{'a': [1, 2]}", "{'a': [1, 2]}"),
    ],
)
def test_the_last_expression_is_the_text(shared: cloche.Sandbox, code: str, text: str | None) -> None:
    result = shared.run(code)
    assert result.ok, result.error
    assert result.text == text
    assert [shown.is_main for shown in result.results] == ([] if text is None else [True])


# --- what a result tells


def test_a_result_tells_all_that_happened(shared: cloche.Sandbox) -> None:
    result = shared.run("import sys\nprint('out')\nprint('err', file=sys.stderr)\nprint('more')\n'value'")
    assert (result.stdout, result.stderr, result.text) == ("out\nmore\n", "err\n", "'value'")
    assert (result.stdout_bytes, result.stderr_bytes) == (b"out\nmore\n", b"err\n")
    assert (result.exit_code, result.error, result.ok, result.truncated) == (0, None, True, False)
    assert (result.restarted, result.artifacts, result.tool_calls, result.wall) == (False, (), (), "jail")
    assert [(log.stream, log.text) for log in result.logs] == [
        ("stdout", "out\n"),
        ("stderr", "err\n"),
        ("stdout", "more\n"),
    ]
    assert all(earlier.time <= later.time for earlier, later in zip(result.logs, result.logs[1:], strict=False))


def test_cells_are_counted_also_when_they_fail(box: cloche.Sandbox) -> None:
    counts = [box.run(code).execution_count for code in ("1", "x = 1", "1 / 0", "syntax error", "5;")]
    assert counts == [1, 2, 3, 4, 5]


def test_time_is_measured(shared: cloche.Sandbox) -> None:
    waited = shared.run("import time; time.sleep(0.3)")
    assert 0.3 <= waited.duration < 3
    assert waited.cpu_time < 0.25
    worked = shared.run("end = time.process_time() + 0.2\nwhile time.process_time() < end: pass")
    assert worked.cpu_time >= 0.19
    assert worked.memory_peak > 10 << 20


def test_the_time_of_a_child_is_counted_too(shared: cloche.Sandbox) -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'for n in range(5_000_000): n'], check=True)"
    assert shared.run(code).cpu_time > 0.05


def test_output_that_is_not_text_is_there_as_bytes(shared: cloche.Sandbox) -> None:
    result = shared.run("import sys; _ = sys.stdout.buffer.write(b'\\xff\\x00a')")
    assert (result.stdout_bytes, result.stdout) == (b"\xff\x00a", "\ufffd\x00a")


def test_half_a_character_at_the_end_is_in_the_logs_as_it_is_in_the_output(shared: cloche.Sandbox) -> None:
    result = shared.run("import sys; _ = sys.stdout.buffer.write('aü'.encode()[:2])")
    assert result.stdout == "a\ufffd"
    assert "".join(log.text for log in result.logs) == result.stdout


# --- errors


def test_an_exception_names_the_cell_and_the_line(shared: cloche.Sandbox) -> None:
    result = shared.run("def f():\n    return {}['k']\n\nf()")
    error = error_of(result, "runtime")
    assert (error.name, error.message, result.exit_code) == ("KeyError", "'k'", 1)
    assert error.traceback is not None
    assert error.traceback_ansi is not None
    assert f"Cell In[{result.execution_count}], line 4" in error.traceback
    assert f"Cell In[{result.execution_count}], line 2, in f" in error.traceback
    assert error.traceback.endswith("KeyError: 'k'")
    assert "\x1b[" not in error.traceback
    assert "\x1b[" in error.traceback_ansi
    assert re.sub(r"\x1b\[[0-9;]*m", "", error.traceback_ansi) == error.traceback
    assert "cloche" not in error.traceback


def test_an_error_of_an_earlier_cells_function_names_that_cell(shared: cloche.Sandbox) -> None:
    earlier = shared.run("def g():\n    raise ValueError('deep')")
    error = error_of(shared.run("g()"), "runtime")
    assert f"Cell In[{earlier.execution_count}], line 2, in g" in (error.traceback or "")


def test_a_chain_of_exceptions_is_told(shared: cloche.Sandbox) -> None:
    code = "try:\n    1 / 0\nexcept ZeroDivisionError as problem:\n    raise ValueError('second') from problem"
    error = error_of(shared.run(code), "runtime")
    assert error.name == "ValueError"
    assert "ZeroDivisionError: division by zero" in (error.traceback or "")


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("x = (", "SyntaxError"),
        ("print(1)\n  x = 1", "IndentationError"),
        ("return 5", "SyntaxError"),
        ("a b", "SyntaxError"),
        ("x = '", "SyntaxError"),
        pytest.param(
            "\0",
            "SyntaxError",
            marks=pytest.mark.skipif(sys.version_info < (3, 11, 4), reason="older Pythons raise ValueError for it"),
        ),
    ],
)
def test_code_that_cannot_be_compiled_is_a_syntax_error(shared: cloche.Sandbox, code: str, name: str) -> None:
    result = shared.run(code)
    assert error_of(result, "syntax").name == name
    assert result.stdout == ""


def test_code_that_ends_too_early_is_told_what_it_lacks(shared: cloche.Sandbox) -> None:
    assert error_of(shared.run("x = ("), "syntax").message.startswith("'(' was never closed")
    assert "expected 'except' or 'finally' block" in error_of(shared.run("try:\n    x = 1\n"), "syntax").message


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("raise SystemExit(3)", 3),
        ("import sys; sys.exit(4)", 4),
        ("exit(5)", 5),
        ("raise SystemExit('because')", 1),
        ("raise SystemExit(256 + 7)", 7),
        ("raise SystemExit(-1)", 255),
    ],
)
def test_leaving_with_a_code_ends_the_cell_and_not_the_kernel(
    shared: cloche.Sandbox, code: str, exit_code: int
) -> None:
    shared.run("still = 'here'")
    result = shared.run(code)
    assert (result.exit_code, result.restarted) == (exit_code, False)
    assert str(exit_code) in error_of(result, "exit").message
    assert value(shared.run("still")) == "'here'"


@pytest.mark.parametrize("code", ["raise SystemExit", "import sys; sys.exit(0)", "exit()", "quit()"])
def test_leaving_without_a_code_is_no_error(shared: cloche.Sandbox, code: str) -> None:
    result = shared.run(f"print('before')\n{code}\nprint('after')")
    assert (result.ok, result.exit_code, result.stdout) == (True, 0, "before\n")


def test_leaving_works_after_a_reset(box: cloche.Sandbox) -> None:
    box.run("%reset -f")
    assert box.run("exit(3)").exit_code == 3
    assert box.run("quit()").ok


def test_a_missing_library_is_told_with_a_hint(shared: cloche.Sandbox) -> None:
    error = error_of(shared.run("import no_such_library"), "runtime")
    assert error.name == "ModuleNotFoundError"
    assert "installed" in error.hint


def test_what_the_sandbox_does_not_allow_is_told_as_policy(shared: cloche.Sandbox) -> None:
    code = (
        "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "if libc.unshare(0x10000000): raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))"
    )
    assert "unshare" in error_of(shared.run(code), "policy").message


@pytest.mark.parametrize("how", ["raise RuntimeError('no')", "raise BaseException('no')", "raise SystemExit(3)"])
def test_an_exception_with_a_broken_text_is_still_told(shared: cloche.Sandbox, how: str) -> None:
    code = f"class Odd(Exception):\n    def __str__(self): {how}\nraise Odd"
    assert error_of(shared.run(code, timeout=20), "runtime").name == "Odd"


def test_an_exception_that_cannot_be_looked_at_ends_its_cell_all_the_same(shared: cloche.Sandbox) -> None:
    code = (
        "class Kind(type):\n    @property\n    def __name__(self): raise self('no')\n"
        "class Odd(Exception, metaclass=Kind): pass\nraise Odd"
    )
    error_of(shared.run(code, timeout=20), "runtime")
    assert shared.run("1").text == "1"


def test_an_exception_whose_text_never_ends_yields_to_the_time_limit(shared: cloche.Sandbox) -> None:
    shared.run("kept = 1")
    code = "class Odd(Exception):\n    def __str__(self):\n        while True: pass\nraise Odd"
    error_of(shared.run(code, timeout=1), "timeout")
    assert shared.run("kept").text == "1"


def test_an_exception_with_a_huge_text_is_cut(shared: cloche.Sandbox) -> None:
    error = error_of(shared.run("raise ValueError('x' * 100_000_000)"), "runtime")
    assert len(error.message) < 1 << 20
    assert len(error.traceback or "") < 1 << 20


def test_endless_recursion_is_an_ordinary_error(shared: cloche.Sandbox) -> None:
    result = shared.run("def f(): f()\nf()")
    assert error_of(result, "runtime").name == "RecursionError"
    assert not result.restarted


def test_code_may_handle_errors_of_cells_itself(box: cloche.Sandbox) -> None:
    box.run("def seen(shell, kind, problem, trace, tb_offset=None): print('seen', kind.__name__)")
    box.run("get_ipython().set_custom_exc((ZeroDivisionError,), seen)")
    result = box.run("1 / 0")
    assert (result.stdout, getattr(result.error, "name", "")) == ("seen ZeroDivisionError\n", "ZeroDivisionError")
    assert box.run("int('x')").stdout == ""


def test_warnings_go_to_standard_error(shared: cloche.Sandbox) -> None:
    result = shared.run("import warnings; warnings.warn('careful')")
    assert result.ok
    assert "UserWarning: careful" in result.stderr


# --- what a Jupyter user expects


@pytest.mark.parametrize(
    ("code", "stdout"),
    [
        ("!echo one; echo two", "one\ntwo\n"),
        ("%%bash\ncd /tmp\npwd", "/tmp\n"),
        ("%%bash\nfor n in 1 2 3; do echo $n; done", "1\n2\n3\n"),
        ("%%sh\necho sh", "sh\n"),
        ("%%capture caught\nprint('hidden')", ""),
        ("name = 'world'\n!echo hello {name}", "hello world\n"),
        ("lines = !printf 'a\\nb\\n'\nprint(list(lines))", "['a', 'b']\n"),
        ("%env", ""),
        ("kept = 5\n%store kept", "Stored 'kept' (int)\n"),
        ("%%writefile written.txt\nsome text\n", "Writing written.txt\n"),
        ("import asyncio\nawait asyncio.sleep(0)\nprint('awaited')", "awaited\n"),
        ("async def f(): return 7\nprint(await f())", "7\n"),
        ("print(__name__)", "__main__\n"),
        ("import sys; print(sys.modules['__main__'].__dict__ is globals())", "True\n"),
        ("import sys; print(sys.argv)", "['']\n"),
        ("import subprocess; subprocess.run(['echo', 'child'])\nprint('parent')", "child\nparent\n"),
        ("import os; os.system('echo system')\nprint('after')", "system\nafter\n"),
        ("import os; os.write(1, b'raw\\n')\nprint('after')", "raw\nafter\n"),
    ],
)
def test_it_is_as_in_jupyter(shared: cloche.Sandbox, code: str, stdout: str) -> None:
    result = shared.run(code)
    assert result.ok, result.error
    assert result.stdout == stdout


def test_a_command_that_fails_says_so(shared: cloche.Sandbox) -> None:
    result = shared.run("!false\nprint(_exit_code)")
    assert (result.ok, result.stdout) == (True, "1\n")
    assert error_of(shared.run("%%bash\nexit 3"), "runtime").name == "CalledProcessError"


def test_timeit_times(shared: cloche.Sandbox) -> None:
    result = shared.run("%timeit -n 10 -r 2 sum(range(10))")
    assert result.ok
    assert "per loop" in result.stdout


def test_environment_variables_are_set_by_magic_and_by_python(shared: cloche.Sandbox) -> None:
    shared.run("%env COLOUR=red\nimport os; os.environ['SHAPE'] = 'round'")
    assert shared.run("!echo $COLOUR $SHAPE").stdout == "red round\n"


def test_changing_folder_by_magic_stays(shared: cloche.Sandbox) -> None:
    shared.run("%cd /tmp")
    assert shared.run("!pwd").stdout == "/tmp\n"
    shared.run("%cd /sandbox")


def test_installing_without_a_network_fails_at_once_and_says_why(shared: cloche.Sandbox) -> None:
    result = shared.run("%pip download some-package", timeout=20)
    assert "this-sandbox-has-no-network" in result.stdout
    assert "Retrying" not in result.stderr
    assert result.stderr.endswith("or upload a file and install that.\n")
    assert "No matching distribution found" in result.stderr


def test_tasks_go_on_between_cells(shared: cloche.Sandbox) -> None:
    code = "import asyncio\nticks = []\nasync def tick():\n    for n in range(3): ticks.append(n); await asyncio.sleep(0.01)\n"
    shared.run(code + "task = asyncio.create_task(tick())\nawait asyncio.sleep(0)")
    assert value(shared.run("await task\nticks")) == "[0, 1, 2]"


def test_loops_can_be_nested(box: cloche.Sandbox) -> None:
    box.run("import asyncio, nest_asyncio\nnest_asyncio.apply()\nasync def twice(n): return n * 2")
    assert value(box.run("async def nested(): return asyncio.run(twice(21))\nawait nested()")) == "42"
    assert value(box.run("asyncio.get_event_loop().run_until_complete(twice(2)), await twice(3)")) == "(4, 6)"


@pytest.mark.parametrize(
    "start",
    ["asyncio.create_task(work())", "asyncio.ensure_future(work())", "asyncio.get_event_loop().create_task(work())"],
)
def test_a_task_is_started_where_nothing_is_awaited(place: str, start: str) -> None:
    with cloche.Sandbox() as box:  # whose first use of asyncio it is
        box.run("import asyncio\nasync def work(): return 7")
        assert box.run(f"task = {start}").ok
        assert value(box.run("await task")) == "7"
        assert value(box.run("asyncio.run(work())")) == "7"
        assert box.run(f"task = {start}").ok
        assert value(box.run("await task")) == "7"


def test_code_that_asks_finds_a_notebook(shared: cloche.Sandbox) -> None:
    assert value(shared.run("get_ipython().__class__.__name__")) == "'ZMQInteractiveShell'"
    shown = shared.run("from rich.console import Console\nConsole().print('[bold]loud[/]')")
    assert "loud" in str(shown.results[0].html)
    assert shown.stdout == ""


def test_progress_bars_of_rich_are_shown_when_they_have_ended(shared: cloche.Sandbox) -> None:
    r = shared.run("from rich.progress import track\nfor _ in track(range(3), 'Bar'): pass")
    assert [shown.text for shown in r.results if "100%" in str(shown.text) and "Bar" in str(shown.text)], r
    assert r.stderr == ""


def test_progress_bars_for_notebooks_are_bars_of_text(shared: cloche.Sandbox) -> None:
    result = shared.run("from tqdm.notebook import tqdm\nfor n in tqdm(range(3)): pass")
    assert result.ok, result.error
    assert "3/3" in result.stderr


def test_the_source_of_what_a_cell_defined_can_be_read(shared: cloche.Sandbox) -> None:
    shared.run("import inspect\ndef shown(a):\n    return a + 1")
    assert shared.run("print(inspect.getsource(shown))").stdout == "def shown(a):\n    return a + 1\n\n"


def test_objects_of_a_class_that_a_cell_defined_can_be_pickled(shared: cloche.Sandbox) -> None:
    shared.run("import pickle\nclass Point:\n    def __init__(self, x): self.x = x")
    assert value(shared.run("pickle.loads(pickle.dumps(Point(3))).x")) == "3"


def test_a_pool_of_processes_runs_what_a_cell_defined(shared: cloche.Sandbox) -> None:
    code = "from multiprocessing import Pool\ndef square(n): return n * n\nwith Pool(2) as pool: print(pool.map(square, range(5)))"
    result = shared.run(code)
    assert (result.stdout, result.error) == ("[0, 1, 4, 9, 16]\n", None)


def test_threads_print_into_the_cell_that_runs(shared: cloche.Sandbox) -> None:
    code = "import threading\nt = threading.Thread(target=lambda: print('from a thread'))\nt.start(); t.join()"
    assert shared.run(code).stdout == "from a thread\n"


def test_a_forked_child_prints_once_and_does_not_answer_for_the_kernel(shared: cloche.Sandbox) -> None:
    code = "import os, sys\nprint('before')\npid = os.fork()\nif pid == 0:\n    print('child')\n    sys.stdout.flush()\n    os._exit(0)\nos.waitpid(pid, 0)\nprint('after')"
    assert shared.run(code).stdout == "before\nchild\nafter\n"
    forgot = shared.run("if os.fork() == 0: print('child that goes on')\nelse: os.wait()\n5")
    assert forgot.text == "5"
    assert value(shared.run("6")) == "6"


@pytest.mark.parametrize(("code", "status"), [("sys.exit(5)", 5), ("1 / 0", 1), ("pass", 0)])
def test_a_forked_child_ends_with_its_own_status(shared: cloche.Sandbox, code: str, status: int) -> None:
    shared.run("import os, sys")
    shared.run(f"child = os.fork()\nif child == 0:\n    {code}")
    assert value(shared.run("os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])")) == str(status)


def test_what_a_background_thread_prints_later_is_in_the_next_cells_logs(shared: cloche.Sandbox) -> None:
    shared.run(
        "import threading\ngo, done = threading.Event(), threading.Event()\n"
        "def late(): go.wait(); print('late'); done.set()\nthreading.Thread(target=late).start()"
    )
    result = shared.run("go.set()\n_ = done.wait(5)")
    assert [(log.stream, log.text) for log in result.logs] == [("stdout", "late\n")]


def test_what_a_background_process_prints_between_cells_is_in_the_next_cells_logs(shared: cloche.Sandbox) -> None:
    shared.run("import os, subprocess\nos.path.exists('/sandbox/go') or os.mkfifo('/sandbox/go')")
    shared.run("behind = subprocess.Popen('read x < /sandbox/go; echo behind; touch /sandbox/said', shell=True)")
    shared.commands.run("echo > /sandbox/go; until [ -e /sandbox/said ]; do sleep 0.01; done")
    assert shared.run("behind.wait()").stdout == "behind\n"


# --- what is not there


def test_nothing_of_ours_can_be_imported(shared: cloche.Sandbox) -> None:
    result = shared.run("import sys\nprint([name for name in sys.modules if name.startswith('cloche')])\nimport cloche")
    assert error_of(result, "runtime").name == "ModuleNotFoundError"


@pytest.mark.parametrize("name", ["random", "numpy", "uuid", "secrets", "hash", "tempfile"])
def test_no_two_kernels_draw_the_same_numbers(shared: cloche.Sandbox, name: str) -> None:
    code = {
        "random": "import random; random.random(), random.Random().random()",
        "numpy": "import numpy as np; float(np.random.rand()), float(np.random.default_rng().random())",
        "uuid": "import uuid; uuid.uuid4().hex, uuid.uuid1().hex",
        "secrets": "import secrets; secrets.token_hex()",
        "hash": "import random; random.sample(range(10**9), 5)",
        "tempfile": "import tempfile; tempfile.mktemp()",
    }[name]
    drawn = []
    context = shared.contexts.create()
    drawn.append(value(context.run(code)))
    context.restart()
    drawn.append(value(context.run(code)))
    other = shared.contexts.create()
    drawn.append(value(other.run(code)))
    for _ in range(2):
        with cloche.Sandbox() as box:
            drawn.append(value(box.run(code)))
    context.remove()
    other.remove()
    assert len(set(drawn)) == 5


def test_a_new_session_sees_nothing_of_an_earlier_one() -> None:
    with cloche.Sandbox() as first:
        assert first.run("import os, json; secret = 1; json.mine = 1; os.environ['MINE'] = '1'").ok
        assert first.run("open('/sandbox/mine', 'w'); open('/tmp/mine', 'w')").ok
        before = first.run("In[0:1], len(In)").text
    with cloche.Sandbox() as second:
        result = second.run(
            "import os, json\n'secret' in globals(), hasattr(json, 'mine'), 'MINE' in os.environ, "
            "os.path.exists('/sandbox/mine'), os.path.exists('/tmp/mine'), len(In), len(Out)"
        )
        assert before is not None
        assert result.text == "(False, False, False, False, False, 2, 0)"


# --- bad input

BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"code": None}, cloche.InvalidRun, "code"),
    ({"code": b"1"}, cloche.InvalidRun, "code"),
    ({"code": 5}, cloche.InvalidRun, "code"),
    ({"code": "x = '\ud800'"}, cloche.InvalidRun, "code"),
    ({"code": "x" * 5_000_000}, cloche.InvalidRun, "too long"),
    ({"language": "cobol"}, cloche.InvalidRun, "cobol"),
    ({"language": 5}, cloche.InvalidRun, "5"),
    ({"context": "nowhere"}, cloche.Gone, "nowhere"),
    ({"context": 5}, cloche.InvalidRun, "5"),
    ({"context": "x" * 5000}, cloche.Gone, "xxx"),
    ({"timeout": 0}, cloche.InvalidRun, "timeout"),
    ({"timeout": -1}, cloche.InvalidRun, "timeout"),
    ({"timeout": "30"}, cloche.InvalidRun, "timeout"),
    ({"timeout": float("nan")}, cloche.InvalidRun, "timeout"),
    ({"timeout": True}, cloche.InvalidRun, "timeout"),
    ({"stdin": 5}, cloche.InvalidRun, "stdin"),
    ({"stdin": "\ud800"}, cloche.InvalidRun, "stdin"),
    ({"env": {"A": 1}}, cloche.InvalidRun, "A"),
    ({"env": {"A=": "1"}}, cloche.InvalidRun, "A="),
    ({"env": ["A"]}, cloche.InvalidRun, "env"),
    ({"env": {"A": "x" * (2 << 20)}}, cloche.InvalidRun, "too long"),
]


@pytest.mark.parametrize(
    ("arguments", "kind", "word"), BAD, ids=[f"{i}-{next(iter(a))}" for i, (a, *_) in enumerate(BAD)]
)
def test_bad_input_is_refused_and_nothing_is_lost(
    shared: cloche.Sandbox, arguments: dict[str, Any], kind: type[Exception], word: str
) -> None:
    shared.run("here = 1")
    with pytest.raises(kind, match=re.escape(word)) as caught:
        shared.run(**{"code": "here = 2", **arguments})
    assert len(str(caught.value)) < 500
    with pytest.raises(kind):
        list(shared.stream(**{"code": "here = 3", **arguments}))
    assert value(shared.run("here")) == "1"


@pytest.mark.parametrize("character", ["x", "ü", "世", "🎉", '"', "\\\\", "\\n"])
def test_code_up_to_the_limit_runs_whatever_it_is_made_of(shared: cloche.Sandbox, character: str) -> None:
    ran = 0
    for size in (10_000, 85_000, 87_000, 170_000, 350_000, 520_000, 1_040_000, 1_048_000):
        try:
            result = shared.run(f"len('{character * size}')")
        except cloche.InvalidRun:
            continue
        assert result.ok
        ran += 1
    assert ran >= 2
    assert value(shared.run("1")) == "1"


def test_a_closed_sandbox_says_so() -> None:
    with cloche.Sandbox() as box:
        box.run("1")
    with pytest.raises(cloche.Gone):
        box.run("1")


# --- asyncio


async def test_the_asynchronous_sandbox_is_the_same(async_box: cloche.AsyncSandbox) -> None:
    await async_box.run("x = 41")
    result = await async_box.run("import sys\nprint('out'); print('err', file=sys.stderr); x + 1")
    assert (result.text, result.stdout, result.stderr, result.execution_count) == ("42", "out\n", "err\n", 2)
    assert error_of(await async_box.run("1 / 0"), "runtime").name == "ZeroDivisionError"
    assert value(await async_box.run("input()", stdin="a\n")) == "'a'"
    context = await async_box.contexts.create(cwd="/tmp")
    assert value(await context.run("import os; os.getcwd()")) == "'/tmp'"
    with pytest.raises(cloche.InvalidRun):
        await async_box.run("1", language="cobol")
    assert value(await async_box.run("x")) == "41"
