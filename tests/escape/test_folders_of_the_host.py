"""T13: a folder that is given to a sandbox is that folder alone, and only what was given can be done with it."""

from __future__ import annotations

import os

import pytest

import cloche
from cloche.walls.jail import linux


@pytest.fixture
def folder(tmp_path, planted):
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "a.txt").write_text("given")
    return tmp_path / "given"


def test_what_was_given_to_read_cannot_be_written(folder):
    code = """
import os
print(open("/sandbox/data/in/a.txt").read())
for act in (lambda: open("/sandbox/data/in/a.txt", "w"), lambda: os.unlink("/sandbox/data/in/a.txt"),
            lambda: os.mkdir("/sandbox/data/in/d"), lambda: os.chmod("/sandbox/data/in/a.txt", 0o777),
            lambda: os.utime("/sandbox/data/in/a.txt", (0, 0))):
    try:
        act()
        print("done")
    except OSError as problem:
        pass
"""
    result = cloche.run(code, mounts={str(folder): "/sandbox/data/in"})
    assert (result.stdout, result.error) == ("given\n", None)
    assert (folder / "a.txt").read_text() == "given"
    cloche.run("open('/sandbox/data/in/b', 'w')", mounts={str(folder): "/sandbox/data/in:rw"})
    assert (folder / "b").exists()  # the proof: it can be, when it was given for that
    assert (folder / "b").stat().st_uid == os.geteuid()


def test_a_link_in_a_given_folder_leads_nowhere_on_the_host(folder, planted):
    (folder / "link").symlink_to(planted)
    (folder / "up").symlink_to("../secret.txt")
    code = """
import os
for name in ("link", "up", "../secret.txt", "../../../etc/shadow"):
    try:
        print(open("/sandbox/data/in/" + name).read())
    except OSError:
        print("no")
"""
    assert cloche.run(code, mounts={str(folder): "/sandbox/data/in"}).stdout == "no\n" * 4
    assert (folder / "link").read_text() == "a secret of the host"


@pytest.mark.skipif(os.geteuid() != 0, reason="open_tree takes a capability")
def test_a_link_put_in_the_way_after_the_check_is_not_followed(tmp_path):
    """Whoever can write in a given folder could swap a part of the path between the engine's look and the mount."""
    (tmp_path / "real" / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    os.close(linux.open_real_tree(str(tmp_path / "real" / "below")))
    with pytest.raises(OSError, match="symbolic links"):
        linux.open_real_tree(str(tmp_path / "link" / "below"))
    os.close(linux.open_tree(str(tmp_path / "link" / "below")))  # the proof: the plain call follows


@pytest.mark.parametrize(
    "source", ["/", "/etc", "/proc", "/proc/self", "/sys", "/dev", "/dev/null", "/run", "/etc/../proc", "/boot"]
)
def test_what_is_never_to_be_given_is_refused(source):
    with pytest.raises((cloche.Refused, cloche.InvalidRun)):
        cloche.run("print(1)", mounts={source: "/sandbox/data/in"})


@pytest.mark.parametrize(
    "target", ["/etc", "/sandbox", "/sandbox/../etc", "/usr/x", "relative", "/sandbox/data/../../etc"]
)
def test_a_folder_cannot_be_put_over_the_system(folder, target):
    with pytest.raises(cloche.InvalidRun):
        cloche.run("print(1)", mounts={str(folder): target})
