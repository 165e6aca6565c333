"""Runs a Python script in this process as `python3 main.py` would, up to the end of the interpreter."""

from __future__ import annotations

import atexit
import os
import sys

from cloche.agent import compute_threads, own_packages, script_end, variables
from cloche.agent.sealing import sealed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, ModuleType
    from typing import NoReturn

    from cloche.agent.messages import ProgramOrder

_hidden: list[ModuleType] = []  # hidden modules, kept alive: freeing them would copy shared pages
_run_and_end: list[Callable[[CodeType | BaseException, tuple[str, ...]], NoReturn]] = []  # sealed; empty once it runs


def seal() -> None:
    """Prepare what the program cannot reach; the nursery calls this, so that a fork need not."""
    if not _run_and_end:
        _run_and_end.append(sealed(vars(script_end))["run_and_end"])


def run(program: ProgramOrder) -> NoReturn:
    """Run the script of an order and end the process."""
    script: str = program["script"]
    if "terminal" in program:
        _take_terminal(program["terminal"], program["streams"])
    os.chdir(program["cwd"])
    set_environment(program["env"])
    folder = os.path.dirname(script)
    sys.argv = [script, *program["args"]]
    sys.orig_argv = ["python3", *sys.argv]
    if own_packages.want_a_fresh_python():  # such as a newer pandas: this process may have imported the older one
        os.execv(sys.executable, sys.orig_argv)
    own_packages.put_back()
    folders = [folder] if folder == program["cwd"] else [folder, program["cwd"]]
    sys.path[:0] = folders
    _drop_shadowed_modules(folders)
    _drop_inherited_exit()
    _make_main_module(script)
    code = _compiled(script)
    seal()
    # Taken from the list and kept in no variable: nothing that the program can find refers to it any more.
    _run_and_end.pop()(code, tuple(folders))


def _take_terminal(path: str, streams: list[int]) -> None:
    """Use a terminal for some of the standard streams; it becomes the controlling terminal of this session."""
    slave = os.open(path, os.O_RDWR)
    for fd in streams:
        os.dup2(slave, fd)
    os.close(slave)


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


def _drop_inherited_exit() -> None:
    """Forget functions for the exit of libraries that only we imported: they would call what the program replaced.

    `script_end` writes the logs of a program that uses `logging` and waits for the processes of one that uses
    `multiprocessing`, and `weakref` registers its function again.
    """
    if not atexit._ncallbacks():
        return
    atexit._clear()
    weakref = sys.modules.get("weakref")
    if weakref is not None:
        weakref.finalize._registered_with_atexit = False


def set_environment(wanted: dict[str, str]) -> None:
    """Make these the only environment variables."""
    variables.put(wanted)
    if "TZ" in wanted:
        import time

        time.tzset()
    compute_threads.adapt(wanted)


def _compiled(script: str) -> CodeType | BaseException:
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
        return problem.with_traceback(None)


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


def hide_modules(names: list[str]) -> None:
    """Remove modules from `sys.modules`, so that a program does not find them."""
    _hidden.extend(sys.modules.pop(name) for name in names if name in sys.modules)
