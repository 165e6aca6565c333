"""Unpacks the files of Node packages; a program of the standard library alone, which the broker runs in a sandbox.

    python3 -I -S unpack_node.py FILES TREE MOST_BYTES

Standard input is JSON: a list of {"name", "version", "places"}, whose first package is in FILES/0.tgz.  It is unpacked
to TREE/node_modules/…, as its places say.  Standard output is one line of JSON: the packages, or the rule that a file
breaks.  The files are read as hostile: every name is checked before anything of it is written.
"""

from __future__ import annotations

import gzip
import json
import os
import posixpath
import sys
import tarfile
import zlib
from typing import IO, Any

_MOST_ENTRIES, _MOST_PATH, _MOST_DEPTH = 150_000, 1000, 50
_MOST_MANIFEST = 4 << 20
_PIECE = 1 << 20


class Problem(Exception):
    """A rule that a package breaks."""

    def __init__(self, package: str, message: str) -> None:
        super().__init__(message)
        self.package, self.message = package, message


class Budget:
    """The bytes and entries that all files together may still take."""

    def __init__(self, most_bytes: int) -> None:
        self.most, self.bytes, self.entries = most_bytes, 0, 0

    def take(self, package: str, count: int) -> None:
        """Count bytes of an unpacked archive."""
        self.bytes += count
        if self.bytes > self.most:
            raise Problem(package, f"the packages unpack to more than {self.most >> 20} MB")

    def take_entry(self, package: str) -> None:
        """Count an entry of an archive."""
        self.entries += 1
        if self.entries > _MOST_ENTRIES:
            raise Problem(package, f"the packages have more than {_MOST_ENTRIES:,} files")


class Inflated:
    """The tar archive in a gzip file, whose bytes are counted before anybody keeps them."""

    def __init__(self, file: IO[bytes], package: str, budget: Budget) -> None:
        self._file, self._package, self._budget = gzip.GzipFile(fileobj=file), package, budget

    def read(self, size: int) -> bytes:
        """Return the next bytes."""
        data = self._file.read(min(size, _PIECE))
        self._budget.take(self._package, len(data))
        return data


class Unpacking:
    """One package on its way to one place."""

    def __init__(self, shown: str, place: str, target: str, others: set[str], budget: Budget) -> None:
        self.shown, self._place, self._target, self._others, self._budget = shown, place, target, others, budget
        self._spellings: dict[str, str] = {}  # of the paths and the folders above them
        self._files: set[str] = set()
        self.count = self.bytes = 0

    def unpack(self, path: str) -> None:
        """Write what a file contains."""
        try:
            with open(path, "rb") as file:
                stream: Any = Inflated(file, self.shown, self._budget)
                # `errorlevel` makes a damaged header an error instead of the end of the archive.
                with tarfile.open(fileobj=stream, mode="r|", bufsize=_PIECE, errorlevel=2, encoding="utf-8") as archive:
                    for member in archive:
                        self._member(archive, member)
        except (tarfile.TarError, zlib.error, EOFError, gzip.BadGzipFile, UnicodeError) as problem:
            raise Problem(self.shown, f"its file is damaged: {str(problem)[:200]}") from None

    def _member(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        self._budget.take_entry(self.shown)
        name = self._checked(member.name)
        if member.isdir():
            return
        if not member.isreg():
            kinds = {tarfile.SYMTYPE: "a link", tarfile.LNKTYPE: "a hard link", tarfile.FIFOTYPE: "a pipe"}
            raise Problem(self.shown, f"it contains {kinds.get(member.type, 'a device')}, {_text(member.name)}")
        if not name:
            raise Problem(self.shown, f"it has a file in place of its folder, {_text(member.name)}")
        if name in self._files:
            raise Problem(self.shown, f"it contains {_text(name)} twice")
        self._files.add(name)
        source = archive.extractfile(member)
        if source is None:
            raise Problem(self.shown, f"the content of {_text(name)} is missing")
        self.count += 1
        self.bytes += member.size
        out = self._create(f"{self._target}/{self._place}/{name}", 0o755 if member.mode & 0o111 else 0o644, name)
        with open(out, "wb", closefd=True) as file:
            while data := source.read(_PIECE):
                file.write(data)

    def _checked(self, path: str) -> str:
        """A path below the package's folder; the first part of the name in the archive stands for that folder."""
        shown = _text(path)
        if path.startswith("/"):
            raise Problem(self.shown, f"it has the absolute path {shown}")
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise Problem(self.shown, f"a path leads out of its folder: {shown}")
        if not path.isprintable() or "\\" in path or any("\ud800" <= letter <= "\udfff" for letter in path):
            raise Problem(self.shown, f"a path has signs that it may not have: {shown}")
        if len(path) > _MOST_PATH or len(parts) > _MOST_DEPTH or any(len(part.encode()) > 255 for part in parts):
            raise Problem(self.shown, f"a path is too long: {shown}")
        for length in range(2, len(parts) + 1):
            known = "/".join(parts[1:length])
            if self._spellings.setdefault(known.casefold(), known) != known:
                other = _text(self._spellings[known.casefold()])
                raise Problem(self.shown, f"{_text(known)} differs from {other} only in capital letters")
            if f"{self._place}/{known}" in self._others:
                raise Problem(self.shown, f"{shown} lies in the folder of another package")
        return "/".join(parts[1:])

    def _create(self, path: str, mode: int, name: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            try:
                return os.open(path, flags, mode)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
                return os.open(path, flags, mode)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            raise Problem(self.shown, f"{_text(name)} is a file and a folder") from None


def unpack(order: list[dict[str, Any]], files: str, target: str, most_bytes: int) -> list[dict[str, Any]]:
    """Unpack every package to all its places; return descriptions of them."""
    os.umask(0o022)
    budget = Budget(most_bytes)
    others = {place for package in order for place in package["places"]}
    found = []
    for number, package in enumerate(order):
        shown = f"{package['name']} {package['version']}"
        for place in package["places"]:
            unpacking = Unpacking(shown, place, target, others, budget)
            unpacking.unpack(f"{files}/{number}.tgz")
        folder = f"{target}/{package['places'][0]}"
        manifest = _manifest(shown, folder)
        _check_identity(package, shown, manifest)
        bins: dict[str, str] = {}
        for place in package["places"]:
            bins = _bins(package["name"], f"{target}/{place}", manifest)
        found.append(
            {
                "name": package["name"],
                "version": package["version"],
                "files": unpacking.count,
                "bytes": unpacking.bytes,
                "licence": _licence(manifest),
                "places": package["places"],
                "bins": bins,
            }
        )
    return found


def _manifest(shown: str, folder: str) -> dict[str, Any]:
    try:
        with open(f"{folder}/package.json", encoding="utf-8-sig") as file:
            found = json.loads(file.read(_MOST_MANIFEST))
    except (OSError, ValueError, RecursionError):
        raise Problem(shown, "it has no package.json that can be read") from None
    if not isinstance(found, dict):
        raise Problem(shown, "its package.json is no table")
    return found


def _check_identity(package: dict[str, Any], shown: str, manifest: dict[str, Any]) -> None:
    """Refuse a package under another one's name: the policy has decided about the name in the lock."""
    version = str(manifest.get("version")).strip().lstrip("=v").partition("+")[0]
    if manifest.get("name") != package["name"] or version != package["version"].partition("+")[0]:
        other = f"{str(manifest.get('name'))[:100]} {str(manifest.get('version'))[:100]}"
        raise Problem(shown, f"its file contains another package, {_text(other)}")


def _licence(manifest: dict[str, Any]) -> str:
    found = manifest.get("license")
    found = found.get("type") if isinstance(found, dict) else found
    return found[:200] if isinstance(found, str) else ""


def _bins(name: str, folder: str, manifest: dict[str, Any]) -> dict[str, str]:
    """The programs of a package, as name and path; makes them executable, as npm does."""
    given, folders = manifest.get("bin"), manifest.get("directories")
    if isinstance(given, str):
        given = {name.rpartition("/")[2]: given}
    if given is None and isinstance(folders, dict) and isinstance(folders.get("bin"), str):
        place = posixpath.normpath(posixpath.join("/", folders["bin"]))
        there = sorted(os.listdir(f"{folder}{place}")) if os.path.isdir(f"{folder}{place}") else []
        given = {each: f"{place}/{each}" for each in there}
    found = {}
    for program, path in given.items() if isinstance(given, dict) else ():
        if not isinstance(path, str):
            continue
        program = program.replace("\\", "/").rpartition("/")[2]
        path = posixpath.normpath(posixpath.join("/", path)).lstrip("/")
        if program and not program.startswith(".") and program.isprintable() and os.path.isfile(f"{folder}/{path}"):
            _make_program(f"{folder}/{path}")
            found[program[:200]] = path
    return found


def _make_program(path: str) -> None:
    """Let a file be run, also one whose first line ends as on Windows, which the kernel does not understand."""
    os.chmod(path, 0o755)
    with open(path, "r+b") as file:
        first = file.readline(4096)
        if first.startswith(b"#!") and first.endswith(b"\r\n"):
            rest = file.read()
            file.seek(0)
            file.write(first[:-2] + b"\n" + rest)
            file.truncate()


def _text(path: str) -> str:
    shown = path if len(path) <= 200 else f"{path[:100]}…{path[-99:]}"
    return shown if shown.isprintable() else ascii(shown)


def main() -> None:
    """Unpack what standard input lists; print the packages or the problem."""
    files, target, most = sys.argv[1:4]
    try:
        answer: dict[str, Any] = {"packages": unpack(json.load(sys.stdin), files, target, int(most))}
    except Problem as problem:
        answer = {"problem": {"package": problem.package, "message": problem.message}}
    except OSError as problem:
        answer = {"problem": {"package": "", "message": f"The files cannot be written: {problem.strerror}"}}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
