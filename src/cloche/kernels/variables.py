"""Describes the user's variables: type, size, and a digest by which a change is recognised."""

from __future__ import annotations

import sys
from types import FunctionType, ModuleType

from cloche.wire.light_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_VARIABLES = 1000
MAX_BYTES = 500_000  # bytes of all descriptions with values; they must fit into one frame, which takes twice as many
MAX_NAME = 100  # characters
MAX_SHOWN = 200  # characters
MAX_PICKLED = 32 << 20  # bytes of a value that are hashed


def describe(shell: Any, with_digest: bool) -> dict[str, dict[str, Any]]:
    """Describe the user's own variables by name; leaves out IPython's, and names that start with an underscore."""
    hidden = shell.user_ns_hidden
    remaining = MAX_BYTES
    result: dict[str, dict[str, Any]] = {}
    for name, value in list(shell.user_ns.items()):
        if name.startswith("_") or (name in hidden and hidden[name] is value):
            continue
        if len(result) == MAX_VARIABLES:
            break
        if len(name) > MAX_NAME:
            continue
        described = _variable(value, with_digest)
        remaining -= len(dumps(described))
        if remaining < 0:
            described["shown"] = ""
        result[name] = described
    return result


def _variable(value: Any, with_digest: bool) -> dict[str, Any]:
    kind = type(value)
    if isinstance(value, ModuleType):
        return {"type": "module", "size": 0, "shown": str(value.__name__), "id": str(id(value))}
    described: dict[str, Any] = {"type": kind.__name__, "size": _size(value), "shown": _shown(value)}
    if with_digest:
        described["digest"] = _digest(value)
    else:
        described["id"] = f"{id(value):x}"
    return described


def _size(value: Any) -> int:
    for how in (
        lambda: value.memory_usage(deep=False).sum(),  # a DataFrame
        lambda: value.memory_usage(deep=False),  # a Series
        lambda: value.estimated_size(),  # Polars
        lambda: value.nbytes,
        lambda: sys.getsizeof(value),
    ):
        try:
            return int(how())
        except Exception:
            continue
    return 0


def _shown(value: Any) -> str:
    """Return the beginning of a value's repr, without building all of a long one."""
    try:
        if isinstance(value, (str, bytes)):
            text = repr(value[:MAX_SHOWN])
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
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"


class _Full(Exception):
    """The value is larger than the part that is hashed."""


class _Hashing:
    """A file that only hashes what is written to it."""

    def __init__(self) -> None:
        from hashlib import blake2b

        self.hash = blake2b(digest_size=16)
        self._remaining = MAX_PICKLED

    def write(self, data: Any) -> int:
        self.hash.update(data)
        size = memoryview(data).nbytes
        self._remaining -= size
        if self._remaining < 0:
            raise _Full
        return size


def _digest(value: Any) -> str:
    import pickle

    if isinstance(value, (FunctionType, type)):  # pickled by name, whatever the code in it
        return f"id:{id(value):x}"

    hashing = _Hashing()
    try:
        pickle.Pickler(hashing, protocol=5).dump(value)
    except _Full:  # the beginning's hash, and the identity
        return f"{hashing.hash.hexdigest()}+{id(value):x}"
    except Exception:
        return f"id:{id(value):x}"
    return hashing.hash.hexdigest()
