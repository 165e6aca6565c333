"""Each sandbox has a root that it may write to: the system's folders in it stay as they are, and no other sees it."""

from __future__ import annotations

import os

import pytest

import cloche

pytestmark = pytest.mark.usefixtures("jail")

IS_ROOT = os.geteuid() == 0
FOLDERS = (
    "/usr",
    "/usr/bin",
    "/etc",
    "/etc/ssl",
    "/opt",
    "/opt/env",
    "/opt/python",
    "/dev",
    "/proc",
    "/sys",
    "/bin",
    "/lib",
)
OURS = ("/etc", "/opt", "/sys")  # on a file system that Cloche has made: no attack on these can harm the host

ATTEMPTS = """
import errno, os, sys
def attempt(function, *arguments):
    try:
        function(*arguments)
        return "done"
    except OSError as problem:
        return errno.errorcode[problem.errno]
folder = sys.argv[1]
there = next((os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name != "shm"), "")
print(
    attempt(lambda: open(f"{folder}/new", "w")),
    attempt(os.mkdir, f"{folder}/new folder"),
    attempt(os.symlink, "x", f"{folder}/new link"),
    attempt(os.rename, there, f"{folder}/other"),
    attempt(os.rename, "/sandbox/mine", f"{folder}/mine"),
    attempt(os.unlink, there) if not os.path.isdir(there) or os.path.islink(there) else attempt(os.rmdir, there),
    attempt(os.chmod, folder, 0o777),
    attempt(os.rename, folder, "/elsewhere"),
)
"""


@pytest.fixture(scope="module")
def sandbox(jail: None):
    with cloche.Sandbox() as box:
        yield box


def tried(box: cloche.Sandbox, folder: str) -> list[str]:
    box.files.write("mine", b"x")
    box.files.write("attempts.py", ATTEMPTS)
    result = box.commands.run(["python3", "/sandbox/attempts.py", folder])
    assert result.ok, result
    return result.stdout.split()


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_of_the_system_takes_no_change(sandbox, folder):
    seen = tried(sandbox, folder)
    if folder in ("/bin", "/lib"):  # links: the user's own where an ordinary user runs Cloche
        assert seen[-1] == ("EPERM" if IS_ROOT else "done")
        if not IS_ROOT:
            assert sandbox.run(f"import os; os.rename('/elsewhere', {folder!r})").ok
        seen.pop()
    assert "done" not in seen, seen
    assert sandbox.commands.run(f"test -d {folder} && echo there").stdout == "there\n"


def test_the_same_attempts_succeed_in_a_folder_of_ones_own(sandbox):
    """The proof that they are real ones."""
    sandbox.files.write("/mine/a", b"x")
    assert tried(sandbox, "/mine") == ["done", "done", "done", "done", "EXDEV", "ENOENT", "done", "done"]


@pytest.mark.parametrize("folder", OURS)
def test_without_the_read_only_mounts_only_ownership_protects_them(attack, folder):
    """Two layers where root runs Cloche.  An ordinary user owns these folders, so there the mounts are all there is."""
    code = f"""
try:
    print(open({folder!r} + "/new", "w"))
except OSError as problem:
    print(problem.errno)
"""
    assert attack(code) == "30"  # EROFS
    told = attack(code, "read-only")
    assert told == "13" if IS_ROOT else "TextIOWrapper" in told


def test_nothing_is_mounted_over_a_folder_or_moved_away(attack):
    code = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for place in (b"/usr", b"/etc", b"/opt", b"/dev", b"/proc", b"/sandbox", b"/tmp", b"/"):
    for call in (
        lambda: libc.mount(b"none", place, b"tmpfs", 0, None),
        lambda: libc.mount(b"/tmp", place, None, ctypes.c_ulong(4096), None),
        lambda: libc.mount(b"none", place, None, ctypes.c_ulong(4096 | 32), None),
        lambda: libc.mount(place, b"/tmp", None, ctypes.c_ulong(8192), None),
        lambda: libc.umount2(place, 2),
    ):
        print(call(), end=" ")
"""
    refused = "-1 " * 39 + "-1"
    assert attack(code) == refused
    assert attack(code, "filter") == refused  # nor does it have the rights
    assert attack(code, "filter", "capabilities", "landlock") == refused  # its mounts belong to the nursery


def test_what_becomes_of_one_root_is_not_seen_in_another(sandbox):
    spoil = (
        "import os\n"
        "for name in os.listdir('/'):\n"
        "    path = '/' + name\n"
        "    try:\n"
        "        os.unlink(path) if os.path.islink(path) else os.rename(path, path + '-away')\n"
        "    except OSError:\n"
        "        pass\n"
        "os.makedirs('/usr-of-mine'); open('/mark', 'w').write('x')\n"
        "print(sorted(os.listdir('/')))"
    )
    before = cloche.run("import os; print(sorted(os.listdir('/')))").stdout
    result = cloche.run(spoil)
    assert "'mark', " in result.stdout, result
    assert {"'usr'", "'etc'", "'sandbox'", "'tmp'"} <= set(result.stdout.strip("[]\n").split(", "))
    assert not sandbox.files.exists("/mark")
    code = (
        "import os, subprocess; print(sorted(os.listdir('/'))); subprocess.run(['/bin/sh', '-c', 'exit 0'], check=True)"
    )
    for _ in range(3):  # the pool's, and one that is made now
        assert cloche.run(code).stdout == before


def test_the_nurserys_root_beneath_cannot_be_reached(attack):
    code = """
import os
os.chdir("/")
for _ in range(5):
    os.chdir("..")
print(os.path.samestat(os.stat("."), os.stat("/")), os.listdir("/run"), os.path.exists("/run/work"))
print([line for line in open("/proc/self/mountinfo") if "/run/work" in line or "/run/lib" in line])
"""
    assert attack(code) == "True [] False\n[]"


def test_root_owns_the_root_but_nobody_can_become_root(attack):
    code = """
import os
for path in ("/", "/etc", "/etc/passwd"):
    print(os.stat(path).st_uid, end=" ")
for become in (os.setuid, os.setgid, os.seteuid, os.setegid):
    try:
        become(0)
        print("became root")
    except OSError as problem:
        print(problem.errno, end=" ")
"""
    owner = "0" if IS_ROOT else "1000"
    assert attack(code) == f"{owner} {owner} {owner} 1 1 1 1"
    if IS_ROOT:
        assert attack(code, "filter").endswith("1 1 1 1")  # the kernel refuses as well: root's id is mapped


def test_nobody_can_become_another_user_and_everybody_can_stay_the_same(attack):
    """As it is for an ordinary user without a sandbox."""
    code = """
import os, subprocess
def attempt(function, *arguments):
    try:
        function(*arguments)
        return "done"
    except PermissionError:
        return "EPERM"
    except OSError as problem:
        return problem.errno
own, other = USER, 33
open("file", "w").close()
print(
    [attempt(function, other) for function in (os.setuid, os.setgid, os.seteuid, os.setegid)],
    [attempt(function, own) for function in (os.setuid, os.setgid, os.seteuid, os.setegid)],
    attempt(os.setreuid, other, -1), attempt(os.setresuid, own, own, other), attempt(os.setresgid, own, -1, own),
    attempt(os.setgroups, [other]), attempt(os.chown, "file", other, -1), attempt(os.chown, "file", own, own),
    attempt(lambda: subprocess.run(["true"], user=other)), attempt(lambda: subprocess.run(["true"], user=own)),
    attempt(lambda: subprocess.run(["true"], group=other)),
)
"""
    told = attack(code.replace("USER", "1000"))
    assert told == str(["EPERM"] * 4) + " " + str(["done"] * 4) + " EPERM EPERM done EPERM EPERM done EPERM done EPERM"
