"""Reads entries in OSV's format from a folder of JSON files, a file of lines or of one array, or a zip as OSV exports.

The operator names the file, but others have written it: sizes and numbers are bounded, and nothing is unpacked to disk.
"""

from __future__ import annotations

import json
import os
import stat
import zipfile
from pathlib import Path

from cloche.errors import InvalidRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO, Any

MAX_ENTRIES = 2_000_000
MAX_ENTRY = 8 << 20  # bytes of one entry
MAX_FILE = 1 << 30  # bytes of one file
MAX_UNPACKED = 8 << 30  # bytes of all files in a zip; npm's have about 1.5 GB
_MAX_NAMES = 512 << 20  # bytes of a zip's list of names, which is read at once
_MAX_RATIO = 200  # JSON seldom shrinks to a twentieth
_TAIL = 66_000  # bytes in which a zip says where its list is


def entries(source: Path) -> Iterator[tuple[str, Any]]:
    """Every entry, with the place where it stands; InvalidRun if one of them cannot be read."""
    count = 0
    for where, entry in _entries(source):
        count += 1
        if count > MAX_ENTRIES:
            raise InvalidRun(f"{source} has more than {MAX_ENTRIES} entries.")
        yield where, entry
    if not count:
        raise InvalidRun(f"{source} has no entry in OSV's format.", hint="It needs files that end with .json or .zip.")


def _entries(source: Path) -> Iterator[tuple[str, Any]]:
    try:
        if source.is_dir():
            for path in _files_below(source):
                yield from _of_file(path)
        else:
            yield from _of_file(source)
    except (OSError, zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
        raise InvalidRun(f"{source} cannot be read: {reason}.") from problem


def _files_below(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):  # over no link
        folders.sort()
        for name in sorted(names):
            path = Path(where, name)
            if path.suffix in (".json", ".jsonl", ".zip") and stat.S_ISREG(path.lstat().st_mode):
                yield path


def _of_file(path: Path) -> Iterator[tuple[str, Any]]:
    # A pipe would be waited for, and a device has no end.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise InvalidRun(f"{path} is not a file.")
        if state.st_size > MAX_FILE:
            raise InvalidRun(f"{path} has {state.st_size >> 20} MB, and can have at most {MAX_FILE >> 20} MB.")
        start = file.read(4)
        file.seek(0)
        yield from _of_zip(path, file) if start[:2] == b"PK" else _of_text(str(path), file)


def _of_text(where: str, file: IO[bytes]) -> Iterator[tuple[str, Any]]:
    """The entries of a file: one entry, an array of them, or one a line."""
    first = file.readline(MAX_ENTRY + 1)
    rest = file.read(1)
    if rest and first.lstrip()[:1] == b"{" and _is_json(first):
        number = 0
        file.seek(0)
        while line := file.readline(MAX_ENTRY + 1):
            number += 1
            if line.strip():
                yield f"{where}, line {number}", _parsed(f"{where}, line {number}", line)
        return
    file.seek(0)
    found = _parsed(where, file.read(MAX_FILE + 1), MAX_FILE)
    if isinstance(found, list):
        for number, entry in enumerate(found, 1):
            yield f"{where}, entry {number}", entry
    else:
        yield where, found


def _of_zip(path: Path, file: IO[bytes]) -> Iterator[tuple[str, Any]]:
    _check_names(path, file)
    total = 0
    with zipfile.ZipFile(file) as archive:
        members = [each for each in archive.infolist() if each.filename.endswith(".json") and not each.is_dir()]
        if len(members) > MAX_ENTRIES:
            raise InvalidRun(f"{path} has {len(members)} files, and can have at most {MAX_ENTRIES}.")
        for member in members:
            where = f"{path}: {member.filename[:200]}"
            if member.file_size > 4096 + _MAX_RATIO * member.compress_size:
                raise InvalidRun(f"{where} is packed more than {_MAX_RATIO} times, as no catalogue is.")
            with archive.open(member) as inner:
                text = inner.read(MAX_ENTRY + 1)  # whatever size the zip declares
            total += len(text)
            if total > MAX_UNPACKED:
                raise InvalidRun(f"{path} has more than {MAX_UNPACKED >> 30} GB of entries.")
            yield where, _parsed(where, text)


def _check_names(path: Path, file: IO[bytes]) -> None:
    """Refuse a zip whose list of names alone would fill the memory."""
    length = file.seek(0, os.SEEK_END)
    file.seek(max(0, length - _TAIL))
    tail = file.read(_TAIL)
    end = tail.rfind(b"PK\x05\x06")
    size = int.from_bytes(tail[end + 12 : end + 16], "little") if end >= 0 else 0
    longer = tail.rfind(b"PK\x06\x06")
    if longer >= 0:
        size = max(size if size != 0xFFFFFFFF else 0, int.from_bytes(tail[longer + 40 : longer + 48], "little"))
    if size > _MAX_NAMES:
        raise InvalidRun(f"{path} has a list of names of {size >> 20} MB, and can have at most {_MAX_NAMES >> 20} MB.")
    file.seek(0)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _parsed(where: str, text: bytes, most: int = MAX_ENTRY) -> Any:
    if len(text) > most:
        raise InvalidRun(f"{where} has an entry of more than {most >> 20} MB.")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as problem:
        reason = str(problem) if isinstance(problem, ValueError) else "it is nested too deeply"
        raise InvalidRun(f"{where} is not JSON: {reason}.") from problem
