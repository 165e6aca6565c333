"""Gives the libraries that a warm Python has loaded the number of threads that they would have chosen by themselves.

A library chooses the number when it is loaded.  The nursery loads some libraries with a single thread each, because
threads do not survive a fork.  The processes that are forked from it call the libraries' own functions instead.
"""

from __future__ import annotations

import os
import sys
from _ctypes import CFuncPtr, dlopen, dlsym

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

OPENMP = ("OMP_NUM_THREADS",)
OPENBLAS = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
VARIABLES = frozenset(OPENBLAS)

# A part of a library's file name, its functions (the first one that exists counts) and the variables that it reads.
_LIBRARIES = (
    ("openblas", ("scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads"), OPENBLAS),
    ("openblas", ("openblas_set_num_threads64_", "openblas_set_num_threads"), OPENBLAS),
    ("libgomp", ("omp_set_num_threads",), OPENMP),
)
_ONLY_IF_LOADED = 1 | 4  # RTLD_LAZY, RTLD_NOLOAD
_MOST = 1024  # threads, whatever a variable says

_setters: list[tuple[Callable[[int], Any], tuple[str, ...]]] = []  # functions of the loaded libraries; see `note`


def note() -> None:
    """Find the functions of the loaded libraries; the nursery calls this after its imports."""
    _setters.clear()
    for folder in _library_folders():
        for file in sorted(os.listdir(folder)):
            for part, names, variables in _LIBRARIES:
                setter = _function(f"{folder}/{file}", names) if part in file else None
                if setter is not None:
                    _setters.append((setter, variables))
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        _setters.append((arrow.set_cpu_count, OPENMP))


def adapt(environment: Mapping[str, str]) -> None:
    """Set the numbers of threads by these variables; without them, by the CPUs that the sandbox shows."""
    for setter, variables in _setters:
        wanted = _wanted(environment, variables)
        if wanted != 1:  # each has one thread already
            setter(wanted)


def adapt_again(environment: Mapping[str, str]) -> None:
    """Do the same for a process that has run code, and may have loaded more libraries."""
    note()
    for setter, variables in _setters:
        setter(_wanted(environment, variables))


def _wanted(environment: Mapping[str, str], variables: tuple[str, ...]) -> int:
    for name in variables:
        first = environment.get(name, "").partition(",")[0].strip()  # OpenMP has a number for each level of nesting
        if first.isdecimal() and int(first[:9]) > 0:
            return min(int(first[:9]), _MOST)
    return os.cpu_count() or 1


def _library_folders() -> list[str]:
    """Return the folders in which installed packages have C libraries: `numpy.libs` and the like."""
    found = []
    for place in sys.path:
        if place.endswith("/site-packages") and os.path.isdir(place):
            found += [f"{place}/{name}" for name in sorted(os.listdir(place)) if name.endswith(".libs")]
    return found


def _function(path: str, names: tuple[str, ...]) -> Callable[[int], Any] | None:
    try:
        library = dlopen(path, _ONLY_IF_LOADED)
    except OSError:
        return None
    for name in names:
        try:
            return _Function(dlsym(library, name))
        except OSError:
            continue
    return None


class _Function(CFuncPtr):
    _flags_ = 1  # FUNCFLAG_CDECL
