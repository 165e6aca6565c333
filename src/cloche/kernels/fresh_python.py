"""Turns an interpreter that has just started into a Python kernel; cloche.agent.fresh_kernels starts it.

This code runs before any of our modules can be imported.  It receives them, imports the kernel with everything that it
needs, and hides them, as the nursery and its forks do.
"""

from __future__ import annotations

import marshal
import os
import site
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import SourceFileLoader
from _imp import _fix_co_filename  # type: ignore[attr-defined]
from _socket import MSG_WAITALL, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any, NoReturn

    Modules = dict[str, tuple[str, bytes]]  # path and code, by full name

_PACKAGE = "/__init__.py"


def become_kernel(control: socket) -> NoReturn:
    """Receive the modules and the order, and be the kernel."""
    finder: Any = _Finder(marshal.loads(_receive(control)))
    data = _receive(control).decode()
    sys.meta_path.insert(0, finder)
    from cloche.agent import own_packages, python, signals
    from cloche.kernels import python as kernel
    from cloche.wire.light_json import loads

    # Before any code of the sandbox's packages can run: nobody finds our modules, and nobody reaches the kernel's loop.
    sys.meta_path.remove(finder)
    kernel.seal()
    signals.signal(signals.SIGINT, signals.SIG_IGN)
    signals.pthread_sigmask(signals.SIG_SETMASK, ())
    python.block_harmful_imports()
    order = loads(data)
    place = order.pop("place")
    order["fresh"] = True
    sys.orig_argv[:] = place["argv"]
    own_packages.leave_out()
    site.USER_BASE, site.USER_SITE = place["user_base"], place["user_site"]
    python.enter_fresh(order)
    kernel.build_shell()
    del sys.modules["readline"]
    kernel.main(control.detach(), order)


class _Finder:
    """Finds the modules that came through the control."""

    def __init__(self, modules: Modules) -> None:
        self._modules = modules

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Return the spec of a module, or None if it is somebody else's."""
        if name not in self._modules:
            return None
        path, code = self._modules.pop(name)
        spec = ModuleSpec(name, _Loader(name, path, code), origin=path, is_package=path.endswith(_PACKAGE))
        spec.has_location = True
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(path.removesuffix(_PACKAGE))
        return spec


class _Loader(SourceFileLoader):
    """Loads one of them."""

    def __init__(self, name: str, path: str, code: bytes) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, _name: str) -> CodeType:
        """Return the module's code, once."""
        code: CodeType = marshal.loads(self._code)
        _fix_co_filename(code, self.path)
        self._code = b""
        return code


def _receive(control: socket) -> bytes:
    size = int.from_bytes(control.recv(4, MSG_WAITALL), "big")
    data = control.recv(size, MSG_WAITALL)
    if not size or len(data) != size:
        os._exit(0)  # the agent does not need this kernel any more
    return data
