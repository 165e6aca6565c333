"""The shortcuts of a cold `cloche run` (bundled modules, a start without `site`) must not change its behaviour."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cloche

SOURCE = Path(cloche.__file__).parent
BY_ITSELF = {"cloche", "cloche.bundles", "cloche.cli", "cloche.cli.main"}  # before there can be a bundle


def python(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the package in a folder."""
    return subprocess.run(
        [sys.executable, *words],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(folder), **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, with bundles."""
    folder = tmp_path_factory.mktemp("bundled")
    shutil.copytree(SOURCE, folder / "cloche", ignore=shutil.ignore_patterns("__pycache__", "built"))
    python(folder, "-m", "cloche.bundles")
    return folder


def test_a_cold_run_finds_all_its_modules_in_bundles(jail: None, bundled: Path) -> None:
    run = "from cloche.cli.main import main; main(['run', '-c', 'print(1)'])"

    done = python(bundled, "-X", "importtime", "-c", run, CLOCHE_DEBUG="1")  # the keeper tells, too

    assert done.stdout == "1\n"
    imported = set(re.findall(r"\| +(cloche[\w.]*)$", done.stderr, re.MULTILINE))
    assert imported == BY_ITSELF


def test_a_nursery_finds_all_its_modules_in_its_bundle(bundled: Path) -> None:
    load = "import sys; from cloche import bundles; bundles.load('nursery'); before = set(sys.modules)"

    look = "import cloche.walls.jail.nursery_main; print(sorted(set(sys.modules) - before))"
    done = python(bundled, "-c", f"{load}\n{look}")

    assert done.stdout == "[]\n"


def test_modules_in_a_bundle_are_as_they_would_be_if_imported(bundled: Path) -> None:
    tell = """
for name in ("cloche.walls.jail", "cloche.walls.jail.root"):
    module = __import__(name, fromlist=["root"])
    spec = module.__spec__
    print(name, module.__file__, module.__package__, getattr(module, "__path__", None), spec.origin, spec.parent)
    print(type(spec.loader), spec.loader.name, spec.submodule_search_locations, module.__doc__)
print(module.build.__code__.co_filename, module.linux.mount.__code__.co_filename)
"""

    usual = python(bundled, "-c", tell).stdout
    loaded = python(bundled, "-c", f"from cloche import bundles; bundles.load('start')\n{tell}").stdout

    assert str(bundled) in usual
    assert loaded == usual


def test_a_source_that_has_changed_is_not_taken_from_a_bundle(bundled: Path, tmp_path: Path) -> None:
    shutil.copytree(bundled, tmp_path, dirs_exist_ok=True)  # with the same dates
    changed = tmp_path / "cloche" / "walls" / "jail" / "programs.py"
    changed.write_text(changed.read_text() + "CHANGED = 1\n")
    (tmp_path / "cloche" / "errors.py").unlink()
    load = "import sys; from cloche import bundles; bundles.load('start'); print('cloche.errors' in sys.modules)"

    done = python(tmp_path, "-c", f"{load}\nfrom cloche.walls.jail import linux, programs; print(programs.CHANGED)")

    assert done.stdout == "False\n1\n"


@pytest.mark.parametrize("damage", [b"", b"not a bundle"])
def test_a_damaged_bundle_is_no_bundle(bundled: Path, tmp_path: Path, damage: bytes) -> None:
    shutil.copytree(bundled, tmp_path, dirs_exist_ok=True)
    (bundle,) = (tmp_path / "cloche" / "__pycache__").glob("start.*")
    bundle.write_bytes(damage)

    done = python(
        tmp_path, "-c", "from cloche import bundles; bundles.load('start'); import cloche.settings as s; print(s)"
    )

    assert "cloche/settings.py" in done.stdout


@pytest.mark.parametrize(("words", "expected"), [(["run", "--help"], "--timeout"), (["--version"], cloche.__version__)])
def test_packages_are_found_after_a_start_without_site(words: list[str], expected: str) -> None:
    run = f"from cloche.cli.main import main; main({words})"

    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[0] = {str(SOURCE.parent)!r}\n{run}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert expected in done.stdout, done.stderr
