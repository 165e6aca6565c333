"""T3, T4, T5, T7: mounts, namespaces, capabilities and the kernel's back doors stay out of reach."""

from __future__ import annotations

import os

import pytest

from cloche.walls.jail import syscalls

NUMBERS = syscalls.numbers(os.uname().machine)
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can do this outside")

CALL = """
import ctypes, os, errno
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    result = getattr(libc, name)(*arguments)
    print(name, "done" if result >= 0 else errno.errorcode[ctypes.get_errno()])
def raw(number, *arguments):
    passed = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *passed)
    print(number, "done" if result >= 0 else errno.errorcode[ctypes.get_errno()])
"""


@ROOT
def test_nothing_can_be_mounted_bound_or_remounted(attack, tmp_path):
    code = (
        CALL
        + """
if os.geteuid() == 0:
    call("unshare", 0x20000)
    call("mount", b"none", b"/", None, ctypes.c_ulong(0x4000 | 0x40000), None)
os.makedirs({folder!r}, exist_ok=True)
call("mount", b"x", {folder!r}.encode(), b"tmpfs", ctypes.c_ulong(0), None)
call("mount", b"/usr", {folder!r}.encode(), None, ctypes.c_ulong(4096), None)
call("mount", b"none", b"/usr", None, ctypes.c_ulong(32 | 4096), None)
call("umount2", {folder!r}.encode(), 2)
raw(430, b"tmpfs", 0)  # fsopen
raw(428, -100, b"/usr", 1)  # open_tree
raw(442, -100, b"/usr", 0, bytes(32), 32)  # mount_setattr
"""
    )
    held = attack(code.format(folder="/sandbox/m"))
    assert held.count("EPERM") == 7
    assert "done" not in held
    assert attack.bare(code.format(folder=str(tmp_path / "m"))).count("done") >= 7


def test_the_root_cannot_be_left(attack):
    code = (
        CALL
        + f"PIVOT_ROOT = {NUMBERS['pivot_root']}\n"
        + """
call("chroot", b"/")
raw(PIVOT_ROOT, b".", b".")
os.chdir("/")
print(os.listdir("..") == os.listdir("/"), os.path.samestat(os.stat("/"), os.stat("/..")), os.path.exists("/../work"))
"""
    )
    assert attack(code).split() == ["chroot", "EPERM", str(NUMBERS["pivot_root"]), "EPERM", "True", "True", "False"]
    assert "chroot EPERM" not in attack.bare(code) or os.geteuid() != 0


def test_the_system_is_read_only(attack):
    code = """
import os
for path in ("/usr/x", "/etc/x", "/opt/env/x", "/opt/python/x", "/dev/x", "/proc/x", "/etc/passwd", "/bin/env"):
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
        print("open for writing:", path)
    except OSError as problem:
        pass
print([line.split()[4] for line in open("/proc/self/mountinfo")
       if "nosuid" not in line.split()[5] or ("ro" not in line.split()[5].split(",") and "nodev" not in line.split()[5]
       and not line.split()[4].startswith(("/dev/", "/proc/")))])
"""
    assert attack(code) == "[]"
    assert attack.bare(code) != "[]"


@pytest.mark.parametrize(("name", "flag"), [("user", 0x10000000), ("mount", 0x20000), ("net", 0x40000000)])
def test_no_namespace_can_be_made(attack, name, flag):
    code = CALL + f'call("unshare", {flag} | 0x10000000)'
    assert attack(code) == "unshare EPERM"
    assert attack(code, "call:unshare") == "unshare done"


def test_no_namespace_can_be_made_by_clone(attack):
    code = (
        CALL
        + f"number = {NUMBERS['clone']}\n"
        + """
result = libc.syscall(ctypes.c_long(number), ctypes.c_long(0x10000000 | 17), *[ctypes.c_long(0)] * 4)
if result == 0:
    os._exit(0)
print("done" if result > 0 else errno.errorcode[ctypes.get_errno()])
"""
    )
    assert attack(code) == "EPERM"
    assert attack(code, "call:clone") == "done"


def test_clone3_is_absent_so_that_libc_falls_back(attack):
    code = CALL + "raw(435, bytes(88), 8)"
    assert attack(code) == "435 ENOSYS"
    assert attack(code, "call:clone3") == "435 EINVAL"


def test_no_namespace_can_be_entered(attack):
    code = (
        CALL
        + """
for kind in ("mnt", "net", "pid", "user", "uts", "ipc"):
    for pid in ("1", "self"):
        try:
            call("setns", os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY), 0)
        except OSError as problem:
            print("setns", errno.errorcode[problem.errno])
"""
    )
    told = set(attack(code).splitlines())
    assert told <= {"setns EPERM", "setns EACCES", "setns ENOENT"}
    assert set(attack(code, "dumpable").splitlines()) == {"setns EPERM"}  # then even pid 1's can be opened


def test_no_capability_is_left(attack):
    code = """
for line in open("/proc/self/status"):
    if line.startswith(("Cap", "NoNewPrivs", "Groups")):
        print(line.split()[0], *line.split()[1:])
"""
    assert attack(code).split("\n") == [
        *("Groups:", *(f"Cap{kind}: {0:016x}" for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb"))),
        "NoNewPrivs: 1",
    ]
    assert "CapEff: 0000000000000000" not in attack(code, "capabilities")


def test_no_setuid_program_takes_effect(attack, compiled):
    binary = compiled(
        '#include <stdio.h>\n#include <unistd.h>\nint main() { printf("%d %d\\n", getuid(), geteuid()); }'
    )
    code = """
import os, subprocess
os.chmod("/sandbox/who", 0o6755)
print(subprocess.run("/sandbox/who", capture_output=True, text=True).stdout.strip())
for attempt in (lambda: os.setuid(0), lambda: os.setgroups([0]), lambda: os.setresgid(0, 0, 0),
                lambda: os.chown("/sandbox/who", 0, 0)):
    try:
        attempt()
        print("done")
    except OSError as problem:
        print(problem.strerror)
"""
    told = attack(code, files={"who": binary}).split("\n")
    assert told[0] == "1000 1000"
    assert "done" not in told
    assert len(told) == 5


INT80 = r"""
#include <stdio.h>
#include <signal.h>
#include <unistd.h>
#include <errno.h>
void caught(int n) { printf("absent\n"); fflush(stdout); _exit(0); }
int main() {
    int result;
    signal(SIGSEGV, caught); signal(SIGILL, caught);
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory");   /* getpid in the 32-bit table */
    printf("%s\n", result > 0 ? "answered" : "refused");
    long wide; /* x32: the same numbers with bit 30 */
    __asm__ volatile("syscall" : "=a"(wide) : "a"(0x40000000L + 39) : "rcx", "r11", "memory");
    printf("%s\n", wide > 0 ? "answered" : wide == -EPERM ? "refused" : "absent");
}
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="other conventions exist on x86-64 only")
def test_other_call_conventions_do_not_go_around_the_filter(attack, compiled):
    code = """
import os, subprocess
os.chmod("/sandbox/a", 0o755)
print(subprocess.run("/sandbox/a", capture_output=True, text=True).stdout)
"""
    binary = compiled(INT80)
    assert "answered" not in attack(code, files={"a": binary})
    without = attack(code, "filter", files={"a": binary})
    if "absent" in without.split()[0]:
        pytest.skip("this kernel has no 32-bit calls to go around with")
    assert without.split()[0] == "answered"


def test_exotic_sockets_cannot_be_opened(attack):
    code = """
import socket
kinds = {"netlink audit": (16, 3, 9), "netlink filter": (16, 3, 12), "packet": (17, 3, 0), "raw": (2, 3, 1),
         "alg": (38, 5, 0),
         "vsock": (40, 1, 0), "bluetooth": (31, 3, 1), "xdp": (44, 3, 0), "tipc": (30, 2, 0), "mptcp": (2, 1, 262)}
for name, kind in kinds.items():
    try:
        socket.socket(*kind)
        print(name)
    except OSError:
        pass
"""
    assert attack(code) == ""
    assert "netlink" in attack(code, "call:socket")


def test_the_kernels_back_doors_are_refused_with_an_ordinary_error(attack):
    code = (
        CALL
        + f"""
raw({NUMBERS["bpf"]}, 0, bytes(128), 128)
raw({NUMBERS["io_uring_setup"]}, 8, bytes(120))
raw({NUMBERS["perf_event_open"]}, bytes(128), 0, -1, -1, 0)
raw({NUMBERS["userfaultfd"]}, 0)
raw({NUMBERS["keyctl"]}, 0, -4, 0, 0, 0)
raw({NUMBERS["name_to_handle_at"]}, -100, b"/usr", bytes(64), bytes(8), 0)
raw({NUMBERS["memfd_secret"]}, 0)
"""
    )
    assert attack(code).count("EPERM") == 7
    assert "done" in attack(code, "filter")
