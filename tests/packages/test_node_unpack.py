"""Files of Node packages, and lists of them: crafted ones are refused by rule, and nothing lies outside its place."""

from __future__ import annotations

import io
import json
import os
import tarfile
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cloche.errors import ClocheError
from cloche.packages import node_lock
from cloche.packages.npm_configuration import NpmConfiguration
from cloche.packages.policy import PackagePolicy
from cloche.packages.unpack_node import Problem, unpack

MOST = 1 << 20
MANIFEST = json.dumps({"name": "demo", "version": "1.0.0", "bin": {"demo": "./cli.js"}}).encode()
GOOD = (("package/package.json", MANIFEST), ("package/cli.js", b"#!/usr/bin/env node\r\n1\r\n"))


def tarball(folder: Path, *entries: tuple[str, bytes] | tarfile.TarInfo, name: str = "0.tgz") -> None:
    folder.mkdir(exist_ok=True)
    with tarfile.open(folder / name, "w:gz") as archive:
        for each in entries:
            if isinstance(each, tarfile.TarInfo):
                archive.addfile(each)
            else:
                info = tarfile.TarInfo(each[0])
                info.size = len(each[1])
                archive.addfile(info, io.BytesIO(each[1]))


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def unpacked(folder: Path, most: int = MOST, *places: str, version: str = "1.0.0") -> list[dict[str, Any]]:
    order = [{"name": "demo", "version": version, "places": places or ["node_modules/demo"]}]
    return unpack(order, str(folder / "files"), str(folder / "tree"), most)


def test_a_package_lies_in_all_its_places_and_its_programs_can_be_run(tmp_path: Path) -> None:
    tarball(tmp_path / "files", *GOOD)
    (found,) = unpacked(tmp_path, MOST, "node_modules/demo", "node_modules/a/node_modules/demo")
    assert (found["bins"], found["files"]) == ({"demo": "cli.js"}, 2)
    for place in found["places"]:
        program = tmp_path / "tree" / place / "cli.js"
        assert os.access(program, os.X_OK)
        assert program.read_bytes() == b"#!/usr/bin/env node\n1\r\n"  # the kernel would look for "node\r"


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        ([("/etc/passwd", b"x")], "the absolute path /etc/passwd"),
        ([("package/../../../evil", b"x")], "leads out of its folder"),
        ([("../evil", b"x")], "leads out of its folder"),
        ([special("package/link", tarfile.SYMTYPE, "/etc/passwd")], "contains a link, package/link"),
        ([special("package/hard", tarfile.LNKTYPE, "package/package.json")], "contains a hard link"),
        ([special("package/pipe", tarfile.FIFOTYPE)], "contains a pipe"),
        ([special("package/null", tarfile.CHRTYPE)], "contains a device"),
        ([special("package/disk", tarfile.BLKTYPE)], "contains a device"),
        ([("package/a", b"1"), ("package/a", b"2")], "contains a twice"),
        ([("package/Lib/a", b"1"), ("package/lib/b", b"2")], "differs from Lib only in capital letters"),
        ([("package/a", b"1"), ("package/a/b", b"2")], "a file and a folder"),
        ([("package/a\nb", b"1")], "signs that it may not have"),
        ([("package/a\\..\\b", b"1")], "signs that it may not have"),
        ([("package/a\x1b[31m", b"1")], "signs that it may not have"),
        ([("package", b"1")], "in place of its folder"),
        ([("package/" + "d/" * 60 + "a", b"1")], "a path is too long"),
        ([("package/" + "n" * 300, b"1")], "a path is too long"),
        ([("package/zeros", bytes(3 * MOST))], "unpack to more than 1 MB"),
        ([("package/node_modules/other/index.js", b"evil")], "in the folder of another package"),
    ],
)
def test_a_crafted_file_is_refused(tmp_path: Path, entries: list[Any], sentence: str) -> None:
    tarball(tmp_path / "files", *GOOD, *entries)
    order = [
        {"name": "demo", "version": "1.0.0", "places": ["node_modules/demo"]},
        {"name": "other", "version": "1.0.0", "places": ["node_modules/demo/node_modules/other"]},
    ]
    with pytest.raises(Problem) as refused:
        unpack(order, str(tmp_path / "files"), str(tmp_path / "tree"), MOST)
    assert refused.value.package == "demo 1.0.0"
    assert sentence in refused.value.message
    assert {each.name for each in tmp_path.iterdir()} <= {"files", "tree"}
    assert not any(each.is_symlink() for each in tmp_path.rglob("*"))


def spoiled(data: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        tarball(folder, *GOOD, ("package/noise", os.urandom(5000)))
        (folder / "0.tgz").write_bytes(data((folder / "0.tgz").read_bytes()))

    return make


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (spoiled(lambda data: data[: len(data) // 2]), "damaged"),
        (spoiled(lambda data: data[:1000] + bytes(200) + data[1200:]), "damaged"),
        (spoiled(lambda _: b"not gzip at all"), "damaged"),
        (spoiled(lambda _: b""), "damaged"),
        (lambda folder: tarball(folder, ("package/index.js", b"1")), "no package.json"),
        (lambda folder: tarball(folder, ("package/package.json", b"[]")), "is no table"),
        (lambda folder: tarball(folder, ("package/package.json", b"[" * 100_000)), "no package.json"),
        (lambda folder: tarball(folder, ("package/package.json", b'{"name": "evil", "version": "1.0.0"}')), "evil"),
        (lambda folder: tarball(folder, ("package/package.json", b'{"name": "demo", "version": "6.6.6"}')), "6.6.6"),
    ],
)
def test_a_file_that_is_not_the_package_is_refused(tmp_path: Path, make: Callable[[Path], None], sentence: str) -> None:
    make(tmp_path / "files")
    with pytest.raises(Problem) as refused:
        unpacked(tmp_path)
    assert sentence in refused.value.message


@pytest.mark.parametrize("path", ["../../../../bin/sh", "/etc/passwd", "missing.js", "..", ".", 7])
def test_a_program_is_never_a_file_outside_its_package(tmp_path: Path, path: object) -> None:
    manifest = json.dumps({"name": "demo", "version": "1.0.0", "bin": {"../../x": path, "y": path}}).encode()
    tarball(tmp_path / "files", ("package/package.json", manifest))
    assert unpacked(tmp_path)[0]["bins"] == {}


# --- lists of packages

NPM = NpmConfiguration({"": "https://registry.invalid/npm/", "@own": "https://own.invalid"})
HASH = "sha512-" + b64encode(bytes(64)).decode()


def row(**fields: object) -> dict[str, object]:
    return {"place": "node_modules/demo", "name": "demo", "version": "1.0.0", "integrity": HASH, **fields}


def test_a_list_becomes_a_lock_with_the_best_hash_and_an_address_of_the_registry() -> None:
    weak = "sha1-" + b64encode(bytes(20)).decode()
    rows = [
        row(integrity=f"{weak} {HASH}", url="https://evil.invalid/x.tgz", uploaded="2020-01-01T00:00:00.000Z"),
        row(place="node_modules/a", name="a", url="https://registry.invalid/npm/a/-/a.tgz"),
        row(place="node_modules/a/node_modules/demo", integrity=HASH),
        row(place="node_modules/@own/b", name="@own/b"),
    ]
    lock = node_lock.lock_of(rows, NPM, PackagePolicy())
    found = {each.name: each for each in lock.packages}
    assert found["demo"].place == "node_modules/a/node_modules/demo\nnode_modules/demo"
    assert found["demo"].file.hash == HASH
    assert [found[name].file.url for name in ("demo", "a", "@own/b")] == [
        "https://registry.invalid/npm/demo/-/demo-1.0.0.tgz",
        "https://registry.invalid/npm/a/-/a.tgz",
        "https://own.invalid/@own/b/-/b-1.0.0.tgz",
    ]
    moved = [{**each, "place": str(each["place"]).replace("/a/node_modules/demo", "/c")} for each in rows]
    assert node_lock.lock_of(moved, NPM, PackagePolicy()).digest != lock.digest


def test_scripts_run_only_for_packages_that_the_policy_names_and_make_another_layer() -> None:
    without = node_lock.lock_of([row(scripts=True)], NPM, PackagePolicy())
    allowed = node_lock.lock_of([row(scripts=True)], NPM, PackagePolicy(scripts=["demo"]))
    assert [each.packages[0].runs_scripts for each in (without, allowed)] == [False, True]
    assert without.digest != allowed.digest


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([row(place="../demo")], "is not in node_modules"),
        ([row(place="/node_modules/demo")], "is not in node_modules"),
        ([row(place="packages/demo")], "is not in node_modules"),
        ([row(place="node_modules/..")], "is no place for a package"),
        ([row(place="node_modules/a/../../demo")], "is no place for a package"),
        ([row(place="node_modules/.bin")], "is no place for a package"),
        ([row(place="node_modules/node_modules")], "is no place for a package"),
        ([row(place="node_modules/@a/node_modules")], "is no place for a package"),
        ([row(place="node_modules/" + "n" * 300)], "is no place for a package"),
        ([row(place="node_modules/a b")], "is no place for a package"),
        ([row(place="node_modules/a/node_modules/demo")], "lies in a package that is not in the list"),
        ([row(), row(place="node_modules/Demo")], "only in capital letters"),
        ([row(), row()], "stands twice"),
        ([row(name="../x")], "has no name"),
        ([row(name=None)], "has no name"),
        ([row(version="latest")], "has no version"),
        ([row(version=" 1.0.0")], "has no version"),
        ([row(link=True)], "is a link"),
        ([row(integrity=None)], "names no hash"),
        ([row(integrity="md5-AAAA")], "names no hash"),
        ([row(integrity="sha512-AAAA")], "names no hash"),
        ([row(integrity="sha512-!!!!")], "names no hash"),
        (["demo"], "makes no sense"),
        ([{}], "makes no sense"),
    ],
)
def test_a_crafted_list_is_refused(rows: list[object], sentence: str) -> None:
    with pytest.raises(ClocheError, match=sentence):
        node_lock.lock_of(rows, NPM, PackagePolicy())
