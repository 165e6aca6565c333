"""Mounts on a server: only folders that the operator allows, and only the very folder that was checked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import cloche
from cloche.errors import ClocheError, InvalidRun, Refused
from cloche.model.files import Mount
from cloche.policy.mounts import allowed_mounts

TARGET = "/sandbox/data/in"
READ = f"print(open('{TARGET}/name').read())"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An allowed folder with two folders in it, and a secret one beside it; each has a file with its name."""
    for name in ("allowed/one", "allowed/two", "secret"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "name").write_text(name)
    return tmp_path


def checked(folder: Path, source: str) -> Mount:
    return allowed_mounts([Mount(str(folder / source), TARGET)], [str(folder / "allowed")])[0]


@pytest.mark.parametrize("source", ["secret", "allowed/../secret", "", "allowed/out", "allowed/out/below"])
def test_a_folder_outside_is_refused(folder: Path, source: str) -> None:
    (folder / "allowed" / "out").symlink_to(folder / "secret")
    with pytest.raises(Refused, match="may not be mounted"):
        checked(folder, source)


def test_a_folder_beside_with_the_same_beginning_is_refused(folder: Path) -> None:
    (folder / "allowed-not").mkdir()
    with pytest.raises(Refused):
        checked(folder, "allowed-not")


def test_nothing_may_be_mounted_where_the_operator_allows_nothing(folder: Path) -> None:
    with pytest.raises(Refused):
        allowed_mounts([Mount(str(folder / "allowed"), TARGET)], [])


def test_a_link_that_stays_inside_leads_to_its_folder(folder: Path) -> None:
    (folder / "allowed" / "current").symlink_to("one")
    assert checked(folder, "allowed/current").source == str(folder / "allowed" / "one")


def test_a_missing_folder_is_named(folder: Path) -> None:
    with pytest.raises(InvalidRun, match="cannot be mounted"):
        checked(folder, "allowed/missing")


def swap(folder: Path, replacement: str) -> None:
    """Put something else where `allowed/one` was, as a sandbox that may write to `allowed` can."""
    os.rename(folder / "allowed" / "one", folder / "allowed" / "was")
    if replacement == "link":
        (folder / "allowed" / "one").symlink_to(folder / "secret")
    else:
        os.rename(folder / "allowed" / "two", folder / "allowed" / "one")


@pytest.mark.usefixtures("jail")
@pytest.mark.parametrize("replacement", ["link", "folder"])
def test_a_folder_that_was_swapped_after_the_check_is_not_mounted(folder: Path, replacement: str) -> None:
    mount = checked(folder, "allowed/one")
    assert cloche.run(READ, mounts=[mount]).stdout == "allowed/one\n"
    swap(folder, replacement)
    with pytest.raises(ClocheError, match=r"one|links|changed|checked"):
        cloche.run(READ, mounts=[mount])


@pytest.mark.usefixtures("jail")
def test_without_the_identity_the_swapped_folder_would_be_mounted(folder: Path) -> None:
    mount = checked(folder, "allowed/one").replace(identity=None)
    swap(folder, "link")
    assert cloche.run(READ, mounts=[mount]).stdout == "secret\n"
