"""Runs a program's code, and ends the process as the interpreter would.

These functions run in the program's process after its code, so `python_script` uses sealed copies of them (see
`sealing`).  Hence the rules of this file: everything is bound here, at import, to an object that no program can change.
Of modules, only `sys` is read later, where the interpreter reads it, too; and as a dict, as the interpreter does, as
the program may have changed its class.  Nor does a function read an attribute of an object that the program may have
made, unless the interpreter reads it.  No function makes another: no comprehension, no lambda, no generator.  An error
of our own is a failure of the program.
"""

from __future__ import annotations

import sys
from _io import TextIOWrapper
from _signal import SIG_DFL, SIGINT, raise_signal, signal  # type: ignore[import-not-found]
from _thread import _count as count_threads
from _weakref import ref
from atexit import _run_exitfuncs
from gc import callbacks as collector_callbacks
from gc import collect, get_stats, isenabled
from posix import _exit, write
from sys import __excepthook__ as print_exception
from sys import __unraisablehook__ as print_unraisable
from sys import getrecursionlimit, setrecursionlimit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, TracebackType
    from typing import Any, NoReturn

    from cloche.agent.sealing import flush_native, guarded, suspend

_sys, _modules = sys.__dict__, sys.modules  # for the interpreter, too, these dicts last when `sys` has others
_Module = type(sys)
_names_of: Any = vars(_Module)["__dict__"].__get__
_traceback_of: Any = vars(BaseException)["__traceback__"].__get__
_add: Any = int.__add__  # not `+`: a subclass could answer with a number of its own
_HAS_LAST_EXC = sys.version_info >= (3, 12)
_UNRAISABLE = "Exception ignored on flushing sys.stdout" if sys.version_info >= (3, 13) else None
_TOO_LARGE = 1 << 63
_OUR_DEPTH = 32  # calls; the interpreter's own end needs none
_kinds: list[Any] = tuple.__subclasses__()
(_UnraisableDetails,) = (kind for kind in _kinds if kind.__name__ == "UnraisableHookArgs")  # it has no public name
# Before Python 3.12, a profiler also sees frames that are hidden.  It does not see calls of these wrappers, though.
_PROFILER_SEES_US = sys.version_info < (3, 12)
_get_profiler, _set_profiler = (getattr(function, "__call__") for function in (sys.getprofile, sys.setprofile))  # noqa: B004, B009
_forget_callbacks = collector_callbacks.clear


def run_and_end(code: CodeType | BaseException, folders: tuple[str, ...]) -> NoReturn:
    """Run the program, or report why it cannot be compiled, and end the process with its exit status."""
    modules_before, collections_before = len(_modules), _old_collections()
    write_logs = getattr(_modules.get("logging"), "shutdown", None)
    inherited = _modules.get("threading"), _log_handlers(), write_logs, _processes()
    status = 1
    suspend()
    try:
        status = _report(code) if isinstance(code, BaseException) else _status_of(code)
        if not _finish(folders, modules_before, collections_before, inherited):
            status = 120 if status >= 0 else status
    except BaseException:  # a handler that the program set for a signal has raised
        pass
    while True:
        try:
            _end(status)
        except BaseException:
            continue


def _end(status: int) -> NoReturn:
    if status < 0:
        signal(-status, SIG_DFL)
        raise_signal(-status)
    _exit(status if status >= 0 else 128 - status)


def _status_of(code: CodeType) -> int:
    """Run the program; returns its exit status, negative for a signal."""
    problem: BaseException | None = None
    calls, _reference = guarded(exec, code, _modules["__main__"].__dict__)
    try:
        calls.pop()()
    except BaseException as caught:
        problem = caught
    if _PROFILER_SEES_US and _get_profiler() is not None:
        _set_profiler(None)
    setrecursionlimit(getrecursionlimit() + _OUR_DEPTH)
    _flush_quietly("stderr")
    _flush_quietly("stdout")
    # Outside the `except`: otherwise an exception in a hook would look as if it happened while handling this one.
    return 0 if problem is None else _report(problem)


def _exit_status(exit_: SystemExit) -> int:
    try:
        code = exit_.code
    except BaseException:
        code = exit_  # type: ignore[assignment]  # the interpreter prints it instead
    if code is None:
        return 0
    if issubclass(type(code), int):  # `isinstance` would believe an object that lies about its class
        value: int = _add(code, 0)
        return value & 0xFF if -_TOO_LARGE <= value < _TOO_LARGE else 255
    try:
        text = str(code)
    except BaseException:
        text = ""
    _write_stderr(text)
    _write_stderr("\n")
    return 1


def _report(problem: BaseException) -> int:
    """Print the traceback as Python does; returns the exit status."""
    kind = type(problem)
    if issubclass(kind, SystemExit):
        return _exit_status(problem)  # type: ignore[arg-type]
    status = -SIGINT if kind is KeyboardInterrupt else 1
    trace: TracebackType | None = _traceback_of(problem)
    _sys["last_type"], _sys["last_value"], _sys["last_traceback"] = kind, problem, trace
    if _HAS_LAST_EXC:
        _sys["last_exc"] = problem
    hook = _sys.get("excepthook")
    if hook is None:
        _write_stderr("sys.excepthook is missing\n")
        hook = print_exception
    calls, _reference = guarded(hook, kind, problem, trace)
    try:
        calls.pop()()
    except SystemExit as exit_:
        status = _exit_status(exit_)
    except BaseException as worse:
        _write_stderr("Error in sys.excepthook:\n")
        print_exception(type(worse), worse, _traceback_of(worse))
        _write_stderr("\nOriginal exception was:\n")
        print_exception(kind, problem, trace)
    return status


def _write_stderr(text: str) -> None:
    try:
        if _sys.get("stderr") is None:
            write(2, str.encode(text, "utf-8", "backslashreplace"))
        else:
            _sys["stderr"].write(text)
    except BaseException:
        pass


def _finish(
    folders: tuple[str, ...], modules_before: int, collections_before: int, inherited: tuple[Any, int, Any, Any]
) -> bool:
    """Do what the interpreter does at exit, except for freeing hundreds of modules; False if output was lost.

    Modules that only we imported (`inherited`) do nothing at the exit of a program that does not use them.
    """
    inherited_threading, inherited_handlers, write_logs, processes = inherited
    try:
        threading = _modules.get("threading")
        if threading is not None and (threading is not inherited_threading or count_threads() > 0):
            calls, _reference = guarded(threading._shutdown)
            calls.pop()()  # waits for non-daemon threads
    except BaseException as problem:
        _report(problem)
    calls, _reference = guarded(_run_exitfuncs)
    try:
        calls.pop()()
        if processes is not None and (len(processes[1]) > processes[2] or len(processes[3]) > 0):
            calls, _reference = guarded(processes[0])
            calls.pop()()  # waits for the program's processes, and removes its semaphores
        if 0 <= inherited_handlers < _log_handlers():
            write_logs()
    except BaseException:  # a handler of a signal
        pass
    flushed = _flush(_sys.get("stdout"))
    flushed = _flush_quietly("stderr") and flushed
    for name in ("stdin", "stdout", "stderr"):
        _sys[name] = _sys.get(f"__{name}__")
    _release_modules(folders, modules_before, collections_before)
    for name in ("stdout", "stderr"):
        if type(_sys[name]) is TextIOWrapper:  # the interpreter frees any other object without a call
            _flush_quietly(name)
    flush_native(0)  # output of native code
    return flushed


def _processes() -> tuple[Any, Any, int, Any] | None:
    """Return the exit function of `multiprocessing`, what it would finalize, how much that is, and all processes."""
    util, process = _modules.get("multiprocessing.util"), _modules.get("multiprocessing.process")
    if type(util) is not _Module or type(process) is not _Module:
        return None
    finalizers = util._finalizer_registry
    return util._exit_function, finalizers, len(finalizers), process._children


def _log_handlers() -> int:
    """Count the handlers of `logging`; -1 if it is not imported."""
    logging = _modules.get("logging")
    handlers = _names_of(logging).get("_handlerList") if type(logging) is _Module else None
    return len(handlers) if type(handlers) is list else -1


def _release_modules(folders: tuple[str, ...], modules_before: int, collections_before: int) -> None:
    """Release the program's own modules, so that their objects are finalized and open files are flushed."""
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):  # they keep the program's frames alive
        if name in _sys:
            _sys[name] = None
    if not isenabled():
        _forget_callbacks()  # the interpreter does not call them either
    left = []
    module = None
    for name in ("__main__", *reversed(_imported_by_the_program(modules_before))):
        module = _modules.get(name)
        if issubclass(type(module), _Module) and (name == "__main__" or _is_within(module, folders)):
            left.append(ref(module))
            del _modules[name]
    del module
    _collect(collections_before)
    is_clear = True
    for reference in reversed(left):  # still referenced: cleared in the order in which Python does it
        module = reference()
        if module is not None:
            is_clear = False
            names = _names_of(module)
            _clear(names, True)
            _clear(names, False)
            del names, module
    if not is_clear:
        _collect(collections_before)


def _is_within(module: Any, folders: tuple[str, ...]) -> bool:
    file = _names_of(module).get("__file__")
    for folder in folders:  # noqa: SIM110
        if folder != "/" and type(file) is str and file.startswith(f"{folder}/"):
            return True
    return False


def _clear(names: dict[str, Any], is_private: bool) -> None:
    """Clear a module's private or public names; those with two underscores stay."""
    for name in list(names):
        if type(name) is str and name.startswith("_") == is_private and not name.startswith("__"):
            names[name] = None


def _collect(collections_before: int) -> None:
    """Collect the garbage of the program.

    Collecting the oldest generation also clears Python's free lists, page by page, so it is avoided where possible.
    """
    collect(1 if _old_collections() == collections_before else 2)


def _old_collections() -> int:
    """Count the collections whose survivors count as old."""
    _, middle, old = get_stats()
    count: int = middle["collections"] + old["collections"]
    return count


def _imported_by_the_program(modules_before: int) -> list[str]:
    """Return the newest names of `sys.modules` without touching the older entries: reading one may copy a page."""
    newest = []
    left = len(_modules) - modules_before
    for name in reversed(_modules):
        if left <= 0:
            break
        if type(name) is str:  # a subclass may have a hash of its own
            newest.append(name)
        left -= 1
    return newest


def _flush(stream: Any) -> bool:
    try:
        _flush_if_open(stream)
    except BaseException as problem:
        # As the interpreter reports a failed last flush of stdout.
        reason = (None, stream) if _UNRAISABLE is None else (_UNRAISABLE, None)
        details = _UnraisableDetails((type(problem), problem, _traceback_of(problem), *reason))
        try:
            _sys.get("unraisablehook", print_unraisable)(details)
        except BaseException:  # nobody is left to report it to
            pass
        return False
    return True


def _flush_quietly(name: str) -> bool:
    try:
        _flush_if_open(_sys.get(name))
    except BaseException:
        return False
    return True


def _flush_if_open(stream: Any) -> None:
    try:
        closed = stream is None or bool(stream.closed)
    except BaseException:  # a replacement written by the program may lack it
        closed = False
    if not closed:
        stream.flush()
