"""Makes an interpreter that was linked to a shared libpython under its own prefix run from `/opt/python` as well."""

import os
import struct
from dataclasses import dataclass
from pathlib import Path

__all__ = ["NotPatchable", "Runpath", "find_runpath", "relocated"]

_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NULL, _DT_STRTAB, _DT_RPATH, _DT_RUNPATH = 0, 5, 15, 29


class NotPatchable(ValueError):
    """The interpreter needs another library path inside the sandbox, and the new one does not fit in its place."""


@dataclass(frozen=True)
class Runpath:
    """The library path that an ELF file carries, and where in the file it stands."""

    value: str
    offset: int


def relocated(binary: Path, prefix: str, inside: str) -> bytes | None:
    """The interpreter with its library path moved from `prefix` to `inside`; None when it runs there as it is."""
    data = binary.read_bytes()
    runpath = find_runpath(data)
    if runpath is None:
        return None
    value = ":".join(_moved(entry, prefix, inside) for entry in runpath.value.split(":"))
    if value == runpath.value:
        return None
    room = len(os.fsencode(runpath.value))
    replacement = os.fsencode(value)
    if len(replacement) > room:
        raise NotPatchable(f"{binary} looks for its libraries in {runpath.value}, which is too short to become {value}")
    return data[: runpath.offset] + replacement.ljust(room, b"\0") + data[runpath.offset + room :]


def find_runpath(data: bytes) -> Runpath | None:
    """Reads DT_RUNPATH, or DT_RPATH when there is no other, from a 64-bit ELF file."""
    if data[:5] != b"\x7fELF\x02":
        return None
    order = "<" if data[5] == 1 else ">"
    headers = _program_headers(data, order)
    dynamic = next(((offset, size) for kind, offset, _, size in headers if kind == _PT_DYNAMIC), None)
    if dynamic is None:
        return None  # a static interpreter looks for nothing
    tags: dict[int, int] = {}
    for tag, value in struct.iter_unpack(f"{order}qQ", data[dynamic[0] : sum(dynamic)]):
        if tag == _DT_NULL:
            break
        tags[tag] = value
    # The loader ignores DT_RPATH where DT_RUNPATH is present.
    name = tags.get(_DT_RUNPATH, tags.get(_DT_RPATH))
    if name is None:
        return None
    start = _file_offset(tags[_DT_STRTAB], headers) + name
    return Runpath(os.fsdecode(data[start : data.index(b"\0", start)]), start)


def _moved(entry: str, prefix: str, inside: str) -> str:
    # What lies in the system's own directories is mounted at the same place inside; $ORIGIN moves by itself.
    if not entry.startswith("/") or entry.startswith(("/usr/", "/lib")):
        return entry
    real, home = os.path.realpath(entry), os.path.realpath(prefix)
    if real != home and not real.startswith(home + "/"):
        return entry
    return inside + real[len(home) :]


def _program_headers(data: bytes, order: str) -> list[tuple[int, int, int, int]]:
    """(type, offset in the file, address, size in the file) of each segment."""
    (table,) = struct.unpack_from(f"{order}Q", data, 32)
    entry_size, count = struct.unpack_from(f"{order}HH", data, 54)
    headers = []
    for index in range(count):
        kind, _, offset, address, _, size = struct.unpack_from(f"{order}IIQQQQ", data, table + index * entry_size)
        headers.append((kind, offset, address, size))
    return headers


def _file_offset(address: int, headers: list[tuple[int, int, int, int]]) -> int:
    for kind, offset, start, size in headers:
        if kind == _PT_LOAD and start <= address < start + size:
            return offset + address - start
    raise ValueError("the ELF file's string table lies in no segment")
