"""Makes `inspect.getsource` work for classes defined in cells: Python looks for them in files."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def install() -> None:
    """Teach `inspect` which cell defines a class; functions know it themselves."""
    import inspect

    getfile = inspect.getfile

    def file_or_cell(object: Any) -> str:
        """Work out which source or compiled file an object was defined in."""
        if isinstance(object, type) and object.__module__ == "__main__":
            cell = _cell_of(object.__qualname__.rpartition(".")[2])
            if cell is not None:
                return cell
        return getfile(object)

    inspect.getfile = file_or_cell


def _cell_of(name: str) -> str | None:
    import linecache
    import re

    definition = re.compile(rf"^\s*class\s+{re.escape(name)}\b", re.MULTILINE)
    for file in reversed(linecache.cache):
        if file.startswith("<ipython-input-") and definition.search("".join(linecache.getlines(file))):
            return file
    return None
