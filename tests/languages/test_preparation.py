"""Prepared files stay as long as their toolchain."""

from __future__ import annotations

from fcntl import LOCK_EX, flock
from pathlib import Path

import pytest

from cloche.languages import preparation
from cloche.languages.language import Language, Preparation
from cloche.languages.toolchain import FoundTools


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "prepared"
    monkeypatch.setattr(preparation, "location", lambda: str(place))
    return place


def language(version: int = 1) -> Language:
    def make(_: FoundTools, into: str) -> None:
        Path(into, "library").write_text("x")

    return Language("quine", "Quine", "main.q", (".q",), preparation=Preparation("a library", make, version))


def toolchain(path: Path, text: str) -> FoundTools:
    path.write_text(text)
    return FoundTools({"quine": str(path)}, on_host=str(path))


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_was_made_for_an_older_toolchain_goes_with_it(folder: Path, tmp_path: Path) -> None:
    old = toolchain(tmp_path / "quine", "1.0")
    preparation.prepare(language(), old)
    (before, _) = kept(folder)
    new = toolchain(tmp_path / "quine", "1.0.1")
    preparation.prepare(language(), new)
    assert before in kept(folder)
    preparation.remove_outdated(language(), new)
    assert len(kept(folder)) == 2
    assert before not in kept(folder)
    assert preparation.with_prepared(language(), new).prepared is not None


def test_what_was_made_in_another_way_goes(folder: Path, tmp_path: Path) -> None:
    found = toolchain(tmp_path / "quine", "1.0")
    preparation.prepare(language(1), found)
    preparation.prepare(language(2), found)
    preparation.remove_outdated(language(2), found)
    assert [name[:8] for name in kept(folder)] == ["quine-2-", "quine-2-"]


def test_what_others_use_or_make_stays(folder: Path, tmp_path: Path) -> None:
    mine, other = toolchain(tmp_path / "quine", "1.0"), toolchain(tmp_path / "other", "2.0")
    preparation.prepare(language(), mine)
    preparation.prepare(language(), other)
    (folder / "seen").touch()
    (folder / "quine_again-1-0123456789ab").mkdir()
    unfinished = folder / "quine-1-0123456789ab"
    unfinished.mkdir()
    before = kept(folder)
    with open(f"{unfinished}.lock", "w") as lock:
        flock(lock, LOCK_EX)
        preparation.remove_outdated(language(), mine)
    assert [name for name in kept(folder) if not name.endswith("89ab.lock")] == before
    preparation.remove_outdated(language(), mine)
    assert not unfinished.exists()
