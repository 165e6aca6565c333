"""Takes the registries of tests away: each tool is told an address of loopback where nobody listens."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from shutil import which

import pytest

from cloche.packages import indexes

NOBODY = "http://127.0.0.1:9"
MISSING = "is not installed on this host"


def needs(*programs: str) -> None:
    """Skip the tests of a tool that this host lacks; on CI they fail."""
    for program in programs:
        if which(program) is None:
            if os.environ.get("CI"):
                pytest.fail(f"{program} {MISSING}")
            pytest.skip(f"{program} {MISSING}")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for layers and downloads."""
    monkeypatch.setenv("CLOCHE_PACKAGES_FOLDER", str(tmp_path / "packages"))
    return tmp_path / "packages"


@pytest.fixture
def unplug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Take all registries away."""

    def unplugged() -> None:
        cargo, maven = tmp_path / "cargo", tmp_path / "maven"
        cargo.mkdir()
        settings = f'[source.crates-io]\nreplace-with = "gone"\n[source.gone]\nregistry = "sparse+{NOBODY}/"\n'
        (cargo / "config.toml").write_text(settings)
        (maven / "conf").mkdir(parents=True)
        mirror = f"<mirror><mirrorOf>*</mirrorOf><url>{NOBODY}</url></mirror>"
        (maven / "conf" / "settings.xml").write_text(f"<settings><mirrors>{mirror}</mirrors></settings>")
        monkeypatch.setenv("CARGO_HOME", str(cargo))
        monkeypatch.setenv("MAVEN_HOME", str(maven))
        monkeypatch.setenv("GOPROXY", NOBODY)
        monkeypatch.setattr(indexes, "_found", None)

    monkeypatch.setattr(indexes, "_found", None)  # and restore the knowledge of other tests at the end
    return unplugged


def layers(folder: Path) -> list[str]:
    """The names of the layers that are kept."""
    return sorted(path.name for path in (folder / "store" / "layers").glob("*"))
