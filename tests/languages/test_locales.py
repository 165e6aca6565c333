"""Locales that are compiled once, or stand for C.UTF-8."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from cloche.languages import locales, preparation


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(preparation, "location", lambda: str(tmp_path))
    monkeypatch.setattr(locales, "_NAMES", ("de_DE",))
    return tmp_path / "locales"


def test_without_sources_a_locale_is_still_accepted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locales, "_SOURCES", "/nonexistent")
    said: list[str] = []
    locales.prepare(said.append)
    assert os.readlink(folder / "de_DE.utf8") == "/usr/lib/locale/C.utf8"
    locales.prepare(said.append)  # it is there by now
    assert len(said) == 1


def test_with_sources_a_locale_is_compiled(folder: Path) -> None:
    if shutil.which("localedef") is None or not os.path.exists("/usr/share/i18n/locales/de_DE"):
        pytest.skip("the host has no sources of locales")
    locales.prepare()
    assert "€" in (folder / "de_DE.utf8" / "LC_MONETARY").read_text("utf-8", "replace")
