"""The loop of the Python kernel: runs one cell after another, and knows which of them failed.

The kernel and IPython's shell are objects that cells can find and change.  The loop is not: it runs as a sealed copy
(see `cloche.agent.sealing`, and the rules in `cloche.agent.script_end`).  So a cell that raises is never reported as
successful because of something that an earlier cell has replaced.
"""

from __future__ import annotations

import sys
from _signal import SIG_IGN, SIGINT, signal  # type: ignore[import-not-found]
from posix import _exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any, NoReturn

    from cloche.agent.sealing import guarded, suspend
    from cloche.kernels.python import PythonKernel

_CO_COROUTINE = 0x80  # inspect.CO_COROUTINE
_add: Any = int.__add__  # not `+`: a subclass could answer with a number of its own
_get_profiler, _set_profiler = sys.getprofile.__call__, sys.setprofile.__call__  # type: ignore[operator]
_PROFILER_SEES_US = sys.version_info < (3, 12)


def serve(kernel: PythonKernel) -> NoReturn:
    """Handle requests, one after another."""
    suspend()
    profiler = None  # that cells have set, in Pythons where it would see these functions
    while True:
        try:
            cell = kernel.next_cell()
            if cell is not None:
                profiler = _run(kernel, cell, profiler)
        except BaseException as problem:  # a signal handler that a cell left behind raised, or we failed
            try:
                kernel.report_own_error(problem)
            except BaseException:
                pass


def _run(kernel: PythonKernel, cell: dict[str, Any], profiler: Any) -> Any:
    """Run a cell; the agent gets an EXIT frame in any case.  Returns the profiler that the cell has left."""
    problem: BaseException | None = None
    status, code = "error", 1
    try:
        kernel.start_cell(cell)
        try:
            signal(SIGINT, kernel.interrupt)
            try:
                codes, names = kernel.compile_cell(cell)
                if codes is not None:
                    is_asynchronous = _is_asynchronous(codes)
                    try:
                        if profiler is not None:
                            _set_profiler(profiler)
                        if is_asynchronous:
                            calls, _reference = guarded(kernel.execute_in_loop, codes)
                            calls.pop()()
                        else:
                            for part in codes:
                                calls, _reference = guarded(exec, part, names)
                                calls.pop()()
                    except BaseException as caught:
                        problem = caught
                    if _PROFILER_SEES_US:
                        profiler = _get_profiler()
                        _set_profiler(None)
                    kernel.finish_code(problem)
            finally:
                signal(SIGINT, SIG_IGN)
        except BaseException as late:  # the interrupt came after the code had ended, or in our own code
            kernel.report(late)
        status, code = kernel.end_cell()
    except BaseException as own:  # something that the code left behind broke our own code
        status, code = "error", 1
        try:
            kernel.report_own_error(own)
        except BaseException:
            pass
    if problem is not None and (status == "ok" or code == 0):
        status, code = _ended_by(problem)
    try:
        kernel.send_exit(status, code)
    except BaseException:  # the code has broken so much of Python that nobody would hear of its end
        _exit(1)
    return profiler


def _is_asynchronous(codes: list[CodeType]) -> bool:
    for code in codes:  # noqa: SIM110
        if code.co_flags & _CO_COROUTINE:
            return True
    return False


def _ended_by(problem: BaseException) -> tuple[str, int]:
    """Return the status and exit code of a cell that ended with this exception."""
    if not issubclass(type(problem), SystemExit):
        return "error", 1
    code = getattr(problem, "code", 1)
    if code is None:
        return "ok", 0
    value: int = _add(code, 0) & 0xFF if issubclass(type(code), int) else 1
    return ("exit" if value else "ok"), value
