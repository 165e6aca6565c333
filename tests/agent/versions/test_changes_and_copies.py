"""Changes since a version, copies of one, and merges."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.agent.versions.conftest import Workspace


def test_changes_tell_what_differs_and_nothing_else(space: Workspace) -> None:
    for name in ("same", "touched", "content", "mode", "gone", "folder/gone too"):
        space.write(name, "12345678")
    (space.top / "link").symlink_to("same")
    (space.top / "closed later").mkdir()
    space.versions.take("v")
    os.utime(space.top / "touched", ns=(1, 1))
    space.write("content", "87654321")
    (space.top / "mode").chmod(0o700)
    (space.top / "closed later").chmod(0o700)
    (space.top / "gone").unlink()
    (space.top / "folder/gone too").unlink()
    (space.top / "folder").rmdir()
    (space.top / "link").unlink()
    (space.top / "link").symlink_to("other")
    space.write("fresh/file", "x")
    assert space.versions.changes("v") == {
        "created": ["fresh/", "fresh/file"],
        "changed": ["closed later/", "content", "link", "mode"],
        "removed": ["folder/", "folder/gone too", "gone"],
        "totals": {"created": 2, "changed": 4, "removed": 3},
    }


def test_lists_of_changes_are_bounded_and_their_totals_are_not(space: Workspace) -> None:
    space.versions.take("v")
    for number in range(1200):
        space.write(f"{number}")
    changes = space.versions.changes("v")
    assert len(changes["created"]) == 1000
    assert changes["totals"]["created"] == 1200


@pytest.mark.parametrize("version", ["v", None])
def test_a_copy_has_everything_and_shares_nothing(space: Workspace, version: str | None) -> None:
    space.write("a/b", "1").chmod(0o640)
    space.write("big", b"z" * 400_000)
    (space.top / "link").symlink_to("a")
    (space.top / "a").chmod(0o750)
    before = space.snapshot(space.top)
    space.versions.take("v")
    if version:
        space.write("a/b", "changed since")
    to = space.opened(space.outside)
    result = space.versions.copy(version, to)
    os.close(to)
    assert (result["written"], result["problem"]) == (4, None)
    assert space.snapshot(space.outside) == before
    (space.outside / "a/b").write_text("theirs")
    assert (space.top / "a/b").read_text() != "theirs"
    assert os.listdir(space.store / "versions") == [b"v".hex()]


def test_a_copy_into_a_folder_with_something_in_it_is_refused(space: Workspace) -> None:
    (space.outside / "kept").write_text("kept")
    to = space.opened(space.outside)
    with pytest.raises(OSError, match="not empty"):
        space.versions.copy(None, to)
    os.close(to)
    assert (space.outside / "kept").read_text() == "kept"


def test_a_merged_copy_is_the_tree_and_only_its_changes_were_read(
    space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10):
        space.write(f"{number}", f"{number}")
    space.settle()
    space.versions.take("base")
    branch = space.opened(space.outside)
    space.versions.copy("base", branch)
    (space.outside / "3").write_text("by the branch")
    (space.outside / "4").unlink()
    space.write("of the original", "goes")
    space.write("5", "goes too")
    wanted = space.snapshot(space.outside)
    read = space.files_read(monkeypatch)
    result = space.versions.merge(branch, "kept")
    os.close(branch)
    assert space.snapshot(space.top) == wanted
    assert read == ["3"]
    assert (result["written"], result["removed"], result["unchanged"]) == (2, 2, 7)
    space.versions.restore("base")
    assert (space.top / "4").read_text() == "4"
