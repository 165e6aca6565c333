"""What the attacks share: a sandbox, the same with one wall taken down, and no wall at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import cloche
from cloche import settings
from cloche.blocking.walls.jail.wall import Jail
from cloche.languages.host_folders import visible_folders
from cloche.settings import Settings
from cloche.walls.jail.nursery_client import Nurseries


@dataclass
class Attack:
    """Runs a program that tells on standard output what it got."""

    jails: dict[frozenset[str], tuple[Nurseries, Jail]]

    def jail(self, *without: str) -> Jail:
        """A jail that lacks the named walls."""
        names = frozenset(without)
        if names not in self.jails:
            chosen = Settings(settings.load().environment, pool=0, warm=False)
            nurseries = Nurseries(chosen, names, visible_folders)
            self.jails[names] = nurseries, Jail(nurseries)
        return self.jails[names][1]

    def __call__(
        self, code: str, *without: str, language: str = "python", files: dict[str, bytes] | None = None
    ) -> str:
        """What the program prints in a sandbox, with or without some of the walls."""
        wall = self.jail(*without) if without else None
        result = cloche.run(code, language=language, files=files, wall=wall, timeout=20)
        assert result.error is None, (result.error, result.stderr[-2000:])
        return result.stdout.strip()

    @staticmethod
    def bare(code: str, **options: object) -> str:
        """What it prints as an ordinary process of this host."""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=20, check=True, **options)  # type: ignore[call-overload]
        return str(done.stdout.decode().strip())


@pytest.fixture(scope="session")
def attack() -> Iterator[Attack]:
    attack = Attack({})
    yield attack
    for nurseries, _ in attack.jails.values():
        nurseries.close()


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], bytes]:
    """A C program as a static binary."""
    if not shutil.which("gcc"):
        (pytest.fail if os.environ.get("CI") else pytest.skip)("needs gcc on the host")
    folder = tmp_path_factory.mktemp("c")

    def build(source: str) -> bytes:
        (folder / "main.c").write_text(source)
        subprocess.run(
            ["gcc", "-O1", "-w", "-static", "-pthread", "-o", folder / "main", folder / "main.c"],
            check=True,
            timeout=60,
        )
        return (folder / "main").read_bytes()

    return build


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A file on the host."""
    path = tmp_path / "secret.txt"
    path.write_text("a secret of the host")
    path.chmod(0o644)
    return path
