"""The kernel's rarely used corners: calls that no ordinary program needs, and odd ways to call."""

from __future__ import annotations

from cloche.doctor.probe import Probe

_CALLS = """
nowhere = 1  # an address that is never mapped: a call that gets as far as reading it answers EFAULT
reach("bpf", 0, nowhere, 0)
reach("io_uring_setup", 1, nowhere)
reach("io_uring_enter", -1, 0, 0, 0, 0, 0)
reach("io_uring_register", -1, 0, 0, 0)
reach("perf_event_open", nowhere, 0, -1, -1, 0)
reach("userfaultfd", 1)
reach("add_key", nowhere, nowhere, 0, 0, 0)
reach("request_key", nowhere, nowhere, 0, 0)
reach("keyctl", 0, -3, 0, 0, 0)
reach("kexec_load", 0, 1 << 20, 0, 1 << 40)
reach("init_module", nowhere, 0, nowhere)
reach("finit_module", -1, nowhere, 0)
reach("name_to_handle_at", -100, b"/", nowhere, nowhere, 0)
reach("open_by_handle_at", -100, nowhere, 0)
reach("quotactl", 0xFFFFFF, 0, 0, 0)
reach("swapon", nowhere, 0)
reach("reboot", 0, 0, 0, 0)
reach("settimeofday", nowhere, nowhere)
reach("clock_settime", 0, nowhere)
reach("adjtimex", nowhere)
reach("acct", nowhere)
reach("syslog", 3, nowhere, 0)
reach("fanotify_init", 0xFFFF, 0xFFFF)
reach("memfd_secret", 0xFFFF)
reach("iopl", 3)
reach("ioperm", 0, 1, 1)
reach("modify_ldt", 0, nowhere, 0)
reach("lookup_dcookie", 0, nowhere, 0)
reach("process_madvise", -1, nowhere, 0, 0, 0)
reach("kcmp", 1, 1, 0, 0, 0)
reach("migrate_pages", 1, 0, 0, 0)
reach("vhangup")
reach("personality", 0x0040000)
"""

_OTHER_NUMBERS = """
machine = os.uname().machine
if machine == "x86_64":
    def run_code(code):
        memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        memory.write(code)
        where = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        return ctypes.CFUNCTYPE(ctypes.c_int)(where)()

    def old_getpid():
        # mov eax, 20 (getpid in 32-bit numbers); int 0x80; ret
        answer = run_code(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")
        if answer != os.getpid():
            raise OSError(-answer if -4096 < answer < 0 else errno.ENOSYS, "int 0x80")

    attempt("a 32-bit call by int 0x80", in_child, old_getpid)

    def x32_getpid():
        if libc.syscall(ctypes.c_long(0x40000000 | 39)) != os.getpid():
            raise OSError(ctypes.get_errno() or errno.ENOSYS, "x32")

    attempt("an x32 call", in_child, x32_getpid)
reach_far = max(GIVEN["calls"].values()) + 1000
ctypes.set_errno(0)
done = libc.syscall(ctypes.c_long(reach_far))
tell("a call without a name", "gained" if done >= 0 else "refused", ctypes.get_errno())
"""

_SOCKETS = """
kinds = {"packet": (17, 3, 0), "raw IP": (2, 3, 1), "raw IPv6": (10, 3, 58), "vsock": (40, 1, 0), "alg": (38, 5, 0),
         "can": (29, 3, 1), "bluetooth": (31, 3, 1), "xdp": (44, 3, 0), "key": (15, 3, 2), "tipc": (30, 1, 0),
         "rds": (21, 5, 0), "netlink audit": (16, 3, 9), "netlink netfilter": (16, 3, 12),
         "netlink uevent": (16, 2, 15), "netlink generic": (16, 3, 16), "netlink diag": (16, 3, 4),
         "sctp": (2, 1, 132), "mptcp": (2, 1, 262),
         "udplite": (2, 2, 136), "smc": (43, 1, 0), "kcm": (41, 2, 0), "x25": (9, 5, 0), "appletalk": (5, 2, 0)}
for name, (family, kind, protocol) in kinds.items():
    attempt(f"a {name} socket", lambda: os.close(call("socket", family, kind, protocol)))
"""

_TERMINALS = """
import fcntl, termios
main, side = os.openpty()
for name, number in (("TIOCSTI", 0x5412), ("TIOCLINUX", 0x541C), ("TIOCSETD", 0x5423)):
    attempt(f"{name} on a terminal", fcntl.ioctl, side, number, b"\\x02\\0\\0\\0")
attempt("TIOCSTI with high bits", lambda: call("ioctl", side, (1 << 32) | 0x5412, b"x"))
"""

PROBES = (
    Probe("T7", "bpf, io_uring, perf, keys, modules and the like cannot be reached", _CALLS),
    Probe("T7", "Other call conventions lead nowhere", _OTHER_NUMBERS),
    Probe("T7", "Exotic sockets cannot be opened", _SOCKETS),
    Probe("T7", "Nothing can be typed into a terminal", _TERMINALS),
)
