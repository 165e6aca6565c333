"""Reads, compares and writes the data of files without their holes, which may be a thousand times as large."""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK = 256 << 10  # stays in the processor's cache between reading, hashing and writing
NO_ROOM = (errno.ENOMEM, errno.ENOSPC, errno.EDQUOT)  # ENOMEM where a memory limit also counts files


def pieces(fd: int, size: int) -> Iterator[tuple[int, memoryview]]:
    """Yield the data of a file up to a size, with its offset; a piece is valid until the next one is requested."""
    buffer = memoryview(bytearray(min(size, CHUNK)))
    end = 0
    while end < size:
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
            end = min(os.lseek(fd, start, os.SEEK_HOLE), size)
        except OSError:
            return  # ENXIO: only a hole is left
        while start < end:
            count = os.preadv(fd, [buffer[: end - start]], start)
            if not count:
                return  # the file was shortened
            yield start, buffer[:count]
            start += count


def copy(source: int, target: int, size: int) -> None:
    """Copy the data of one file, up to a size, into an empty one."""
    for offset, data in pieces(source, size):
        write_at(target, data, offset)
    os.ftruncate(target, size)


def are_equal(one: int, other: int, size: int) -> bool:
    """Say whether two files of this size have the same data; a hole counts as zeros."""
    position = 0
    while position < size:
        position = min(_next_data(one, position, size), _next_data(other, position, size))
        first, second = os.pread(one, CHUNK, position), os.pread(other, CHUNK, position)
        if first != second:
            return False
        position += max(len(first), 1)
    return True


def write_at(fd: int, data: memoryview, offset: int) -> None:
    """Write all of the data at an offset."""
    while data:
        count = os.pwrite(fd, data, offset)
        data, offset = data[count:], offset + count


def _next_data(fd: int, position: int, size: int) -> int:
    try:
        return os.lseek(fd, position, os.SEEK_DATA)
    except OSError:
        return size
