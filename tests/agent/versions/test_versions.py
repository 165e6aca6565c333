"""What a version holds, and that it is what is restored."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cloche.agent import versions as package
from cloche.agent.versions import Versions

if TYPE_CHECKING:
    from tests.agent.versions.conftest import Workspace


def test_a_restored_tree_is_what_it_was(space: Workspace) -> None:
    space.write("a.txt", "one")
    space.write("code/b.py", "two").chmod(0o751)
    space.write("code/empty")
    (space.top / "nothing/in here").mkdir(parents=True)
    (space.top / "code").chmod(0o711)
    (space.top / "link").symlink_to("a.txt")
    (space.top / "dangling").symlink_to("/no/such/thing")
    os.utime(space.top / "code", ns=(1, 1_000_000_001))
    before = space.snapshot(space.top)
    taken = space.versions.take("v")
    assert taken == {"files": 5, "folders": 3, "bytes": 6 + 5 + 14, "added": 6, "unsteady": 0, "unread": 0}

    space.write("a.txt", "ONE")
    space.write("new/deep/file", "x")
    (space.top / "code/b.py").unlink()
    (space.top / "link").unlink()
    (space.top / "link").symlink_to("elsewhere")
    (space.top / "nothing/in here").rmdir()
    (space.top / "code").chmod(0o777)
    space.top.chmod(0o700)
    result = space.versions.restore("v")

    assert space.snapshot(space.top) == before
    assert result == {"written": 4, "removed": 3, "unchanged": 4, "bytes": 6, "problem": None}


def test_a_version_can_be_restored_any_number_of_times_and_in_any_order(space: Workspace) -> None:
    seen = []
    for number in range(4):
        space.write("file", f"content {number}")
        space.write(f"of {number}", "x")
        seen.append(space.snapshot(space.top))
        space.versions.take(str(number))
    for number in (0, 3, 1, 1, 2, 0):
        space.versions.restore(str(number))
        assert space.snapshot(space.top) == seen[number]


def test_versions_outlive_the_object_that_took_them(space: Workspace) -> None:
    space.write("a", "1")
    space.versions.take("v")
    space.write("a", "2")
    Versions(space.top_fd, space.store_fd).restore("v")
    assert (space.top / "a").read_text() == "1"


def test_an_unknown_version_is_said_to_be_missing(space: Workspace) -> None:
    for call in (space.versions.restore, space.versions.changes, space.versions.forget):
        with pytest.raises(FileNotFoundError, match="no version of that name"):
            call("never")


@pytest.mark.parametrize("name", ["../../outside/x", "/etc/passwd", ".", "a\nb", "\udcff", "x" * 100, "a\0b"])
def test_a_versions_name_is_no_path(space: Workspace, name: str) -> None:
    space.write("a", "1")
    space.versions.take(name)
    space.write("a", "2")
    space.versions.restore(name)
    assert (space.top / "a").read_text() == "1"
    assert os.listdir(space.outside) == []
    assert set(os.listdir(space.folder)) == {"top", "store", "outside"}


@pytest.mark.parametrize("name", ["", "x" * 101])
def test_a_name_that_is_none_is_refused(space: Workspace, name: str) -> None:
    with pytest.raises(ValueError, match="name has 1 to 100"):
        space.versions.take(name)


def test_taking_a_name_again_replaces_it_and_drops_what_only_it_had(space: Workspace) -> None:
    space.write("a", "1")
    space.versions.take("v")
    space.write("a", "22")
    space.versions.take("v")
    assert space.objects() == 1
    space.write("a", "333")
    space.versions.restore("v")
    assert (space.top / "a").read_text() == "22"


def test_too_many_files_are_refused_and_leave_nothing(space: Workspace) -> None:
    for number in range(11):
        space.write(f"{number}", f"{number}")
    with pytest.raises(OSError, match="more than 10 files"):
        space.versions.take("v", most=10)
    assert space.objects() == 0
    assert os.listdir(space.store / "versions") == []
    assert space.versions.take("v", most=11)["files"] == 11


@pytest.mark.parametrize("seed", range(8))
def test_random_edits_are_undone_exactly(space: Workspace, seed: int) -> None:
    chance = random.Random(seed)
    names = ["a", "b", "c", "d", "e\n", "\udcff"]
    taken: dict[str, dict[bytes, tuple[Any, ...]]] = {}

    def somewhere() -> Path:
        path = space.top.joinpath(*chance.choices(names, k=chance.randint(1, 4)))
        # Edits go through links: none may lead to anything of the host's.
        assert Path(os.path.realpath(path)).is_relative_to(space.folder.resolve())
        return path

    def edit() -> None:
        path, what = somewhere(), chance.randrange(9)
        if what == 0:
            path.mkdir(parents=True)
        elif what <= 2:
            path.write_bytes(chance.randbytes(chance.choice([0, 1, 8, 5000, 300_000])))
        elif what == 3:
            with open(path, "r+b") as file:  # in place, the size unchanged
                file.write(chance.randbytes(1))
        elif what == 4:
            path.symlink_to(chance.choice(["a", "../b", str(space.folder / "missing/file"), str(space.outside)]))
        elif what == 5:
            path.chmod(chance.choice([0o600, 0o640, 0o755, 0o700]), follow_symlinks=path.is_symlink() is False)
        elif what == 6:
            os.utime(path, ns=(1, chance.randrange(1, 1 << 60)), follow_symlinks=False)
        elif what == 7:
            os.rename(path, somewhere())
        elif path.is_dir() and not path.is_symlink():
            subprocess.run(["rm", "-rf", str(path)], check=True)
        else:
            path.unlink()

    for _ in range(40):
        for _ in range(chance.randint(0, 12)):
            try:
                edit()
            except (OSError, NotImplementedError, ValueError):
                pass
        name = chance.choice("vwxyz")
        if name not in taken or chance.random() < 0.4:
            taken[name] = space.snapshot(space.top)
            assert space.versions.take(name)["unread"] == 0
        elif chance.random() < 0.2:
            space.versions.forget(name)
            del taken[name]
        else:
            assert space.versions.restore(name)["problem"] is None
            assert space.snapshot(space.top) == taken[name]
            assert space.versions.changes(name)["totals"] == {"created": 0, "changed": 0, "removed": 0}
    for name, tree in taken.items():
        space.versions.restore(name)
        assert space.snapshot(space.top) == tree
        space.versions.forget(name)
    assert space.objects() == 0


def test_the_package_is_imported_at_once_and_needs_hardly_anything() -> None:
    # A nursery imports it before it forks sandboxes; afterwards its source cannot be read.
    folder = Path(package.__path__[0])
    modules = {f"cloche.agent.versions.{path.stem}" for path in folder.glob("*.py") if path.stem != "__init__"}
    code = (
        "import sys, os, stat; import cloche.agent; before = set(sys.modules);"
        "import cloche.agent.versions; print(*(set(sys.modules) - before))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {name for name in loaded if name.startswith("cloche.")} == {
        "cloche.agent.versions",
        "cloche.agent.atomic_writes",
        *modules,
    }
    assert {name for name in loaded if not name.startswith("cloche.")} <= {
        "__future__",
        "_blake2",
        "errno",
        "marshal",
        "time",
    }
