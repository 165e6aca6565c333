"""The data of files: read, compared and written without their holes, which may be a thousand times as large."""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK = 256 << 10  # stays in the processor's cache between reading, hashing and writing
NO_ROOM = (errno.ENOMEM, errno.ENOSPC, errno.EDQUOT)  # the first where a limit of memory counts files


def pieces(fd: int, size: int) -> Iterator[tuple[int, memoryview]]:
    """The data of a file up to a size, and where it is; each piece is good until the next one is asked for."""
    buffer = memoryview(bytearray(min(size, CHUNK)))
    end = 0
    while end < size:
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
            end = min(os.lseek(fd, start, os.SEEK_HOLE), size)
        except OSError:
            return  # ENXIO: nothing but a hole
        while start < end:
            count = os.preadv(fd, [buffer[: end - start]], start)
            if not count:
                return  # it has become shorter
            yield start, buffer[:count]
            start += count


def copy(source: int, target: int, size: int) -> None:
    """Write the data of one file, up to a size, into another that is empty."""
    for offset, data in pieces(source, size):
        write_at(target, data, offset)
    os.ftruncate(target, size)


def are_equal(one: int, other: int, size: int) -> bool:
    """Whether two files of this size have the same data; a hole is zeros."""
    position = 0
    while position < size:
        position = min(_next_data(one, position, size), _next_data(other, position, size))
        mine, theirs = os.pread(one, CHUNK, position), os.pread(other, CHUNK, position)
        if mine != theirs:
            return False
        position += max(len(mine), 1)
    return True


def write_at(fd: int, data: memoryview, offset: int) -> None:
    """Write all of it."""
    while data:
        count = os.pwrite(fd, data, offset)
        data, offset = data[count:], offset + count


def _next_data(fd: int, position: int, size: int) -> int:
    try:
        return os.lseek(fd, position, os.SEEK_DATA)
    except OSError:
        return size
