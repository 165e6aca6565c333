"""Lists the user's variables for a person to look at: name, type, shape and the beginning of the value.

Nothing of the user's code runs for that.  Only values of exactly the types that are listed here are read.  Of all
others the list has the class's name and the plain attributes, which `type` knows.  So a `__repr__`, `__len__` or
property that hangs, lies or deletes files is never called.  The kernel calls this between two cells; it ends in time.
"""

from __future__ import annotations

import sys
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from pathlib import PosixPath, PurePosixPath
from time import monotonic
from types import BuiltinFunctionType, FunctionType, GetSetDescriptorType, ModuleType
from uuid import UUID

from cloche.wire.light_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_LISTED = 1000  # variables in one answer
MAX_SHOWN = 120  # characters of a value in the list
MAX_LOOKED_AT = 8000  # characters of one value that somebody looks at
MAX_S = 1.0  # seconds after which values are not looked at any more
MAX_BYTES = 500_000  # of all values as JSON; the answer has to fit into one frame, which takes twice as many
MAX_NAME = 100  # characters
_MAX_BITS = 4000  # of an integer that is written in digits
_DEPTH = 3
_ROWS, _COLUMNS = 20, 20  # of a table that somebody looks at

_type_name: Any = vars(type)["__name__"].__get__
_mro: Any = vars(type)["__mro__"].__get__
_class_dict: Any = vars(type)["__dict__"].__get__
_PLAIN = (bool, float, complex, type(None), type(Ellipsis), type(NotImplemented), range, slice)
_BRACKETS: dict[type, str] = {list: "[]", tuple: "()", set: "{}", frozenset: "{}", dict: "{}"}
_DATES = (date, timedelta, Decimal, Fraction, UUID, PosixPath, PurePosixPath)


def list_variables(shell: Any, search: str, name: str) -> dict[str, Any]:
    """Describe the variables whose names contain `search`, or only the one called `name`, with more of its value."""
    names = shell.user_ns if type(shell.user_ns) is dict else {}
    hidden = shell.user_ns_hidden if type(shell.user_ns_hidden) is dict else {}
    own = {
        key: value
        for key, value in names.copy().items()
        if type(key) is str and not key.startswith("_") and len(key) <= MAX_NAME and type(value) is not ModuleType
        if not (key in hidden and hidden[key] is value)
    }
    if name:
        found = [_described(name, own[name], MAX_LOOKED_AT, monotonic() + MAX_S)] if name in own else []
        return {"items": found, "total": len(own)}
    wanted = search.casefold()
    found_names = sorted((key for key in own if wanted in key.casefold()), key=lambda key: (key.casefold(), key))
    end = monotonic() + MAX_S
    items, left = [], MAX_BYTES
    for key in found_names[:MAX_LISTED]:
        described = _described(key, own[key], MAX_SHOWN, end)
        left -= len(dumps(described))
        items.append(described if left > 0 else {**described, "shown": ""})
    return {"items": items, "total": len(found_names)}


def _described(name: str, value: Any, room: int, end: float) -> dict[str, Any]:
    kind = type(value)
    described = {"name": name, "type": _text(_type_name(kind))[:MAX_NAME], "shape": "", "shown": "", "size": 0}
    if monotonic() > end:
        return described
    try:
        described["shape"] = _shape(value)[:MAX_NAME]
        described["shown"] = _Preview(room, end).of(value)
        described["size"] = sys.getsizeof(value) if kind in (str, bytes, bytearray, int, *_BRACKETS) else 0
    except Exception:
        pass  # a library whose functions the code has replaced, or a dict that another thread changes
    return described


def _text(text: Any) -> str:
    """Return a text as a plain `str`, even if it is of a class of the user's."""
    return str.__str__(text) if isinstance(text, str) else ""


def _shape(value: Any) -> str:
    kind = type(value)
    if kind in (str, bytes, bytearray, list, tuple, set, frozenset, dict):
        return str(len(value))
    if _is_of(kind, "numpy", "ndarray") or _is_frame(kind) or _is_of(kind, "torch", "Tensor"):
        return _dimensions(value.shape)
    if _is_series(kind):
        return str(len(value))
    return ""


def _dimensions(shape: Any) -> str:
    sizes = [str(int(size)) for size in islice(shape, 10)]
    return " × ".join(sizes) if sizes else "scalar"  # noqa: RUF001


def _is_of(kind: type, module: str, *names: str) -> bool:
    """Return whether a class is one of these of a library that the code has imported."""
    library = sys.modules.get(module)
    if type(library) is not ModuleType:
        return False
    return any(vars(library).get(name) is kind for name in names)


def _is_frame(kind: type) -> bool:
    return _is_of(kind, "pandas", "DataFrame") or _is_of(kind, "polars", "DataFrame")


def _is_series(kind: type) -> bool:
    return _is_of(kind, "pandas", "Series", "Index", "RangeIndex", "DatetimeIndex") or _is_of(kind, "polars", "Series")


class _Preview:
    """Writes the beginning of a value, as far as there is room and time."""

    def __init__(self, room: int, end: float) -> None:
        self._room, self._end = room, end
        self._is_wide = room > MAX_SHOWN
        self._few = 200 if self._is_wide else 8  # items of an array

    def of(self, value: Any) -> str:
        """Return the text, at most as long as there is room."""
        if type(value) is str and self._is_wide:
            return value if len(value) <= self._room else f"{value[: self._room - 1]}…"
        text = self._value(value, _DEPTH, self._room)
        return text if len(text) <= self._room else f"{text[: self._room - 1]}…"

    def _value(self, value: Any, depth: int, room: int) -> str:
        kind = type(value)
        if kind in _PLAIN:
            return repr(value)
        if kind is int:
            return repr(value) if value.bit_length() <= _MAX_BITS else f"an integer of {value.bit_length():,} bits"
        if kind is str or kind is bytes or kind is bytearray:
            return repr(value[:room]) + ("…" if len(value) > room else "")
        if kind is datetime or kind is time:
            return str(value.replace(tzinfo=None).isoformat())  # a time zone may be of a class of the user's
        if kind in _DATES:
            return str(value)
        if kind in _BRACKETS:
            brackets = _BRACKETS[kind]
            return self._items(value, brackets[0], brackets[1], depth, room)
        if kind is FunctionType:
            code = value.__code__
            return f"{_text(code.co_name)}({', '.join(map(_text, code.co_varnames[: code.co_argcount]))})"
        if kind is BuiltinFunctionType:
            return f"{_text(value.__name__)}(…)"
        if issubclass(kind, type):
            return f"class {_text(_type_name(value))}"
        return self._of_library(value, kind, depth, room) or self._object(value, kind, depth, room)

    def _items(self, items: Any, opening: str, closing: str, depth: int, room: int, between: str = ": ") -> str:
        count = len(items)
        if depth <= 0 and count:
            return f"{opening}…{closing}"
        parts, left = [], room
        for item in islice(items.items() if type(items) is dict else items, 1000):
            if left <= 0 or monotonic() > self._end:
                break
            if type(items) is dict:
                key = item[0] if between == "=" else self._value(item[0], depth - 1, left)
                parts.append(f"{key}{between}{self._value(item[1], depth - 1, left)}")
            else:
                parts.append(self._value(item, depth - 1, left))
            left -= len(parts[-1]) + 2
        # One item on each line, unless they are short: the numbers of an array.
        is_long = self._is_wide and depth == _DEPTH and sum(map(len, parts)) > max(80, 20 * len(parts))
        if len(parts) < count:
            parts.append(f"… {count - len(parts):,} more" if is_long else "…")
        if is_long:
            return "".join([opening, *(f"\n  {part}," for part in parts)]).rstrip(",") + f"\n{closing}"
        comma = "," if type(items) is tuple and count == 1 else ""
        return f"{opening}{', '.join(parts)}{comma}{closing}"

    def _of_library(self, value: Any, kind: type, depth: int, room: int) -> str:
        if _is_of(kind, "numpy", "ndarray"):
            name = str(value.dtype)[:60]
            return f"{name} {self._value(value.flat[: self._few].tolist(), depth, room)}" if value.size else name
        if _is_number_of_numpy(kind):
            return self._value(value.item(), depth, room)
        if _is_frame(kind):
            return self._rows(value) if self._is_wide else ", ".join(self._columns(value, 12))
        if _is_series(kind):
            return f"{str(value.dtype)[:60]} {self._value(value[: self._few].to_list(), depth, room)}"
        if _is_of(kind, "torch", "Tensor"):
            return str(value.dtype)
        return str(value.isoformat()) if _is_of(kind, "pandas", "Timestamp", "Timedelta") else ""

    def _columns(self, frame: Any, most: int) -> list[str]:
        return [name if type(name) is str else self._value(name, 1, 60) for name in islice(frame.columns, most)]

    def _rows(self, frame: Any) -> str:
        """Return the first rows of a table, in columns of equal width."""
        rows = [self._columns(frame, _COLUMNS)]
        height = int(frame.shape[0])
        for number in range(min(_ROWS, height)):
            row = frame.iloc[number, :_COLUMNS].tolist() if hasattr(frame, "iloc") else frame.row(number)[:_COLUMNS]
            rows.append([cell[:40] if type(cell) is str else self._value(cell, 1, 40) for cell in row])
        widths = [max(map(len, column)) for column in zip(*rows, strict=False)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join([*lines, *([f"… {height - _ROWS:,} more rows"] if height > _ROWS else [])])

    def _object(self, value: Any, kind: type, depth: int, room: int) -> str:
        name = _text(_type_name(kind))
        attributes = _attributes(value, kind)
        own = {key: item for key, item in attributes.items() if type(key) is str and not key.startswith("_")}
        return self._items(own, f"{name}(", ")", depth, room, "=") if own else f"<{name}>"


def _is_number_of_numpy(kind: type) -> bool:
    library = sys.modules.get("numpy")
    generic = vars(library).get("generic") if type(library) is ModuleType else None
    return generic is not None and generic in _mro(kind) and _is_of(kind, "numpy", _text(_type_name(kind)))


def _attributes(value: Any, kind: type) -> dict[Any, Any]:
    """Return an object's attributes without asking the object, whose class may define `__dict__` itself."""
    for base in _mro(kind):
        found = _class_dict(base).get("__dict__")
        if found is not None:
            attributes = found.__get__(value) if type(found) is GetSetDescriptorType else None
            return attributes.copy() if type(attributes) is dict else {}
    return {}
