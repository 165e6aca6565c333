"""The system-call filter: the list of calls that a program in the jail may make, compiled to a BPF program.

The jail loads it last.  It is an allowlist: a call that is in none of the lists below is refused.  A refused call fails
with EPERM and the program goes on; no program is killed for it.  A number that our tables do not contain fails with
ENOSYS, as on a kernel without that call, so that a newer libc falls back to its older method.

The filter is one layer of several.  It keeps rarely used parts of the kernel out of reach, and it stops programs from
making namespaces and mounts of their own; other layers decide which files, processes and addresses exist.
"""

from __future__ import annotations

import errno
import os
from _struct import pack

from cloche.walls.jail import syscalls
from cloche.walls.jail.seccomp import ASK, NEW_LISTENER, load

__all__ = [
    "ABSENT",
    "ALLOWED",
    "ANSWERED",
    "CHECKED",
    "REFUSED",
    "asking",
    "for_sandboxes",
    "load",
    "program",
    "refused",
]


def for_sandboxes(without: list[str], shared_memory: bool = True) -> tuple[bytes, bytes]:
    """The usual filter, and one for sandboxes that can write to host folders; both pass refused calls to a listener.

    Made by a nursery's keeper, while the nursery itself starts.
    """
    allowed = frozenset(name[5:] for name in without if name.startswith("call:"))
    usual = program(without=allowed, shared_memory=shared_memory)
    writing = program(without=allowed, setuid_files="setuid files" in without, shared_memory=shared_memory)
    return asking(usual), asking(writing)


def refused(name: str) -> bool:
    """Return whether a call fails with any arguments, as every call does that is in none of the lists."""
    return name not in CHECKED and not any(name in names for names in (*ALLOWED.values(), *ANSWERED.values()))


def program(
    machine: str = os.uname().machine,
    without: frozenset[str] = frozenset(),
    setuid_files: bool = True,
    shared_memory: bool = True,
) -> bytes:
    """The filter as an array of `struct sock_filter`.

    The calls named in `without` are allowed, only for tests that prove that the filter is what stops an attack.
    Without `setuid_files` no file can be made setuid or setgid: where a folder of the host can be written, such a file
    would work on the host, with the rights of the folder's owner.  Without `shared_memory` programs cannot make memory
    that none of them maps: where no control group counts it, nobody would (counted_group.py).
    """
    variant = (machine, without, setuid_files, shared_memory)
    if variant not in _programs:
        _programs[variant] = _build(*variant)
    return _programs[variant]


def asking(program: bytes) -> bytes:
    """The same filter, but refused and answered calls go to the process with the listener that `load` returns."""
    instructions = (program[i : i + 8] for i in range(0, len(program), 8))
    return b"".join(_ASK if instruction in (_EPERM, _ANSWER) else instruction for instruction in instructions)


# The assembler.  A block is a sequence of instructions whose every path ends in a verdict, so blocks can be combined
# without labels: a test is followed by the block for "yes" and then by the block for "no".


def _instruction(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return pack("=HBBI", code, yes, no, value)


def _verdict(action: int) -> bytes:
    return _instruction(0x06, action)  # BPF_RET | BPF_K


_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS: from struct seccomp_data
_AND = 0x54  # BPF_ALU | BPF_AND | BPF_K
_SKIP = 0x05  # BPF_JMP | BPF_JA
_EQUAL, _AT_LEAST, _ANY_BIT = 0x15, 0x35, 0x45  # BPF_JMP | BPF_JEQ, BPF_JGE, BPF_JSET

_LOAD_NUMBER, _LOAD_ARCHITECTURE = _instruction(_LOAD, 0), _instruction(_LOAD, 4)


def _argument(index: int, mask: int = 0) -> bytes:
    # The low half of an argument is enough for all arguments that we check: each is an int, a pid_t, a umode_t or, in
    # `clone`, cut to 32 bits by the kernel.  Comparing the high half as well would let a caller avoid a refusal by
    # setting bits there that the kernel then drops.  (Both of our machines are little-endian.)
    load = _instruction(_LOAD, 16 + 8 * index)
    return load + _instruction(_AND, mask) if mask else load


def _when(test: int, values: tuple[int, ...], yes: bytes, no: bytes) -> bytes:
    # Tests follow one another; the first that succeeds leads to `yes`, and `no` comes after the last.  A conditional
    # jump reaches 255 instructions; where `yes` is longer, the path to `no` takes a long jump in front of `yes`.
    length = len(yes) // 8
    far = length > 255
    tests = [_instruction(test, value, len(values) - 1 - i + far) for i, value in enumerate(values)]
    tests[-1] = _instruction(test, values[-1], far, 0 if far else length)
    return b"".join(tests) + (_instruction(_SKIP, length) if far else b"") + yes + no


_ALLOW, _ASK = _verdict(0x7FFF0000), _verdict(ASK)
_ANSWER = _verdict(0x7FFF0001)  # allowed: the kernel ignores the number, by which `asking` finds it
_EPERM, _ENOSYS = _verdict(0x00050000 | errno.EPERM), _verdict(0x00050000 | errno.ENOSYS)
_ENOPROTOOPT = _verdict(0x00050000 | errno.ENOPROTOOPT)


# The policy.  First the calls that are allowed with any arguments: the kernel remembers these in a bitmap and does not
# even run the filter for them.  Each list gives its reason; a name that one of the machines lacks is skipped there.

ALLOWED: dict[str, tuple[str, ...]] = {
    reason: tuple(names.split())
    for reason, names in {
        "reading, writing and waiting: on descriptors that were opened within the walls": """
            read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close close_range dup dup2
            dup3 flock fsync fdatasync sync syncfs sync_file_range sendfile splice tee vmsplice copy_file_range
            readahead fadvise64 fallocate pipe pipe2 poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl
            epoll_wait epoll_pwait epoll_pwait2 eventfd eventfd2 signalfd signalfd4 timerfd_create timerfd_settime
            timerfd_gettime inotify_init inotify_init1 inotify_add_watch inotify_rm_watch""",
        "files and directories: which there are is decided by the mounts, permissions and Landlock": """
            open openat openat2 creat stat lstat fstat newfstatat statx statfs fstatfs access faccessat faccessat2
            getdents getdents64 getcwd chdir fchdir mkdir mkdirat rmdir link linkat symlink symlinkat readlink
            readlinkat unlink unlinkat rename renameat renameat2 truncate ftruncate chmod fchmod fchmodat fchmodat2
            umask utime utimes futimesat utimensat setxattr lsetxattr fsetxattr
            setxattrat getxattr lgetxattr fgetxattr getxattrat listxattr llistxattr flistxattr listxattrat removexattr
            lremovexattr fremovexattr removexattrat""",
        "memory: its own, counted by the cgroup": """
            mmap munmap mprotect mremap msync mincore madvise brk mlock mlock2 munlock mlockall munlockall
            memfd_create membarrier mseal map_shadow_stack pkey_alloc pkey_free pkey_mprotect""",
        "memory nodes: of its own memory (libnuma, OpenMP, the JVM); the cgroup's cpuset has the last word": """
            get_mempolicy set_mempolicy set_mempolicy_home_node mbind""",
        "processes and threads: its own, in its own pid namespace, counted by the cgroup": """
            fork vfork execve execveat exit exit_group wait4 waitid getpid getppid gettid getpgid setpgid getpgrp
            getsid setsid set_tid_address set_robust_list get_robust_list rseq arch_prctl restart_syscall pidfd_open
            futex futex_waitv futex_wake futex_wait futex_requeue""",
        "signals: within the pid namespace, whose pid 1 takes none that it has no handler for": """
            rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend rt_sigqueueinfo
            rt_tgsigqueueinfo sigaltstack kill tkill tgkill pidfd_send_signal pause""",
        "scheduling, asked about or yielded": """
            sched_yield sched_getparam sched_getscheduler sched_getattr sched_get_priority_max
            sched_get_priority_min sched_rr_get_interval getpriority ioprio_get getcpu""",
        "time: reading clocks, sleeping, own timers": """
            time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep alarm getitimer setitimer
            timer_create timer_settime timer_gettime timer_getoverrun timer_delete times""",
        "sockets, once `socket` has agreed to their kind": """
            connect accept accept4 bind listen shutdown getsockname getpeername getsockopt sendto recvfrom sendmsg
            recvmsg sendmmsg recvmmsg""",
        "System V and POSIX message passing: in its own ipc namespace": """
            shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl mq_open mq_unlink
            mq_timedsend mq_timedreceive mq_notify mq_getsetattr""",
        "identity: asking is free, and changing fails by itself, for there is no capability": """
            getuid geteuid getgid getegid getgroups getresuid getresgid setfsuid setfsgid setgroups capget capset""",
        "small questions about the system and about oneself": """
            uname sysinfo getrandom getrusage getrlimit setrlimit""",
        "walls within the walls: programs may lock themselves up further": """
            landlock_create_ruleset landlock_add_rule landlock_restrict_self""",
        "probes: entered only from code that a tracer on the host has put there; killed by the kernel otherwise": """
            uretprobe uprobe""",
    }.items()
}

# Calls that are allowed, but that the agent answers where there is one (shown_limits.py).
ANSWERED: dict[str, tuple[str, ...]] = {
    "the CPUs, by which programs choose the number of their threads: as many as the sandbox has": ("sched_getaffinity",)
}

_AGENT = 1  # its pid; programs share its user, so the kernel alone would let them slow it down or take its limits

_NEW_NAMESPACE = 0x7E020000  # CLONE_NEWNS, -CGROUP, -UTS, -IPC, -USER, -PID, -NET; `clone` cannot express -TIME
_S_IFMT, _REGULAR, _FIFO, _SOCKET = 0xF000, (0, 0x8000), 0x1000, 0xC000
_TIOCSTI, _TIOCLINUX, _TIOCSETD = 0x5412, 0x541C, 0x5423
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK, _NETLINK_ROUTE = 1, 2, 10, 16, 0
_SOCK_TYPE, _STREAM, _DGRAM, _SEQPACKET = 0xF, 1, 2, 5
_ICMP, _TCP, _UDP, _ICMPV6 = 1, 6, 17, 58
_TCP_ULP, _PR_SCHED_CORE = 31, 62
_SOL_SOCKET, _SO_ZEROCOPY = 1, 60
# F_DUPFD to F_GETOWNER_UIDS, without the 32-bit locks; F_OFD_GETLK, _SETLK, _SETLKW; F_GETLEASE; F_DUPFD_QUERY,
# F_CREATED_QUERY, F_CANCELLK, F_DUPFD_CLOEXEC, F_SETPIPE_SZ, F_GETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS, hints for writes.
_FILE_COMMANDS = (*range(12), 15, 16, 17, 36, 37, 38, 1025, *range(1027, 1039))

_USERS = (1000, 0xFFFFFFFF)  # the sandbox's own (root.UID), and "unchanged"

_ONE_USER = "to its own user; the kernel would answer EINVAL for ids that are not mapped, and EPERM is the usual answer"
_THE_AGENT_IS_SPARED = "the agent is left alone: it cannot be named"


def _own_user(*indexes: int) -> bytes:
    """The arguments with these indexes are ids, of users or groups."""
    block = _ALLOW
    for index in reversed(indexes):
        block = _argument(index) + _when(_EQUAL, _USERS, block, _EPERM)
    return block


def _spares_the_agent(index: int) -> bytes:
    return _argument(index) + _when(_EQUAL, (_AGENT,), _EPERM, _ALLOW)


def _single_process(which: int) -> bytes:
    # `which` must mean "one process": otherwise `who` may name a process group or a user that includes the agent.
    return _argument(0) + _when(_EQUAL, (which,), _spares_the_agent(1), _EPERM)


def _node(index: int) -> bytes:
    return _argument(index, _S_IFMT) + _when(_EQUAL, (*_REGULAR, _FIFO, _SOCKET), _ALLOW, _EPERM)


def _socket() -> bytes:
    local = _argument(1, _SOCK_TYPE) + _when(_EQUAL, (_STREAM, _DGRAM, _SEQPACKET), _ALLOW, _EPERM)
    protocols = _argument(2) + _when(_EQUAL, (0, _TCP, _UDP, _ICMP, _ICMPV6), _ALLOW, _EPERM)
    internet = _argument(1, _SOCK_TYPE) + _when(_EQUAL, (_STREAM, _DGRAM), protocols, _EPERM)
    # Any type: raw is the usual type here and gives no power.  glibc lists interfaces this way, also for `getaddrinfo`.
    routes = _argument(2) + _when(_EQUAL, (_NETLINK_ROUTE,), _ALLOW, _EPERM)
    others = _when(_EQUAL, (_AF_NETLINK,), routes, _EPERM)
    return _argument(0) + _when(_EQUAL, (_AF_UNIX,), local, _when(_EQUAL, (_AF_INET, _AF_INET6), internet, others))


# Calls that depend on their arguments: the reason, and the block that decides.
CHECKED: dict[str, tuple[str, bytes]] = {
    "clone": (
        "threads and processes, but no namespace: a user namespace would give capabilities back",
        _argument(0) + _when(_ANY_BIT, (_NEW_NAMESPACE,), _EPERM, _ALLOW),
    ),
    "socket": (
        "Unix, TCP, UDP and ping, and asking for routes; raw sockets and other families or protocols are kernel "
        "surface, some of them modules that would be loaded for the asking",
        _socket(),
    ),
    "socketpair": ("Unix only, as for `socket`", _argument(0) + _when(_EQUAL, (_AF_UNIX,), _ALLOW, _EPERM)),
    "setsockopt": (
        "all but TCP_ULP: TLS in the kernel has been a way in more than once, and every TLS library does without",
        _argument(1) + _when(_EQUAL, (_TCP,), _argument(2) + _when(_EQUAL, (_TCP_ULP,), _EPERM, _ALLOW), _ALLOW),
    ),
    "ioctl": (
        "all but typing into a terminal (TIOCSTI, TIOCLINUX) and changing its line discipline (TIOCSETD)",
        _argument(1) + _when(_EQUAL, (_TIOCSTI, _TIOCLINUX, _TIOCSETD), _EPERM, _ALLOW),
    ),
    "fcntl": (
        "no leases, delegations and directory notices (F_SETLEASE, F_SETDELEG, F_NOTIFY): they are kept with the file, "
        "which sandboxes share, and whoever opens it waits for their holder; nor commands that we do not know",
        _argument(1) + _when(_EQUAL, _FILE_COMMANDS, _ALLOW, _EPERM),
    ),
    "mknod": ("files, fifos and sockets, but no devices", _node(1)),
    "mknodat": ("files, fifos and sockets, but no devices", _node(2)),
    "personality": (
        "the values that Docker lets through: asking, plain Linux, 32-bit and 2.6 as names",
        _argument(0) + _when(_EQUAL, (0, 8, 0x20000, 0x20008, 0xFFFFFFFF), _ALLOW, _EPERM),
    ),
    "prctl": (
        "all but PR_SCHED_CORE, which idles a sibling core that belongs to a neighbour",
        _argument(0) + _when(_EQUAL, (_PR_SCHED_CORE,), _EPERM, _ALLOW),
    ),
    "seccomp": (
        "programs may filter themselves, but not answer for others (SECCOMP_FILTER_FLAG_NEW_LISTENER)",
        _argument(1) + _when(_ANY_BIT, (NEW_LISTENER,), _EPERM, _ALLOW),
    ),
    **{name: (_ONE_USER, _own_user(0)) for name in ("setuid", "setgid")},
    **{name: (_ONE_USER, _own_user(0, 1)) for name in ("setreuid", "setregid")},
    **{name: (_ONE_USER, _own_user(0, 1, 2)) for name in ("setresuid", "setresgid")},
    **{name: (_ONE_USER, _own_user(1, 2)) for name in ("chown", "lchown", "fchown")},
    "fchownat": (_ONE_USER, _own_user(2, 3)),
    # Debuggers and sanitizers need these.  With ptrace allowed, refusing to write memory would protect nobody.  The
    # agent is also not dumpable, so that this check is the second one.
    "ptrace": (_THE_AGENT_IS_SPARED, _spares_the_agent(1)),
    "process_vm_readv": (_THE_AGENT_IS_SPARED, _spares_the_agent(0)),
    "process_vm_writev": (_THE_AGENT_IS_SPARED, _spares_the_agent(0)),
    "prlimit64": (_THE_AGENT_IS_SPARED, _spares_the_agent(0)),
    "sched_setaffinity": (_THE_AGENT_IS_SPARED, _spares_the_agent(0)),
    "sched_setscheduler": (_THE_AGENT_IS_SPARED, _spares_the_agent(0)),
    "sched_setparam": (_THE_AGENT_IS_SPARED, _spares_the_agent(0)),
    "sched_setattr": (_THE_AGENT_IS_SPARED, _spares_the_agent(0)),
    "setpriority": (_THE_AGENT_IS_SPARED, _single_process(0)),  # PRIO_PROCESS
    "ioprio_set": (_THE_AGENT_IS_SPARED, _single_process(1)),  # IOPRIO_WHO_PROCESS
    "move_pages": ("only its own: the JVM asks where they are", _argument(0) + _when(_EQUAL, (0,), _ALLOW, _EPERM)),
}

# Known calls that fail with ENOSYS: callers have a fallback, and only this answer makes them use it.
ABSENT: dict[str, tuple[str, ...]] = {
    reason: tuple(names.split())
    for reason, names in {
        "its flags are in memory, where a filter cannot look; libc then uses `clone`": "clone3",
        "asynchronous I/O of old: its contexts are counted host-wide (fs.aio-max-nr), and could be used up": """
            io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents""",
        "newer than any program that needs them, and the older ways work": """
            statmount listmount file_getattr file_setattr cachestat""",
    }.items()
}

# Calls that fail with EPERM.  Unlisted calls fail too; the list lets a test distinguish "refused" from "forgotten".
REFUSED: dict[str, tuple[str, ...]] = {
    reason: tuple(names.split())
    for reason, names in {
        "mounts: the tree stays as the jail made it": """
            mount umount2 pivot_root chroot fsopen fsconfig fsmount fspick open_tree open_tree_attr move_mount
            mount_setattr""",
        "namespaces: they give back capabilities, and with them most of the kernel": "unshare setns",
        "wide or young kernel surface, the usual way out": """
            bpf io_uring_setup io_uring_enter io_uring_register perf_event_open userfaultfd""",
        "keys: not kept apart by any namespace": "add_key request_key keyctl",
        "file handles: they go around paths, and once led out of Docker": "name_to_handle_at open_by_handle_at",
        "other processes' insides, by ways that debuggers do not need": """
            pidfd_getfd kcmp process_madvise process_mrelease migrate_pages""",
        "the machine: its kernel, modules, swap, log, accounts, quotas, names and watchers of whole file systems": """
            kexec_load kexec_file_load init_module finit_module delete_module create_module query_module
            get_kernel_syms swapon swapoff reboot syslog acct quotactl quotactl_fd sethostname setdomainname vhangup
            fanotify_init fanotify_mark lookup_dcookie""",
        "clocks: to set them (reading with adjtimex is no loss)": """
            settimeofday clock_settime clock_adjtime adjtimex""",
        "security modules: the host's": "lsm_get_self_attr lsm_set_self_attr lsm_list_modules",
        "processor: ports and segments (only emulators of old systems need them)": """
            iopl ioperm modify_ldt set_thread_area get_thread_area""",
        "memory that nobody else can look into, and a call that mmap has replaced": "memfd_secret remap_file_pages",
        "dead: no kernel of today has them, or no program": """
            _sysctl uselib ustat sysfs nfsservctl getpmsg putpmsg afs_syscall tuxcall security vserver epoll_ctl_old
            epoll_wait_old""",
    }.items()
}


# AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64.
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# x86_64 has a second set of numbers, x32, under the same architecture: those with bit 30.
_X32, _PAST_X32 = 0x40000000, 0x80000000

_programs: dict[tuple[str, frozenset[str], bool, bool], bytes] = {}


def _build(machine: str, without: frozenset[str], setuid_files: bool, shared_memory: bool) -> bytes:
    numbers = syscalls.numbers(machine)
    blocks = dict.fromkeys(numbers, _EPERM)
    for names in ALLOWED.values():
        blocks.update(dict.fromkeys(names, _ALLOW))
    for names in ANSWERED.values():
        blocks.update(dict.fromkeys(names, _ANSWER))
    for names in ABSENT.values():
        blocks.update(dict.fromkeys(names, _ENOSYS))
    blocks.update((name, block) for name, (_, block) in CHECKED.items())
    if not setuid_files:
        blocks.update({name: _plain_mode(index, blocks[name]) for name, index in _MODES.items() if name in blocks})
        blocks.update({name: _plain_mode_if_made(index) for name, index in _OPENS.items() if name in blocks})
        blocks["openat2"] = _ENOSYS  # the filter cannot see its mode; callers fall back to openat
    if not shared_memory:
        blocks["memfd_create"] = _ENOSYS  # callers fall back to a file in /dev/shm or /tmp, which the disk limits
        blocks["shmget"] = _small_segment()
        blocks["semget"] = _argument(1) + _when(_AT_LEAST, (_SEMAPHORES + 1,), _EPERM, _ALLOW)
        blocks["msgget"] = _ENOSYS  # 32,000 queues hold 500 MB, and up to 32 GB in empty messages
        # A page in a pipe, or in a socket that does not copy it, keeps the huge page around it, which nobody maps.
        blocks["vmsplice"] = _ENOSYS
        blocks["setsockopt"] = _without_zero_copy(blocks["setsockopt"])
    if not without <= numbers.keys():
        raise ValueError(f"no such system calls: {sorted(without - numbers.keys())}")
    blocks.update(dict.fromkeys(without, _ALLOW))

    # A foreign architecture (32-bit calls through int 0x80) has other numbers: refuse it before any number is compared.
    known = _LOAD_NUMBER + _search(_ranges({numbers[name]: blocks[name] for name in numbers}, machine))
    return _LOAD_ARCHITECTURE + _when(_EQUAL, (_ARCHITECTURE[machine],), known, _EPERM)


# The position of a file's mode among the arguments; calls that open files have it only when they create one.
_MODES = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mkdir": 1, "mkdirat": 2}
_MODES |= {"mknod": 1, "mknodat": 2}
_OPENS = {"open": 1, "openat": 2}
_SETUID_OR_SETGID, _CREAT_OR_TMPFILE = 0o6000, 0o100 | 0o20000000


def _plain_mode(index: int, otherwise: bytes) -> bytes:
    return _argument(index) + _when(_ANY_BIT, (_SETUID_OR_SETGID,), _EPERM, otherwise)


def _plain_mode_if_made(flags: int) -> bytes:
    return _argument(flags) + _when(_ANY_BIT, (_CREAT_OR_TMPFILE,), _plain_mode(flags + 1, _ALLOW), _ALLOW)


_SEGMENT = 16 << 10  # bytes; the kernel allows 4,096 segments in an ipc namespace.  PostgreSQL needs one of 56 bytes.

_SEMAPHORES = 32  # in a set; the kernel allows 32,000 sets of 32,000, which take 64 GB.  PostgreSQL needs 20 in a set.


def _without_zero_copy(otherwise: bytes) -> bytes:
    answer = _argument(2) + _when(_EQUAL, (_SO_ZEROCOPY,), _ENOPROTOOPT, _ALLOW)  # as from a kernel that lacks it
    return _argument(1) + _when(_EQUAL, (_SOL_SOCKET,), answer, otherwise)


def _small_segment() -> bytes:
    # The size is a size_t: both halves count.
    high = _instruction(_LOAD, 16 + 8 + 4)
    return high + _when(_EQUAL, (0,), _argument(1) + _when(_AT_LEAST, (_SEGMENT + 1,), _EPERM, _ALLOW), _EPERM)


def _ranges(blocks: dict[int, bytes], machine: str) -> list[tuple[int, bytes]]:
    # Neighbouring numbers that share a block become one range, given by its first number; the last one has no end.
    ranges = [(0, blocks[0])]
    for number in range(1, max(blocks) + 2):
        block = blocks.get(number, _ENOSYS)
        if block != ranges[-1][1]:
            ranges.append((number, block))
    if machine == "x86_64":
        ranges += [(_X32, _EPERM), (_PAST_X32, _ENOSYS)]
    return ranges


def _search(ranges: list[tuple[int, bytes]]) -> bytes:
    if len(ranges) == 1:
        return ranges[0][1]
    middle = len(ranges) // 2
    return _when(_AT_LEAST, (ranges[middle][0],), _search(ranges[middle:]), _search(ranges[:middle]))
