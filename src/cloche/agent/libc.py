"""Functions of the C library that Python does not offer, by `_ctypes`: the half of `ctypes` that is written in C.

The other half takes three milliseconds to import, which a cold `cloche run` would wait for twice.
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

__all__ = ["address", "failure", "fixed", "function", "get_errno"]


class _Char(_SimpleCData):  # type: ignore[type-arg]
    _type_ = "c"


class _Int(_SimpleCData):  # type: ignore[type-arg]
    _type_ = "i"


class _Long(_SimpleCData):  # type: ignore[type-arg]
    _type_ = "l"


class _CString(_SimpleCData):  # type: ignore[type-arg]
    _type_ = "z"


class _Plain(CFuncPtr):
    _flags_ = FUNCFLAG_CDECL | FUNCFLAG_USE_ERRNO
    _restype_ = _Int


class _Holding(CFuncPtr):
    _flags_ = FUNCFLAG_CDECL | FUNCFLAG_USE_ERRNO | FUNCFLAG_PYTHONAPI
    _restype_ = _Int


_program = dlopen(None, 0)  # type: ignore[arg-type]  # all that is loaded already


_KINDS = {"l": _Long, "z": _CString}


def function(name: str, takes: str = "", holds_lock: bool = False) -> Function:
    """A function that returns an int.  `takes` has a letter for each argument: l for an integer, z for bytes or None.

    Without `takes` it can be given any of these, as 64-bit values, and is slower.  With `holds_lock` the interpreter's
    lock is not given up while it runs.
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


def failure(call: str, path: str | None = None) -> OSError:
    """Why the latest call failed."""
    number = get_errno()
    return OSError(number, f"{call}: {os.strerror(number)}", path)


def fixed(data: bytes) -> Any:
    """A copy of the data at an `address` that stays the same for as long as this is held."""
    kind: Any = type("Bytes", (Array,), {"_type_": _Char, "_length_": len(data)})
    return kind.from_buffer_copy(data)


def address(data: Any) -> int:
    """Where `fixed` data lies."""
    return addressof(data)
