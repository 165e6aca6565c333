"""A folder of a sandbox as a zip or tar file, made while it is sent.

Names come from inside the sandbox and are only ever written into the archive: relative, without `..`, as UTF-8.
"""

from __future__ import annotations

import io
import stat
import tarfile
import time
import zipfile
from asyncio import sleep, to_thread
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from posixpath import normpath, relpath

from cloche.model.files import Entry

# Opens a file of the folder; None if that is impossible.
Contents = Callable[[Entry], Awaitable[AsyncIterator[bytes] | None]]

_ZEROS = 64 << 10  # bytes that are written at a time in place of missing ones
_AT_ONCE = 100  # entries that are written before others have their turn
_EARLIEST = (1980, 1, 1, 0, 0, 0)  # of a zip file


class _Outbox(io.RawIOBase):
    """Collects the output of an archiver until it is sent."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        part = bytes(data)  # type: ignore[call-overload]
        self._parts.append(part)
        return len(part)

    def take(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


async def zip_archive(root: str, entries: Iterable[Entry], contents: Contents) -> AsyncIterator[bytes]:
    """A zip file of a folder, without the files that cannot be read, and without links: they have no good form."""
    outbox = _Outbox()
    archive = zipfile.ZipFile(outbox, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    try:
        for number, entry in enumerate(entries):
            if not number % _AT_ONCE:
                await sleep(0)  # folders need no other wait, and compressed ones give nothing to send
            info = zipfile.ZipInfo(_name(root, entry) + ("/" if entry.kind == "directory" else ""), _date(entry))
            info.external_attr = _attributes(entry) << 16
            if entry.kind == "directory":
                archive.writestr(info, b"")
            elif entry.kind == "file":
                info.compress_type = zipfile.ZIP_DEFLATED
                file = await contents(entry)
                if file is None:
                    continue
                with archive.open(info, "w", force_zip64=entry.size > 1 << 30) as member:
                    async for chunk in file:
                        await to_thread(member.write, chunk)
                        yield outbox.take()
            yield outbox.take()
    except BaseException:
        archive.filelist.clear()  # nobody wants the list of all files, which can be long
        archive.close()
        raise
    await to_thread(archive.close)
    yield outbox.take()


async def tar(root: str, entries: Iterable[Entry], contents: Contents, *, compressed: bool) -> AsyncIterator[bytes]:
    """A tar file of a folder, without the files that cannot be read."""
    outbox = _Outbox()
    mode = "w|gz" if compressed else "w|"
    with tarfile.open(fileobj=outbox, mode=mode, format=tarfile.PAX_FORMAT) as archive:  # type: ignore[call-overload]
        for number, entry in enumerate(entries):
            if not number % _AT_ONCE:
                await sleep(0)
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
            if entry.kind != "file":
                archive.addfile(info)
            elif (file := await contents(entry)) is not None:
                archive.addfile(info)
                left = entry.size  # as promised in the header, whatever became of the file since
                async for chunk in file:
                    await to_thread(archive.fileobj.write, chunk[:left])
                    left -= len(chunk[:left])
                    yield outbox.take()
                # A file of many gigabytes takes no space if it is sparse, and the sandbox may shrink it at any time.
                left += -entry.size % tarfile.BLOCKSIZE
                while left:
                    await to_thread(archive.fileobj.write, bytes(min(left, _ZEROS)))
                    left -= min(left, _ZEROS)
                    yield outbox.take()
                archive.offset += entry.size + -entry.size % tarfile.BLOCKSIZE
            yield outbox.take()
    yield outbox.take()


def _name(root: str, entry: Entry) -> str:
    return _text(normpath(relpath(entry.path, root)).replace("\n", "_"))


def _text(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _date(entry: Entry) -> tuple[int, int, int, int, int, int]:
    date = time.gmtime(min(max(entry.modified, 0), 4e9))
    return max(_EARLIEST, (date[0], date[1], date[2], date[3], date[4], date[5]))


def _attributes(entry: Entry) -> int:
    kind = stat.S_IFDIR if entry.kind == "directory" else stat.S_IFREG
    return kind | (entry.mode & 0o777)
