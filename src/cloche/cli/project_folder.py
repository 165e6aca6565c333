"""Reads a folder that `cloche run` runs as a project."""

from __future__ import annotations

import os

from cloche.errors import InvalidRun

_NOT_OF_A_PROJECT = (".git", ".venv", "__pycache__", "target", ".mypy_cache")
_MAX_FILES, _MAX_BYTES = 2000, 64 << 20


def read_project(folder: str, language: str | None, entry: str | None) -> tuple[dict[str, bytes], str, str]:
    """Return all files of a folder, the language, and the entry among them."""
    from cloche.languages import by_name as is_program
    from cloche.languages.entry import choose_entry

    found: dict[str, bytes] = {}
    size = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _NOT_OF_A_PROJECT)
        for name in sorted(names):
            path = os.path.relpath(os.path.join(place, name), folder)
            data = _read_beneath(folder, path)
            if data is None:
                continue
            found[path] = data
            size += len(data)
            if len(found) > _MAX_FILES or size > _MAX_BYTES:
                raise InvalidRun(f"{folder} is too large for a project.", hint="Show it to the program with --mount.")
    if not found:
        raise InvalidRun(f"The folder {folder} is empty: there is nothing to run.", hint="Is it the right folder?")
    if not entry and not any(is_program(path) for path in found):
        raise InvalidRun(
            f"The folder {folder} has no program: none of its files is in a language that Cloche runs.",
            hint="Name the file with --entry, and its language with --language, if one of them is a program.",
        )
    chosen, entry = choose_entry(language, entry, found)
    return found, chosen, entry


def _read_beneath(folder: str, path: str) -> bytes | None:
    """A file of a project; None for a pipe, a socket or a device.  A link leads to a file of the same project only."""
    from errno import ENXIO
    from stat import S_ISREG

    from cloche.beneath import is_within, open_beneath

    root, shown = os.path.realpath(folder), os.path.join(folder, path)
    try:
        real = os.path.realpath(os.path.join(root, path))
        if not is_within(real, root):
            raise InvalidRun(
                f"{shown} is a link that leads out of {folder}.",
                hint="Copy the file into the folder, or remove the link.",
            )
        fd = open_beneath(root, os.path.relpath(real, root), os.O_RDONLY)
    except OSError as problem:
        if problem.errno == ENXIO:
            return None  # a socket
        raise InvalidRun(f"{shown} cannot be read: {problem.strerror}.") from problem
    with open(fd, "rb") as file:
        if not S_ISREG(os.fstat(fd).st_mode):
            return None
        return file.read(_MAX_BYTES + 1)
