"""The host opens few paths, and none that a sandbox or a caller chose except over no link."""

from __future__ import annotations

import ast
import os
import stat
from pathlib import Path

import pytest
from tests.exchange import exchanging

import cloche
from cloche.beneath import open_beneath
from cloche.cli.project_folder import read_project
from cloche.errors import InvalidRun

SOURCE = Path(cloche.__file__).parent
# What reaches the host's files by name, as a function or as a method.
REACHES = {
    *("open", "realpath", "resolve", "read_bytes", "read_text", "write_bytes", "write_text", "rmtree", "copyfile"),
    *("copytree", "copy", "copy2", "move", "rename", "replace", "unlink", "rmdir", "makedirs", "mkdir", "symlink_to"),
    *("link", "symlink", "chmod", "chown", "utime", "walk", "scandir", "listdir", "iterdir", "glob", "rglob"),
}
MODULES = {"os", "shutil", "path", "io"}
# Methods of texts, mappings, files in sandboxes and routes that are called the same.
METHODS = {"open", "replace", "resolve", "copy", "mkdir", "move", "link", "walk", "rename", "glob", "chmod"}
# The modules that may, and why no caller and no sandbox chooses the paths that they open.
MAY = {
    "doors/page/files.py": "files of the page: the name is one of a strict pattern, in a folder of this package",
    "doors/page/plain.py": "styles and scripts of the plain pages, files of this package",
    "doors/http/shares.py": "the page that shows a share, a file of this package",
    "engine/egress_process.py": "/dev/null, for a process of this package",
    "engine/missing_modules.py": "the manifests of packages that the host shows to all sandboxes",
    "engine/network_variables.py": "the certificates that this host trusts, at their usual path",
    "policy/key_file.py": "the keys in the data directory; over no link, and never waits",
    "policy/mounts.py": "sources of mounts: the real path is opened over no link, and the wall compares what it mounts",
    "service/allocator.py": "the kernel's account of this process's memory",
    "service/archives.py": "uploads in the data directory, named by digests; never unpacked here",
    "service/builds.py": "records in the data directory, named by digests",
    "service/data_folder.py": "the data directory, in which nobody else writes",
    "service/descriptors.py": "the kernel's list of this process's descriptors",
    "service/host_memory.py": "the kernel's accounts of memory",
    "service/shares.py": "documents in the data directory, named by their ids",
    "service/snapshots.py": "the list in the data directory",
    "service/workspaces/disk.py": "manifests and contents in the data directory, named by their digests",
    "service/workspaces/workspaces.py": "folders in the data directory, named by their ids",
}


def reaches(path: Path) -> set[str]:
    """What a module calls of these."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Name) and function.id in ("open", "FileResponse"):
            found.add(function.id)
        elif isinstance(function, ast.Attribute) and function.attr in REACHES:
            owner = function.value
            name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
            if name in MODULES or function.attr not in METHODS:
                found.add(function.attr)
    return found


def test_only_modules_that_say_why_reach_files_of_the_host() -> None:
    found = {
        str(path.relative_to(SOURCE)): reaches(path)
        for folder in ("doors", "service", "engine", "policy", "sandbox")
        for path in (SOURCE / folder).rglob("*.py")
    }
    assert {name for name, calls in found.items() if calls} == set(MAY), {k: v for k, v in found.items() if v}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file in a folder in it, and a secret file of the same name beside it."""
    for name in ("project/inner", "secret"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_text(name)
    return tmp_path


@pytest.mark.parametrize("path", ["inner/out/file", "out/file", "out", "../secret/file", "inner/../../secret/file"])
def test_nothing_is_opened_over_a_link(folder: Path, path: str) -> None:
    (folder / "project" / "out").symlink_to(folder / "secret")
    (folder / "project" / "inner" / "out").symlink_to("../../secret")
    with pytest.raises(OSError):  # noqa: PT011
        open_beneath(str(folder / "project"), path, os.O_RDONLY)


def test_what_is_opened_is_never_the_target_of_a_swapped_link(folder: Path) -> None:
    refused = 0
    with exchanging(folder / "project" / "inner", folder / "secret"):
        for _ in range(5000):
            try:
                fd = open_beneath(str(folder / "project"), "inner/file", os.O_RDONLY)
            except OSError:
                refused += 1
                continue
            assert os.read(fd, 100) == b"project/inner"
            os.close(fd)
    assert refused


def test_a_pipe_without_a_writer_is_opened_without_waiting(folder: Path) -> None:
    os.mkfifo(folder / "project" / "pipe")
    fd = open_beneath(str(folder / "project"), "pipe", os.O_RDONLY)
    assert stat.S_ISFIFO(os.fstat(fd).st_mode)
    os.close(fd)


def project(folder: Path) -> dict[str, bytes]:
    """The files that `cloche run FOLDER` sends to its sandbox, which may be on another host."""
    (folder / "project" / "main.py").write_text("")
    return read_project(str(folder / "project"), None, None)[0]


def test_a_project_has_its_own_files_and_waits_for_nothing(folder: Path) -> None:
    os.mkfifo(folder / "project" / "pipe")
    (folder / "project" / "same").symlink_to("inner/file")
    assert project(folder) == {"inner/file": b"project/inner", "same": b"project/inner", "main.py": b""}


@pytest.mark.parametrize("target", ["secret/file", "secret", "project/../secret/file"])
def test_a_project_with_a_link_out_of_it_is_refused(folder: Path, target: str) -> None:
    (folder / "project" / "notes").symlink_to(folder / target)
    if target == "secret":
        assert "notes" not in project(folder)  # folders behind links are not entered
        return
    with pytest.raises(InvalidRun, match="leads out of"):
        project(folder)


def test_a_project_that_changes_all_the_time_never_has_another_file(folder: Path) -> None:
    with exchanging(folder / "project" / "inner" / "file", folder / "secret" / "file"):
        for _ in range(1000):
            try:
                found = project(folder)
            except InvalidRun:
                continue
            assert b"secret" not in found.values()
