"""Kernels: the processes inside a sandbox that hold a session's variables, one per context.

The agent starts a kernel and forwards its frames.  A kernel runs one cell after another and reports the results.  Every
kernel, whatever its language, speaks `cloche.wire.frames` on a stream of its own, the *control*:

    from the agent                                  from the kernel
    CELL    {"code", "env", "language", …}            STARTED  {"pid", "lost"}   once, when it is ready
    ANSWER  {"call", "value" | "error"}             STDOUT, STDERR   bytes, in the order in which they were written
    FORK    {"frozen", "cwd"} + descriptors         DATA     a piece of a message: one byte (1: the last), then JSON
    ASK     {"what": "list" | "rows", …}            EVENT    {"call", "tool", "args", "kwargs"}: a tool is called
    SYNC    (echoed)                                EXIT     {"status", "code", "count", "cpu", "peak"}: end of the cell
                                                    REPLY / FAIL   to ASK and FORK
                                                    SYNC     echoed by the agent once it has handled all earlier frames

Every frame of a cell carries the operation number of its CELL frame.  A message (DATA frames, joined) is a JSON object:

    {"type": "result", "data": {mime: value}, "metadata": {…}, "count": 3}           the cell's last expression
    {"type": "display", "data": …, "metadata": …, "display_id": "…", "update": false}
    {"type": "clear"}                                                                discard the displays so far
    {"type": "error", "name", "message", "traceback", "ansi"}

Values are texts, JSON for JSON types, base64 for binary types.  `status` is "ok", "error" (an exception), or "exit"
(the code asked to end, with `code`).

SIGINT to its process group interrupts a kernel; between cells, a kernel ignores it.  A kernel that was started by exec
gets the signal a moment before its children do.

If a cell has input, it finds that on standard input.  A forked kernel gets the descriptor with the CELL frame
(SCM_RIGHTS), and puts /dev/null back afterwards.  A kernel that was started by exec cannot receive a descriptor, so it
gets a path in "stdin" instead.

The agent also reads everything that any process writes to descriptors 1 and 2, before any frame that is sent later.  To
keep output and displays in order, a kernel either writes its output to the control, or waits for SYNC before it writes
to a descriptor after it has sent frames.

A Python kernel that starts in a fresh interpreter reads its own code and its order from the control, before the first
frame (cloche.agent.fresh_kernels).  STARTED and EXIT of a Python kernel name in "imported" the installed modules that
it has imported since, so that the agent knows who has to restart when another version of a package is installed.

FORK (Python only) makes a copy of the kernel, which sends STARTED on a control of its own.  A checkpoint is a copy that
waits (`frozen`), restoring forks that copy again, and a branch is a copy that goes on.

Kernels are untrusted: neither the agent nor the engine believes what they send, and a bad kernel spoils only its own
results.

Tests: tests/kernels, tests/sessions
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    Main = Callable[[int, dict[str, Any]], NoReturn]

# The kernels that are forked from a warm Python.  A language's definition names its kernel (`kernel={"fork": "bash"}`),
# and the module of that name in this folder has `main(control, order)`.  Kernels that are programs of their own
# (`kernel={"argv": […]}`) need no row here.
FORKED = ("python", "bash", "r", "java")


def entry_points() -> dict[str, Main]:
    """Import every forked kernel and return each one's `main` by name."""
    for name in FORKED:
        __import__(f"{__name__}.{name}")
    return {name: sys.modules[f"{__name__}.{name}"].main for name in FORKED}
