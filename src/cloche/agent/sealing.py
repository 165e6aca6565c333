"""Copies functions so that a program in the same process can neither find nor change them.

A program may replace any attribute of any module, walk up the stack, and ask the garbage collector for every object.
Sealed functions have globals and builtins of their own, and native functions that nobody else has.  Their frames are
not on the stack that Python shows, and the collector does not list them.  Only native code can still reach them.

Since Python 3.12, a tracer or a monitoring tool gets events of every frame that is running when it is set, hidden or
not.  So a thread that runs sealed functions has its events suspended, except while it runs the program (`guarded`).
"""

# ruff: noqa: F821  (only sealed functions have the names that `_natives` makes)

from __future__ import annotations

import builtins
import sys
from _collections import deque  # type: ignore[import-not-found]
from _functools import partial  # type: ignore[import-not-found]
from _operator import call as invoke
from _weakref import ref

from cloche.agent import libc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any

_Function: Any = type(lambda: None)
_untrack = libc.function("PyObject_GC_UnTrack", "l", holds_lock=True)

_FRAMES_GET_EVENTS = sys.version_info >= (3, 12)
_TOOLS = {"deque": deque, "invoke": invoke, "partial": partial, "ref": ref, "frames_get_events": _FRAMES_GET_EVENTS}

# Python shows a frame only once it has passed the instruction RESUME (`_PyFrame_IsIncomplete` in CPython).
RESUME = (lambda: None).__code__.co_code[0]
NOP = compile("pass\npass", "", "exec").co_code[2]


def sealed(names: dict[str, Any]) -> dict[str, Any]:
    """Copy the globals of a module whose functions are to be sealed; returns the sealed copies.

    They include `suspend` and `guarded`, and the native functions.
    """
    own_builtins = dict(vars(builtins))
    private: dict[str, Any] = {**names, **_TOOLS, **_natives(), "__builtins__": own_builtins}
    functions: dict[str, Any] = {
        name: value for name, value in names.items() if getattr(value, "__globals__", None) is names
    }
    for name, value in {**functions, **_OWN}.items():
        private[name] = _Function(_without_resume(value.__code__), private, name, value.__defaults__)
        hide(private[name])
    hide(own_builtins)
    hide(private)
    return private


def hide(thing: object) -> None:
    """Hide an object from the garbage collector; it must never be freed."""
    _untrack(id(thing))


if TYPE_CHECKING:  # what sealed functions have
    flush_native: Callable[[int], int]
    frames_get_events: bool
    hide_object: Callable[[object], int]
    resume_events: Callable[[int], int]
    suspend_events: Callable[[int, object], int]
    thread_state: Callable[[], int]


def suspend() -> None:
    """Suspend the events of this thread; only `guarded` calls have them from now on."""
    if frames_get_events:
        suspend_events(thread_state(), None)


def guarded(function: Callable[..., Any], *arguments: Any) -> tuple[list[Callable[[], Any]], object]:
    """Return a list with a call of the function, and a reference to keep until the call has ended.

    Write `calls.pop()()`, so that nothing else holds the call: it is freed at its end, before the caller's frame gets
    an event, and then the reference suspends the events again.
    """
    run = partial(function, *arguments)
    hide_object(run)
    if not frames_get_events:
        return [run], None
    state = thread_state()
    resume = partial(resume_events, state)
    hide_object(resume)
    steps = deque((resume, run))
    hide_object(steps)
    each = iter(steps)  # not a tuple's iterator: that must not be freed when it is hidden
    hide_object(each)
    both = map(invoke, each)
    hide_object(both)
    call = partial(deque, both, 0)
    hide_object(call)
    end = partial(suspend_events, state)
    hide_object(end)
    reference = ref(call, end)
    hide_object(reference)
    return [call], reference


_OWN = {"guarded": guarded, "suspend": suspend}


def _natives() -> dict[str, Callable[..., Any]]:
    """Make the native functions that sealed functions call: nobody else has them, and could set their `errcheck`."""
    made = {
        "flush_native": libc.function("fflush", "l"),  # of the C library's streams
        "hide_object": libc.function("PyObject_GC_UnTrack", "o", holds_lock=True),
        "thread_state": libc.thread_state(),
        "suspend_events": libc.function("PyThreadState_EnterTracing", "lo", holds_lock=True),
        "resume_events": libc.function("PyThreadState_LeaveTracing", "l", holds_lock=True),
    }
    natives = {name: getattr(function, "__call__") for name, function in made.items()}  # noqa: B004, B009
    for thing in (*made.values(), *natives.values()):
        hide(thing)
    return natives


def _without_resume(code: CodeType) -> CodeType:
    changed = bytearray(code.co_code)
    for position in range(0, len(changed), 2):
        if changed[position] == RESUME:
            changed[position] = NOP
    return code.replace(co_code=bytes(changed))
