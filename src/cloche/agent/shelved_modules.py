"""Modules that the nursery has imported for sessions, kept out of `sys.modules` until a session imports one of them.

A session that needs none of them looks as if they had never been imported.  The first import of one of them puts all of
them back, which takes milliseconds instead of a second.  They stay on the shelf if an import would find other files,
such as another version that was installed in the sandbox.
"""

from __future__ import annotations

import sys
import warnings
from importlib.machinery import PathFinder, SourceFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_shelf: dict[str, ModuleType] = {}
_filters: list[Any] = []  # the warning filters that the modules have added, as in `warnings.filters`
_after: list[Callable[[], None]] = []  # called when the modules are back


def shelve_new(work: Callable[[], None]) -> None:
    """Do some work that imports modules, and shelve the packages that it has imported."""
    before = set(sys.modules)
    put_back()  # one library may need the modules of another
    with warnings.catch_warnings():
        filters = list(warnings.filters)
        work()
        _filters[:0] = [each for each in warnings.filters if each not in filters]
    tops = {name.partition(".")[0] for name in sys.modules.keys() - before}
    tops = {name for name in tops if name not in before and _is_installed(name)}
    for name in [name for name in sys.modules if name.partition(".")[0] in tops]:
        _shelf[name] = sys.modules.pop(name)
    sys.meta_path.insert(sys.meta_path.index(PathFinder), _finder)


def put_back() -> None:
    """Put all modules back, so that imports find them."""
    leave_shelved()
    sys.modules.update(_shelf)


def leave_shelved() -> None:
    """Let imports look for files again: the modules stay where they are."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def after_return(call: Callable[[], None]) -> None:
    """Have a function called once the modules are back."""
    _after.append(call)


def _is_installed(name: str) -> bool:
    """Say whether this is a package of the environment: others may be in use by modules that stay."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return spec is not None and type(spec.loader) is SourceFileLoader and "/site-packages/" in str(spec.origin)


def _is_unchanged() -> bool:
    """Say whether imports would find the files that the shelved modules came from."""
    if not _shelf.keys().isdisjoint(sys.modules):
        return False
    for name, module in _shelf.items():
        if "." not in name:
            spec = PathFinder.find_spec(name)
            if spec is None or module.__spec__ is None or spec.origin != module.__spec__.origin:
                return False
    return True


class _ShelfFinder:
    """Finds shelved modules right before Python looks for their files."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, _: object = None) -> ModuleSpec | None:
        if path is not None or name not in _shelf:
            return None
        spec = PathFinder.find_spec(name)
        if not _is_unchanged():
            leave_shelved()  # the caller, which goes through the list of finders, skips the next one: `PathFinder`
        elif spec is not None:
            spec.loader = _ShelfLoader(name, str(spec.origin))
        return spec


class _ShelfLoader(SourceFileLoader):
    """Takes all modules from the shelf, instead of running the one that is imported."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = _shelf[spec.name]
        self._spec = module.__spec__
        put_back()
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec
        for action, message, category, origin, line in reversed(_filters):
            patterns = message.pattern if message else "", origin.pattern if origin else ""
            warnings.filterwarnings(action, patterns[0], category, patterns[1], line)
        for call in _after:
            call()


_finder: Any = _ShelfFinder()
