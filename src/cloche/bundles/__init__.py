"""Loads many of our modules from one file: a cold `cloche run` imports a hundred, and finding them takes half the time.

A bundle contains compiled modules in the order in which they can be executed, with the date and size of each source.  A
module whose source has changed since is skipped, and imported as usual.  `python -m cloche.bundles` writes the bundles
beside the .pyc files; so do `cloche setup` and, for a package that was installed since, `cloche run`.  Without them
everything works the same, only slower.

Tests: tests/cli/test_cold.py
"""

from __future__ import annotations

import marshal
import os
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader
from _imp import _fix_co_filename  # type: ignore[attr-defined]

from cloche import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + "/"
_PACKAGE = "/__init__.py"


def file_of(name: str) -> str:
    """Return the path of a bundle for this version of Python."""
    return f"{ROOT}cloche/__pycache__/{name}.{sys.implementation.cache_tag}.bundle"


def load(name: str) -> bool:
    """Import the modules of a bundle that are up to date; return whether there is a bundle of this version."""
    try:
        with open(file_of(name), "rb") as file:
            magic, version, modules = marshal.loads(file.read())
    except (OSError, ValueError, EOFError, TypeError):
        return False
    # The version, because some installers give the files of all versions the same date.
    if magic != MAGIC_NUMBER or version != __version__ or sys.flags.optimize:
        return False
    for full_name, path, signed, code in modules:
        parent, _, last = full_name.rpartition(".")
        if full_name in sys.modules or parent not in sys.modules or sign(path) != signed:
            continue
        try:
            _run(full_name, ROOT + path, code)
        except Exception:
            return True  # the regular import that follows raises the same error
        setattr(sys.modules[parent], last, sys.modules[full_name])
    return True


def sign(path: str) -> tuple[int, int] | None:
    """Return a source's date and size, which change when the source changes."""
    try:
        status = os.stat(ROOT + path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _run(name: str, path: str, code: CodeType) -> None:
    """Execute a module as an import would, once its code is found."""
    loader = SourceFileLoader(name, path)
    spec = ModuleSpec(name, loader, origin=path, is_package=path.endswith(_PACKAGE))
    module = type(sys)(name)
    module.__dict__.update(__spec__=spec, __loader__=loader, __file__=path, __package__=spec.parent)
    if spec.submodule_search_locations is not None:
        spec.submodule_search_locations.append(path.removesuffix(_PACKAGE))
        module.__path__ = spec.submodule_search_locations
    _fix_co_filename(code, path)
    sys.modules[name] = module
    try:
        exec(code, module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
