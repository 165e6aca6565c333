"""The user's variables: what they are, how large, and a mark by which a changed one is recognised."""

from __future__ import annotations

import sys
from types import FunctionType, ModuleType

from cloche.wire.light_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COUNT = 1000
FRAME = 500_000  # bytes of them all in which values are shown; they leave in one frame, which takes twice as many
NAME = 100  # characters
SHOWN = 200  # characters
PICKLED = 32 << 20  # bytes of a value that are looked at


def describe(shell: Any, with_digest: bool) -> dict[str, dict[str, Any]]:
    """The user's own variables by name; neither IPython's nor those that begin with an underscore."""
    hidden = shell.user_ns_hidden
    left = FRAME
    described: dict[str, dict[str, Any]] = {}
    for name, value in list(shell.user_ns.items()):
        if name.startswith("_") or (name in hidden and hidden[name] is value):
            continue
        if len(described) == COUNT:
            break
        if len(name) > NAME:
            continue
        told = _variable(value, with_digest)
        left -= len(dumps(told))
        if left < 0:
            told["shown"] = ""
        described[name] = told
    return described


def _variable(value: Any, with_digest: bool) -> dict[str, Any]:
    kind = type(value)
    if isinstance(value, ModuleType):
        return {"type": "module", "size": 0, "shown": str(value.__name__), "id": str(id(value))}
    told: dict[str, Any] = {"type": kind.__name__, "size": _size(value), "shown": _shown(value)}
    if with_digest:
        told["digest"] = _digest(value)
    else:
        told["id"] = f"{id(value):x}"
    return told


def _size(value: Any) -> int:
    for how in (
        lambda: value.memory_usage(deep=False).sum(),  # a DataFrame
        lambda: value.memory_usage(deep=False),  # a Series
        lambda: value.estimated_size(),  # of Polars
        lambda: value.nbytes,
        lambda: sys.getsizeof(value),
    ):
        try:
            return int(how())
        except Exception:
            continue
    return 0


def _shown(value: Any) -> str:
    """The beginning of its repr, without making all of a long one."""
    try:
        if isinstance(value, (str, bytes)):
            text = repr(value[:SHOWN])
        elif isinstance(value, (int, float, bool, complex, type(None))):
            text = repr(value)
        elif isinstance(value, (list, tuple, set, frozenset, dict)):
            text = f"{type(value).__name__} of {len(value)}"
        else:
            shape = getattr(value, "shape", None)
            text = f"{type(value).__name__} {shape}" if isinstance(shape, tuple) else object.__repr__(value)
            if shape is None and type(value).__module__ in ("__main__", "builtins", "datetime", "decimal", "pathlib"):
                text = repr(value)
    except Exception as problem:
        text = f"<its repr raised {type(problem).__name__}>"
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


class _Full(Exception):
    """More than is looked at."""


class _Hashing:
    """A file that keeps nothing of what is written but its hash."""

    def __init__(self) -> None:
        from hashlib import blake2b

        self.hash = blake2b(digest_size=16)
        self._left = PICKLED

    def write(self, data: Any) -> int:
        """Hash it."""
        self.hash.update(data)
        size = memoryview(data).nbytes
        self._left -= size
        if self._left < 0:
            raise _Full
        return size


def _digest(value: Any) -> str:
    import pickle

    if isinstance(value, (FunctionType, type)):  # pickled by name, whatever it does
        return f"id:{id(value):x}"

    hashing = _Hashing()
    try:
        pickle.Pickler(hashing, protocol=5).dump(value)
    except _Full:  # the beginning, and where it is
        return f"{hashing.hash.hexdigest()}+{id(value):x}"
    except Exception:
        return f"id:{id(value):x}"
    return hashing.hash.hexdigest()
