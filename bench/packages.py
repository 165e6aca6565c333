"""Packages: installs from layers that are there, from the index beside uv on the host, and environments of your own."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import cloche
from cloche.model.environments import EnvironmentSpec
from cloche.model.packages import requirements_of
from cloche.packages import of_this_host
from cloche.packages.broker import Broker
from cloche.packages.environments import Environments
from cloche.packages.policy import PackagePolicy

SMALL = "humanize==4.9.0"
LARGE = "polars==2.0.0"  # the environment has another version, so this one needs a layer
_IMPORT = "import polars; print(polars.__version__)"
_ENVIRONMENT = "bench"
_CELL = "x = 6 * 7; x"


class Packages:
    """A folder of packages for this benchmark, and an environment in it."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        os.environ["CLOCHE_PACKAGES_FOLDER"] = str(scratch / "packages")
        self._policy = PackagePolicy(size="1G")
        self._is_prepared = False

    def sides(self) -> dict[str, dict[str, Callable[[], list[float]]]]:
        """The contests and their sides."""
        return {
            "packages session": {"cloche": self._in_a_session},
            "packages creation": {"packages": lambda: _run([LARGE]), "none": lambda: _run(None)},
            "packages index": {"cloche": self._from_the_index, "uv": self._uv},
            "packages environment": {
                "own": lambda: self._first_cell(_ENVIRONMENT),
                "default": lambda: self._first_cell(None),
            },
        }

    def _prepare(self) -> None:
        """Build the environment once; the first sample of a side is not counted."""
        if not self._is_prepared:
            spec = EnvironmentSpec(requirements_of([SMALL], "python"), imports=("humanize",))
            Environments(of_this_host.shared()).build(_ENVIRONMENT, spec, self._policy)
            self._is_prepared = True

    def _in_a_session(self) -> list[float]:
        with cloche.Sandbox() as box:
            box.run("1")
            start = time.perf_counter()
            result = box.run(f"!pip install -q {SMALL}\nimport humanize")
            taken = time.perf_counter() - start
        assert result.error is None, result.error
        return [taken]

    def _from_the_index(self) -> list[float]:
        with TemporaryDirectory(dir=self._scratch) as folder:
            broker = Broker(f"{folder}/packages", of_this_host.shared().environment)
            start = time.perf_counter()
            broker.provide(requirements_of([LARGE], "python"), self._policy)
            return [time.perf_counter() - start]

    def _uv(self) -> list[float]:
        uv = f"{of_this_host.shared().environment}/bin/uv"
        with TemporaryDirectory(dir=self._scratch) as folder:
            start = time.perf_counter()
            subprocess.run([uv, "pip", "install", "--quiet", "--no-cache", "--target", folder, LARGE], check=True)
            return [time.perf_counter() - start]

    def _first_cell(self, environment: str | None) -> list[float]:
        if environment is not None:
            self._prepare()
        start = time.perf_counter()
        with cloche.Sandbox(environment=environment) as box:
            box.run(_CELL)
            taken = time.perf_counter() - start
        time.sleep(1.0)  # the next sandbox is prepared while nobody waits
        return [taken]


def _run(packages: list[str] | None) -> list[float]:
    start = time.perf_counter()
    result = cloche.run(_IMPORT, packages=packages)
    taken = time.perf_counter() - start
    assert result.error is None, result.error
    return [taken]
