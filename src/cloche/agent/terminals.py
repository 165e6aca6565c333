"""Starts programs in terminals."""

from __future__ import annotations

import fcntl
import os

from cloche.agent import oom_score, python
from cloche.agent.spawning import find_program, pipes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.agent.messages import TerminalRequest

# The path, instead of Bash's `bash-5.2$`, unless the user's own files have chosen a prompt.  Other shells would print
# the escapes of PS1 as they are, and do not read this variable.
_PROMPT = r"\[\e[32m\]\w\[\e[0m\] \$ "
PROMPT_COMMAND = rf"""[ "$PS1" != '\s-\v\$ ' ] || PS1='{_PROMPT}'"""


def streams_of(request: TerminalRequest) -> list[int]:
    """Return which of the streams 0, 1 and 2 use the terminal: standard output always does."""
    return sorted({1, *(fd for fd in request.get("streams", (0, 2)) if fd in (0, 2))})


def make(request: TerminalRequest) -> tuple[int, str]:
    """Make a terminal; returns its master descriptor, which does not block, and the path for its user."""
    master = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    fcntl.ioctl(master, 0x40045431, b"\0\0\0\0")  # TIOCSPTLCK: unlock
    number = int.from_bytes(fcntl.ioctl(master, 0x80045430, b"\0\0\0\0"), "little")  # TIOCGPTN
    resize(master, int(request["columns"]), int(request["rows"]))
    os.set_blocking(master, False)
    return master, f"/dev/pts/{number}"


def own_ends(master: int, streams: list[int], pipes: tuple[int, int, int]) -> tuple[int, int, int | None]:
    """Return our ends of the streams of a program that uses a terminal; pipes that are not needed are closed."""
    stdin, stdout, stderr = pipes
    os.close(stdout)
    for fd, number in ((stdin, 0), (stderr, 2)):
        if number in streams:
            os.close(fd)
    return os.dup(master) if 0 in streams else stdin, master, None if 2 in streams else stderr


def spawn(
    argv: list[str], cwd: str, environment: dict[str, str], request: TerminalRequest
) -> tuple[int, tuple[int, int, int | None]]:
    """Start a program in a terminal of its own; returns its pid and our ends of its streams."""
    executable = find_program(argv[0], cwd, environment)
    streams = streams_of(request)
    child_ends, pipe_ends = pipes()
    master, name = make(request)
    waiting, until_exec = os.pipe2(os.O_CLOEXEC)
    try:
        pid = oom_score.expendable(os.fork)
    except OSError:
        for fd in (master, waiting, until_exec, *child_ends, *pipe_ends):
            os.close(fd)
        raise
    if pid == 0:
        try:
            os.setsid()
            # The first terminal that a session leader opens becomes its controlling terminal.
            slave = os.open(name, os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(slave if fd in streams else child_ends[fd], fd)
            python.reset_all_signals()
            os.chdir(cwd)
            # Descriptors close at exec, and exec makes the process dumpable again.
            os.execve(executable, argv, environment)
        finally:
            os._exit(127)
    for fd in (until_exec, *child_ends):
        os.close(fd)
    os.read(waiting, 1)  # until exec the child has neither a group nor a terminal, and would lose signals
    os.close(waiting)
    return pid, own_ends(master, streams, pipe_ends)


def resize(terminal: int, columns: int, rows: int) -> None:
    import struct
    import termios

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
