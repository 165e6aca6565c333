"""Mounts on a server: only folders that the operator allows, and only the very folder that was checked."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.exchange import exchanging

import cloche
from cloche.errors import ClocheError, InvalidRun, Refused
from cloche.model.files import Mount
from cloche.policy.mounts import MountPolicy

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
    return policy(folder, "allowed").check([Mount(str(folder / source), TARGET)])[0]


def policy(folder: Path, *allowed: str) -> MountPolicy:
    return MountPolicy([str(folder / name) for name in allowed], folder / "data")


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
        policy(folder).check([Mount(str(folder / "allowed"), TARGET)])


def test_a_link_that_stays_inside_leads_to_its_folder(folder: Path) -> None:
    (folder / "allowed" / "current").symlink_to("one")
    assert checked(folder, "allowed/current").source == str(folder / "allowed" / "one")


def test_a_missing_folder_is_named(folder: Path) -> None:
    with pytest.raises(InvalidRun, match="cannot be mounted"):
        checked(folder, "allowed/missing")


def test_an_allowed_folder_that_became_a_link_allows_nothing_else(folder: Path) -> None:
    """A sandbox that may write to `allowed` can replace a folder that the operator lists in addition."""
    nested = policy(folder, "allowed", "allowed/one")
    swap(folder, "link")
    for source in ("allowed/one", "secret"):
        with pytest.raises(Refused, match="may not be mounted"):
            nested.check([Mount(str(folder / source), TARGET)])


@pytest.mark.parametrize("source", ["data", "data/workspaces", ""])
@pytest.mark.parametrize("writable", [False, True])
def test_files_of_the_server_are_not_given_even_if_the_folder_is_allowed(
    folder: Path, source: str, writable: bool
) -> None:
    (folder / "data" / "workspaces").mkdir(parents=True)
    with pytest.raises(Refused, match="files of the server itself"):
        policy(folder, "").check([Mount(str(folder / source), TARGET, writable)])


@pytest.mark.parametrize("source", [sys.prefix, str(Path(cloche.__file__).parent), str(Path(sys.prefix).parent)])
def test_programs_of_the_server_are_given_only_for_reading(folder: Path, source: str) -> None:
    everything = MountPolicy(["/"], folder / "data")
    assert everything.check([Mount(source, TARGET)])
    with pytest.raises(Refused, match="files of the server itself"):
        everything.check([Mount(source, TARGET, True)])


def test_an_environment_in_a_users_folder_is_given_only_for_reading(folder: Path) -> None:
    (folder / "data").mkdir()
    everything = MountPolicy(["/"], folder / "data", [str(folder / "allowed" / "one")])
    assert everything.check([Mount(str(folder / "allowed" / "one"), TARGET)])
    for source in ("allowed/one", "allowed"):
        with pytest.raises(Refused, match="files of the server itself"):
            everything.check([Mount(str(folder / source), TARGET, True)])
    assert everything.check([Mount(str(folder / "allowed" / "two"), TARGET, True)])


@pytest.mark.parametrize("part", ["allowed/one", "allowed"])
def test_a_folder_that_is_swapped_all_the_time_is_the_right_one_or_refused(folder: Path, part: str) -> None:
    """The operator allows both, so that a sandbox may write above the folder that it swaps."""
    (folder / "allowed" / "one" / "one").mkdir()
    (folder / "allowed" / "one" / "one" / "name").write_text("allowed/one/one")
    (folder / "secret" / "one").mkdir()
    (folder / "secret" / "one" / "name").write_text("secret/one")
    secrets = {(at.stat().st_dev, at.stat().st_ino) for at in (folder / "secret", folder / "secret" / "one")}
    swapped = policy(folder, "allowed", "allowed/one")
    outcomes: set[type] = set()
    with exchanging(folder / part, folder / "secret"):
        for _ in range(2000):
            try:
                mount = swapped.check([Mount(str(folder / part / "one"), TARGET)])[0]
            except ClocheError as problem:
                outcomes.add(type(problem))
            else:
                assert mount.identity not in secrets
                outcomes.add(Mount)
    assert len(outcomes) > 1, "the swaps had no effect"


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
