"""Packages that were installed inside the sandbox: programs and kernels can import them, the agent cannot.

The folder is Python's folder for packages of the user.  Anybody's code can be there, so it is not on the `sys.path` of
the nursery and of the agent.  A fork of the agent puts it back when it becomes a program or a kernel.
"""

from __future__ import annotations

import os
import site
import sys
from _imp import extension_suffixes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

_ENDINGS = (".py", ".pyc", *extension_suffixes())
# Python imports it before the folder is on the path, so a file of this name there is never used.
_IMPORTED_EARLIER = "sitecustomize"


def leave_out() -> None:
    """Take the folder off `sys.path`; the nursery calls this."""
    own = site.getusersitepackages()
    if own in sys.path:
        sys.path.remove(own)
    sys.path_importer_cache.pop(own, None)


def put_back() -> None:
    """Put the folder on `sys.path`, as Python does at its start; without its .pth files, which are code."""
    put_first = getattr(sys.modules.get("sitecustomize"), "put_own_packages_first", None)  # cloche.environment
    if put_first is not None:  # else somebody else has built the environment
        put_first()


imports_ahead: list[str] = []  # modules that a waiting Python imports: those that its environment names


def import_ahead() -> None:
    """Import the modules that the sandbox's environment names; inside the wall, since anybody may have written them."""
    if not imports_ahead or want_a_fresh_python():
        return
    from importlib import import_module

    kept = [os.dup(number) for number in (1, 2)]
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in (1, 2):  # what they print while they are imported belongs to no program
            os.dup2(null, number)
        for name in imports_ahead:
            try:
                import_module(name)
            except BaseException:  # also SystemExit, which would end the waiting Python
                continue  # the program that wants it gets the exception
    finally:
        for number, before in zip((1, 2), kept, strict=True):
            os.dup2(before, number)
            os.close(before)
        os.close(null)
    own = f"{site.getusersitepackages()}/"
    for name in [name for name in sys.modules if is_unit(name)]:
        file = str(sys.modules[name].__file__)
        if file.startswith(own):
            _from_here[name] = os.path.realpath(file)


_from_here: dict[str, str] = {}  # modules that were imported ahead from the folder, and the files of that moment


def entries() -> dict[str, int]:
    """Return the entries of the folder and their inodes, from which modules may be imported ahead."""
    if not imports_ahead:
        return {}
    try:
        with os.scandir(site.getusersitepackages()) as found:
            return {entry.name: entry.inode() for entry in found}
    except OSError:
        return {}


def have_changed(before: dict[str, int]) -> bool:
    """Say whether any of these entries is another one by now, so that nobody should use what was imported ahead."""
    now = entries() if before else {}
    return any(now.get(name) != inode for name, inode in before.items())


def want_a_fresh_python() -> bool:
    """Say whether the packages matter at a program's start, or replace a module that was imported before the fork."""
    names = _own_names()
    return any(name.endswith(".pth") for name in names) or _replace(names)


def want_a_fresh_kernel() -> bool:
    """Say whether the packages replace a module that was imported before the fork.

    The .pth files do not count: a kernel reads them before each cell, and their folders come after the environment's.
    """
    return _replace(_own_names())


def is_installed(module: object) -> bool:
    """Say whether a module comes from a folder of packages, and not from Python itself."""
    found = getattr(module, "__file__", None)
    places = [found] if found is not None else getattr(module, "__path__", ())
    return any("/site-packages/" in str(place) for place in places)


def is_unit(name: str) -> bool:
    """Say whether a loaded module is one that somebody installs: at the top, or right below a namespace package."""
    module = sys.modules.get(name)
    if is_namespace(module) or not is_installed(module):
        return False
    parent = name.rpartition(".")[0]
    return not parent or is_namespace(sys.modules.get(parent))


def is_namespace(module: object) -> bool:
    """Say whether a module is a namespace package, to which many distributions contribute."""
    return getattr(module, "__file__", None) is None and hasattr(module, "__path__")


def module_of(entry: str) -> str:
    """Return the name of the module that a file of a folder on the path contains; empty if it contains none."""
    stem, dot, _ = entry.partition(".")
    return stem if not dot or entry[len(stem) :] in _ENDINGS else ""


def _own_names() -> list[str]:
    try:
        return os.listdir(site.getusersitepackages())
    except OSError:
        return []  # nothing has been installed


def _replace(names: list[str], folder: str = "", parent: str = "") -> bool:
    """Say whether an import of a loaded module would find one of these entries first."""
    for entry in names:
        name = module_of(entry)
        loaded = sys.modules.get(parent + name) if name else None
        if loaded is None or name == _IMPORTED_EARLIER:
            continue
        if is_installed(loaded) and _goes_before(
            loaded, f"{folder or site.getusersitepackages()}/{entry}", parent + name
        ):
            return True
    return False


def _goes_before(loaded: ModuleType, path: str, name: str) -> bool:
    if name in _from_here:
        return os.path.realpath(str(loaded.__file__)) != _from_here[name]
    if path.endswith(_ENDINGS) or any(os.path.exists(f"{path}/__init__{ending}") for ending in _ENDINGS):
        return True
    if not is_namespace(loaded):
        return False  # a folder without code goes after every module
    try:
        return _replace(os.listdir(path), path, f"{name}.")
    except OSError:
        return False  # a file without an ending
