"""Reads a wheel as hostile data: everything that can be checked before its first file is written.

It runs inside a sandbox, with a copy of unpack.py beside it, so it imports only the standard library.
"""

from __future__ import annotations

import binascii
import csv
import hashlib
import json
import mmap
import os
import re
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

MOST_BYTES = 4 * 10**9
MOST_RATIO = 200  # unpacked bytes for each byte of the archive
MOST_ENTRIES = 200_000
_MOST_PATH, _MOST_NAME, _MOST_DEPTH = 1000, 255, 50
_MOST_METADATA = 64 * 2**20  # a RECORD of as many entries as are allowed fits in
SCRIPT_START = b"#!/opt/env/bin/python3"
_PIECE = 2**18
_HASHES = {"sha256", "sha384", "sha512"}
_UNLISTED = ("RECORD", "RECORD.jws", "RECORD.p7s")  # PEP 427
_OURS = ("RECORD", "INSTALLER", "REQUESTED")  # written here, whatever the wheel has
_SCRIPT = """import sys
from {module} import {first}
if __name__ == "__main__":
    sys.exit({function}())
"""


class Problem(Exception):
    """A wheel breaks a rule."""

    def __init__(self, wheel: str, rule: str, message: str) -> None:
        super().__init__(message)
        self.wheel, self.rule, self.message = wheel, rule, message


class Member(NamedTuple):
    """A file of a wheel, as the archive's directory describes it."""

    name: str
    start: int
    packed: int
    size: int
    is_deflated: bool
    is_program: bool


class Wheel:
    """A wheel whose names, sizes and metadata have been checked: making one refuses it or succeeds."""

    def __init__(self, folder: str, file: str) -> None:
        self.file = file
        self.archive_size = os.stat(os.path.join(folder, file)).st_size
        with open(os.path.join(folder, file), "rb") as stream:
            if self.archive_size < 22 or stream.read(4) != b"PK\x03\x04":
                self.refuse("archive", "is not a zip archive")
            self.archive = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            self.members = self._members(stream)
        self.size = sum(member.size for member in self.members.values())
        self.info = self._dist_info()
        self.data = self.info.removesuffix(".dist-info") + ".data"
        self.record = self._record()
        metadata = _headers(self.read("METADATA"))
        self._check_metadata(metadata, _headers(self.read("WHEEL")))
        self.licence = _licence(metadata)
        self.scripts = self._scripts()
        self.compiled: set[str] = set()  # where the wheel itself has compiled modules
        self.rows: list[tuple[str, str, int | str]] = []  # RECORD as it will be: path, hash, size

    def refuse(self, rule: str, message: str) -> NoReturn:
        """Raise the problem that the wheel has."""
        raise Problem(self.file, rule, f"The wheel {self.file} {message}.")

    def _members(self, stream: Any) -> dict[str, Member]:
        try:
            archive = zipfile.ZipFile(stream)
            entries = archive.infolist()
        except Exception as problem:  # zipfile raises many kinds for a damaged directory
            raise Problem(self.file, "archive", f"The wheel {self.file} is not a readable zip archive.") from problem
        if len(entries) > MOST_ENTRIES:
            self.refuse("size", f"has {len(entries):,} entries; {MOST_ENTRIES:,} are allowed")
        size = sum(entry.file_size for entry in entries)
        most = min(MOST_BYTES, MOST_RATIO * self.archive_size)
        if size > most:
            self.refuse(
                "size", f"unpacks to {people_bytes(size)}; {people_bytes(most)} are allowed for an archive of its size"
            )
        members: dict[str, Member] = {}
        folders: set[str] = set()
        seen: dict[str, str] = {}
        end = 0
        for entry in sorted(entries, key=lambda each: each.header_offset):
            name = entry.orig_filename
            self._check_name(name)
            folded = _folded(name.rstrip("/"))
            if folded in seen:
                first = seen[folded]
                how = "twice" if first == name else f"and {shown(first)}, which differ only in case or Unicode form"
                self.refuse("names", f"has the entry {shown(name)} {how}")
            seen[folded] = name
            if entry.flag_bits & 0x41:
                self.refuse("encrypted", f"has the encrypted entry {shown(name)}")
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                self.refuse("compression", f"packs {shown(name)} by a method that wheels do not use")
            kind = entry.external_attr >> 28  # the file type of Unix; 0 where the archive was made elsewhere
            if kind not in (0, 8, 4) or (kind == 4) > name.endswith("/"):
                self.refuse("link", f"has the entry {shown(name)}, which is a link or a device and not a file")
            start = self._start(entry, end)
            end = start + entry.compress_size
            if end > archive.start_dir or (not entry.compress_type and entry.compress_size != entry.file_size):
                self.refuse("archive", f"has a false size for {shown(name)}")
            above = folded
            while "/" in above and (above := above.rpartition("/")[0]) not in folders:
                folders.add(above)
            if name.endswith("/"):
                if entry.file_size:
                    self.refuse("archive", f"has a folder with contents, {shown(name)}")
                continue
            is_program = bool(entry.external_attr >> 16 & 0o111)
            members[name] = Member(
                name, start, entry.compress_size, entry.file_size, bool(entry.compress_type), is_program
            )
        for name in members:
            if _folded(name) in folders:
                self.refuse("names", f"has {shown(name)} both as a file and as a folder")
        return members

    def _start(self, entry: zipfile.ZipInfo, end: int) -> int:
        """Return where the data of an entry begins; its own header must agree with the directory's."""
        # Tools differ in which of the two headers they believe, so a wheel could be one thing to a scanner and another
        # to us.  Entries that overlap are the trick of the worst zip bombs.
        at = entry.header_offset
        header = self.archive[at : at + 30]
        if at < end or len(header) < 30 or header[:4] != b"PK\x03\x04":
            self.refuse("archive", f"has no header of its own for {shown(entry.orig_filename)}")
        flags, method, name_size, extra_size = _LOCAL_HEADER.unpack(header)
        name = self.archive[at + 30 : at + 30 + name_size]
        encoding = "utf-8" if entry.flag_bits & 0x800 else "cp437"
        same = name == entry.orig_filename.encode(encoding) and method == entry.compress_type
        if not same or (flags ^ entry.flag_bits) & 0x841:
            self.refuse("archive", f"describes {shown(entry.orig_filename)} in two different ways")
        start: int = at + 30 + name_size + extra_size
        return start

    def _check_name(self, name: str) -> None:
        quoted = shown(name)
        if any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in name):
            self.refuse("path", f"has the entry {quoted}, with a control character in its name")
        if "\\" in name or re.match("[A-Za-z]:", name):
            self.refuse("path", f"has the entry {quoted}, with a backslash or a drive letter in its name")
        if name.startswith("/"):
            self.refuse("path", f"has the entry {quoted}, which is an absolute path")
        parts = name.removesuffix("/").split("/")
        if not {"", ".", ".."}.isdisjoint(parts):
            self.refuse("path", f"has the entry {quoted}, which leads out of its folder")
        if len(name.encode()) > _MOST_PATH or max(len(part.encode()) for part in parts) > _MOST_NAME:
            self.refuse("path", f"has the entry {quoted}, whose name is too long")
        if len(parts) > _MOST_DEPTH:
            self.refuse(
                "path", f"has the entry {quoted}, which is {len(parts)} folders deep; {_MOST_DEPTH} are allowed"
            )

    def _dist_info(self) -> str:
        named = re.fullmatch(r"([^-]+)-([^-]+)(-\d[^-]*)?-[^-]+-[^-]+-[^-]+\.whl", self.file)
        if named is None:
            self.refuse("name", "has a name that is not that of a wheel")
        self.name, self.version = canonical(named[1]), named[2]
        tops = {name.partition("/")[0] for name in self.members}
        found = sorted(top for top in tops if top.lower().endswith(".dist-info"))
        if len(found) != 1:
            self.refuse("dist-info", f"has {len(found)} dist-info folders instead of one")
        name, _, version = found[0][: -len(".dist-info")].partition("-")
        if canonical(name) != self.name or _version(version) != _version(self.version):
            self.refuse("name", f"is named otherwise than its folder {shown(found[0])}")
        return found[0]

    def read(self, name: str) -> str:
        """Return the text of a file in dist-info, checked; empty text if it is missing and may be."""
        path = f"{self.info}/{name}"
        member = self.members.get(path)
        if member is None:
            if name == "entry_points.txt":
                return ""
            self.refuse("record" if name == "RECORD" else "metadata", f"lacks {shown(path)}")
        if member.size > _MOST_METADATA:
            self.refuse("size", f"has {people_bytes(member.size)} in {shown(path)}")
        data = b"".join(inflated(self, member))
        if name != "RECORD":
            algorithm, digest, _ = self.record[path]
            if hashlib.new(algorithm, data).digest() != digest:
                self.refuse("record", f"has another hash for {shown(path)} in its RECORD")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            if name != "METADATA":  # old packages have Latin-1 in their descriptions
                self.refuse("metadata", f"has no UTF-8 text in {shown(path)}")
            return data.decode("utf-8", "replace")

    def _record(self) -> dict[str, tuple[str, bytes, str]]:
        """Read RECORD: a hash for each file."""
        unlisted = {f"{self.info}/{name}" for name in _UNLISTED}
        rows: dict[str, tuple[str, bytes, str]] = {}
        try:
            lines = [row for row in csv.reader(self.read("RECORD").splitlines()) if row]
        except csv.Error as problem:
            raise Problem(self.file, "record", f"The wheel {self.file} has an unreadable RECORD.") from problem
        for path, written, size in ((*row, "", "")[:3] for row in lines):
            if path in unlisted or path.endswith("/") or not written:
                continue
            algorithm, _, digest = written.partition("=")
            if algorithm not in _HASHES:
                self.refuse("record", f"has no SHA-2 hash for {shown(path)} in its RECORD")
            try:
                row = algorithm, binascii.a2b_base64(digest.rstrip("=").translate(_URL_SAFE) + "=="), size
            except binascii.Error:
                self.refuse("record", f"has an unreadable hash for {shown(path)} in its RECORD")
            if rows.setdefault(path, row) != row:
                self.refuse("record", f"has two hashes for {shown(path)} in its RECORD")
        for path, member in self.members.items():
            if path in unlisted:
                continue
            if path not in rows:
                self.refuse("record", f"has the file {shown(path)}, which its RECORD does not list with a hash")
            if rows[path][2] not in ("", str(member.size)):
                self.refuse("record", f"has another size for {shown(path)} in its RECORD")
        for path in rows.keys() - self.members.keys():
            self.refuse("record", f"lacks the file {shown(path)}, which its RECORD lists")
        return rows

    def _check_metadata(self, metadata: dict[str, list[str]], wheel: dict[str, list[str]]) -> None:
        major = wheel.get("wheel-version", [""])[0].partition(".")[0]
        if major != "1":
            self.refuse("wheel-version", f"has the wheel version {shown(major)}; only version 1 is known")
        name, version = (metadata.get(field, [""])[0] for field in ("name", "version"))
        if canonical(name) != self.name or _version(version) != _version(self.version):
            self.refuse("name", f"calls itself {shown(f'{name} {version}')} in its METADATA")

    def _scripts(self) -> dict[str, bytes]:
        scripts, section = {}, ""
        for line in self.read("entry_points.txt").splitlines():
            line = line.strip()
            if line.startswith("["):
                section = line.strip("[] ")
            if section not in ("console_scripts", "gui_scripts") or not line or line[0] in "[#;":
                continue
            name, _, target = (part.strip() for part in line.partition("="))
            found = re.fullmatch(r"([\w.]+)\s*:\s*([\w.]+)\s*(\[.*\])?", target)
            if not re.fullmatch(r"\w[\w. +-]{0,99}", name) or not found:
                self.refuse("entry-points", f"has the script {shown(line)}, which is not name = module:function")
            module, function = found[1], found[2]
            if not all(part.isidentifier() for part in (*module.split("."), *function.split("."))):
                self.refuse("entry-points", f"has the script {shown(line)}, which is not name = module:function")
            text = _SCRIPT.format(module=module, first=function.partition(".")[0], function=function)
            scripts[name] = SCRIPT_START + b"\n" + text.encode()
        return scripts

    def target(self, name: str, site: str) -> tuple[str, bool]:
        """Return where a file belongs in the layer, and whether it is a script; an empty path if it is not written."""
        parts, is_script = name.split("/"), False
        if parts[0].lower().endswith(".data"):
            if parts[0] != self.data or len(parts) < 3:
                self.refuse("data", f"has the entry {shown(name)}, which is in no data folder of this package")
            version = site.split("/")[1]
            bases = {
                "purelib": site,
                "platlib": site,
                "data": "",
                "scripts": "bin",
                "headers": f"include/site/{version}/{self.name}",
            }
            if parts[1] not in bases:
                self.refuse("data", f"has the entry {shown(name)}; {shown(parts[1])} is no folder for installed data")
            is_script = parts[1] == "scripts"
            if is_script and re.sub(r"(-script\.pyw?|\.exe)$", "", parts[-1]) in self.scripts:
                return "", False  # the script that the entry point asks for replaces it
            path = "/".join(filter(None, (bases[parts[1]], *parts[2:])))
        else:
            path = f"{site}/{name}"
        if path.startswith(f"{site}/"):
            top, _, rest = path.removeprefix(f"{site}/").partition("/")
            owner = re.sub(r"\.(dist-info|egg-info)$", "", top.lower())
            if owner != top.lower() and top != self.info and canonical(owner.partition("-")[0]) != self.name:
                self.refuse("foreign-metadata", f"has the entry {shown(name)}, in the metadata of another package")
            if top == self.info and rest in _OURS:
                return "", False
        return path, is_script


_LOCAL_HEADER = struct.Struct("<6x2H16x2H")
_URL_SAFE, _TO_URL = str.maketrans("-_", "+/"), str.maketrans("+/", "-_")


def inflated(wheel: Wheel, member: Member) -> Iterator[bytes]:
    """Yield the contents of a file in pieces, never more than the archive's directory promises."""
    left, end = member.size, member.start + member.packed
    unpacker = zlib.decompressobj(-15) if member.is_deflated else None
    with memoryview(wheel.archive) as archive:
        for at in range(member.start, end, _PIECE):
            packed: Any = archive[at : min(at + _PIECE, end)]
            while len(packed):
                if unpacker is None:
                    piece, packed = bytes(packed), b""
                else:
                    if unpacker.eof:
                        wheel.refuse("archive", f"has data behind the end of {shown(member.name)}")
                    try:
                        piece = unpacker.decompress(packed, 4 * _PIECE)
                    except zlib.error:
                        wheel.refuse("archive", f"has damaged data in {shown(member.name)}")
                    packed = unpacker.unconsumed_tail
                left -= len(piece)
                if left < 0:
                    wheel.refuse("archive", f"has a false size for {shown(member.name)}")
                yield piece
    if left or (unpacker is not None and (not unpacker.eof or unpacker.unused_data)):
        wheel.refuse("archive", f"has a false size for {shown(member.name)}")


def _headers(text: str) -> dict[str, list[str]]:
    """Read the header of a metadata file: fields with a value each, continued on indented lines."""
    found: dict[str, list[str]] = {}
    last: list[str] = [""]
    for line in text.splitlines():
        if not line.strip():
            break
        if line[0] in " \t":
            last[-1] += "\n" + line.strip()
        elif ":" in line:
            field, _, value = line.partition(":")
            last = found.setdefault(field.strip().lower(), [])
            last.append(value.strip())
    return found


def _licence(metadata: dict[str, list[str]]) -> str:
    for field in ("license-expression", "license"):
        line = metadata.get(field, [""])[0].partition("\n")[0].strip()
        if line and line.upper() != "UNKNOWN":
            return line[:200]
    kinds = [kind for kind in metadata.get("classifier", []) if kind.startswith("License ::")]
    return ", ".join(kind.rpartition(":: ")[2] for kind in kinds)[:200]


def canonical(name: str) -> str:
    """Write a package's name as all tools compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _version(text: str) -> str:
    """Bring a version into a form that is equal for equal versions (PEP 440)."""
    if len(text) > 128:
        return text  # Python refuses to read numbers of thousands of digits
    text = text.strip().lower().replace("_", "-").lstrip("v")
    public, _, local = text.partition("+")
    public = re.sub(r"[-.]?(alpha|beta|preview|pre|rc|a|b|c)[-.]?(\d*)", _before, public)
    public = re.sub(r"([-.]?(post|rev|r)[-.]?(\d*)|-(\d+))$", lambda m: f".post{int(m[3] or m[4] or 0)}", public)
    public = re.sub(r"[-.]?dev[-.]?(\d*)", lambda m: f".dev{int(m[1] or 0)}", public)
    public = re.sub(r"\d+", lambda m: str(int(m[0])), public)
    public = re.sub(r"^(\d+!)?(\d+(?:\.\d+)*?)(?:\.0)*(?=$|[a-z]|\.[a-z])", r"\1\2", public)
    return public.removeprefix("0!") + "+" + re.sub(r"[-.]", ".", local)


def _before(found: re.Match[str]) -> str:
    kind = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}.get(found[1], found[1])
    return f"{kind}{int(found[2] or 0)}"


def _folded(name: str) -> str:
    return (
        name.lower()
        if name.isascii()
        else unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    )


def record_hash(algorithm: str, digest: bytes) -> str:
    """Write a hash as RECORD has it."""
    return f"{algorithm}={binascii.b2a_base64(digest, newline=False).rstrip(b'=').decode().translate(_TO_URL)}"


def shown(text: str) -> str:
    """Show a name from a wheel: quoted, without control characters, and not too long."""
    return json.dumps(text if len(text) <= 120 else text[:120] + "…", ensure_ascii=not text.isprintable())


def people_bytes(count: int) -> str:
    """Write a size for people."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"
