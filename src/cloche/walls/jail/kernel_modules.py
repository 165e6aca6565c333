"""Keeps the code of the Python kernel as bytes, for kernels that start in a fresh interpreter.

Once the nursery serves, nobody in its root can open our files.  It keeps their folder open for itself until the first
quiet moment, since reading them would delay the first sandbox, and closes it before it imports any library.
"""

from __future__ import annotations

import marshal
import os
import sys
from _frozen_importlib_external import MAGIC_NUMBER, cache_from_source

from cloche.agent import fresh_kernels
from cloche.walls.jail import root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

_ALL_BITS = 0xFFFFFFFF
_TOP = "cloche"
_START = f"{_TOP}.kernels.fresh_python"
_NEEDED = (f"{_TOP}.kernels.python", f"{_TOP}.agent.python")
_DESCRIPTION = 12  # bytes of a .pyc file after the magic number: flags, date and size of the source


class KernelModules:
    """The folder of our code, while it is open."""

    def __init__(self) -> None:
        self._folder = os.open(f"{root.LIBRARY}/{_TOP}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def keep(self) -> None:
        """Read the modules that a kernel imports, and close the folder."""
        try:
            found: dict[str, tuple[str, bytes]] = {}
            missing = list(_NEEDED)
            while missing:
                name = missing.pop()
                if name not in found:
                    path, code = self._code_of(name)
                    found[name] = path, marshal.dumps(code)
                    missing += _imported(code)
            fresh_kernels.keep(marshal.dumps(self._code_of(_START)[1]), marshal.dumps(found))
        except (OSError, SyntaxError, ValueError, EOFError, TypeError):
            pass  # the files have changed meanwhile: kernels are forked as long as this nursery lives
        finally:
            os.close(self._folder)

    def _code_of(self, name: str) -> tuple[str, CodeType]:
        module = sys.modules.get(name)
        path = f"{root.LIBRARY}/{name.replace('.', '/')}{'/__init__' if hasattr(module, '__path__') else ''}.py"
        inside = path.removeprefix(f"{root.LIBRARY}/{_TOP}/")
        status = os.stat(inside, dir_fd=self._folder)
        parts = 0, int(status.st_mtime) & _ALL_BITS, status.st_size & _ALL_BITS
        dated = b"".join(value.to_bytes(4, "little") for value in parts)
        try:
            compiled = self._read(cache_from_source(inside))
        except OSError:
            compiled = b""
        start = len(MAGIC_NUMBER) + _DESCRIPTION
        if compiled[:start] == MAGIC_NUMBER + dated:
            code: CodeType = marshal.loads(compiled[start:])
            return path, code
        return path, compile(self._read(inside), path, "exec", dont_inherit=True)

    def _read(self, path: str) -> bytes:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._folder)
        try:
            return os.read(file, os.fstat(file).st_size)
        finally:
            os.close(file)


def _imported(code: CodeType) -> Iterator[str]:
    """The modules of ours that a module's code names in an import, and the packages that they are in."""
    lists = [
        const for const in code.co_consts if isinstance(const, tuple) and all(each in code.co_names for each in const)
    ]
    attributes = [name for names in lists for name in names]  # as in `from … import a, b`
    for name in code.co_names:
        if name == _TOP or name.startswith(f"{_TOP}."):
            for full in (name, *(f"{name}.{attribute}" for attribute in attributes)):
                while full in sys.modules:
                    yield full
                    full = full.rpartition(".")[0]
