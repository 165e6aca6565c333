"""A folder of a sandbox as a zip or tar file, made while it is sent: nothing of it is kept here.

Names come from inside the sandbox and are only ever written into the archive: relative, without `..`, as UTF-8.
"""

from __future__ import annotations

import io
import stat
import tarfile
import time
import zipfile
from collections.abc import AsyncIterator, Iterable
from posixpath import normpath, relpath

from cloche.errors import ClocheError
from cloche.model.files import Entry
from cloche.service.held import Held

_EARLIEST = (1980, 1, 1, 0, 0, 0)  # that a zip can tell


class _Outbox(io.RawIOBase):
    """Takes what an archiver writes until it is sent."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        part = bytes(data)  # type: ignore[call-overload]
        self._parts.append(part)
        return len(part)

    def take(self) -> bytes:
        """All that has come since the last time."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


async def zip_archive(held: Held, root: str, entries: Iterable[Entry]) -> AsyncIterator[bytes]:
    """A zip file of a folder; links are left out, since a zip has no good way to tell them."""
    outbox = _Outbox()
    with zipfile.ZipFile(outbox, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for entry in entries:
            info = zipfile.ZipInfo(_name(root, entry) + ("/" if entry.kind == "directory" else ""), _date(entry))
            info.external_attr = _attributes(entry) << 16
            if entry.kind == "directory":
                archive.writestr(info, b"")
            elif entry.kind == "file":
                info.compress_type = zipfile.ZIP_DEFLATED
                with archive.open(info, "w", force_zip64=entry.size > 1 << 30) as member:
                    async for chunk in _contents(held, entry):
                        member.write(chunk)
                        yield outbox.take()
            yield outbox.take()
    yield outbox.take()


async def tar(held: Held, root: str, entries: Iterable[Entry], compressed: bool) -> AsyncIterator[bytes]:
    """A tar file of a folder."""
    outbox = _Outbox()
    mode = "w|gz" if compressed else "w|"
    with tarfile.open(fileobj=outbox, mode=mode, format=tarfile.PAX_FORMAT) as archive:  # type: ignore[call-overload]
        for entry in entries:
            info = tarfile.TarInfo(_name(root, entry))
            info.mtime, info.mode = int(entry.modified), entry.mode & 0o777
            if entry.kind == "directory":
                info.type = tarfile.DIRTYPE
            elif entry.kind == "symlink":
                info.type, info.linkname = tarfile.SYMTYPE, _text(entry.target or "")
            elif entry.kind == "file":
                info.size = entry.size
            else:
                continue
            archive.addfile(info)
            if entry.kind == "file":
                left = entry.size  # as promised in the header, whatever became of the file since
                async for chunk in _contents(held, entry):
                    archive.fileobj.write(chunk[:left])
                    left -= len(chunk[:left])
                    yield outbox.take()
                archive.fileobj.write(bytes(left + -entry.size % tarfile.BLOCKSIZE))
                archive.offset += entry.size + -entry.size % tarfile.BLOCKSIZE
            yield outbox.take()
    yield outbox.take()


async def _contents(held: Held, entry: Entry) -> AsyncIterator[bytes]:
    left = entry.size
    try:
        async with held.used(saves=False) as box, box.files.read_stream(entry.path, length=entry.size) as reading:
            async for chunk in reading:
                yield chunk[:left]
                left -= len(chunk)
    except ClocheError:
        return  # it went away meanwhile


def _name(root: str, entry: Entry) -> str:
    return _text(normpath(relpath(entry.path, root)).replace("\n", "_"))


def _text(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _date(entry: Entry) -> tuple[int, int, int, int, int, int]:
    told = time.gmtime(min(max(entry.modified, 0), 4e9))
    return max(_EARLIEST, (told[0], told[1], told[2], told[3], told[4], told[5]))


def _attributes(entry: Entry) -> int:
    kind = stat.S_IFDIR if entry.kind == "directory" else stat.S_IFREG
    return kind | (entry.mode & 0o777)
