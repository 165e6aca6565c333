"""Archives for builds: kept by owner and hash, within bounds, for a while."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cloche.errors import InvalidRun, SandboxFailed
from cloche.policy.caller import Caller
from cloche.service import archives as module
from cloche.service.archives import Archives

ADA, EVE = (Caller(f"key_{owner}", owner, frozenset(("run",))) for owner in ("ada", "eve"))
NAME, OTHER, THIRD = "a" * 64, "b" * 64, "c" * 64


@pytest.fixture
def archives(tmp_path: Path) -> Archives:
    return Archives(tmp_path / "archives")


async def pieces(*contents: bytes) -> AsyncIterator[bytes]:
    for content in contents:
        yield content


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "archives").rglob("*") if path.is_file())


async def test_an_archive_is_its_owners_alone(archives: Archives) -> None:
    await archives.keep(ADA, NAME, pieces(b"one", b"two"))
    assert await archives.has(ADA, NAME)
    assert bytes(await archives.read(ADA, NAME) or b"-") == b"onetwo"
    assert not await archives.has(EVE, NAME)
    assert await archives.read(EVE, NAME) is None
    await archives.keep(ADA, OTHER, pieces(b""))
    assert bytes(await archives.read(ADA, OTHER) or b"") == b""


async def test_a_view_outlives_its_file(archives: Archives, tmp_path: Path) -> None:
    await archives.keep(ADA, NAME, pieces(b"before"))
    view = await archives.read(ADA, NAME)
    await archives.keep(ADA, NAME, pieces(b"after!"))
    assert view is not None
    assert bytes(view) == b"before"


async def test_a_problem_of_the_disk_is_reported(archives: Archives, tmp_path: Path) -> None:
    (tmp_path / "archives").write_text("in the way")
    with pytest.raises(SandboxFailed, match="could not be kept"):
        await archives.keep(ADA, NAME, pieces(b"x"))


async def test_a_broken_or_large_upload_leaves_nothing(
    archives: Archives, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaking() -> AsyncIterator[bytes]:
        yield b"half"
        raise EOFError

    with pytest.raises(EOFError):
        await archives.keep(ADA, NAME, breaking())
    monkeypatch.setattr(module, "MAX_BYTES", 10)
    with pytest.raises(InvalidRun, match="at most"):
        await archives.keep(ADA, NAME, pieces(b"12345", b"67890", b"1"))
    assert files(tmp_path) == []


async def test_the_oldest_archives_make_room(
    archives: Archives, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    for age, name in ((300, NAME), (200, OTHER)):
        await archives.keep(ADA, name, pieces(b"12345"))
        path = next((tmp_path / "archives").rglob(name))
        os.utime(path, (path.stat().st_atime - age, path.stat().st_mtime - age))
    await archives.keep(EVE, NAME, pieces(b"12345"))
    await archives.keep(ADA, THIRD, pieces(b"12345"))
    assert not await archives.has(ADA, NAME)
    assert await archives.has(ADA, OTHER)
    assert await archives.has(EVE, NAME)


async def test_old_archives_are_removed_unless_they_are_used(archives: Archives, tmp_path: Path) -> None:
    for name in (NAME, OTHER):
        await archives.keep(ADA, name, pieces(b"x"))
        os.utime(next((tmp_path / "archives").rglob(name)), (1, 1))
    assert await archives.has(ADA, OTHER)
    await archives.remove_old()
    assert files(tmp_path) == [OTHER]
    os.utime(next((tmp_path / "archives").rglob(OTHER)), (1, 1))
    await archives.remove_old()
    assert list((tmp_path / "archives").iterdir()) == []


@pytest.mark.parametrize("name", ["", "../x", "a/b", "ä", "."])
async def test_a_name_is_no_path(archives: Archives, name: str) -> None:
    with pytest.raises(InvalidRun):
        await archives.has(ADA, name)
