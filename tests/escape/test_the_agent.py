"""T6, T14: pid 1 shares its user with the programs; they can neither look into it, nor steer, stop or speak for it."""

from __future__ import annotations

import os
import time

import cloche
from cloche.walls.jail import syscalls

CALL = """
import ctypes, os, errno
libc = ctypes.CDLL(None, use_errno=True)
def raw(number, *arguments):
    passed = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *passed)
    print("done" if result >= 0 else errno.errorcode[ctypes.get_errno()])
"""


def test_the_agents_memory_environment_and_descriptors_cannot_be_read(attack):
    code = """
import os
for name in ("mem", "environ", "auxv", "syscall", "pagemap", "root/etc/passwd", "cwd/etc/passwd", "exe", "map_files"):
    try:
        os.listdir(f"/proc/1/{name}") if name == "map_files" else open(f"/proc/1/{name}", "rb").close()
        print(name)
    except OSError:
        pass
for number in range(64):
    try:
        os.readlink(f"/proc/1/fd/{number}")
        print("descriptor", number)
    except OSError:
        pass
try:
    print(open("/proc/1/maps").read())
except OSError:
    pass
"""
    assert attack(code) == ""
    without = attack(code, "dumpable")
    assert "mem" in without
    assert "environ" in without
    assert "descriptor" in without


def test_the_agent_cannot_be_traced_or_written_into(attack):
    numbers = syscalls.numbers(os.uname().machine)
    ptrace, read = numbers["ptrace"], numbers["process_vm_readv"]
    seize = CALL + f"raw({ptrace}, 0x4206, 1, 0, 0)"  # PTRACE_SEIZE
    assert attack(seize) == "EPERM"
    assert attack(seize, "call:ptrace") == "EPERM"  # not dumpable: the second lock
    assert attack(seize, "call:ptrace", "dumpable") == "done"
    look = CALL + f"raw({read}, 1, bytes(16), 1, bytes(16), 1, 0)"  # process_vm_readv
    assert attack(look) == "EPERM"
    assert attack(look, "call:process_vm_readv", "dumpable") != "EPERM"


def test_the_agents_limits_and_priority_cannot_be_changed(attack):
    code = """
import os, resource
def attempt(name, act):
    try:
        act()
        print(name)
    except OSError:
        pass
attempt("prlimit", lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (16, 16)))
attempt("niceness", lambda: os.setpriority(os.PRIO_PROCESS, 1, 19))
attempt("niceness of all", lambda: os.setpriority(os.PRIO_USER, 0, 19))
attempt("group", lambda: os.setpriority(os.PRIO_PGRP, os.getpgid(1), 19))
attempt("affinity", lambda: os.sched_setaffinity(1, {0}))
attempt("scheduler", lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)))
"""
    assert attack(code) == ""
    assert set(attack(code, "filter").split("\n")) >= {"prlimit", "niceness", "affinity", "scheduler"}


def test_the_agents_descriptors_cannot_be_taken(attack):
    code = (
        CALL
        + """
fd = libc.syscall(ctypes.c_long(434), ctypes.c_long(1), ctypes.c_long(0))
raw(438, fd, 4, 0)
"""
    )
    assert attack(code) == "EPERM"
    assert attack(code, "call:pidfd_getfd", "dumpable") == "done"


def test_no_signal_stops_or_ends_the_agent():
    code = """
import os, signal
for number in range(1, 65):
    try:
        os.kill(1, number)
    except OSError:
        pass
signal.pidfd_send_signal(os.pidfd_open(1), signal.SIGKILL)
print("sent")
"""
    with cloche.Sandbox() as box:
        for _ in range(3):
            result = box.run_program(code)
            assert (result.stdout, result.error) == ("sent\n", None)
        assert box.run_program("import os; os.kill(os.getpid(), 9)").error.kind == "killed"  # the proof: they do kill


def test_killing_everything_kills_only_programs():
    with cloche.Sandbox() as box:
        sleeper = box.commands.start("sleep 60")
        assert box.run_program("import os; os.kill(-1, 9)\nprint('alone')").stdout == "alone\n"
        assert sleeper.wait().error.kind == "killed"
        assert box.run_program("print(42)").stdout == "42\n"


def test_frames_written_to_any_descriptor_forge_nothing():
    code = """
import os, struct
forged = struct.pack(">IIB", 2, 1, 19) + b"{}"
forged += b"".join(struct.pack(">IIB", 11, n, 19) + b'{"code": 0}' for n in range(1, 9))
for place in ["/proc/self/fd", "/proc/1/fd", "/dev/fd"]:
    for number in range(64):
        try:
            fd = os.open(f"{place}/{number}", os.O_WRONLY | os.O_NONBLOCK)
            os.write(fd, forged)
        except OSError:
            pass
for number in range(3, 64):
    try:
        os.write(number, forged)
    except OSError:
        pass
os._exit(3)
"""
    with cloche.Sandbox() as box:
        result = box.run_program(code)
        assert result.exit_code == 3
        assert result.error.kind == "exit"
        assert b'{"code": 0}' in result.stdout_bytes  # it did write: to its own output
        assert box.run_program("print(1)").stdout == "1\n"


def test_a_tracee_that_stops_is_not_taken_for_dead():
    code = """
import ctypes, os, signal, sys, time
pid = os.fork()
if pid == 0:
    if os.fork():
        os._exit(0)       # the grandchild is the agent's now
    ctypes.CDLL(None).ptrace(0, 0, 0, 0)   # PTRACE_TRACEME: its parent, the agent, becomes its tracer
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(60)
os.waitpid(pid, 0)
ctypes.CDLL(None).ptrace(0, 0, 0, 0)
print("stopping", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""
    with cloche.Sandbox() as box:
        result = box.run_program(code, timeout=1)
        assert result.error.kind == "timeout"
        assert box.run_program("print(1)").stdout == "1\n"
        assert box.usage().processes <= 1  # a spare Python at most


def test_a_stopped_program_still_meets_its_limit():
    begin = time.monotonic()
    result = cloche.run("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", timeout=0.5)
    assert result.error.kind == "timeout"
    assert time.monotonic() - begin < 15


def test_a_program_that_replaces_everything_harms_only_itself():
    code = """
import sys, os, atexit, builtins, signal
sys.stdout = sys.stderr = sys.stdin = None
sys.excepthook = lambda *_: os._exit(0)
builtins.print = None
atexit.register(lambda: 1 / 0)
os._exit = lambda *_: None
sys.modules.clear()
raise RuntimeError
"""
    with cloche.Sandbox() as box:
        box.run_program(code, timeout=5)
        assert box.run_program("print(1)").stdout == "1\n"


def test_exhausting_the_agents_processes_and_descriptors_does_not_end_it():
    code = """
import os, time
for _ in range(200):
    try:
        if os.fork() == 0:
            time.sleep(60)
    except OSError:
        break
os._exit(0)
"""
    with cloche.Sandbox(processes=20) as box:
        box.run_program(code)
        full = box.commands.run("true", timeout=5) if _can_start(box) else None
        assert full is None or full.error is not None or full.exit_code == 0
        assert box.files.exists("/sandbox")  # the agent still answers
        box.files.write("/sandbox/x", b"1")


def _can_start(box: cloche.Sandbox) -> bool:
    try:
        box.commands.run("true", timeout=5)
    except cloche.ClocheError:
        return False
    return True


def test_a_flood_of_refused_calls_keeps_nobody_from_working():
    """The agent answers them; it must go on answering the engine, and its clock is not the agent's."""
    code = """
import ctypes, os
os.fork(); os.fork(); os.fork()
libc = ctypes.CDLL(None)
while True:
    libc.unshare(0x10000000)
"""
    with cloche.Sandbox() as box:
        flood = box.start_program(code, timeout=5)
        begin = time.monotonic()
        for number in range(10):
            box.files.write("x", b"%d" % number)
            assert box.files.read("x") == b"%d" % number
        assert time.monotonic() - begin < 5  # it was still at it
        assert cloche.run("print(1)").stdout == "1\n"
        assert flood.wait().error.kind == "timeout"
        assert box.run_program("print(1)").stdout == "1\n"


def test_a_refused_call_of_a_killed_or_interrupted_caller_does_not_hold_up_the_agent():
    code = """
import ctypes, os, signal, time
libc = ctypes.CDLL(None)
children = []
for _ in range(4):
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        while True:
            libc.unshare(0x10000000)
    children.append(pid)
time.sleep(0.3)
for pid in children:
    os.kill(pid, 9)
    os.waitpid(pid, 0)
print("over")
"""
    with cloche.Sandbox() as box:
        for _ in range(3):
            assert box.run_program(code, timeout=10).stdout == "over\n"


LOWER = """
import os, subprocess
files = ["/proc/self/oom_score_adj", "/proc/self/oom_adj", f"/proc/self/task/{os.getpid()}/oom_score_adj"]
for path in files:
    try:
        with open(path, "w") as file: file.write("0")
    except OSError:
        pass
print(open(files[0]).read().strip())
if os.fork() == 0:
    print(open(files[0]).read().strip(), flush=True)
    os._exit(0)
os.wait()
print(subprocess.run("echo 0 > /proc/self/oom_score_adj; exec cat /proc/self/oom_score_adj", shell=True,
                     capture_output=True, text=True).stdout.strip())
"""


def test_no_program_puts_another_before_itself_when_memory_runs_out(attack):
    assert attack(LOWER).split() == ["1000"] * 3
    assert attack(LOWER, "proc").split() == ["0"] * 3


def test_whatever_the_agent_starts_is_killed_before_the_agent():
    show = "print(open('/proc/self/oom_score_adj').read().strip())"
    with cloche.Sandbox() as box:
        assert box.run(LOWER).stdout.split() == ["1000"] * 3
        assert box.commands.run(["cat", "/proc/self/oom_score_adj"]).stdout == "1000\n"
        assert box.run("cat /proc/self/oom_score_adj", language="bash").stdout == "1000\n"
        before = box.checkpoint()
        box.restore(before)
        assert box.run(show).stdout == "1000\n"
    for language, code in (("bash", "cat /proc/self/oom_score_adj"), ("python", show)):
        assert cloche.run(code, language=language).stdout == "1000\n"  # perhaps a process that was started ahead
