"""The filter against the kernel's whole table: on this kernel and, in a small BPF machine, on both architectures."""

from __future__ import annotations

import ctypes
import errno
import itertools
import mmap
import os
import platform
import re
import signal
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.walls.jail.forked import in_child

from cloche.walls.jail import filter, linux, root, seccomp, syscalls

MACHINE = platform.machine()
NUMBERS = syscalls.numbers(MACHINE)
X86_64 = pytest.mark.skipif(MACHINE != "x86_64", reason="only x86_64 has these ways into the kernel")

ALLOWED = [name for names in filter.ALLOWED.values() for name in names]
ANSWERED = [name for names in filter.ANSWERED.values() for name in names]
ABSENT = [name for names in filter.ABSENT.values() for name in names]
REFUSED = [name for names in filter.REFUSED.values() for name in names]

# So that the kernel's own "not permitted" is never taken for the filter's: in the tests, the filter says these.
BY_FILTER, ABSENT_BY_FILTER = 2000 + errno.EPERM, 2000 + errno.ENOSYS


def marked(without: frozenset[str] = frozenset()) -> bytes:
    """The program, with errors that no kernel uses."""
    instructions = list(struct.iter_unpack("=HBBI", filter.program(without=without)))
    marks = {0x50000 | errno.EPERM: 0x50000 | BY_FILTER, 0x50000 | errno.ENOSYS: 0x50000 | ABSENT_BY_FILTER}
    return b"".join(struct.pack("=HBBI", c, t, f, marks.get(k, k) if c == 0x06 else k) for c, t, f, k in instructions)


def inside(probe: Callable[[], object], program: bytes | None) -> str:
    """Return what `probe` returns, as text, in a child under `program` (None: without any filter)."""
    return in_child(probe, None if program is None else lambda: filter.load(program))


_libc = ctypes.CDLL(None, use_errno=True)


def call(name_or_number: str | int, *arguments: int) -> int:
    """The errno of a raw system call; 0 when it succeeds."""
    number = NUMBERS[name_or_number] if isinstance(name_or_number, str) else name_or_number
    passed = [ctypes.c_ulong(a & 0xFFFFFFFFFFFFFFFF) for a in (*arguments, *[0] * (6 - len(arguments)))]
    return 0 if _libc.syscall(ctypes.c_long(number), *passed) != -1 else ctypes.get_errno()


def errors(*calls: tuple[str | int, tuple[int, ...]], without: frozenset[str] = frozenset()) -> list[int]:
    """The errno of each call, under the marked filter."""
    answer = inside(lambda: [call(name, *arguments) for name, arguments in calls], marked(without))
    assert answer.startswith("["), answer
    return [int(number) for number in answer[1:-1].split(",")]


def error(name: str | int, *arguments: int, without: frozenset[str] = frozenset()) -> int:
    return errors((name, arguments), without=without)[0]


# A BPF machine, as much of it as the filter uses


def decide(program: bytes, architecture: int, number: int, arguments: tuple[int, ...] = ()) -> tuple[int, bool]:
    """The verdict of the program, and whether it had to look at an argument."""
    padded = [a & 0xFFFFFFFFFFFFFFFF for a in (*arguments, *[0] * (6 - len(arguments)))]
    data = struct.pack("<IIQ6Q", number & 0xFFFFFFFF, architecture, 0, *padded)
    instructions = list(struct.iter_unpack("=HBBI", program))
    position, accumulator, looked = 0, 0, False
    while True:
        code, yes, no, value = instructions[position]
        position += 1
        if code == 0x20:
            accumulator = struct.unpack_from("<I", data, value)[0]
            looked |= value >= 16
        elif code == 0x54:
            accumulator &= value
        elif code == 0x05:
            position += value
        elif code in (0x15, 0x35, 0x45):
            holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[code]
            position += yes if holds else no
        else:
            assert code == 0x06, f"an instruction that the filter should not use: {code:#x}"
            return value, looked


ALLOW, EPERM, ENOSYS = 0x7FFF0000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
ENOPROTOOPT = 0x50000 | errno.ENOPROTOOPT
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
MACHINES = pytest.mark.parametrize("machine", ARCHITECTURES)
I386, ARM = 0x40000003, 0x40000028


# The policy as a whole


def test_every_call_of_the_kernel_is_in_one_list():
    listed = [*ALLOWED, *ANSWERED, *ABSENT, *REFUSED, *filter.CHECKED]
    assert len(listed) == len(set(listed))
    assert set(listed) == set(syscalls.numbers("x86_64")) | set(syscalls.numbers("aarch64"))


def test_refused_says_what_the_lists_say():
    assert all(filter.refused(name) for name in [*REFUSED, *ABSENT, "a_call_of_tomorrow"])
    assert not any(filter.refused(name) for name in [*ALLOWED, *ANSWERED, *filter.CHECKED])


@pytest.mark.parametrize(
    ("machine", "header"), [("x86_64", "x86_64-linux-gnu/asm/unistd_64.h"), ("aarch64", "asm-generic/unistd.h")]
)
def test_our_numbers_are_those_of_the_installed_headers(machine, header):
    path = Path("/usr/include", header)
    if not path.exists():
        pytest.skip(f"the kernel's headers are not installed: {path}")
    defined = re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)$", path.read_text(), re.MULTILINE)
    ours = syscalls.numbers(machine)
    theirs = {name: int(number) for name, number in defined if name in ours}
    assert len(theirs) > 300
    assert {name: ours[name] for name in theirs} == theirs


@MACHINES
def test_what_is_always_allowed_is_allowed_without_a_look_at_the_arguments(machine):
    program, numbers = filter.program(machine), syscalls.numbers(machine)
    verdicts = {n: decide(program, ARCHITECTURES[machine], numbers[n]) for n in ALLOWED if n in numbers}
    assert set(verdicts.values()) == {(ALLOW, False)}


@MACHINES
def test_what_the_agent_answers_is_allowed_where_there_is_no_agent(machine):
    numbers = syscalls.numbers(machine)
    for program, verdict in ((filter.program(machine), ALLOW), (filter.asking(filter.program(machine)), seccomp.ASK)):
        verdicts = {decide(program, ARCHITECTURES[machine], numbers[name])[0] & ~0xFFFF for name in ANSWERED}
        assert verdicts == {verdict}


@MACHINES
def test_what_is_refused_is_refused_and_the_rest_is_unknown(machine):
    program, numbers = filter.program(machine), syscalls.numbers(machine)
    expected = dict.fromkeys(range(-2, 1100), ENOSYS)
    expected.update((number, EPERM) for name, number in numbers.items() if name in REFUSED)
    for name, number in numbers.items():
        if name in (*ALLOWED, *ANSWERED, *filter.CHECKED):
            del expected[number]
    assert {number: decide(program, ARCHITECTURES[machine], number)[0] for number in expected} == expected


@MACHINES
def test_no_call_of_another_architecture_is_let_through(machine):
    program = filter.program(machine)
    foreign = {I386, ARM, 0, 0xFFFFFFFF, *ARCHITECTURES.values()} - {ARCHITECTURES[machine]}
    assert {decide(program, other, number)[0] for other in foreign for number in range(600)} == {EPERM}


def test_no_number_of_x32_is_let_through():
    program = filter.program("x86_64")
    assert {decide(program, ARCHITECTURES["x86_64"], 0x40000000 + number)[0] for number in range(1024)} == {EPERM}


NAMESPACES = [1 << bit for bit in (17, 25, 26, 27, 28, 29, 30)]
INTERNET, OTHER_FAMILIES = (2, 10), [f for f in range(46) if f not in (1, 2, 10, 16)]
AGENT_AT = {
    "ptrace": (16,),
    "process_vm_readv": (),
    "process_vm_writev": (),
    "prlimit64": (),
    "sched_setaffinity": (),
    "sched_setscheduler": (),
    "sched_setparam": (),
    "sched_setattr": (),
    "setpriority": (0,),
    "ioprio_set": (1,),
}
# The number of arguments before the ids, and of the ids.
IDS_AT = {
    **dict.fromkeys(("setuid", "setgid"), (0, 1)),
    **dict.fromkeys(("setreuid", "setregid"), (0, 2)),
    **dict.fromkeys(("setresuid", "setresgid"), (0, 3)),
    **dict.fromkeys(("chown", "lchown", "fchown"), (1, 2)),
    "fchownat": (2, 2),
}
LEASES_AND_NOTICES = (1024, 1026, 1039, 1040)  # F_SETLEASE, F_NOTIFY, F_GETDELEG, F_SETDELEG
KNOWN_FILE_COMMANDS = [*range(12), 15, 16, 17, 36, 37, 38, 1025, *range(1027, 1039)]
assert not set(KNOWN_FILE_COMMANDS) & set(LEASES_AND_NOTICES)

OWN = (root.UID, 0xFFFFFFFF)

# Every call that depends on its arguments: some that pass, some that do not.
PASSING: list[tuple[str, tuple[int, ...]]] = [
    ("clone", (signal.SIGCHLD,)),
    ("clone", (0x3D0F00,)),  # as pthread_create calls it
    ("clone", (0x4111,)),  # as vfork and posix_spawn do
    *(("socket", (family, kind | 0x80800, 0)) for family in INTERNET for kind in (1, 2)),
    *(("socket", (2, 1, protocol)) for protocol in (0, 6)),
    *(("socket", (2, 2, protocol)) for protocol in (0, 1, 17)),
    *(("socket", (1, kind | 0x80000, 0)) for kind in (1, 2, 5)),
    *(("socket", (16, kind | 0x80000, 0)) for kind in (2, 3)),
    *(("socketpair", (1, kind, 0)) for kind in (1, 2, 5)),
    ("setsockopt", (3, 6, 1)),
    ("setsockopt", (3, 1, 31)),
    *(("ioctl", (0, command)) for command in (0x5401, 0x5413, 0x5411, 0x541B, 0x5421, 0x80045430, 0x5441)),
    *(("fcntl", (0, command)) for command in KNOWN_FILE_COMMANDS),
    *(("mknod", (0, kind | 0o644)) for kind in (0, 0x8000, 0x1000, 0xC000)),
    *(("mknodat", (0, 0, kind | 0o644)) for kind in (0, 0x8000, 0x1000, 0xC000)),
    *(("personality", (value,)) for value in (0, 8, 0x20000, 0x20008, 0xFFFFFFFF, -1)),
    *(("prctl", (option,)) for option in (1, 4, 15, 22, 23, 38)),
    ("seccomp", (1, 0)),
    ("seccomp", (1, 1)),
    *((name, (*before, pid)) for name, before in AGENT_AT.items() for pid in (0, 2, 11, 257, 0x10000)),
    ("move_pages", (0,)),
    *((name, (0,) * before + ids) for name, (before, n) in IDS_AT.items() for ids in itertools.product(OWN, repeat=n)),
]
FAILING: list[tuple[str, tuple[int, ...]]] = [
    *(("clone", (flag | signal.SIGCHLD,)) for flag in NAMESPACES),
    *(
        ("socket", (family, kind | flags, 0))
        for family in INTERNET
        for kind in (3, 4, 5, 6, 10)
        for flags in (0, 0x80800)
    ),
    *(("socket", (family, 1, protocol)) for family in INTERNET for protocol in (33, 115, 132, 136, 255, 262)),
    *(("socket", (family, kind, 0)) for family in OTHER_FAMILIES for kind in (1, 2, 3, 5)),
    *(("socket", (16, 3, protocol)) for protocol in range(1, 32)),
    ("socket", (1, 3, 0)),
    *(("socketpair", (family, 1, 0)) for family in (2, 10, 16, *OTHER_FAMILIES)),
    ("setsockopt", (3, 6, 31)),
    *(("ioctl", (0, command)) for command in (0x5412, 0x541C, 0x5423)),
    *(("fcntl", (0, command)) for command in range(1100) if command not in KNOWN_FILE_COMMANDS),
    *(("fcntl", (0, command)) for command in (0x400 | 1 << 31, 0xFFFFFFFF, 1 << 16)),
    *(("mknod", (0, kind | 0o644)) for kind in (0x2000, 0x6000, 0x4000, 0xA000, 0xF000)),
    *(("mknodat", (0, 0, kind | 0o644)) for kind in (0x2000, 0x6000, 0x4000, 0xA000, 0xF000)),
    *(("personality", (value,)) for value in (0x40000, 0x400000, 0x100000, 1, 6, 0x20001)),
    ("prctl", (62,)),
    ("seccomp", (1, 8)),
    ("seccomp", (1, 9)),
    *((name, (*before, 1)) for name, before in AGENT_AT.items()),
    *(("setpriority", (which, who)) for which in (1, 2) for who in (0, 1, 1000)),
    *(("ioprio_set", (which, who)) for which in (0, 2, 3) for who in (0, 1, 1000)),
    *(("move_pages", (pid,)) for pid in (1, 2)),
    *(
        (name, (0,) * before + tuple(other if position == at else root.UID for position in range(n)))
        for name, (before, n) in IDS_AT.items()
        for at in range(n)
        for other in (0, 1, 999, 65534, root.UID + 1, root.UID | 1 << 16)
    ),
]


@MACHINES
def test_what_depends_on_arguments_is_decided_by_what_the_kernel_will_use_of_them(machine):
    program, numbers = filter.program(machine), syscalls.numbers(machine)
    cases = [*((*case, ALLOW) for case in PASSING), *((*case, EPERM) for case in FAILING)]
    assert {name for name, _, _ in cases} == set(filter.CHECKED)
    for name, arguments, expected in cases:
        if name not in numbers:
            continue
        # The kernel drops the high halves, so they must not change the verdict either.
        for high in itertools.product((0, 1 << 32, 0xFFFFFFFF << 32), repeat=len(arguments)):
            disguised = tuple(a | h for a, h in zip(arguments, high, strict=True))
            verdict = decide(program, ARCHITECTURES[machine], numbers[name], disguised)[0]
            assert verdict == expected, (name, disguised)


@MACHINES
def test_where_nobody_counts_shared_memory_there_is_only_what_processes_map(machine):
    numbers, arch = syscalls.numbers(machine), ARCHITECTURES[machine]
    usual, counted = filter.program(machine), filter.program(machine, shared_memory=False)
    for name in ("memfd_create", "msgget", "vmsplice"):
        assert decide(usual, arch, numbers[name])[0] == ALLOW
        assert decide(counted, arch, numbers[name])[0] == ENOSYS
    for level, option, expected in ((1, 60, ENOPROTOOPT), (1, 2, ALLOW), (6, 60, ALLOW), (6, 31, EPERM)):
        assert decide(usual, arch, numbers["setsockopt"], (3, level, option))[0] == (EPERM if option == 31 else ALLOW)
        assert decide(counted, arch, numbers["setsockopt"], (3, level, option))[0] == expected
    for count, expected in ((0, ALLOW), (20, ALLOW), (32, ALLOW), (33, EPERM), (32000, EPERM), (7 << 32 | 33, EPERM)):
        assert decide(usual, arch, numbers["semget"], (0, count))[0] == ALLOW
        assert decide(counted, arch, numbers["semget"], (0, count))[0] == expected
    for size, expected in (
        (0, ALLOW),
        (56, ALLOW),
        (16 << 10, ALLOW),
        (16385, EPERM),
        (1 << 30, EPERM),
        (1 << 32, EPERM),
    ):
        assert decide(usual, arch, numbers["shmget"], (0, size))[0] == ALLOW
        assert decide(counted, arch, numbers["shmget"], (0, size))[0] == expected
        assert decide(counted, arch, numbers["shmget"], (0, size | 7 << 32))[0] == EPERM


@MACHINES
def test_a_call_taken_out_of_the_filter_is_allowed_and_no_other(machine):
    numbers = syscalls.numbers(machine)
    opened = filter.program(machine, without=frozenset({"bpf", "clone"}))
    arch = ARCHITECTURES[machine]
    refused = [name for name in REFUSED if name in numbers]
    assert [name for name in refused if decide(opened, arch, numbers[name])[0] != EPERM] == ["bpf"]
    assert decide(opened, arch, numbers["clone"], (0x10000000,)) == (ALLOW, False)


def test_a_name_that_does_not_exist_cannot_be_taken_out():
    with pytest.raises(ValueError, match="nosuch"):
        filter.program(without=frozenset({"nosuch"}))


def test_an_unknown_machine_has_no_filter():
    with pytest.raises(KeyError):
        filter.program("riscv64")


# The same against the kernel


def test_every_refused_call_is_refused_by_the_kernel():
    names = [name for name in [*REFUSED, *ABSENT] if name in NUMBERS]
    expected = [errno.EPERM if name in REFUSED else errno.ENOSYS for name in names]
    # Arguments that are of no use to any call, should the filter let one through.
    answer = inside(lambda: [call(name, -1, -1, -1, -1, -1, -1) for name in names], filter.program())
    assert dict(zip(names, answer[1:-1].split(", "), strict=True)) == dict(zip(names, map(str, expected), strict=True))


def test_every_refusal_is_the_filters_and_not_the_kernels():
    names = [name for name in [*REFUSED, *ABSENT] if name in NUMBERS]
    found = errors(*((name, (-1,) * 6) for name in names))
    expected = [BY_FILTER if name in REFUSED else ABSENT_BY_FILTER for name in names]
    assert dict(zip(names, found, strict=True)) == dict(zip(names, expected, strict=True))


def test_every_number_that_we_do_not_know_is_absent():
    unknown = [number for number in range(1100) if number not in NUMBERS.values()]
    assert set(errors(*((number, (-1,) * 6) for number in unknown))) == {ABSENT_BY_FILTER}


def test_every_refusal_that_depends_on_arguments_is_made_by_the_kernel():
    failing = [case for case in FAILING if case[0] in NUMBERS]
    high = [(name, tuple(a | 0xFFFFFFFF << 32 for a in arguments)) for name, arguments in failing]
    assert set(errors(*failing, *high)) == {BY_FILTER}


@X86_64
def test_no_call_can_be_made_through_int_0x80():
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    # push rbx; mov eax, edi; mov ebx, esi; int 0x80; pop rbx; ret
    code.write(bytes.fromhex("53 89f8 89f3 cd80 5b c3"))
    int_0x80 = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int)(
        ctypes.addressof(ctypes.c_char.from_buffer(code))
    )
    getpid, unshare, newuser = 20, 310, 0x10000000
    if inside(lambda: int_0x80(getpid, 0) == os.getpid(), None) != "True":
        pytest.skip("this kernel does not run 32-bit calls")  # with it, the call would go through, as just seen
    assert inside(lambda: int_0x80(getpid, 0), filter.program()) == str(-errno.EPERM)
    assert inside(lambda: int_0x80(unshare, newuser), marked()) == str(-BY_FILTER)


@X86_64
def test_no_call_can_be_made_through_x32():
    x32 = [0x40000000 + number for number in (39, 272, 520, *range(600))]
    assert set(errors(*((number, (-1,) * 6) for number in x32))) == {BY_FILTER}
    assert inside(lambda: call(0x40000000 + 39), None) != str(BY_FILTER)


def user_namespace() -> int:
    pid = os.fork()
    if not pid:
        os._exit(call("unshare", linux.NEWUSER) & 0xFF)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_no_namespace_by_unshare():
    if inside(user_namespace, None) != "0":
        pytest.skip("this host makes no user namespaces for us, so that the attack cannot be shown to work")
    assert inside(user_namespace, marked()) == str(BY_FILTER & 0xFF)
    assert inside(user_namespace, marked(frozenset({"unshare"}))) == "0"


def clone_into_user_namespace() -> int:
    pid = int(
        _libc.syscall(ctypes.c_long(NUMBERS["clone"]), ctypes.c_ulong(linux.NEWUSER | signal.SIGCHLD), 0, 0, 0, 0)
    )
    if pid == 0:
        os._exit(0)
    return ctypes.get_errno() if pid < 0 else os.waitpid(pid, 0)[1]


def test_no_namespace_by_clone():
    if inside(clone_into_user_namespace, None) != "0":
        pytest.skip("this host makes no user namespaces for us, so that the attack cannot be shown to work")
    assert inside(clone_into_user_namespace, marked()) == str(BY_FILTER)
    assert inside(clone_into_user_namespace, marked(frozenset({"clone"}))) == "0"


def clone3_into_user_namespace() -> int:
    arguments = struct.pack("=11Q", linux.NEWUSER, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
    pid = int(_libc.syscall(ctypes.c_long(NUMBERS["clone3"]), arguments, ctypes.c_ulong(len(arguments))))
    if pid == 0:
        os._exit(0)
    return ctypes.get_errno() if pid < 0 else os.waitpid(pid, 0)[1]


def test_no_namespace_by_clone3():
    if inside(clone3_into_user_namespace, None) != "0":
        pytest.skip("this host makes no user namespaces for us, so that the attack cannot be shown to work")
    assert inside(clone3_into_user_namespace, marked()) == str(ABSENT_BY_FILTER)
    assert inside(clone3_into_user_namespace, marked(frozenset({"clone3"}))) == "0"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("mount", (0, 0, 0, 0, 0)),
        ("fsopen", (0, 0)),
        ("open_tree", (-1, 0, 0)),
        ("move_mount", (-1, 0, -1, 0, 0)),
        ("mount_setattr", (-1, 0, 0, 0, 0)),
        ("bpf", (-1, 0, 0)),
        ("io_uring_setup", (0, 0)),
        ("perf_event_open", (0, 0, 0, -1, 0)),
        ("userfaultfd", (-1,)),
        ("keyctl", (0, -3, 0)),
        ("open_by_handle_at", (-1, 0, 0)),
        ("name_to_handle_at", (-1, 0, 0, 0, 0)),
        ("pidfd_getfd", (-1, 0, 0)),
        ("setns", (-1, 0)),
        ("chroot", (0,)),
        ("io_setup", (0, 0)),
        ("personality", (0x40000,)),
        ("socket", (40, 1, 0)),  # AF_VSOCK
        ("socket", (2, 3, 1)),  # a raw socket
        ("socket", (17, 3, 0)),  # AF_PACKET
        ("socket", (16, 3, 12)),  # NETLINK_NETFILTER
        ("socket", (2, 1, 262)),  # MPTCP
        ("prctl", (62, 0, 0, 0, 0)),
        ("ptrace", (16, 1)),
        ("prlimit64", (1, 7, 0, 0)),
        ("sched_setaffinity", (1, 0, 0)),
    ],
)
def test_with_its_line_taken_out_the_kernel_itself_gets_the_call(name, arguments):
    assert error(name, *arguments) in (BY_FILTER, ABSENT_BY_FILTER)
    assert error(name, *arguments, without=frozenset({name})) not in (BY_FILTER, ABSENT_BY_FILTER)


def test_no_typing_into_a_terminal_whatever_the_high_bits():
    tiocsti = 0x5412
    for high in (0, 1 << 32, 0xFFFFFFFF << 32):
        assert error("ioctl", -1, tiocsti | high) == BY_FILTER
        assert error("ioctl", -1, tiocsti | high, without=frozenset({"ioctl"})) == errno.EBADF
    assert error("ioctl", -1, 0x5401) == errno.EBADF


def make_node(path: Path, mode: int, device: int = 0) -> object:
    try:
        os.mknod(path, mode, device)
    except OSError as failed:
        return failed.errno
    return path.exists()


def test_fifos_can_be_made_but_no_devices(tmp_path):
    null = os.makedev(1, 3)
    assert inside(lambda: make_node(tmp_path / "fifo", 0o010600), filter.program()) == "True"
    assert inside(lambda: make_node(tmp_path / "file", 0o100600), filter.program()) == "True"
    assert inside(lambda: make_node(tmp_path / "node", 0o020600, null), marked()) == str(BY_FILTER)
    assert inside(lambda: make_node(tmp_path / "disk", 0o060600, null), marked()) == str(BY_FILTER)
    opened = marked(frozenset({"mknod", "mknodat"} & NUMBERS.keys()))
    assert inside(lambda: make_node(tmp_path / "node", 0o020600, null), opened) != str(BY_FILTER)


def test_the_filter_is_not_loaded_without_no_new_privs():
    pid = os.fork()
    if not pid:
        try:
            filter.load(filter.program())
        except OSError as failed:
            os._exit(failed.errno or 255)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == errno.EPERM


def test_a_broken_program_is_an_error():
    assert inside(lambda: None, b"\xff" * 8) == "EINVAL"
    assert inside(lambda: None, b"") == "EINVAL"


def test_a_program_may_filter_itself_further():
    def twice() -> int:
        filter.load(filter.program())
        return call("getpid")

    assert inside(twice, filter.program()) == "0"
