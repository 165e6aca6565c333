"""Describes an exception as a cell's error: name, message and traceback, in plain text and in colour."""

from __future__ import annotations

import os
import sys
from types import TracebackType

from cloche.kernels.display_limits import cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TEXT = 64 << 10  # characters of a traceback
MESSAGE = 16 << 10  # characters of an exception's message
FRAMES = 40  # at each end of a traceback; more than that is recursion

_OURS = os.path.dirname(__file__) + "/"
_CELL = r'File "?<ipython-input-(\d+)-\w+>"?, line (\d+)'
_COLOUR = r"\x1b\[[0-9;]*m"


def describe(shell: Any, problem: BaseException) -> dict[str, Any]:
    """Return the message that reports the exception."""
    import re

    name, (message, is_whole) = type(problem).__name__, message_of(problem)
    for each in _chain(problem):
        each.__traceback__ = _user_frames(each.__traceback__)
    try:
        ansi = _formatted(shell, problem, message, is_whole)
    except BaseException:  # even an interrupt: the code has ended, and the caller waits for the error
        ansi = f"{name}: {message}"
    plain = re.sub(_COLOUR, "", ansi)
    return {
        "type": "error",
        "name": name,
        "message": message,
        "traceback": cut(plain, TEXT),
        "ansi": cut(ansi, TEXT),
    }


def message_of(problem: BaseException) -> tuple[str, bool]:
    """Return the exception's message, whatever its `__str__` does, and whether it is complete."""
    try:
        text = str(problem.msg if isinstance(problem, SyntaxError) else problem)
        return cut(text, MESSAGE), len(text) <= MESSAGE
    except BaseException as worse:
        return f"<its __str__ raised {type(worse).__name__}>", False


def plain_text(shell: Any, problem: BaseException) -> str:
    """Return the traceback as plain text."""
    return str(describe(shell, problem)["traceback"])


def _formatted(shell: Any, problem: BaseException, message: str, is_whole: bool) -> str:
    import re
    import traceback

    from IPython.core.error import UsageError

    kind, trace = type(problem), problem.__traceback__
    if isinstance(problem, UsageError):
        return f"UsageError: {message}"
    if isinstance(problem, SyntaxError):
        entries = traceback.extract_tb(trace)
        lines = shell.SyntaxTB.structured_traceback(kind, problem, entries)
    elif any(isinstance(each, BaseExceptionGroup) for each in _chain(problem)):
        text = "".join(traceback.format_exception(problem, limit=FRAMES)).rstrip("\n")
        return re.sub(_CELL, r"Cell In[\1], line \2", text)
    elif hasattr(kind, "_render_traceback_"):
        lines = problem._render_traceback_()  # type: ignore[attr-defined]
    else:
        shown = problem if is_whole else _look_alike(problem, message)
        lines = shell.InteractiveTB.structured_traceback(kind, shown, trace, tb_offset=0)
    return str(shell.InteractiveTB.stb2text(lines))


def _look_alike(problem: BaseException, message: str) -> BaseException:
    """Return a look-alike of an exception whose own message fails or is endless."""
    looks = {"__module__": type(problem).__module__}
    stand_in: BaseException = type(type(problem).__name__, (Exception,), looks)(message)
    stand_in.__cause__, stand_in.__context__ = problem.__cause__, problem.__context__
    stand_in.__suppress_context__ = problem.__suppress_context__
    return stand_in.with_traceback(problem.__traceback__)


def _chain(problem: BaseException) -> list[BaseException]:
    """Return the exception and those that led to it."""
    chain: list[BaseException] = []
    left: list[BaseException | None] = [problem]
    while left and len(chain) < 100:
        each = left.pop()
        if each is not None and not any(each is other for other in chain):
            chain.append(each)
            left += [each.__cause__, each.__context__]
            if isinstance(each, BaseExceptionGroup):
                left += each.exceptions
    return chain


def _user_frames(trace: TracebackType | None) -> TracebackType | None:
    """Drop frames of IPython and of ours, and the middle of a deep traceback."""
    kept = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_hidden_folders()):
            kept.append(trace)
        trace = trace.tb_next
    if len(kept) > 2 * FRAMES:
        kept = kept[:FRAMES] + kept[-FRAMES:]
    joined = None
    for each in reversed(kept):
        joined = TracebackType(joined, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return joined


def _hidden_folders() -> tuple[str, ...]:
    module = sys.modules.get("IPython")
    folder = os.path.dirname(getattr(module, "__file__", None) or "") + "/"
    return (_OURS, folder) if folder != "/" else (_OURS,)
