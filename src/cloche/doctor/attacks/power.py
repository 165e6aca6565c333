"""Power: namespaces, capabilities, other users, and the agent."""

from __future__ import annotations

from cloche.doctor.probe import HELD, NOT_HELD, Probe, ProbeRun, judge_attempts
from cloche.wire import frames

_NAMESPACES = """
kinds = {"user": 0x10000000, "mount": 0x20000, "pid": 0x20000000, "network": 0x40000000, "ipc": 0x8000000,
         "uts": 0x4000000, "cgroup": 0x2000000, "time": 0x80}
for kind, flag in kinds.items():
    attempt(f"unshare {kind}", in_child, call, "unshare", flag)
    attempt(f"unshare user and {kind}", in_child, call, "unshare", flag | kinds["user"])

def clone(flags):
    child = call("clone", flags | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)

def clone3(flags):
    arguments = struct.pack("11Q", flags, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
    child = call("clone3", arguments, len(arguments))
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)

for kind in ("user", "pid", "network"):
    attempt(f"clone {kind}", clone, kinds[kind] | kinds["user"])
    attempt(f"clone3 {kind}", clone3, kinds[kind] | kinds["user"])
for kind in ("user", "mnt", "net", "pid"):
    for pid in ("self", "1"):
        try:
            fd = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
        except OSError as problem:
            tell(f"setns {kind} of {pid}", "refused", name_of(problem))
        else:
            # EINVAL: the kernel considered it, and only declined to enter where one is already.
            try:
                in_child(call, "setns", fd, 0)
                tell(f"setns {kind} of {pid}", "gained")
            except OSError as problem:
                considered = problem.errno == errno.EINVAL
                tell(f"setns {kind} of {pid}", "gained" if considered else "refused", name_of(problem))
"""

_CAPABILITIES = """
for line in read("/proc/self/status").decode().splitlines():
    name, _, value = line.partition(":")
    if name.startswith("Cap"):
        tell(name, "gained" if int(value, 16) else "refused", value.strip())
    if name == "NoNewPrivs":
        tell("no_new_privs off", "refused" if value.strip() == "1" else "gained")
attempt_call("prctl", 38, 0, 0, 0, 0, what="no_new_privs taken back")
for what, do, *arguments in (
    ("setuid 0", os.setuid, 0), ("setgid 0", os.setgid, 0), ("setresuid 0", os.setresuid, 0, 0, 0),
    ("setgroups", os.setgroups, [0]), ("chown to root", os.chown, "/sandbox/code", 0, 0),
    ("a better priority", os.nice, -5),
):
    attempt(what, in_child, do, *arguments)
for kind, capability in (("permitted", 1 << 21), ("effective", 1 << 21)):
    header = struct.pack("Ii", 0x20080522, 0)
    data = struct.pack("IIIIII", capability if kind == "effective" else 0, capability, 0, 0, 0, 0)
    attempt(f"capset {kind}", in_child, call, "capset", header, data)
"""

_SETUID = """
for line in read("/proc/self/mounts", 1 << 20).decode().splitlines():
    device, point, kind, options = line.split()[:4]
    tell(f"setuid programs on {point}", "refused" if "nosuid" in options.split(",") else "gained", options)
import subprocess
for program in ("su", "sudo", "mount", "passwd", "newgrp", "pkexec", "newuidmap", "ping"):
    for folder in ("/usr/bin", "/bin", "/usr/sbin"):
        path = f"{folder}/{program}"
        if os.path.exists(path) and os.stat(path).st_mode & 0o6000:
            # What it runs as is seen before it does anything: it stops at once for want of a terminal or arguments.
            nothing = subprocess.DEVNULL
            child = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=nothing, stderr=nothing)
            users = read(f"/proc/{child.pid}/status").decode().partition("Uid:")[2].split()[:4]
            tell(f"{path} as another user", "gained" if set(users) - {str(os.getuid())} else "refused", users)
            child.kill(); child.wait()
            break
"""

_AGENT_READ = """
def mapped(pid):
    for line in read(f"/proc/{pid}/maps", 1 << 20).decode().splitlines():
        if " rw-p " in line:
            return int(line.split("-")[0], 16)
    raise OSError("nothing to see")

def memory(pid):
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        file.seek(mapped(os.getpid()))
        return len(file.read(16))

for name in ("environ", "maps", "auxv", "stack", "syscall", "io"):
    attempt(f"/proc/1/{name}", read, f"/proc/1/{name}")
attempt("/proc/1/fd", os.listdir, "/proc/1/fd")
attempt("/proc/1/exe", os.readlink, "/proc/1/exe")
attempt("/proc/1/mem", os.open, "/proc/1/mem", os.O_RDWR)
buffer = ctypes.create_string_buffer(16)
local = struct.pack("QQ", ctypes.addressof(buffer), 16)
remote = struct.pack("QQ", mapped(os.getpid()), 16)
attempt_call("process_vm_readv", 1, local, 1, remote, 1, 0)
attempt_call("process_vm_writev", 1, local, 0, remote, 0, 0)
attempt("ptrace attach", in_child, call, "ptrace", 16, 1, 0, 0)
attempt("ptrace seize", in_child, call, "ptrace", 0x4206, 1, 0, 0)
try:
    handle = os.pidfd_open(1)
except OSError as problem:
    tell("pidfd_getfd", "refused", name_of(problem))
else:
    for number in range(12):
        try:
            call("pidfd_getfd", handle, number, 0)
        except OSError as problem:
            if problem.errno != errno.EBADF:
                tell(f"pidfd_getfd {number}", "refused", name_of(problem))
        else:
            tell(f"pidfd_getfd {number}", "gained")
"""

_AGENT_STEERED = """
attempt("a lower priority", lambda: os.setpriority(os.PRIO_PROCESS, 1, 19))
attempt("a lower priority for all of this user", in_child, lambda: os.setpriority(os.PRIO_USER, 0, 19))
attempt("another processor", os.sched_setaffinity, 1, {0})
attempt_call("prlimit64", 1, 7, struct.pack("QQ", 4, 4), None, what="fewer descriptors")
attempt_call("prlimit64", 1, 0, struct.pack("QQ", 1, 1), None, what="less processor time")
attempt("chosen first when memory runs out", write_open, "/proc/1/oom_score_adj")
attempt("chosen before this program", write_open, "/proc/self/oom_score_adj")
"""

_AGENT_KILLED = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for number in range(1, 65):
    for _ in range(5):
        try:
            os.kill(1, number)
        except OSError:
            pass
try:
    os.kill(-1, signal.SIGTERM)
except OSError:
    pass
time.sleep(0.2)
"""

# Valid frames of the wire protocol, for the operations that a first run may have.
_FORGED = b"".join(
    frames.encode_json(operation, kind, {"code": 0, "pid": 1}) for operation in range(4) for kind in range(1, 32)
)
_AGENT_IMITATED = f"""
import atexit, stat
forged = {_FORGED!r}
for fd in range(3, 64):
    try:
        os.write(fd, forged)
        tell(f"write to descriptor {{fd}}", "gained")
    except OSError:
        pass

def take(number):
    stream = call("pidfd_getfd", os.pidfd_open(1), number, 0)
    if not stat.S_ISSOCK(os.fstat(stream).st_mode):
        raise OSError("not a socket")
    tell(f"the agent's stream {{number}}", "gained")
    os.write(stream, forged)

for number in range(64):
    try:
        take(number)
    except OSError as problem:
        if problem.errno != errno.EBADF:
            tell(f"the agent's stream {{number}}", "refused", name_of(problem))
os.write(1, b"\\n" + forged + b"\\n")
os.write(2, forged)
atexit.register(lambda: os.write(1, forged))
sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)
sys.exit = os._exit = lambda *_: None
"""


def _still_answers(seen: ProbeRun) -> tuple[str, str]:
    """Check that the agent reported the program's end, no matter what the program did to the agent."""
    if seen.result.error is not None:
        return NOT_HELD, f"The run ended with {seen.result.error.kind}: {seen.result.error.message}"
    return (HELD, "") if seen.finished else (NOT_HELD, "The program's output was lost.")


def _own_results_only(seen: ProbeRun) -> tuple[str, str]:
    verdict, detail = _still_answers(seen)
    return (verdict, detail) if verdict != HELD else judge_attempts(seen)


PROBES = (
    Probe("T4", "No namespace can be made or entered", _NAMESPACES),
    Probe("T5", "There are no capabilities, and none to be had", _CAPABILITIES),
    Probe("T5", "Setuid programs stay who runs them", _SETUID),
    Probe("T6", "The agent's memory, environment and descriptors cannot be read", _AGENT_READ),
    Probe("T6", "The agent cannot be slowed down or starved", _AGENT_STEERED),
    Probe("T14", "The agent survives every signal", _AGENT_KILLED, _still_answers, {"timeout": 10}),
    Probe("T14", "The agent cannot be imitated", _AGENT_IMITATED, _own_results_only, {"timeout": 10}),
)
