"""C library functions that Python does not offer, called through `_ctypes`, the C half of `ctypes`.

The Python half takes three milliseconds to import, and a cold `cloche run` would pay that twice.
"""

from __future__ import annotations

import os
from _ctypes import (
    FUNCFLAG_CDECL,
    FUNCFLAG_PYTHONAPI,
    FUNCFLAG_USE_ERRNO,
    Array,
    CFuncPtr,
    _SimpleCData,
    addressof,
    dlopen,
    dlsym,
    get_errno,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Function = Callable[..., int]

__all__ = ["address", "failure", "fixed", "function", "get_errno", "thread_state"]


class _Char(_SimpleCData):  # type: ignore[type-arg]
    _type_ = "c"


class _Int(_SimpleCData):  # type: ignore[type-arg]
    _type_ = "i"


class _Long(_SimpleCData):  # type: ignore[type-arg]
    _type_ = "l"


class _CString(_SimpleCData):  # type: ignore[type-arg]
    _type_ = "z"


class _Object(_SimpleCData):  # type: ignore[type-arg]
    _type_ = "O"


class _Plain(CFuncPtr):
    _flags_ = FUNCFLAG_CDECL | FUNCFLAG_USE_ERRNO
    _restype_ = _Int


class _Holding(CFuncPtr):
    _flags_ = FUNCFLAG_CDECL | FUNCFLAG_USE_ERRNO | FUNCFLAG_PYTHONAPI
    _restype_ = _Int


_program = dlopen(None, 0)  # type: ignore[arg-type]  # everything that is already loaded


_KINDS = {"l": _Long, "z": _CString, "o": _Object}


def function(name: str, takes: str = "", holds_lock: bool = False) -> Function:
    """Return a C function that returns an int.

    `takes` has a letter per argument: l for an integer, z for bytes or None, o for any object.  Without `takes`, the
    function accepts the first two as 64-bit values, and is slower.  With `holds_lock`, the interpreter's lock is held
    during the call.
    """
    found: Any = (_Holding if holds_lock else _Plain)(dlsym(_program, name))
    if takes:
        found.argtypes = tuple(_KINDS[kind] for kind in takes)
        direct: Function = found
        return direct

    def call(*arguments: object) -> int:
        passed = [_Long(argument) if isinstance(argument, int) else argument for argument in arguments]
        result: int = found(*passed)
        return result

    return call


def thread_state() -> Function:
    """Return the C function that returns the address of the current thread's state."""
    found: Any = _Holding(dlsym(_program, "PyThreadState_Get"))
    found.restype = _Long
    direct: Function = found
    return direct


def failure(call: str, path: str | None = None) -> OSError:
    """Return the error of the latest call."""
    number = get_errno()
    return OSError(number, f"{call}: {os.strerror(number)}", path)


def fixed(data: bytes) -> Any:
    """Copy the data to an `address` that stays valid as long as the returned object lives."""
    kind: Any = type("Bytes", (Array,), {"_type_": _Char, "_length_": len(data)})
    return kind.from_buffer_copy(data)


def address(data: Any) -> int:
    """Return the address of `fixed` data."""
    return addressof(data)
