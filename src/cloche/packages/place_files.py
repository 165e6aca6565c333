"""Unpacks an uploaded archive and puts its files in their place; a program of the standard library alone.

It runs in the sandbox that the files are for, so an archive can harm nobody else.

python3 place_files.py ARCHIVE SOURCE TARGET MODE

SOURCE is the path or pattern of the files in the archive, and TARGET says where they shall be, as in a Dockerfile: a
folder's contents go into TARGET, a file becomes TARGET, or goes into it if TARGET ends with a slash or is a folder.
MODE is octal; with an empty MODE, files keep the mode that they have in the archive.
"""

import fnmatch
import os
import posixpath
import shutil
import sys
import tarfile
import tempfile

MAX_ENTRIES = 100_000


def main(archive: str, source: str, target: str, mode: str) -> None:
    """Put the files in their place, or say why that is not possible."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(archive)) as folder:
        try:
            unpack(archive, folder)
        except (tarfile.TarError, EOFError, OSError, ValueError) as problem:
            sys.exit(f"The uploaded archive of {source} cannot be unpacked: {problem}")
        found = matches(folder, source)
        if not found:
            sys.exit(f"The uploaded archive has no file {source}.")
        try:
            place(found, target, int(mode, 8) if mode else None)
        except OSError as problem:
            sys.exit(f"{source} cannot be copied to {target}: {problem.strerror}: {problem.filename}")
    os.unlink(archive)


def unpack(archive: str, folder: str) -> None:
    """Unpack an archive, compressed or not.  The filter refuses names that lead out of the folder."""
    with tarfile.open(archive, "r:*") as opened:
        for count, entry in enumerate(opened):
            if count >= MAX_ENTRIES:
                raise ValueError(f"it has more than {MAX_ENTRIES} entries")
            entry.uid = entry.gid = os.getuid()
            if entry.isdev():
                raise ValueError(f"{entry.name} is a device or a pipe")
            if hasattr(tarfile, "tar_filter"):
                opened.extract(entry, folder, set_attrs=not entry.issym(), filter="tar")
            else:
                if posixpath.isabs(entry.name) or ".." in entry.name.split("/"):
                    raise ValueError(f"{entry.name} leads out of it")
                opened.extract(entry, folder)


def matches(folder: str, source: str) -> "list[str]":
    """Return the paths that a source means; a source without pattern means itself."""
    plain = posixpath.normpath(source)
    path = os.path.join(folder, plain)
    if os.path.lexists(path):
        return [path]
    found = []
    for at, folders, files in os.walk(folder):
        for name in sorted(folders + files):
            relative = os.path.relpath(os.path.join(at, name), folder)
            if is_match(relative.split("/"), plain.split("/")):
                found.append(os.path.join(folder, relative))
    # The files of a folder that matches come with it.
    return [path for path in sorted(found) if not any(path.startswith(f"{other}/") for other in found)]


def is_match(parts: "list[str]", pattern: "list[str]") -> bool:
    """Whether the segments of a path match those of a pattern, where ** stands for any number of segments."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return is_match(parts, pattern[1:]) or (bool(parts) and is_match(parts[1:], pattern))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], pattern[0]) and is_match(parts[1:], pattern[1:])


def place(found: "list[str]", target: str, mode: "int | None") -> None:
    """Put paths where the target says."""
    for path in found:
        if os.path.isdir(path) and not os.path.islink(path):
            if mode is not None:
                set_modes(path, mode)
            os.makedirs(target, exist_ok=True)
            merge(path, target)
            continue
        is_folder = target.endswith("/") or len(found) > 1 or os.path.isdir(target)
        where = os.path.join(target, os.path.basename(path)) if is_folder else target
        os.makedirs(os.path.dirname(where) or ".", exist_ok=True)
        if mode is not None and not os.path.islink(path):
            os.chmod(path, mode)
        put(path, where)


def merge(source: str, target: str) -> None:
    """Move the contents of a folder into another one."""
    for name in os.listdir(source):
        path, where = os.path.join(source, name), os.path.join(target, name)
        if os.path.isdir(path) and not os.path.islink(path) and os.path.isdir(where):
            merge(path, where)
        else:
            put(path, where)


def put(path: str, where: str) -> None:
    """Move a file, folder or link over what may be there."""
    if os.path.lexists(where) and not (os.path.isdir(where) and not os.path.islink(where)):
        os.unlink(where)
    shutil.move(path, where)


def set_modes(folder: str, mode: int) -> None:
    """Give a mode to all files in a folder; folders stay open to their owner."""
    for at, _, files in os.walk(folder):
        os.chmod(at, mode | 0o700)
        for name in files:
            if not os.path.islink(os.path.join(at, name)):
                os.chmod(os.path.join(at, name), mode)


if __name__ == "__main__":
    main(*sys.argv[1:])
