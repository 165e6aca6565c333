"""T15: at the limit all is dead, whatever it is and whatever it does about it."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path

import pytest

import cloche

SOON_S = 15  # what is stubborn would last for minutes

STUBBORN = {
    "a daemon's grandchild": """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.close(0); os.close(1); os.close(2)
        time.sleep(600)
    os._exit(0)
time.sleep(600)
""",
    "ignored signals": """
import signal, time
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True: time.sleep(600)
""",
    "blocked signals": """
import signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
while True: time.sleep(600)
""",
    "stopped processes": """
import os, signal, time
for _ in range(5):
    if os.fork() == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(600)
os.kill(os.getpid(), signal.SIGSTOP)
""",
    "a loop in C": "sum(range(10 ** 14))",
    "threads": """
import threading, time
for _ in range(10): threading.Thread(target=time.sleep, args=(600,)).start()
""",
    "a thread after the main one has ended": """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).syscall(60 if __import__("os").uname().machine == "x86_64" else 93, 0)
""",
    "a fifo that nobody writes": "import os; os.mkfifo('f'); open('f').read()",
    "a read that never ends": "import os; r, w = os.pipe(); os.read(r, 1)",
    "its own children, faster than they are killed": """
import os, time
if os.fork():
    time.sleep(600)
while True:  # each lives just long enough to make the next
    if os.fork():
        os._exit(0)
""",
}


def marked(mark: str) -> list[str]:
    """Processes of this host with the mark among their arguments or in their environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if mark.encode() in Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes():
                found.append(pid)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("how", STUBBORN)
def test_nothing_outlives_a_run_that_times_out(how):
    begin = time.monotonic()
    result = cloche.run(STUBBORN[how], timeout=0.7)
    assert time.monotonic() - begin < SOON_S
    assert result.error.kind == "timeout"
    assert result.exit_code == 124


@pytest.mark.parametrize("how", STUBBORN)
def test_nothing_outlives_a_program_that_times_out_in_a_sandbox_that_goes_on(how):
    with cloche.Sandbox() as box:
        begin = time.monotonic()
        result = box.run_program(STUBBORN[how], timeout=0.7)
        assert time.monotonic() - begin < SOON_S
        assert result.error.kind in ("timeout", "processes")
        try:
            left = box.usage().processes
        except cloche.Gone:
            return  # the agent did not manage, so the wall ended it all: right as well
        deadline = time.monotonic() + SOON_S
        while left > 1 and time.monotonic() < deadline:
            left = box.usage().processes
        assert left <= 1
        assert box.run_program("print(1)").stdout == "1\n"


def test_a_vfork_that_does_not_return_is_ended(compiled):
    binary = compiled("#include <unistd.h>\nint main() { if (vfork() == 0) for (;;) pause(); }")
    with cloche.Sandbox() as box:
        box.files.write("/sandbox/v", binary, mode=0o755)
        begin = time.monotonic()
        assert box.commands.run(["/sandbox/v"], timeout=0.5).error.kind == "timeout"
        assert time.monotonic() - begin < SOON_S


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's processes are looked for by root")
def test_closing_a_sandbox_leaves_none_of_its_processes():
    mark = "mark-" + secrets.token_hex(8)
    box = cloche.Sandbox()
    box.commands.start(["sh", "-c", f"setsid sleep 600 & exec -a {mark} sleep 600"], env={"MARK": mark})
    box.commands.start(["bash", "-c", f"trap '' TERM HUP INT; exec -a {mark} sleep 600"], env={"MARK": mark})
    deadline = time.monotonic() + SOON_S
    while len(marked(mark)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(marked(mark)) >= 2
    box.close()
    assert marked(mark) == []
