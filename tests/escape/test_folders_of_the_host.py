"""T13: a folder that is given to a sandbox is that folder alone, and only what was given can be done with it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import cloche
from cloche import settings
from cloche.blocking.walls.jail.wall import Jail
from cloche.walls.jail import linux
from cloche.walls.jail.nursery_client import Nurseries


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


LEASE = """
import fcntl, os
for command, argument in ((fcntl.F_SETLEASE, fcntl.F_WRLCK), (fcntl.F_SETLEASE, fcntl.F_RDLCK)):
    try:
        fcntl.fcntl(os.open("/sandbox/data/in/a.txt", os.O_RDONLY), command, argument)
        print("held", flush=True)
    except OSError as problem:
        print(problem.strerror)
try:
    fcntl.fcntl(os.open("/sandbox/data/in", os.O_RDONLY), fcntl.F_NOTIFY, fcntl.DN_CREATE)
    print("noticed")
except OSError as problem:
    print(problem.strerror)
"""


def test_nobody_on_the_host_waits_for_a_sandbox_to_give_up_a_file(folder, attack):
    """A lease on a file makes its next reader wait, for 45 seconds, and needs only the owner's rights to read."""
    os.chmod(folder / "a.txt", 0o644)
    mounts = {str(folder): "/sandbox/data/in"}
    assert cloche.run(LEASE, mounts=mounts).stdout == "Operation not permitted\n" * 3
    without = cloche.run(LEASE, mounts=mounts, wall=attack.jail("call:fcntl"))
    assert without.stdout.startswith("held\n"), without


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


SETUID = """
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)

def made(name):
    open(name, "w").close()
    return name

def opened_by_number():
    libc.syscall(437, -100, b"openat2", struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, 0o4755, 0), 24)

os.umask(0)
os.chdir("/sandbox/in")
ways = {
    "chmod": lambda: os.chmod(made("chmod"), 0o4755),
    "fchmod": lambda: os.fchmod(os.open(made("fchmod"), os.O_RDWR), 0o2755),
    "open": lambda: os.open("open", os.O_CREAT | os.O_WRONLY, 0o4755),
    "openat": lambda: os.open("openat", os.O_CREAT | os.O_WRONLY, 0o6755, dir_fd=os.open(".", os.O_RDONLY)),
    "mknod": lambda: os.mknod("mknod", 0o104755),
    "mkdir": lambda: os.mkdir("mkdir", 0o2755),
    "openat2": opened_by_number,
    "fchmodat2": lambda: libc.syscall(452, -100, made("fchmodat2").encode(), 0o4755, 0),
}
for name, way in ways.items():
    try:
        way()
    except OSError as problem:
        print(name, problem.strerror)
os.chmod(made("plain"), 0o755)
"""


def setuid_files(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID))


def test_no_setuid_file_is_left_in_a_folder_of_the_host(tmp_path):
    result = cloche.run(SETUID, mounts={str(tmp_path): "/sandbox/in:rw"})

    assert result.error is None
    assert setuid_files(tmp_path) == []
    assert (tmp_path / "plain").stat().st_mode & 0o777 == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="the proof needs a host folder of another owner than the sandbox")
def test_the_filter_is_what_keeps_setuid_files_away(tmp_path):
    nurseries = Nurseries(settings.load(), without=frozenset({"setuid files"}))
    try:
        cloche.run(SETUID, mounts={str(tmp_path): "/sandbox/in:rw"}, wall=Jail(nurseries))
    finally:
        nurseries.close()

    assert {"chmod", "open", "mknod", "openat2"} <= set(setuid_files(tmp_path))


def test_a_setuid_bit_on_its_own_files_is_the_programs_business():
    result = cloche.run("import os; open('a', 'w').close(); os.chmod('a', 0o4755); print(oct(os.stat('a').st_mode))")

    assert result.stdout == "0o104755\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount, and only for root are owners mapped")
def test_a_file_system_that_cannot_be_mounted_is_named_as_the_reason(tmp_path):
    code = f"import cloche; cloche.run('1', mounts={{{str(tmp_path)!r}: '/sandbox/data'}})"
    cloche.run("1")  # starts the nursery, which keeps the mounts of that moment
    subprocess.run(["mount", "-t", "ramfs", "none", tmp_path], check=True)
    tmp_path.chmod(0o700)  # one that everybody may read is shown as it is
    try:
        with pytest.raises(cloche.SandboxFailed, match="was mounted there after Cloche had started"):
            exec(code)
        fresh = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
        assert "cannot show its files to another user" in fresh.stderr
        tmp_path.chmod(0o755)
        assert subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE).stderr == b""
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_a_mount_inside_another_is_refused(tmp_path):
    mounts = {str(tmp_path): "/sandbox/in:rw", "/usr/share": "/sandbox/in/deeper"}

    with pytest.raises(cloche.InvalidRun, match="lies in another mount"):
        cloche.run("1", mounts=mounts)
