"""Killing a process with all that it has started."""

from __future__ import annotations

import subprocess
import sys

# In a process of its own, because every younger child of this process counts as an orphan of the tree that is killed.
_KILL_TREES = """
import os, subprocess
from types import SimpleNamespace
from cloche.agent import process_trees

def recorded_kill(pid, number):
    order.append(pid)
    kill(pid, number)

kill, os.kill = os.kill, recorded_kill
for _ in range(16):  # an order that depends on the numbers of processes is right now and then
    shell = subprocess.Popen(["/bin/sh", "-c", "sleep 88 & sleep 88 & echo ready; wait"], stdout=subprocess.PIPE)
    shell.stdout.readline()
    order = []
    process_trees.end_tree(SimpleNamespace(children={shell.pid}), shell.pid)
    print(order[0] == shell.pid, len(set(order)), shell.wait())
"""


def test_a_parent_is_killed_before_its_children() -> None:
    """A shell whose child is killed first can end by itself, with exit code 137, before its own signal comes."""
    done = subprocess.run([sys.executable, "-c", _KILL_TREES], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["True 3 -9"] * 16


_START_ANOTHER_AFTER_THE_FIRST_LOOK = """
import ctypes, subprocess
from types import SimpleNamespace
from cloche.agent import process_trees

ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans become our children, as they do the agent's
line = "read line; sleep 88 & echo $!; wait"
pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
shell = subprocess.Popen(["/bin/sh", "-c", line], **pipes, start_new_session=True)
look, late = process_trees._table, []

def look_and_let_it_start():
    table = look()
    if not late:
        shell.stdin.write(b"\\n")
        shell.stdin.flush()
        late.append(int(shell.stdout.readline()))
    return table

process_trees._table = look_and_let_it_start
process_trees.end_tree(SimpleNamespace(children={shell.pid}), shell.pid)
shell.wait()
print(late[0] in look())
"""


def test_a_process_that_starts_while_its_parent_is_killed_is_killed_too() -> None:
    script = [sys.executable, "-c", _START_ANOTHER_AFTER_THE_FIRST_LOOK]
    done = subprocess.run(script, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"
