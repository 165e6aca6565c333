"""Imports libraries in a nursery, whose forks must find them as if they had imported them themselves."""

from __future__ import annotations

import sys
from abc import ABCMeta

from cloche.walls.jail import linux, root

_SCRATCH = ("/tmp", "/dev/shm")
# It starts threads when it is imported, and a fork has none of them.
_THREADED = "polars"


def mount_scratch() -> None:
    """Give the imports folders to write to: joblib does without processes if it cannot make a semaphore."""
    for folder in _SCRATCH:
        linux.mount("nursery", folder, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "size=16m")
    root.furnish_tmp()


def umount_scratch() -> None:
    """Take the folders away."""
    for folder in _SCRATCH:
        linux.umount(folder)


def import_library(name: str) -> None:
    """Import a library; a program that imports it will see the reason if that fails."""
    is_absent = sys.modules.setdefault(_THREADED, None) is None  # type: ignore[arg-type]
    try:
        __import__(name)
    except Exception:
        pass
    finally:
        if is_absent:
            del sys.modules[_THREADED]
    data = sys.modules.get("statsmodels.tools.data")
    if data is not None and getattr(data, "_POLARS_TYPES", None) == ():
        data._POLARS_TYPES = (_PolarsData,)  # type: ignore[attr-defined]


class _PolarsData(metaclass=ABCMeta):  # noqa: B024  # only for `isinstance`
    """Stands for the types of polars in a library that asks for them when it is imported."""

    @classmethod
    def __subclasshook__(cls, kind: type) -> bool:
        polars = sys.modules.get("polars")
        return polars is not None and issubclass(kind, (polars.DataFrame, polars.Series))
