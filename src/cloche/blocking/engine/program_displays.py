# Generated from src/cloche/engine/program_displays.py by scripts/blocking.py: edit that file instead.
"""Reads the displays that a program has left in files: charts of R, tables of SQL."""

from __future__ import annotations

from cloche.errors import ClocheError
from cloche.model.result import TABLE, Display

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.blocking.engine.sandbox import HostSandbox

MAX_DISPLAYS = 100
MAX_BYTES = 32 << 20  # of all displays together
# The format of a file, by the end of its name.  Files whose names begin alike are formats of one display.
_FORMS = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".svg": "image/svg+xml",
    ".pdf": "application/pdf",
    ".html": "text/html",
    ".md": "text/markdown",
    ".txt": "text/plain",
    ".table.json": TABLE,
    ".json": "application/json",
}


def displays(box: HostSandbox, folder: str, clear: bool) -> tuple[Display, ...]:
    """Return the displays in a folder: `001.png`, `002.table.json` and `002.txt`, in the order of their names."""
    shown: dict[str, dict[str, Any]] = {}
    room = MAX_BYTES
    try:
        for entry in sorted(box.files.list(folder), key=lambda each: each.path):
            stem, form = _form_of(entry.path.rpartition("/")[2])
            if not form or entry.size > room or (stem not in shown and len(shown) >= MAX_DISPLAYS):
                continue
            room -= entry.size
            shown.setdefault(stem, {})[form] = _value(form, box.files.read(entry.path))
        if clear:
            box.files.remove(folder)
    except ClocheError:
        pass  # the folder or the sandbox is gone: the displays read so far count
    except ValueError:
        pass  # the file is not the JSON that its name promises
    return tuple(Display(mime) for mime in shown.values() if mime)


def _form_of(name: str) -> tuple[str, str]:
    for suffix, form in _FORMS.items():
        if name.endswith(suffix):
            return name.removesuffix(suffix), form
    return name, ""


def _value(form: str, data: bytes) -> Any:
    from binascii import b2a_base64
    from json import loads

    if form.endswith("json"):
        return loads(data)
    if form.startswith("text/") or form.endswith("+xml"):
        return data.decode(errors="replace")
    return b2a_base64(data, newline=False).decode()
