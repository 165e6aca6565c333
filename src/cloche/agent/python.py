"""Runs Python programs in forks of a warm Python; they behave as under `python3 main.py`.

The agent forks.  The child raises `BecomeProgram` to unwind to the bottom of its stack, makes itself a clean process,
and waits for the order: which program or kernel to become.  It does everything it can before the order arrives.
"""

from __future__ import annotations

import gc
import os
import sys

from cloche.agent import libc, signals
from cloche.wire.light_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, ModuleType, TracebackType
    from typing import Any, NoReturn

_prctl = libc.function("prctl", "lllll")
_fflush = libc.function("fflush", "l")

# Random generators that libraries created at import, before the fork; the nursery collects them (see `note_state`).
_generators: list[Any] = []
_cloche_modules: list[str] = []  # Cloche's modules, which a program must not find
_modules_before = 0  # number of modules when the program starts
_collections_before = 0  # number of collections of older generations by then
_kernel_modules: list[str] = []  # modules that kernels need, which a program must not find either
# entry points of the kernels that a fork can become
_kernels: dict[str, Callable[[int, dict[str, Any]], NoReturn]] = {}
_hidden: list[ModuleType] = []  # hidden modules, kept alive: freeing them would copy shared pages


class BecomeProgram(BaseException):
    """Raised in a forked child, to leave the agent's stack and become a program."""

    def __init__(
        self, stdin: int, stdout: int, stderr: int, order: int | None, early: bool, known_order: dict[str, Any] | None
    ) -> None:
        super().__init__()
        self._descriptors = (stdin, stdout, stderr, order)
        self._early = early  # there is time until the order comes
        self._known_order = known_order  # the order, if it was known before the fork

    def become(self) -> NoReturn:
        """Become the program; called at the bottom of the stack, never returns."""
        try:
            order = _make_clean(*self._descriptors)
            if self._early:
                _warm_up()
            program = self._known_order
            if order is not None:
                program = _receive_order(order)
                if "kernel" in program:
                    _become_kernel(order, program)
                os.close(order)
            assert program is not None
            _hide(_kernel_modules)
            global _modules_before, _collections_before
            _modules_before, _collections_before = len(sys.modules), _old_collections()
        except BaseException:
            os._exit(125)
        _run(program)


def offer_kernels(entry_points: dict[str, Callable[[int, dict[str, Any]], NoReturn]]) -> None:
    """Let forks become these kernels, by name.  Call this while the kernels' code can still be imported."""
    _kernels.update(entry_points)


def hide_from_programs(names: list[str]) -> None:
    """Name the modules that were imported for kernels only."""
    _kernel_modules[:] = names


def has_kernel(name: str) -> bool:
    """Say whether a fork can become this kernel."""
    return name in _kernels


def needs_fresh_interpreter(environment: dict[str, str]) -> bool:
    """Say whether the environment sets variables that Python or the C library reads only at start."""
    if environment.get("LANG") != os.environ.get("LANG"):
        return True
    return any(name.startswith(("PYTHON", "LD_", "LC_", "MALLOC_", "GLIBC_")) for name in environment)


def send_order(fd: int, program: dict[str, Any]) -> None:
    """Tell a waiting child which program or kernel to become."""
    data = dumps(program).encode()
    data = len(data).to_bytes(4, "big") + data
    while data:
        data = data[os.write(fd, data) :]


def reset_signals() -> None:
    """Set the signals as a Python program expects them: none blocked, none caught."""
    signals.set_wakeup_fd(-1)
    signals.signal(signals.SIGCHLD, signals.SIG_DFL)
    signals.pthread_sigmask(signals.SIG_SETMASK, ())


def reset_all_signals() -> None:
    """Set the signals as other programs expect them: Python ignores two, and exec would pass that on."""
    reset_signals()
    for number in (signals.SIGPIPE, signals.SIGXFSZ):
        signals.signal(number, signals.SIG_DFL)


def set_dumpable(dumpable: bool) -> None:
    """Allow or forbid other processes of the same user to trace this one and read its memory."""
    if _prctl(4, int(dumpable), 0, 0, 0):  # PR_SET_DUMPABLE
        raise OSError("prctl(PR_SET_DUMPABLE) failed")


def block_harmful_imports() -> None:
    """Make imports go without modules that change a process for good; the nursery calls this before its imports.

    `readline` catches SIGWINCH and takes over `input`.  IPython needs `pdb`, which imports it since Python 3.13.
    """
    sys.modules["readline"] = None  # type: ignore[assignment]


def note_state() -> None:
    """Record the state that a fork must not share; the nursery calls this after its imports."""
    platform = sys.modules.get("platform")
    if platform is not None:  # it caches the host's name if a library has asked for it
        platform._uname_cache = None  # type: ignore[attr-defined]
        platform._platform_cache.clear()
    _cloche_modules[:] = [name for name in sys.modules if name in ("cloche", "readline") or name.startswith("cloche.")]
    random = sys.modules.get("random")
    if random is not None:
        kinds = (random.Random,)
        _generators[:] = [thing for thing in gc.get_objects() if type(thing) in kinds]


def _make_clean(stdin: int, stdout: int, stderr: int, order: int | None) -> int | None:
    """Become a separate process with nothing open but its streams and the order, whose descriptor is returned."""
    os.setsid()
    moved = 2 if order is None else os.dup(order)
    while order is not None and moved < 3:
        moved = os.dup(moved)
    for number, fd in enumerate((stdin, stdout, stderr)):
        os.dup2(fd, number)
    os.closerange(3, moved)
    os.closerange(moved + 1, 1 << 30)
    reset_signals()
    signals.signal(signals.SIGINT, signals.default_int_handler)
    # Nobody may look into the agent, but a program may look into itself.  Its memory has nothing but imports.
    set_dumpable(True)
    exposed = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    os.write(exposed, b"1000")  # when memory runs out, the kernel should kill programs, not the agent
    os.close(exposed)
    threading = sys.modules.get("threading")
    if threading is not None:
        threading.main_thread()._set_native_id()  # Python does not update it after a fork
    _reseed()
    _open_standard_streams()
    _hide(_cloche_modules)
    gc.enable()
    return None if order is None else moved


def _hide(names: list[str]) -> None:
    _hidden.extend(sys.modules.pop(name) for name in names if name in sys.modules)


def _become_kernel(control: int, order: dict[str, Any]) -> NoReturn:
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.chdir(order["cwd"])
    _set_environment(order["env"])
    if "TZ" in os.environ:
        import time

        time.tzset()
    _kernels[order["kernel"]](control, order)


def _warm_up() -> None:
    """Touch what every program touches: memory shared with the nursery is copied at its first use."""
    loads(dumps({"env": dict(os.environ)}))
    exec(compile("import sys\nx = [str(i) for i in range(3)]\ndef f(): pass\nf()", "", "exec"), {"__name__": ""})
    gc.collect()


def _reseed() -> None:
    """Reseed generators, so that sandboxes draw different numbers.  (Python itself reseeds `random` after a fork.)"""
    for generator in _generators:
        generator.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    tempfile = sys.modules.get("tempfile")
    if tempfile is not None:
        tempfile._name_sequence = None  # type: ignore[attr-defined]


def _open_standard_streams() -> None:
    # Line buffering even into a pipe: output is seen as it happens, and a kill loses nothing that was printed.
    sys.stdin = sys.__stdin__ = open(  # type: ignore[misc]
        0, encoding="utf-8", errors="surrogateescape", newline="\n", closefd=False
    )
    # Bytes that are not UTF-8 pass unchanged, as with any Python in a C locale.
    sys.stdout = sys.__stdout__ = open(  # type: ignore[misc]
        1, "w", buffering=1, encoding="utf-8", errors="surrogateescape", closefd=False
    )
    sys.stderr = sys.__stderr__ = open(  # type: ignore[misc]
        2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )
    for stream, name, mode in (
        (sys.stdin, "<stdin>", "r"),
        (sys.stdout, "<stdout>", "w"),
        (sys.stderr, "<stderr>", "w"),
    ):
        stream.buffer.raw.name = name  # type: ignore[attr-defined]
        stream.mode = mode  # type: ignore[misc]


def _receive_order(fd: int) -> dict[str, Any]:
    def exactly(count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = os.read(fd, count - len(data))
            if not part:
                os._exit(0)  # the agent does not need this spare
            data += part
        return data

    order: dict[str, Any] = loads(exactly(int.from_bytes(exactly(4), "big")).decode())
    return order


def _run(program: dict[str, Any]) -> NoReturn:
    script: str = program["script"]
    os.chdir(program["cwd"])
    _set_environment(program["env"])
    if "TZ" in os.environ:
        import time

        time.tzset()
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
                _hide([name, *(inner for inner in sys.modules if inner.startswith(f"{name}."))])


def _set_environment(wanted: dict[str, str]) -> None:
    for name in [name for name in os.environ if name not in wanted]:
        del os.environ[name]
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


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
