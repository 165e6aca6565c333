"""The catalogue of malicious packages: what its entries mean, and what broken and hostile files do to it."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from cloche.errors import InvalidRun, Misconfigured
from cloche.model.packages import Lock, LockedFile, LockedPackage
from cloche.packages import osv_files
from cloche.packages.catalogue import FILE, Catalogue, audit, update

NOW = 1_800_000_000.0


def entry(
    number: int, name: str = "invented", ecosystem: str = "PyPI", kind: str = "MAL", **affected: Any
) -> dict[str, Any]:
    package = {"ecosystem": ecosystem, "name": name}
    return {
        "id": f"{kind}-2026-{number}",
        "summary": f"{name} is harmful",
        "affected": [{"package": package, **affected}],
    }


def events(*pairs: tuple[str, str], kind: str = "SEMVER") -> list[dict[str, Any]]:
    return [{"type": kind, "events": [{name: version} for name, version in pairs]}]


def written(path: Path, *found: Any) -> Path:
    path.write_text(json.dumps(list(found)))
    return path


def made(folder: Path, *found: Any) -> Catalogue:
    update(written(folder / "entries.json", *found), folder / "data", NOW)
    return Catalogue(folder / "data")


@pytest.mark.parametrize(
    ("affected", "malicious", "harmless"),
    [
        ({}, ["1.0", "99"], []),
        ({"versions": ["1.0", "1.1"]}, ["1.0", "1.0.0", "1.1"], ["1.2"]),
        ({"ranges": events(("introduced", "0"))}, ["0.0.1", "strange"], []),
        ({"ranges": events(("introduced", "1.0"), ("fixed", "1.5"))}, ["1.0", "1.4.9"], ["0.9", "1.5", "2"]),
        ({"ranges": events(("introduced", "1.0"), ("last_affected", "1.5"))}, ["1.5"], ["1.6", "0.9"]),
        (
            {"ranges": events(("fixed", "1.5"), ("introduced", "1.0"), ("introduced", "3.0"), kind="ECOSYSTEM")},
            ["1.1", "3.0", "4"],
            ["2.0"],
        ),
        ({"ranges": events(("introduced", "2")), "versions": ["1.0"]}, ["1.0", "2.1"], ["1.5"]),
        ({"versions": ["1.0"], "ranges": events(("introduced", "abc"), kind="GIT")}, ["1.0"], ["2.0"]),
    ],
)
def test_which_versions_are_malicious(
    tmp_path: Path, affected: dict[str, Any], malicious: list[str], harmless: list[str]
) -> None:
    catalogue = made(tmp_path, entry(1, "In_Vented", **affected))
    for version in malicious:
        found = catalogue.malicious("python", "in-vented", version)
        assert found is not None, version
        assert (found.id, found.summary) == ("MAL-2026-1", "In_Vented is harmful")
    assert [version for version in harmless if catalogue.malicious("python", "in-vented", version)] == []
    assert catalogue.malicious("javascript", "in-vented", malicious[0]) is None


def test_npm_is_compared_as_npm_does(tmp_path: Path) -> None:
    ranges = events(("introduced", "1.0.0-rc.1"), ("fixed", "1.0.1"))
    catalogue = made(tmp_path, entry(1, "@bad/x", "npm", ranges=ranges))
    assert catalogue.malicious("javascript", "@bad/x", "1.0.0-rc.2") is not None
    assert catalogue.malicious("javascript", "@bad/x", "1.0.0-beta") is None


def test_advisories_warn_and_do_not_block(tmp_path: Path) -> None:
    weak = entry(7, "weak", kind="GHSA", ranges=events(("introduced", "0"), ("fixed", "2.0")))
    withdrawn = {**entry(8, "weak"), "withdrawn": "2026-01-01T00:00:00Z"}
    catalogue = made(tmp_path, weak, withdrawn, entry(9, "bad"), entry(10, "x", "Hex"), {"id": "MAL-0"})
    assert catalogue.malicious("python", "weak", "1.0") is None
    file = LockedFile("f", "url", "sha256:0")
    lock = Lock("python", tuple(LockedPackage("python", name, "1.0", file) for name in ("fine", "weak", "bad")))
    found = audit(lock, catalogue)
    assert [(each.package.name, each.advisory.id) for each in found] == [("bad", "MAL-2026-9"), ("weak", "GHSA-2026-7")]


def test_a_catalogue_knows_its_age_and_is_replaced_while_it_is_read(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path / "data")
    alone = catalogue.state()
    assert (alone.made, alone.age_days(NOW)) == (None, None)
    assert alone.malicious > 50  # what comes with Cloche
    update(written(tmp_path / "one.json", entry(1, "first")), tmp_path / "data", NOW - 3 * 86_400)
    assert catalogue.malicious("python", "first", "1") is not None
    assert catalogue.state().age_days(NOW) == 3
    update(written(tmp_path / "two.json", entry(2, "second")), tmp_path / "data", NOW)
    assert catalogue.malicious("python", "first", "1") is None
    assert catalogue.malicious("python", "second", "1") is not None
    assert catalogue.state().malicious == alone.malicious + 1
    os.unlink(tmp_path / "data" / FILE)
    assert catalogue.state() == alone
    catalogue.close()


def test_every_form_of_a_catalogue_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "npm" / "deep").mkdir(parents=True)
    (folder / "npm" / "deep" / "one.json").write_text(json.dumps(entry(1, "one", "npm"), indent=2))
    (folder / "lines.jsonl").write_text("\n".join(json.dumps(entry(n, f"line{n}")) for n in (2, 3)))
    (folder / "notes.txt").write_text("not an entry")
    with zipfile.ZipFile(folder / "all.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("MAL-4.json", json.dumps(entry(4, "zipped")))
        archive.writestr("readme.md", "not an entry")
    (folder / "link.json").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe.json")
    state = update(folder, tmp_path / "data", NOW)
    assert (state.malicious, state.others) == (4, 0)
    catalogue = Catalogue(tmp_path / "data")
    names = [("javascript", "one"), ("python", "line2"), ("python", "line3"), ("python", "zipped")]
    assert all(catalogue.malicious(*name, "1.0") for name in names)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is not JSON"),
        (b"", "is not JSON"),
        (b"[]", "has no entry"),
        (b"[1]", "entry 1 is not an entry in OSV's format: it has no id"),
        (b"\xff\xfe{}", "is not JSON"),
        (b"[" * 100_000, "nested too deeply|is not JSON"),
        (b'{"id": "MAL-1"}\n{"id": ', "line 2 is not JSON"),
        (b'{"id": "MAL-1", "affected": 3}', "affected is not a list"),
        (b'{"id": "MAL-1", "affected": [{"package": {}}]}', "a package has no name"),
        (b'{"id": "MAL-1", "affected": [3]}', "a package has no name"),
        (json.dumps(entry(1, versions=[1])).encode(), "a version is not a text"),
        (json.dumps(entry(1, ranges=[1])).encode(), "a range is not a table"),
        (json.dumps(entry(1, ranges=[{"type": "SEMVER", "events": [{"fixed": 1}]}])).encode(), "an event is not"),
        (json.dumps(entry(1, versions=["1"] * 50_001)).encode(), "versions is not a list of at most"),
        (b"PK\x03\x04 and nothing more", "cannot be read"),
        (b"1" * 10_000, "is not JSON"),
    ],
)
def test_a_broken_file_changes_nothing(tmp_path: Path, content: bytes, message: str) -> None:
    before = made(tmp_path, entry(1, "known"))
    (tmp_path / "broken.json").write_bytes(content)
    with pytest.raises(InvalidRun, match=message):
        update(tmp_path / "broken.json", tmp_path / "data", NOW)
    assert before.malicious("python", "known", "1") is not None
    assert os.listdir(tmp_path / "data") == [FILE]


def test_one_broken_entry_of_a_zip_is_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("fine.json", json.dumps(entry(1)))
        archive.writestr("broken.json", "{")
    with pytest.raises(InvalidRun, match=r"all\.zip: broken\.json is not JSON"):
        update(tmp_path / "all.zip", tmp_path / "data", NOW)


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.json", b" " * (64 << 20))
    with pytest.raises(InvalidRun, match="packed more than 200 times"):
        update(tmp_path / "bomb.zip", tmp_path / "data", NOW)


def test_a_zip_that_lies_about_sizes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "liar.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.json", b" " * (64 << 20))
    size = (64 << 20).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(size, (1000).to_bytes(4, "little")))
    with pytest.raises(InvalidRun, match=r"cannot be read|is not JSON|more than"):
        update(path, tmp_path / "data", NOW)


def test_a_zip_with_an_endless_list_of_names_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "names.zip", "w") as archive:
        archive.writestr("a.json", "{}")
    content = bytearray((tmp_path / "names.zip").read_bytes())
    content[-10:-6] = (600 << 20).to_bytes(4, "little")  # how long the list says it is
    (tmp_path / "names.zip").write_bytes(content)
    with pytest.raises(InvalidRun, match="list of names of 600 MB"):
        update(tmp_path / "names.zip", tmp_path / "data", NOW)


def test_bounds_on_numbers_and_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = written(tmp_path / "entries.json", *(entry(n) for n in range(5)))
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for n in range(5):
            archive.writestr(f"{n}.json", json.dumps(entry(n)))
    monkeypatch.setattr(osv_files, "MAX_ENTRIES", 4)
    for path, message in ((source, "more than 4 entries"), (tmp_path / "all.zip", "has 5 files")):
        with pytest.raises(InvalidRun, match=message):
            update(path, tmp_path / "data", NOW)
    monkeypatch.setattr(osv_files, "MAX_ENTRIES", 5)
    monkeypatch.setattr(osv_files, "MAX_UNPACKED", 500)
    with pytest.raises(InvalidRun, match="of entries"):
        update(tmp_path / "all.zip", tmp_path / "data", NOW)
    monkeypatch.setattr(osv_files, "MAX_FILE", 100)
    with pytest.raises(InvalidRun, match="can have at most"):
        update(source, tmp_path / "data", NOW)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path / "missing", Path("/dev/zero"), tmp_path):
        with pytest.raises(InvalidRun, match=r"is not a file|cannot be read|has no entry"):
            update(path, tmp_path / "data", NOW)


def test_a_damaged_catalogue_calls_nothing_harmless(tmp_path: Path) -> None:
    catalogue = made(tmp_path, entry(1))
    (tmp_path / "data" / FILE).write_bytes(b"x" * 8192)
    with pytest.raises(Misconfigured, match="cannot be read"):
        catalogue.malicious("python", "anything", "1.0")


def test_two_hundred_packages_are_looked_up_at_once(tmp_path: Path) -> None:
    import time

    with open(tmp_path / "many.jsonl", "w") as file:
        for n in range(50_000):
            file.write(json.dumps(entry(n, f"package-{n}", "npm")) + "\n")
    update(tmp_path / "many.jsonl", tmp_path / "data", NOW)
    catalogue = Catalogue(tmp_path / "data")
    begin = time.perf_counter()
    for n in range(200):
        assert (catalogue.malicious("javascript", f"package-{n * 333}", "1.0.0") is None) == (n * 333 >= 50_000)
    assert time.perf_counter() - begin < 0.5
