"""A cell that fails is never reported as successful because of what an earlier cell has replaced."""

from __future__ import annotations

from shutil import which
from textwrap import dedent
from types import CodeType, FunctionType

import pytest

import cloche
from cloche.kernels import cell_loop

FAILURES = {
    "exception": "raise ValueError('failed')",
    "exit": "raise SystemExit(3)",
    "liar": "class Liar(Exception):\n    __class__ = SystemExit\n    code = 0\nraise Liar",
    "number": "class Three(int):\n    __and__ = __rand__ = lambda *_: 0\nraise SystemExit(Three(3))",
    "late syntax": "exec('x = = 1')",
    "asynchronous": "import asyncio\nawait asyncio.sleep(0)\nraise ValueError('failed')",
}

SABOTEURS = {
    "nothing": "",
    "os": "import os\nos._exit = os.kill = os.write = lambda *_: None",
    "sys": "import sys\nsys.exit = sys.excepthook = sys.__excepthook__ = lambda *_: None",
    "traceback": "import sys\nsys.modules['traceback'] = sys.modules['linecache'] = None",
    "isinstance": "import builtins\nreal = isinstance; builtins.isinstance = lambda a, b: b is SystemExit or real(a, b)",  # noqa: E501
    "issubclass": "import builtins\nreal = issubclass\nbuiltins.issubclass = lambda a, b: b is SystemExit or real(a, b)",  # noqa: E501
    "display of errors": "shell = get_ipython()\nshell.showtraceback = shell._showtraceback = lambda *_, **__: None",
    "report": "get_ipython().report = lambda *_: None",
    "report of the class": "type(get_ipython()).report = lambda *_: None",
    "has_failed": "type(get_ipython()).has_failed = property(lambda _: False, lambda *_: None)",
    "custom handler": "get_ipython().set_custom_exc((BaseException,), lambda *_, **__: None)",
    "send": "get_ipython().send = lambda *_, **__: None",
    "execution": """
        shell = get_ipython()
        execute = shell._execute
        def quiet(codes):
            try: execute(codes)
            except BaseException: pass
        shell._execute = quiet
    """,
    "event": """
        def forget(result):
            result.error_in_exec = result.error_before_exec = None
            get_ipython().has_failed = False
        get_ipython().events.register("post_run_cell", forget)
    """,
    "result": """
        import IPython.core.interactiveshell as module
        class Result(module.ExecutionResult):
            success = True
            error_in_exec = error_before_exec = property(lambda _: None, lambda *_: None)
            def __init__(self, info): self.info = info
        module.ExecutionResult = Result
    """,
    "kernel": """
        import sys
        frame = sys._getframe()
        while frame is not None:
            kernel = frame.f_locals.get("kernel") or frame.f_locals.get("self")
            for name in ("_status", "end_cell"):
                if type(kernel).__name__ == "PythonKernel":
                    setattr(type(kernel), name, lambda *_: ("ok", 0))
            frame = frame.f_back
    """,
    "functions": """
        import gc
        gc.unfreeze()
        for thing in gc.get_objects():
            if type(thing) is type(lambda: 0) and thing.__name__ in ("_run", "_ended_by", "_status"):
                if "cloche" in thing.__code__.co_filename: thing.__code__ = (lambda *_: ("ok", 0)).__code__
    """,
    "profile": """
        import sys
        def profile(frame, event, arg):
            if "cell_loop" in frame.f_code.co_filename:
                frame.f_globals["_ended_by"] = lambda _: ("ok", 0)
                raise SystemExit(0)
        sys.setprofile(profile)
    """,
}


@pytest.mark.parametrize("saboteur", SABOTEURS)
def test_a_saboteur_does_not_turn_a_later_cells_failure_into_success(box: cloche.Sandbox, saboteur: str) -> None:
    box.run(dedent(SABOTEURS[saboteur]))
    for name, failure in FAILURES.items():
        result = box.run(failure)
        assert not result.ok, name
        assert result.exit_code, name


FAILURES_IN_JAVASCRIPT = (
    "throw new Error('failed')",
    "await Promise.reject(new Error('failed'))",
    "process.exit(3)",
    "process.exitCode = 3",
    "throw null",
    "let = = 1",
)

SABOTEURS_IN_JAVASCRIPT = {
    "stack traces": "Error.prepareStackTrace = () => { throw 1 }",
    "names of every object": """
        for (const name of ['code', 'status', 'failed', 'ended', 'settled', 'leaving'])
          Object.defineProperty(Object.prototype, name, { get() { return 0 }, set() {} })
    """,
    "JSON": "JSON.stringify = () => '{}'; JSON.parse = () => ({}); globalThis.Number = () => 0",
    "timers": "globalThis.setImmediate = setTimeout = () => {}",
    "listeners": "for (const name of ['exit', 'beforeExit']) process.on(name, () => { process.exitCode = 0 })",
    "senders": "process.send = process.stdout.write = process.stderr.write = require('fs').writeSync = () => true",
    "errors": "Object.defineProperty(Error.prototype, 'stack', { get() { throw 1 } }); globalThis.Error = () => {}",
    "promises": "Promise.prototype.then = Promise.prototype.catch = function () { return this }",
}


@pytest.mark.parametrize("saboteur", SABOTEURS_IN_JAVASCRIPT)
def test_nor_in_javascript(box: cloche.Sandbox, saboteur: str) -> None:
    box.run(SABOTEURS_IN_JAVASCRIPT[saboteur], language="javascript")
    for failure in FAILURES_IN_JAVASCRIPT:
        assert not box.run(failure, language="javascript").ok, failure


FAILURES_IN_BASH = ("false", "exit 3", "(exit 4)", "nosuchcommand", "set -e; false; true", "if")

SABOTEURS_IN_BASH = {
    "traps": "trap 'exit 0' EXIT; trap true ERR RETURN DEBUG",
    "traps that know our names": "trap '__cloche_code=0' DEBUG RETURN ERR",
    "our functions": "__cloche_end() { __cloche_code=0; }; __cloche_restore() { :; }",
    "functions": 'for name in echo declare printf test; do eval "$name() { return 0; }"; done',
    "aliases": "shopt -s expand_aliases; alias source=true builtin=true echo=true return=true",
    "variables": "__cloche_folder=/nowhere PROMPT_COMMAND='exit 0' BASH_ENV=/dev/null IFS=0123",
    "closed streams": "exec 1>&- 2>&-",
    "posix": "set -o posix",
    "a report": "echo 'end 999 0 hB' >$__cloche_folder/reports",
    "the shell itself": "exec true",
    "the kernel": "kill -9 $PPID",
}

FAILURES_IN_R = ("stop('failed')", "x <- = 1", "1 + 'a'")

SABOTEURS_IN_R = {
    "options": "options(error = function() quit(status = 0), warn = 2)",
    "last words": ".Last <- function() quit(status = 0, runLast = FALSE)",
    "functions": "c <- sub <- tryCatch <- conditionMessage <- print <- cat <- file.path <- function(...) NULL",
    "traces": "suppressMessages(trace('cat', quote(NULL), where = baseenv(), print = FALSE))",
    "connections": "closeAllConnections()",
    "sinks": "sink('/dev/null'); sink(stdout(), type = 'message')",
}


@pytest.mark.embedded  # what is tested is the kernel
@pytest.mark.parametrize("saboteur", SABOTEURS_IN_BASH)
def test_nor_in_bash(box: cloche.Sandbox, saboteur: str) -> None:
    box.run(SABOTEURS_IN_BASH[saboteur], language="bash")
    for failure in FAILURES_IN_BASH:
        assert not box.run(failure, language="bash").ok, failure
    assert box.run("true", language="bash").ok


@pytest.mark.embedded
@pytest.mark.skipif(which("Rscript") is None, reason="R is not installed")
def test_nor_in_r(box: cloche.Sandbox) -> None:
    for name, saboteur in SABOTEURS_IN_R.items():
        box.run(saboteur, language="r")
        for failure in FAILURES_IN_R:
            assert not box.run(failure, language="r").ok, (name, failure)
        assert box.run("6 * 7", language="r").ok, name
    assert not box.run("quit(status = 0)", language="r").ok  # starting R again takes long, so once
    assert box.run("6 * 7", language="r").ok


def test_cells_still_succeed_beside_a_profiler(box: cloche.Sandbox) -> None:
    box.run("import sys\nseen = []\nsys.setprofile(lambda frame, event, arg: seen.append(frame.f_code.co_name))")
    assert box.run("def f(): return 6 * 7\nf()").text == "42"
    assert box.run("'f' in seen, sys.getprofile() is not None").text == "(True, True)"


def test_the_loop_can_be_sealed() -> None:
    """Its functions must not make functions or generators, whose frames are visible."""
    for name, function in vars(cell_loop).items():
        if isinstance(function, FunctionType) and function.__module__ == cell_loop.__name__:
            assert not any(isinstance(constant, CodeType) for constant in function.__code__.co_consts), name
            assert not function.__closure__, name
