"""A folder of the host that can be written is no way to leave something behind that has more rights than its maker."""

import os
import stat
from pathlib import Path

import pytest

import cloche
from cloche import settings
from cloche.blocking.jail import Jail
from cloche.walls.jail.nurseries import Nurseries

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


def test_a_mount_inside_another_is_refused(tmp_path):
    mounts = {str(tmp_path): "/sandbox/in:rw", "/usr/share": "/sandbox/in/deeper"}

    with pytest.raises(cloche.InvalidRun, match="lies in another mount"):
        cloche.run("1", mounts=mounts)
