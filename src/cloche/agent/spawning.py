"""Starts programs as processes: finds the file to execute, and sets up pipes and descriptors."""

from __future__ import annotations

import fcntl
import os

from cloche.agent import oom_score, signals
from cloche.agent.paths import open_regular

_PIPE_SIZE = 256 << 10


def spawn(
    argv: list[str],
    cwd: str,
    environment: dict[str, str],
    descriptors: tuple[int, ...],
    blocked_signals: tuple[int, ...] = (),
) -> int:
    """Start a program in a session of its own, with these as its descriptors 0, 1, 2 …; returns its pid."""
    executable = find_program(argv[0], cwd, environment)
    try:
        os.chdir(cwd)  # for the child, which inherits it
        # Not a fork: the cost does not depend on the agent's size.  Our descriptors close at exec.
        pid = oom_score.expendable(
            lambda: os.posix_spawn(
                executable,
                argv,
                environment,
                file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(descriptors)],
                setsid=True,
                setsigmask=blocked_signals,
                # Python ignores these signals, but programs expect the default.
                setsigdef=(signals.SIGPIPE, signals.SIGXFSZ),
            )
        )
    finally:
        os.chdir("/")
    return pid


def find_program(program: str, cwd: str, environment: dict[str, str]) -> str:
    """Find the file to execute, so that a missing program is an error here and not in the child."""
    if "/" in program:
        path = os.path.join(cwd, program)
        candidates = [path]
    else:
        candidates = [os.path.join(folder or cwd, program) for folder in environment.get("PATH", "").split(":")]
    for path in candidates:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    if any(os.path.exists(path) for path in candidates):
        raise PermissionError(13, f"{program} is not executable")
    raise FileNotFoundError(2, f"there is no program {program} in this sandbox")


def pipe() -> tuple[int, int]:
    """Return the reading and the writing end of a large pipe."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    widen(writing, _PIPE_SIZE)
    return reading, writing


def pipes() -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Return both ends of standard input, output and error: the program's, and ours, which do not block."""
    (stdin, feed), (out, stdout), (err, stderr) = pipe(), pipe(), pipe()
    for fd in (feed, out, err):
        os.set_blocking(fd, False)
    return (stdin, stdout, stderr), (feed, out, err)


def widen(pipe: int, size: int) -> None:
    """Set the size of a pipe."""
    try:
        fcntl.fcntl(pipe, 1031, size)  # F_SETPIPE_SZ
    except OSError:
        pass  # the user's quota for pipes is used up: the default size works, too


def write_file(path: str, data: bytes) -> None:
    """Write a small file; the built-in `open` would copy about a hundred pages that are shared with the nursery."""
    fd = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        while data:
            data = data[os.write(fd, data) :]
    finally:
        os.close(fd)
