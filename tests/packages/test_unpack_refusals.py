"""Crafted wheels: each is refused by its rule, with a sentence, before it has installed anything that matters."""

from __future__ import annotations

import os
import re
import stat
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.packages.crafted_wheels import entry, hashed, make_wheel, patch, unpack

INIT = {"demo/__init__.py": b"answer = 42\n"}


def with_entry(name: str, data: bytes = b"x", mode: int = 0) -> Callable[[Path], object]:
    return lambda folder: make_wheel(folder, entries=[entry(name, data, mode)])


def with_files(*names: str) -> Callable[[Path], object]:
    return lambda folder: make_wheel(folder, dict.fromkeys(names, b"x"))


def with_two(one: dict[str, bytes], two: dict[str, bytes]) -> Callable[[Path], object]:
    return lambda folder: (make_wheel(folder, one, "one"), make_wheel(folder, two, "two"))


def patched(field: str, value: int, headers: str = "both") -> Callable[[Path], object]:
    return lambda folder: patch(make_wheel(folder, record=without_sizes), "demo/__init__.py", field, value, headers)


def replaced(old: bytes, new: bytes, entries: list[tuple[zipfile.ZipInfo, bytes]]) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        path = make_wheel(folder, entries=entries)
        path.write_bytes(path.read_bytes().replace(old, new))

    return make


def without_record_of(path: str) -> Callable[[str], str]:
    return lambda text: "\n".join(line for line in text.splitlines() if path not in line)


def without_sizes(text: str) -> str:
    return re.sub(r"(?m),\d+$", ",", text)


def with_another_hash(text: str) -> str:
    return re.sub("sha256=[^,]+", hashed(b"other"), text, count=1)


def overlapping(folder: Path) -> None:
    """Two names for the same data, as in the zip bombs that grow with the square of their size."""
    path = make_wheel(folder, {"demo/a.bin": b"same" * 100, "demo/b.bin": b"same" * 100})
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        first, directory = archive.getinfo("demo/a.bin").header_offset, archive.start_dir
    at = data.index(b"demo/b.bin", directory) - 4
    data[at : at + 4] = first.to_bytes(4, "little")
    path.write_bytes(data)


def damaged(folder: Path) -> None:
    path = make_wheel(folder, {"demo/a.bin": os.urandom(1000)})
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        start = archive.getinfo("demo/a.bin").header_offset + 30 + len("demo/a.bin")
    data[start] ^= 0b110  # the kind of the first block
    path.write_bytes(data)


def lzma_packed(folder: Path) -> None:
    path = make_wheel(folder)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_LZMA) as archive:
        archive.writestr("demo/b", b"b" * 100)


def cut_off(folder: Path) -> None:
    path = make_wheel(folder)
    path.write_bytes(path.read_bytes()[:-100])


def many_entries(folder: Path) -> None:
    folder.mkdir()
    with zipfile.ZipFile(folder / "demo-1.0-py3-none-any.whl", "w") as archive:
        for number in range(200_001):
            archive.writestr(zipfile.ZipInfo(f"{number}"), b"")


REFUSED = {
    "an absolute path": (with_entry("/etc/evil"), "path", "is an absolute path"),
    "a parent folder": (with_entry("demo/../../evil"), "path", "leads out of its folder"),
    "a parent folder in data": (with_entry("demo-1.0.data/data/../evil"), "path", "leads out of its folder"),
    "a dot": (with_entry("demo/./evil"), "path", "leads out of its folder"),
    "an empty part": (with_entry("demo//evil"), "path", "leads out of its folder"),
    "a backslash": (with_entry("demo\\..\\evil"), "path", "a backslash or a drive letter"),
    "a drive letter": (with_entry("C:evil"), "path", "a backslash or a drive letter"),
    "a control character": (with_entry("demo/e\nvil"), "path", "a control character"),
    "a NUL": (replaced(b"demo/nul@", b"demo/nul\0", [entry("demo/nul@", b"")]), "path", "a control character"),
    "a long name": (with_entry("demo/" + "a" * 256), "path", "name is too long"),
    "a long path": (with_entry("/".join(["a" * 200] * 6)), "path", "name is too long"),
    "a deep path": (with_entry("d/" * 50 + "evil"), "path", "51 folders deep; 50 are allowed"),
    "a symbolic link": (with_entry("demo/link", b"/etc", stat.S_IFLNK | 0o777), "link", "a link or a device"),
    "a device": (with_entry("demo/null", b"", stat.S_IFCHR | 0o666), "link", "a link or a device"),
    "a pipe": (with_entry("demo/pipe", b"", stat.S_IFIFO | 0o666), "link", "a link or a device"),
    "a file that says it is a folder": (with_entry("demo/d", b"x", stat.S_IFDIR | 0o755), "link", "a link or a device"),
    "the same name twice": (with_entry("demo/__init__.py"), "names", '"demo/__init__.py" twice'),
    "names that differ in case": (with_entry("Demo/__INIT__.py"), "names", "differ only in case or Unicode form"),
    "names that differ in Unicode form": (
        with_files("demo/\u00e9.py", "demo/e\u0301.py"),
        "names",
        "differ only in case or Unicode form",
    ),
    "a file where a folder is": (with_entry("demo", b"x"), "names", "both as a file and as a folder"),
    "different files of two packages": (
        with_two({"shared.py": b"one"}, {"shared.py": b"two"}),
        "conflict",
        "one-1.0-py3-none-any.whl installs it with other contents",
    ),
    "a file in the folder of another package": (
        with_two({"a/b.py": b""}, {"a": b""}),
        "conflict",
        "where one-1.0-py3-none-any.whl has a folder",
    ),
    "one file from two places": (
        with_files("demo/a", "demo-1.0.data/purelib/demo/a"),
        "conflict",
        'installs the file "lib/python3.11/site-packages/demo/a" twice',
    ),
    "the same package twice": (
        lambda folder: (make_wheel(folder), make_wheel(folder, version="2.0")),
        "conflict",
        "are the same package",
    ),
    "another's metadata": (
        with_entry("demo-1.0.data/data/lib/python3.11/site-packages/pip-9.dist-info/METADATA"),
        "foreign-metadata",
        "in the metadata of another package",
    ),
    "another's metadata, in lib": (
        with_entry("demo-1.0.data/purelib/pip-9.dist-info/RECORD"),
        "foreign-metadata",
        "in the metadata of another package",
    ),
    "another's old metadata": (with_entry("pip.egg-info/PKG-INFO"), "foreign-metadata", "of another package"),
    "two dist-infos": (with_entry("other-1.0.dist-info/METADATA"), "dist-info", "has 2 dist-info folders"),
    "a dist-info of another package": (
        lambda folder: make_wheel(folder, info="other-1.0.dist-info"),
        "name",
        'named otherwise than its folder "other-1.0.dist-info"',
    ),
    "a dist-info of another version": (
        lambda folder: make_wheel(folder, info="demo-1.1.dist-info"),
        "name",
        'named otherwise than its folder "demo-1.1.dist-info"',
    ),
    "metadata of another package": (
        lambda folder: make_wheel(folder, metadata="Name: other\nVersion: 1.0\n"),
        "name",
        'calls itself "other 1.0"',
    ),
    "metadata of another version": (
        lambda folder: make_wheel(folder, metadata="Name: demo\nVersion: 1.0.1\n"),
        "name",
        'calls itself "demo 1.0.1"',
    ),
    "no wheel's name": (lambda folder: make_wheel(folder, file="demo.whl"), "name", "not that of a wheel"),
    "another's data folder": (with_entry("other-1.0.data/scripts/x"), "data", "in no data folder of this package"),
    "an unknown kind of data": (with_entry("demo-1.0.data/root/x"), "data", '"root" is no folder for installed data'),
    "a later wheel version": (
        lambda folder: make_wheel(folder, wheel_version="2.0"),
        "wheel-version",
        'the wheel version "2"; only version 1 is known',
    ),
    "no RECORD": (lambda folder: make_wheel(folder, record=lambda text: None), "record", "lacks"),
    "a file that RECORD does not list": (
        lambda folder: make_wheel(folder, record=without_record_of("__init__")),
        "record",
        '"demo/__init__.py", which its RECORD does not list with a hash',
    ),
    "a file that RECORD lists without a hash": (
        lambda folder: make_wheel(folder, record=lambda text: re.sub("sha256=[^,]+,", ",", text, count=1)),
        "record",
        "does not list with a hash",
    ),
    "another hash": (
        lambda folder: make_wheel(folder, record=with_another_hash),
        "record",
        'has another hash for "demo/__init__.py" in its RECORD',
    ),
    "another hash of the metadata": (
        lambda folder: make_wheel(folder, {}, record=with_another_hash),
        "record",
        'has another hash for "demo-1.0.dist-info/METADATA" in its RECORD',
    ),
    "a weak hash": (
        lambda folder: make_wheel(folder, record=lambda text: text.replace("sha256=", "md5=", 1)),
        "record",
        "has no SHA-2 hash",
    ),
    "another size": (
        lambda folder: make_wheel(folder, record=lambda text: text.replace(",12\n", ",13\n", 1)),
        "record",
        "has another size for",
    ),
    "a file that only RECORD has": (
        lambda folder: make_wheel(folder, record=lambda text: f"demo/b,sha256=AAAA,1\n{text}"),
        "record",
        'lacks the file "demo/b"',
    ),
    "an encrypted entry": (patched("flags", 1), "encrypted", "the encrypted entry"),
    "an unknown compression": (patched("method", 98), "compression", "by a method that wheels do not use"),
    "a rare compression": (lzma_packed, "compression", "by a method that wheels do not use"),
    "two different headers": (patched("method", 0, "own"), "archive", "in two different ways"),
    "a size that is too small": (patched("size", 11), "archive", "a false size"),
    "a size that is too big": (patched("size", 13), "archive", "a false size"),
    "entries that overlap": (overlapping, "archive", "has no header of its own"),
    "damaged data": (damaged, "archive", "damaged data"),
    "no archive": (
        lambda folder: make_wheel(folder).write_bytes(b"x" * 100),
        "archive",
        "is not a zip archive",
    ),
    "half an archive": (cut_off, "archive", "is not a readable zip archive"),
    "a zip bomb": (
        lambda folder: make_wheel(folder, {"demo/zeros": bytes(20_000_000)}),
        "size",
        "unpacks to 20 MB; ",
    ),
    "a bomb of many gigabytes": (patched("size", 2**32 - 2), "size", "unpacks to 4.29 GB; "),
    "too many entries": (many_entries, "size", "has 200,001 entries; 200,000 are allowed"),
    "code in an entry point": (
        lambda folder: make_wheel(folder, entry_points="[console_scripts]\nx = os:system('id')\n"),
        "entry-points",
        "which is not name = module:function",
    ),
    "a path as the name of a script": (
        lambda folder: make_wheel(folder, entry_points="[console_scripts]\n../../x = demo:main\n"),
        "entry-points",
        "which is not name = module:function",
    ),
    "a keyword as a module": (
        lambda folder: make_wheel(folder, entry_points="[gui_scripts]\nx = demo.:main\n"),
        "entry-points",
        "which is not name = module:function",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_crafted_wheel_is_refused(tmp_path: Path, case: str) -> None:
    make, rule, sentence = REFUSED[case]
    make(tmp_path / "wheels")
    answer = unpack(tmp_path / "wheels", tmp_path / "tree")
    assert "problem" in answer, answer
    assert answer["problem"]["rule"] == rule
    assert sentence in answer["problem"]["message"]
    assert answer["problem"]["message"].isprintable()
    assert answer["problem"]["message"].endswith(".")
    assert (tmp_path / "wheels" / answer["problem"]["wheel"]).exists()
    # Nothing is outside the target, whatever was written before the fault was found.
    assert {path.name for path in tmp_path.iterdir()} <= {"wheels", "tree"}


def test_the_same_wheel_without_its_fault_is_installed(tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", entries=[entry("demo/other.py", b"x", stat.S_IFREG | 0o644), entry("demo/")])
    assert "packages" in unpack(tmp_path / "wheels", tmp_path / "tree")


def test_signatures_need_no_hash(tmp_path: Path) -> None:
    names = [f"demo-1.0.dist-info/RECORD.{kind}" for kind in ("jws", "p7s")]
    make_wheel(
        tmp_path / "wheels",
        entries=[entry(name, b"signature") for name in names],
        record=without_record_of("RECORD."),
    )
    assert "packages" in unpack(tmp_path / "wheels", tmp_path / "tree")


def test_zipfile_itself_would_take_the_duplicate(tmp_path: Path) -> None:
    """Show that the rule about names is what refuses it."""
    path = make_wheel(tmp_path, entries=[entry("demo/__init__.py", b"x")])
    with warnings.catch_warnings(), zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
