# Generated from src/cloche/engine/artifacts.py by scripts/blocking.py: edit that file instead.
"""The files that a cell or a program has left in the output folder, as its agent reports them."""

from __future__ import annotations

from binascii import b2a_base64
from mimetypes import guess_type

from cloche.blocking.engine.link import NONSENSE
from cloche.errors import ClocheError
from cloche.model.result import Artifact, Display

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.blocking.engine.sandbox import HostSandbox

MAX_PICTURES = 100
MAX_BYTES = 32 << 20  # of all pictures together
MAX_PICTURE = 8 << 20  # bytes of one picture
_MAX_REPORTED, _MAX_PATH = 200, 4096
# Files that are displayed, and how they begin; the agent's word for a file's kind does not count.
_PICTURES = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
    "image/svg+xml": (b"<svg", b"<?xml", b"<!DOCTYPE svg"),
}


def artifacts(files: Any) -> tuple[Artifact, ...]:
    """Return the files of a report, as far as it makes sense."""
    try:
        return tuple(
            Artifact(str(path)[:_MAX_PATH], max(0, int(size)), guess_type(str(path))[0] or "application/octet-stream")
            for path, size in (files or ())[:_MAX_REPORTED]
        )
    except NONSENSE:
        return ()


def pictures(box: HostSandbox, files: tuple[Artifact, ...]) -> tuple[Display, ...]:
    """Read the pictures among the files, for a program whose sandbox ends with it."""
    shown: list[Display] = []
    room = MAX_BYTES
    for file in files:
        if file.mime not in _PICTURES or not 0 < file.size <= min(room, MAX_PICTURE) or len(shown) == MAX_PICTURES:
            continue
        data = _beginning(box, file)
        room -= len(data)
        if data.startswith(_PICTURES[file.mime]):
            is_text = file.mime.endswith("+xml")
            value = data.decode(errors="replace") if is_text else b2a_base64(data, newline=False).decode()
            shown.append(Display({file.mime: value}, {"path": file.path}))
    return tuple(shown)


def _beginning(box: HostSandbox, file: Artifact) -> bytes:
    """Read a file up to the size that was reported, however much the agent sends; nothing if the file is gone."""
    data = bytearray()
    reader = box.files.reader(file.path, 0, file.size)
    try:
        reader.begin()
        while len(data) < file.size and (piece := reader.next()):
            data += piece
    except ClocheError:
        return b""
    finally:
        reader.close()
    return bytes(data[: file.size])
