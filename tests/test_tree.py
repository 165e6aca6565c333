"""Each package names its tests, and each folder of tests belongs to a package."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import cloche

ROOT = Path(__file__).parents[1]
SOURCE = Path(cloche.__file__).parent
GENERATED = "blocking"  # its tests are those of the packages that it is generated from
PACKAGES = sorted(file.parent for file in SOURCE.glob("*/__init__.py") if file.parent.name != GENERATED)
# Folders of tests about all of Cloche.
CROSS_CUTTING = {"contract", "corpora", "escape", "fuzz", "host", "limits", "web"}


def named_tests(package: Path) -> list[str]:
    """Return the paths on the line `Tests: tests/…, tests/…` of a package's docstring."""
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    line = re.search(r"^Tests: (.+)$", docstring, re.MULTILINE)
    return [] if line is None else [path.strip(" `.") for path in line[1].split(",")]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_package_names_its_tests(package: Path) -> None:
    assert named_tests(package), f"the docstring of {package.name}/__init__.py lacks a line 'Tests: tests/…'"


def test_the_tests_that_packages_name_exist() -> None:
    packages = {file.parent for file in SOURCE.rglob("__init__.py")}
    named = {path for package in packages for path in named_tests(package)}
    assert [path for path in sorted(named) if not path.startswith("tests/") or not (ROOT / path).exists()] == []


def test_every_folder_of_tests_belongs_to_a_package_or_to_all() -> None:
    packages = {file.parent for file in SOURCE.rglob("__init__.py")}
    named = {Path(path).parts[1] for package in packages for path in named_tests(package)}
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert folders - named - CROSS_CUTTING == set()
    assert folders >= CROSS_CUTTING
