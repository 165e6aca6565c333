"""What is closed to its owner, or to us."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from cloche.agent.versions import Versions

if TYPE_CHECKING:
    from tests.agent.versions.conftest import Workspace

NOBODY = 65534


def in_child(work: Callable[[], None], uid: int | None = None) -> None:
    """Do it in a process of its own, as another user if asked; what it raises fails the test."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if uid is not None and os.getuid() == 0:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
            work()
            os._exit(0)
        except BaseException:
            os.write(write, traceback.format_exc().encode())
        finally:
            os._exit(1)
    os.close(write)
    with open(read) as pipe:
        problem = pipe.read()
    assert os.waitpid(pid, 0)[1] == 0, problem


def test_what_is_closed_to_its_owner_is_taken_and_restored_as_it_was(space: Workspace) -> None:
    space.write("closed/inner/file", "hidden")
    space.write("unreadable", "u")
    space.write("read-only/file", "r")
    for folder, folders, files in os.walk(space.folder):
        for name in [*folders, *files]:
            os.chown(os.path.join(folder, name), NOBODY, NOBODY)
    (space.top / "unreadable").chmod(0)
    (space.top / "closed/inner").chmod(0)
    (space.top / "closed").chmod(0)
    (space.top / "read-only").chmod(0o555)
    before = space.snapshot(space.top) if os.getuid() == 0 else None

    def take() -> None:
        assert os.getuid() != 0, "root may read anything: this would prove nothing"
        versions = Versions(space.top_fd, space.store_fd)
        taken = versions.take("v")
        assert (taken["files"], taken["unread"], taken["added"]) == (3, 0, 8)

    def restore() -> None:
        versions = Versions(space.top_fd, space.store_fd)
        changed = ["closed/inner/", "closed/inner/file", "read-only/", "read-only/file", "unreadable"]
        assert versions.changes("v")["changed"] == changed
        result = versions.restore("v")
        assert (result["problem"], result["written"], result["removed"]) == (None, 3, 2)

    in_child(take, NOBODY)
    assert before is None or space.snapshot(space.top) == before
    for name in ("closed", "closed/inner", "read-only"):
        (space.top / name).chmod(0o700)
    for name in ("closed/inner/file", "read-only/file", "unreadable"):
        (space.top / name).chmod(0o600)
        (space.top / name).write_text("changed")
    space.write("extra/file")
    for name in ("extra/file", "extra"):
        os.chown(space.top / name, NOBODY, NOBODY)
        (space.top / name).chmod(0)
    (space.top / "closed").chmod(0)
    in_child(restore, NOBODY)
    assert before is None or space.snapshot(space.top) == before


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a folder that is closed to others for good")
def test_what_could_not_be_read_is_left_as_it_is(space: Workspace) -> None:
    for path in (space.top, space.store, space.write("file", "f"), space.store / "objects", space.store / "versions"):
        os.chown(path, NOBODY, NOBODY)
    space.write("secret", "s").chmod(0o600)
    space.write("closed/kept", "k")
    (space.top / "closed").chmod(0o700)

    def take() -> None:
        taken = Versions(space.top_fd, space.store_fd).take("v")
        assert (taken["files"], taken["folders"], taken["unread"]) == (2, 1, 2)

    def restore() -> None:
        result = Versions(space.top_fd, space.store_fd).restore("v")
        assert (result["problem"], result["written"], result["removed"]) == (None, 1, 0)

    in_child(take, NOBODY)
    for path in (space.top / "closed/kept", space.top / "closed", space.top / "secret"):
        os.chown(path, NOBODY, NOBODY)
    space.write("file", "changed")
    in_child(restore, NOBODY)
    assert (space.top / "closed/kept").read_text() == "k"
    assert (space.top / "secret").read_text() == "s"
    assert (space.top / "file").read_text() == "f"
