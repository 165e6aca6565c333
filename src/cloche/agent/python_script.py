"""Runs a Python script in this process as `python3 main.py` would, up to the end of the interpreter."""

from __future__ import annotations

import gc
import os
import sys

from cloche.agent import libc, signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, ModuleType, TracebackType
    from typing import Any, NoReturn

    from cloche.agent.messages import ProgramOrder

_fflush = libc.function("fflush", "l")

_modules_before = 0  # number of modules when the program starts
_collections_before = 0  # number of collections of older generations by then
_hidden: list[ModuleType] = []  # hidden modules, kept alive: freeing them would copy shared pages


def note_start() -> None:
    """Record the state of the interpreter right before the program starts."""
    global _modules_before, _collections_before
    _modules_before, _collections_before = len(sys.modules), _old_collections()


def run(program: ProgramOrder) -> NoReturn:
    """Run the script of an order and end the process."""
    script: str = program["script"]
    os.chdir(program["cwd"])
    set_environment(program["env"])
    folder = os.path.dirname(script)
    sys.argv = [script, *program["args"]]
    sys.orig_argv = ["python3", *sys.argv]
    folders = [folder] if folder == program["cwd"] else [folder, program["cwd"]]
    sys.path[:0] = folders
    _drop_shadowed_modules(folders)
    _make_main_module(script)
    _exit(_status_of(_compiled(script)), tuple(folders))


def _drop_shadowed_modules(folders: list[str]) -> None:
    """Forget modules that only we imported and that the program has files for: an `ast.py`, a `token.py`."""
    for folder in folders:
        try:
            entries = os.listdir(folder)
        except OSError:  # it need not exist or be readable
            continue
        for entry in entries:
            name = entry.removesuffix(".py")
            spec = getattr(sys.modules.get(name), "__spec__", None)
            # Built-in modules, and those that every Python imports before its program, go before any file.
            if spec is None or spec.origin in ("built-in", "frozen") or name == "encodings":
                continue
            if name != entry or os.path.isfile(f"{folder}/{name}/__init__.py"):
                hide_modules([name, *(inner for inner in sys.modules if inner.startswith(f"{name}."))])


def set_environment(wanted: dict[str, str]) -> None:
    """Make these the only environment variables."""
    for name in [name for name in os.environ if name not in wanted]:
        del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
    if "TZ" in os.environ:
        import time

        time.tzset()


def _compiled(script: str) -> CodeType:
    with open(script, "rb") as file:
        source = file.read()
    try:
        return compile(source, script, "exec", dont_inherit=True)
    except Exception as problem:  # not only SyntaxError: also code too large or too deeply nested to compile
        try:
            odd = not getattr(problem, "lineno", 1) or "\0" in source.decode("utf-8")
        except UnicodeDecodeError:
            odd = True
        if odd:  # Python words these errors differently for files than for bytes; nothing has run yet
            os.execv(sys.executable, ["python3", *sys.argv])
        _exit(_report(problem), ())


def _make_main_module(script: str) -> None:
    from _frozen_importlib_external import SourceFileLoader

    main = type(sys)("__main__")
    main.__dict__.update(
        __file__=script,
        __cached__=None,
        __loader__=SourceFileLoader("__main__", script),
        __builtins__=sys.modules["builtins"],
        __annotations__={},
    )
    sys.modules["__main__"] = main


def _status_of(code: CodeType) -> int:
    """Run the program; returns its exit status, negative for a signal."""
    problem: BaseException | None = None
    try:
        exec(code, sys.modules["__main__"].__dict__)
    except BaseException as caught:
        problem = caught
    _flush_quietly(sys.stderr)
    _flush_quietly(sys.stdout)
    if isinstance(problem, SystemExit):
        return _exit_status(problem)
    # Outside the `except`: otherwise an exception in a hook would look as if it happened while handling this one.
    return 0 if problem is None else _report(problem)


def _exit_status(exit_: SystemExit) -> int:
    if exit_.code is None:
        return 0
    if isinstance(exit_.code, int):
        return exit_.code & 0xFF if -sys.maxsize <= exit_.code <= sys.maxsize else 255
    _write_stderr(f"{exit_.code}\n")
    return 1


def _report(problem: BaseException) -> int:
    """Print the traceback as Python does, without our own frames; returns the exit status."""
    status = -signals.SIGINT if type(problem) is KeyboardInterrupt else 1
    trace = _without_ours(problem)
    sys.last_type, sys.last_value, sys.last_traceback = type(problem), problem, trace
    if sys.version_info >= (3, 12):
        sys.last_exc = problem
    hook = getattr(sys, "excepthook", None)
    if hook is None:
        _write_stderr("sys.excepthook is missing\n")
        hook = sys.__excepthook__
    try:
        hook(type(problem), problem, trace)
    except SystemExit as exit_:
        status = _exit_status(exit_)
    except BaseException as worse:
        _write_stderr("Error in sys.excepthook:\n")
        sys.__excepthook__(type(worse), worse, _without_ours(worse))
        _write_stderr("\nOriginal exception was:\n")
        sys.__excepthook__(type(problem), problem, trace)
    return status


def _without_ours(problem: BaseException) -> TracebackType | None:
    trace: TracebackType | None = problem.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    problem.__traceback__ = trace
    return trace


def _write_stderr(text: str) -> None:
    try:
        if sys.stderr is None:
            os.write(2, text.encode("utf-8", "backslashreplace"))
        else:
            sys.stderr.write(text)
    except Exception:
        pass


def _exit(status: int, folders: tuple[str, ...]) -> NoReturn:
    """Do what the interpreter does at exit, except for freeing hundreds of modules one by one."""
    try:
        threading = sys.modules.get("threading")
        if threading is not None:
            threading._shutdown()  # waits for non-daemon threads
    except BaseException as problem:
        _report(problem)
    import atexit

    atexit._run_exitfuncs()
    flushed = [_flush(sys.stdout), _flush_quietly(sys.stderr)]
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__
    _release_modules(folders)
    _flush_quietly(sys.stdout)
    _flush_quietly(sys.stderr)
    _fflush(0)  # output of native code
    if status < 0:
        signals.signal(-status, signals.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status if all(flushed) else 120)


def _release_modules(folders: tuple[str, ...]) -> None:
    """Release the program's own modules, so that their objects are finalized and open files are flushed."""
    from _weakref import ref

    for name in ("last_exc", "last_type", "last_value", "last_traceback"):  # they keep the program's frames alive
        if hasattr(sys, name):
            setattr(sys, name, None)
    own_folders = tuple(f"{folder}/" for folder in folders if folder != "/")
    left = []
    for name in ("__main__", *reversed(_imported_by_the_program())):
        module = sys.modules.get(name)
        if isinstance(module, type(sys)) and (
            name == "__main__" or str(getattr(module, "__file__", None)).startswith(own_folders)
        ):
            left.append(ref(module))
            del sys.modules[name]
    del module
    _collect()
    if not any(reference() for reference in left):
        return
    for reference in reversed(left):  # still referenced: cleared in the order in which Python does it
        names = getattr(reference(), "__dict__", {})
        for belongs in (_private, _public):
            for name in [name for name in names if belongs(name)]:
                names[name] = None
    _collect()


def _collect() -> None:
    """Collect the garbage of the program.

    Collecting the oldest generation also clears Python's free lists, page by page, so it is avoided where possible.
    """
    gc.collect(1 if _old_collections() == _collections_before else 2)


def _old_collections() -> int:
    """Count the collections whose survivors count as old."""
    return sum(generation["collections"] for generation in gc.get_stats()[1:])


def _imported_by_the_program() -> list[str]:
    """Return the newest names of `sys.modules` without touching the older entries: reading one may copy a page."""
    newest = reversed(sys.modules)
    return [name for _, name in zip(range(len(sys.modules) - _modules_before), newest, strict=False)]


def _private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _public(name: str) -> bool:
    return not name.startswith("_")


def _flush(stream: Any) -> bool:
    try:
        _flush_if_open(stream)
    except BaseException as problem:
        _report_unraisable(problem, stream)
        return False
    return True


def _report_unraisable(problem: BaseException, stream: Any) -> None:
    """Report a failed last flush of stdout, as the interpreter does."""
    kinds: list[Any] = tuple.__subclasses__()  # the type has no public name
    (kind,) = (kind for kind in kinds if kind.__name__ == "UnraisableHookArgs")
    reason = (None, stream) if sys.version_info < (3, 13) else ("Exception ignored on flushing sys.stdout", None)
    details = kind((type(problem), problem, _without_ours(problem), *reason))
    try:
        getattr(sys, "unraisablehook", sys.__unraisablehook__)(details)
    except BaseException:  # nobody is left to report it to
        pass


def _flush_quietly(stream: Any) -> bool:
    try:
        _flush_if_open(stream)
    except Exception:
        return False
    return True


def _flush_if_open(stream: Any) -> None:
    try:
        closed = stream is None or bool(stream.closed)
    except Exception:  # a replacement written by the program may lack it
        closed = False
    if not closed:
        stream.flush()


def hide_modules(names: list[str]) -> None:
    """Remove modules from `sys.modules`, so that a program does not find them."""
    _hidden.extend(sys.modules.pop(name) for name in names if name in sys.modules)
