"""A program cannot make its failure look like success: whatever it replaces, it ends as under `python3 main.py`.

Each saboteur runs before each failure, both in Cloche's Python and in a bare interpreter of the same sandbox.
"""

# ruff: noqa: E501  (saboteurs are easier to compare when each is one line)

from __future__ import annotations

from collections.abc import Iterator
from textwrap import dedent
from types import CodeType, FunctionType

import pytest

import cloche
from cloche.agent import script_end, sealing

MAIN = "/sandbox/code/main.py"

# In each program, `succeed` ends the process at once with status 0, whatever its arguments.
PRELUDE = "import os, sys\ndef succeed(*_, _exit=os._exit, **__): _exit(0)\n"

FAILURES = {
    "exception": "raise ValueError('failed')",
    "exit": "raise SystemExit(3)",
    "exit with a text": "raise SystemExit('failed')",
    "interrupt": "raise KeyboardInterrupt",
    "abort": "os.abort()",
    "syntax": "exec(compile('x = = 1', 'later', 'exec'))",
    "thread": "import _thread, time\n_thread.start_new_thread(lambda: 1 / 0, ()); time.sleep(0.05)",
    "none": "pass",
}

SABOTEURS = {
    "nothing": "",
    "os": "for name in ('_exit', 'kill', 'getpid', 'write', 'fork', 'waitpid', 'abort'): setattr(os, name, succeed)",
    "posix": "import posix\nfor name in dir(posix):\n    if callable(getattr(posix, name)) and name != 'abort': setattr(posix, name, succeed)",
    "no os": "del sys.modules['os'], sys.modules['posix']; os.__dict__.pop('_exit')",
    "sys.exit": "sys.exit = succeed",
    "atexit module": "import atexit\natexit._run_exitfuncs = atexit._clear = succeed",
    "another atexit": "sys.modules['atexit'] = type('Module', (), {'_run_exitfuncs': succeed})",
    "atexit callback": "import atexit\natexit.register(succeed)",
    "failing atexit callback": "import atexit\natexit.register(lambda: 1 / 0)",
    "exiting atexit callback": "import atexit\natexit.register(lambda: sys.exit(0))",
    "traceback": "import traceback\nfor name in dir(traceback):\n    if callable(getattr(traceback, name)): setattr(traceback, name, succeed)",
    "another traceback": "sys.modules['traceback'] = sys.modules['linecache'] = None",
    "io": "import io, _io\nfor module in (io, _io):\n    for name in ('open', 'TextIOWrapper', 'BufferedWriter', 'FileIO'): setattr(module, name, succeed)",
    "signal": "import signal, _signal\nfor module in (signal, _signal):\n    for name in ('signal', 'raise_signal', 'getsignal', 'set_wakeup_fd', 'pthread_sigmask'): setattr(module, name, succeed)",
    "signal handler": "import signal\nsignal.signal(signal.SIGINT, succeed)",
    "gc": "import gc\nfor name in ('collect', 'get_stats', 'freeze', 'enable'): setattr(gc, name, succeed)",
    "gc callback": "import gc\ngc.callbacks.append(succeed)\ngc.disable()",
    "weakref": "import weakref, _weakref\nweakref.ref = _weakref.ref = succeed",
    "finalizer": "import weakref\nclass Kept: pass\nkept = Kept()\nweakref.finalize(kept, succeed)",
    "__del__": "class Kept:\n    def __del__(self): self.end()\n    end = staticmethod(succeed)\nkept = Kept()",
    "no modules": "sys.modules.clear()",
    "modules are none": "for name in list(sys.modules): sys.modules[name] = None",
    "another dict of modules": "sys.modules = {}",
    "no main": "del sys.modules['__main__']",
    "another main": "sys.modules['__main__'] = 5",
    "threading": "sys.modules['threading'] = type('Module', (), {'_shutdown': staticmethod(succeed)})",
    "failing threading": "sys.modules['threading'] = type('Module', (), {'_shutdown': 1})",
    "threading hook": "import threading\nthreading.excepthook = succeed",
    "sys.excepthook": "sys.excepthook = lambda *_: None",
    "ending excepthook": "sys.excepthook = succeed",
    "exiting excepthook": "def hook(*_): raise SystemExit(0)\nsys.excepthook = hook",
    "failing excepthook": "def hook(*_): raise ValueError\nsys.excepthook = hook",
    "no excepthook": "del sys.excepthook",
    "original hooks": "sys.__excepthook__ = sys.__unraisablehook__ = succeed",
    "unraisable": "sys.unraisablehook = succeed",
    "no streams": "sys.stdout = sys.stderr = sys.stdin = None",
    "closed streams": "sys.stdout.close(); sys.stderr.close()",
    "closed descriptors": "os.close(1); os.close(2)",
    "strange streams": "class Stream:\n    closed = False\n    def __getattr__(self, name): raise SystemExit(0)\nsys.stdout = sys.stderr = Stream()",
    "ending streams": "class Stream:\n    closed = False\n    flush = write = succeed\nsys.__stdout__ = sys.__stderr__ = Stream()",
    "builtins": "import builtins\nfor name in ('isinstance', 'issubclass', 'getattr', 'hasattr', 'setattr', 'len', 'exec', 'str', 'type', 'reversed', 'list', 'range', 'BaseException', 'SystemExit', 'KeyboardInterrupt', 'int'):\n    if name not in ('exec', 'KeyboardInterrupt', 'SystemExit'): setattr(builtins, name, succeed)",
    "matching nothing": "import builtins\nclass Other(BaseException): pass\nbuiltins.BaseException = builtins.Exception = Other",
    "no builtins": "import builtins\nkept = {name: vars(builtins)[name] for name in ('__import__', 'ValueError', 'SystemExit', 'KeyboardInterrupt', 'exec', 'compile', '__build_class__')}\nvars(builtins).clear(); vars(builtins).update(kept)",
    "frames": """
        frame = sys._getframe().f_back
        while frame is not None:
            for name, value in list(frame.f_globals.items()):
                if callable(value): frame.f_globals[name] = succeed
            for value in [*frame.f_globals.values(), *frame.f_locals.values()]:
                if "cloche" not in str(getattr(value, "__name__", type(value).__module__)): continue
                for name, inner in list(getattr(value, "__dict__", {}).items()):
                    if callable(inner):
                        try: setattr(value, name, succeed)
                        except (AttributeError, TypeError): pass
            frame = frame.f_back
    """,
    "frames of another thread": """
        import _thread, time
        main = _thread.get_ident()
        def look():
            frame = sys._current_frames()[main]
            while frame is not None:
                if frame.f_code.co_filename != __file__:
                    frame.f_globals.update((name, succeed) for name in list(frame.f_globals))
                frame = frame.f_back
        _thread.start_new_thread(look, ())
        time.sleep(0.05)
    """,
    "trace": """
        def trace(frame, event, arg):
            if frame.f_code.co_filename != __file__: succeed()
            return trace
        frame = sys._getframe()
        while frame is not None: frame.f_trace = trace; frame = frame.f_back
        sys.settrace(trace)
    """,
    "profile": """
        def profile(frame, event, arg):
            if "cloche" in frame.f_code.co_filename: succeed()
        sys.setprofile(profile)
    """,
    "audit": """
        def hook(event, _):
            if event.split(".")[0] in ("os", "ctypes", "gc", "signal", "atexit"): succeed()
        sys.addaudithook(hook)
    """,
    "every function": """
        import gc
        def stand_in(*_, **__):
            import posix
            posix._exit(0)
        gc.unfreeze()
        for thing in gc.get_objects():
            if type(thing) is type(succeed) and "cloche" in thing.__code__.co_filename:
                thing.__code__ = stand_in.__code__ if not thing.__closure__ else thing.__code__
                thing.__defaults__ = thing.__kwdefaults__ = None
    """,
    "every namespace": """
        import gc
        gc.unfreeze()
        for thing in gc.get_objects():
            if type(thing) is dict and ("cloche" in str(dict.get(thing, "__name__")) or "run_and_end" in thing):
                for name in list(thing): thing[name] = succeed
            elif type(thing) is dict and "BaseException" in thing and "isinstance" in thing:
                thing["isinstance"] = thing["issubclass"] = thing["type"] = succeed
    """,
    "every class": """
        import gc
        gc.unfreeze()
        for thing in gc.get_objects():
            if issubclass(type(thing), type) and str(thing.__module__).startswith("cloche"):
                for name in ("__call__", "__getattr__", "__getattribute__"):
                    try: setattr(thing, name, succeed)
                    except TypeError: pass
    """,
    "every native function": """
        import gc
        gc.unfreeze()
        for thing in [*gc.get_objects(), *(getattr(thing, "__self__", None) for thing in gc.get_objects() if type(thing).__name__ == "method-wrapper")]:
            if hasattr(type(thing), "errcheck"): thing.errcheck = succeed
    """,
    "native functions of our modules": """
        import gc
        gc.unfreeze()
        for thing in gc.get_objects():
            if type(thing) is dict and str(dict.get(thing, "__name__")).startswith("cloche"):
                for value in thing.values():
                    value = getattr(value, "__self__", value)
                    if hasattr(type(value), "errcheck"): value.errcheck = succeed
    """,
    "monitoring": """
        if monitoring := getattr(sys, "monitoring", None):
            def look(code, *_):
                if code.co_filename != __file__: succeed()
            monitoring.use_tool_id(3, "saboteur")
            for name in ("LINE", "CALL", "JUMP", "PY_RETURN", "PY_START", "RAISE", "EXCEPTION_HANDLED", "PY_UNWIND"):
                event = getattr(monitoring.events, name)
                monitoring.register_callback(3, event, look)
                monitoring.set_events(3, monitoring.get_events(3) | event)
    """,
    "raising monitor": """
        if monitoring := getattr(sys, "monitoring", None):
            def look(code, *_):
                if code.co_filename != __file__: raise SystemExit(0)
            monitoring.use_tool_id(3, "saboteur")
            for name in ("RAISE", "EXCEPTION_HANDLED", "PY_UNWIND"):
                event = getattr(monitoring.events, name)
                monitoring.register_callback(3, event, look)
                monitoring.set_events(3, monitoring.get_events(3) | event)
    """,
    "trace of all threads": """
        import threading
        def trace(frame, event, arg):
            if frame.f_code.co_filename != __file__ and frame.f_code.co_name != "_shutdown": raise SystemExit(0)
            return trace
        if hasattr(threading, "settrace_all_threads"): threading.settrace_all_threads(trace)
    """,
    "class of sys": "class Other(type(sys)):\n    __getattribute__ = __setattr__ = succeed\nsys.__class__ = Other",
    "class of a module": "import types\nclass Other(types.ModuleType):\n    __getattribute__ = succeed\nsys.modules['other'] = Other('other')",
    "class of modules": "class Other(dict):\n    __getitem__ = get = __len__ = __reversed__ = __iter__ = __contains__ = succeed\nsys.modules = Other(sys.modules)",
    "file of a module": "import types\nclass Name(str): startswith = __str__ = __format__ = succeed\nmodule = types.ModuleType('module'); module.__file__ = Name('/'); sys.modules['module'] = module",
    "logging": "import logging\nlogging.basicConfig()\nlogging.shutdown = succeed",
    "handlers of logging": "import logging\nclass Handlers(list): __len__ = succeed\nlogging._handlerList = Handlers()",
    "another logging": "class Module:\n    __getattr__ = succeed\nsys.modules['logging'] = Module()",
    "failing log handler": "import logging\nclass Handler(logging.Handler):\n    def close(self): raise SystemExit(0)\nlogging.getLogger().addHandler(Handler())",
    "codecs": "import codecs, encodings\ncodecs.lookup = codecs.encode = encodings.search_function = succeed\ncodecs.register_error('backslashreplace', succeed); codecs.register_error('strict', succeed)",
    "faulthandler": "import faulthandler\nfaulthandler.enable(); faulthandler.dump_traceback_later(60)",
    "hooks of forks": "os.register_at_fork(before=succeed, after_in_child=succeed, after_in_parent=succeed)",
    "ending flush": "class Stream:\n    closed = False\n    flush = succeed\nstream = sys.stdout = Stream()",
    "exiting flush": "class Stream:\n    closed = False\n    def flush(self): raise SystemExit(0)\n    def write(self, text): raise SystemExit(0)\nsys.stdout = sys.stderr = Stream()",
    "streams that are never closed": "class Stream:\n    @property\n    def closed(self): raise SystemExit(0)\n    def close(self): raise SystemExit(0)\n    def __del__(self): raise SystemExit(0)\n    flush = lambda _: None\n    write = lambda *_: 0\nsys.stdout = sys.__stdout__ = Stream()",
    "failing unraisable": "def hook(_): raise SystemExit(0)\nsys.unraisablehook = hook\nclass Kept:\n    def __del__(self): 1 / 0\nkept = Kept()",
    "callback of a weak reference": "import weakref\nclass Kept: pass\nkept = Kept()\nreference = weakref.ref(kept, lambda _: sys.exit(0))",
    "collector": "import gc\ngc.callbacks.append(lambda *_: sys.exit(0)); gc.set_threshold(1)",
    "debugged collector": "import gc\ngc.set_debug(gc.DEBUG_SAVEALL | gc.DEBUG_COLLECTABLE); gc.set_threshold(1)",
    "raising audit": """
        def hook(event, _):
            if event.split(".")[0] in ("os", "ctypes", "gc", "signal", "atexit", "exec", "compile"): raise SystemExit(0)
        if not sys.argv[1:]: sys.addaudithook(hook)
    """,
    "more builtins": "import builtins\nfor name in ('print', 'open', 'repr', 'format', 'map', 'iter', 'next', 'min', 'max', 'sum', 'dict', 'tuple', 'bool', 'object', 'super', 'vars', 'id', 'hash', 'Exception'): setattr(builtins, name, succeed)",
    "functools": "import functools, _functools, operator, _operator, collections, _collections\nfor module in (functools, _functools, operator, _operator, collections, _collections):\n    for name in ('partial', 'call', 'deque'): setattr(module, name, succeed)",
    "low recursion limit": "for limit in range(1, 100):\n    try: sys.setrecursionlimit(limit); break\n    except RecursionError: pass",
    "environment": "os.environ.clear(); os.environ = None",
    "fork": "import warnings\nif os.fork() == 0: os._exit(0)",
}

# Exceptions that lie about themselves.
LIARS = {
    "class": "class Liar(Exception):\n    __class__ = SystemExit\n    code = 0\nraise Liar",
    "class of an interrupt": "class Liar(KeyboardInterrupt): pass\nraise Liar",
    "number": "class Three(int):\n    __and__ = __index__ = __int__ = __add__ = __radd__ = lambda *_: 0\nraise SystemExit(Three(3))",
    "comparison": "class Three(int):\n    __eq__ = __lt__ = __le__ = __ge__ = __gt__ = lambda *_: False\nraise SystemExit(Three(3))",
    "class of a number": "class Liar:\n    __class__ = int\n    __and__ = lambda *_: 0\nraise SystemExit(Liar())",
    "code": "class Liar(SystemExit):\n    @property\n    def code(self): raise ValueError\nraise Liar(0)",
    "text": "class Liar:\n    def __str__(self): raise SystemExit(0)\nraise SystemExit(Liar())",
    "unhashable": "class Liar(Exception):\n    __hash__ = None\n    def __str__(self): raise SystemExit(0)\nraise Liar",
    "true": "raise SystemExit(True)",
    "huge": "raise SystemExit(1 << 80)",
    "lowest": "raise SystemExit(-(1 << 63))",
    "attributes": "import os\nclass Liar(SystemExit):\n    def __getattribute__(self, name):\n        if name != 'code': os._exit(0)\n        return 3\nraise Liar",
    "text of a subclass": "import os\nclass Text(str):\n    __format__ = encode = lambda *_: os._exit(0)\nclass Liar:\n    def __str__(self): return Text('failed')\nraise SystemExit(Liar())",
    "metaclass": "class Meta(type):\n    __instancecheck__ = __subclasscheck__ = lambda *_: True\nclass Liar(Exception, metaclass=Meta): pass\nraise Liar",
}


@pytest.fixture(scope="module")
def shared(jail: None) -> Iterator[cloche.Sandbox]:
    """A sandbox from a nursery that has imported pandas, IPython and the like: its programs inherit the most."""
    with cloche.Sandbox() as first:
        first.run("import pandas")
    with cloche.Sandbox(processes=100) as sandbox:
        sandbox.run("1")
        found = sandbox.run_program("import sys; print('threading' in sys.modules)").stdout
        assert found == "True\n", "the nursery is not warm, so this proves less"
        yield sandbox


def ends_alike(box: cloche.Sandbox, program: str) -> tuple[object, object]:
    """Run a program in both ways; returns how it ended in each."""
    ours, theirs = box.run_program(program), box.commands.run(["python3", MAIN])
    return (ours.exit_code, ours.ok), (theirs.exit_code, theirs.ok)


@pytest.mark.parametrize("saboteur", SABOTEURS)
def test_a_saboteur_does_not_change_how_a_program_ends(shared: cloche.Sandbox, saboteur: str) -> None:
    usual = ["exception", "exit", "none"]
    others = sorted(FAILURES.keys() - usual)  # one for each saboteur, in turn: all pairs would take too long
    for name in [*usual, others[list(SABOTEURS).index(saboteur) % len(others)]]:
        failure = FAILURES[name]
        ours, theirs = ends_alike(shared, f"{PRELUDE}{dedent(SABOTEURS[saboteur])}\n{failure}\n")
        assert ours == theirs, name


@pytest.mark.parametrize("liar", LIARS)
def test_an_exception_that_lies_ends_a_program_as_any_other(shared: cloche.Sandbox, liar: str) -> None:
    ours, theirs = ends_alike(shared, LIARS[liar])
    assert ours == theirs


def test_the_functions_that_end_a_program_can_be_sealed() -> None:
    """They must not make functions or generators, whose frames are visible, nor change their globals."""
    for name, function in vars(script_end).items():
        if isinstance(function, FunctionType) and function.__module__ == script_end.__name__:
            code = function.__code__
            assert not any(isinstance(constant, CodeType) for constant in code.co_consts), name
            assert not code.co_flags & 0x2A0, name  # a generator or a coroutine
            assert not function.__closure__, name
            assert not function.__kwdefaults__, name


def test_sealing_removes_the_instruction_that_makes_a_frame_visible() -> None:
    from opcode import opmap

    assert (opmap["RESUME"], opmap["NOP"]) == (sealing.RESUME, sealing.NOP)
