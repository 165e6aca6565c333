"""Packs the agent, the kernels and the modules that they need into one file for any Python: `python3 agent.pyz`."""

from __future__ import annotations

import io
import marshal
import zipfile
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType

import cloche

_PACKED = (
    "__init__.py",
    "agent",
    "kernels",
    "wire",
    "model/__init__.py",
    "model/plain.py",
    "model/network_attempt.py",
    "model/result.py",
    "walls/__init__.py",
    "walls/portable/__init__.py",
    "walls/portable/entry.py",
    "walls/portable/text.py",
)
_MAIN = "from cloche.walls.portable.entry import main\n\nmain()\n"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # a fixed date, so that equal contents make an equal file
_UNCHECKED = (1).to_bytes(4, "little") + bytes(8)  # do not compare with the source: PEP 552


@cache
def archive(place: str) -> bytes:
    """Build the file for its later path, which the code compiled here contains."""
    top = Path(cloche.__file__).parent
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        _add(file, "__main__.py", _MAIN.encode())
        for path in sorted(_files(top)):
            name = f"cloche/{path.relative_to(top)}"
            _add(file, name, path.read_bytes())
            if path.suffix == ".py":
                _add(file, f"{name}c", _compiled(path, f"{place}/{name}c"))
    return packed.getvalue()


def _files(top: Path) -> set[Path]:
    found = set()
    for name in _PACKED:
        place = top / name
        found |= {path for path in place.rglob("*") if path.is_file()} if place.is_dir() else {place}
    return {path for path in found if path.suffix != ".pyc"}


def _add(file: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, _LONG_AGO)
    entry.compress_type = zipfile.ZIP_DEFLATED
    file.writestr(entry, data)


def _compiled(path: Path, name: str) -> bytes:
    code = SourceFileLoader(path.stem, str(path)).get_code(path.stem)
    assert code is not None
    return MAGIC_NUMBER + _UNCHECKED + marshal.dumps(_renamed(code, name))


def _renamed(code: CodeType, name: str) -> CodeType:
    """Return the code as if it came from another file."""
    constants = tuple(_renamed(each, name) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_filename=name, co_consts=constants)
