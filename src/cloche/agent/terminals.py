"""Starts programs in terminals."""

from __future__ import annotations

import fcntl
import os

from cloche.agent import oom_score, python
from cloche.agent.spawning import find_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.agent.messages import TerminalSize


def spawn(argv: list[str], cwd: str, environment: dict[str, str], size: TerminalSize) -> tuple[int, int]:
    """Start a program in a terminal of its own; returns its pid and the terminal's master descriptor."""
    executable = find_program(argv[0], cwd, environment)
    environment.setdefault("TERM", "xterm-256color")
    master = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    fcntl.ioctl(master, 0x40045431, b"\0\0\0\0")  # TIOCSPTLCK: unlock
    number = int.from_bytes(fcntl.ioctl(master, 0x80045430, b"\0\0\0\0"), "little")  # TIOCGPTN
    name = f"/dev/pts/{number}"
    resize(master, int(size["columns"]), int(size["rows"]))
    waiting, until_exec = os.pipe2(os.O_CLOEXEC)
    try:
        pid = oom_score.expendable(os.fork)
    except OSError:
        for fd in (master, waiting, until_exec):
            os.close(fd)
        raise
    if pid == 0:
        try:
            os.setsid()
            # The first terminal that a session leader opens becomes its controlling terminal.
            slave = os.open(name, os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(slave, fd)
            python.reset_all_signals()
            os.chdir(cwd)
            # Descriptors close at exec, and exec makes the process dumpable again.
            os.execve(executable, argv, environment)
        finally:
            os._exit(127)
    os.close(until_exec)
    os.read(waiting, 1)  # until exec the child has neither a group nor a terminal, and would lose signals
    os.close(waiting)
    os.set_blocking(master, False)
    return pid, master


def resize(terminal: int, columns: int, rows: int) -> None:
    import struct
    import termios

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
