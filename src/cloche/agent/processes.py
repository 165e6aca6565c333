"""Programs: starts them, forwards their input and output, ends them, and reports how they ended."""

from __future__ import annotations

import fcntl
import os
from _socket import AF_UNIX, SOCK_STREAM, socketpair
from time import monotonic

from cloche.agent import process_trees, python, signals
from cloche.agent.files import open_regular, resolve
from cloche.agent.input_writer import InputWriter
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.agent.build_steps import BuildStep
    from cloche.agent.main import Agent
    from cloche.agent.prestarted import PrestartedCommand

_PIPE_SIZE = 256 << 10
_FORWARD_DELAY_S = 0.003  # delay before the output of a program without input is read; see `forward_output_soon`


def start(agent: Agent, operation: int, request: dict[str, Any]) -> None:
    """Carry out a RUN frame that has no build steps."""
    write_sources(request)
    start_program(agent, operation, request)


def write_sources(request: dict[str, Any]) -> None:
    """Write the source files of the request."""
    for path, text in request.get("sources", ()):
        _write_source(path, text)


def start_program(agent: Agent, operation: int, request: dict[str, Any]) -> RunningProgram:
    """Start the request's program."""
    cwd = resolve(agent, request, "cwd") if request.get("cwd") else agent.home
    environment = {**agent.environment, **request.get("env", {})}
    terminal = request.get("terminal")
    if not os.path.isdir(cwd):
        raise FileNotFoundError(2, f"the working directory {cwd} does not exist")
    script = request.get("python")
    if script is not None and (terminal or python.needs_fresh_interpreter(environment)):
        request = {**request, "argv": ["python3", script, *request.get("args", [])]}
        script = None
    if script is not None:
        program = {"script": script, "args": request.get("args", []), "cwd": cwd, "env": environment}
        spare = _start_python(agent, program)  # first: the program runs while we do the bookkeeping
        process = RunningProgram(agent, operation, spare.pid, spare.stdin, spare.stdout, spare.stderr)
    elif (prestarted := _take_prestarted(agent, request, cwd, environment)) is not None:
        prestarted.resume()
        process = RunningProgram(
            agent, operation, prestarted.pid, prestarted.stdin, prestarted.stdout, prestarted.stderr
        )
    elif terminal:
        process = _start_in_terminal(agent, operation, request["argv"], cwd, environment, terminal)
    else:
        process = _start_with_pipes(agent, operation, request["argv"], cwd, environment)
    if not request.get("input") and not terminal:
        process.close_input()
    agent.operations[operation] = process
    if request.get("awaited") or terminal:
        process.forward_output()
    else:
        process.forward_output_soon()
    return process


def write_file(path: str, data: bytes) -> None:
    """Write a small file; the built-in `open` would copy about a hundred pages that are shared with the nursery."""
    fd = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        while data:
            data = data[os.write(fd, data) :]
    finally:
        os.close(fd)


def _write_source(path: str, text: str) -> None:
    data = text.encode("utf-8", "surrogateescape")
    try:
        write_file(path, data)
    except FileNotFoundError:  # the previous program has removed the folder
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_file(path, data)


class Spare:
    """A forked Python that waits for the order to become a program or a kernel."""

    def __init__(self, agent: Agent, early: bool = False, program: dict[str, Any] | None = None) -> None:
        """Fork a Python.

        `early`: there is time until the order comes, for a warm-up.  `program`: the order is known already, and need
        not be sent.
        """
        child_ends, (self.stdin, self.stdout, self.stderr) = pipes()
        self.order, order = -1, None
        if program is None:
            # A socket, not a pipe: for a kernel, it becomes the control.
            self.order, order = (end.detach() for end in socketpair(AF_UNIX, SOCK_STREAM))
        self.pid = os.fork()
        if self.pid == 0:
            raise python.BecomeProgram(*child_ends, order, early, program)
        for fd in child_ends if order is None else (*child_ends, order):
            os.close(fd)
        self.alive = True
        agent.adopt(self.pid, self._ended)

    def send(self, order: dict[str, Any]) -> None:
        """Send the order: the program or kernel to become."""
        try:
            python.send_order(self.order, order)
        except BrokenPipeError:
            pass  # the process has died; its end is reported like any other

    def kill(self, agent: Agent) -> None:
        """Kill the process, to make room for another one under the process limit."""
        os.kill(self.pid, signals.SIGKILL)
        agent.await_end(self.pid)

    def _ended(self, _status: int, _usage: Any) -> None:
        self.alive = False
        for fd in (self.stdin, self.stdout, self.stderr, self.order):
            os.close(fd)


def _start_python(agent: Agent, program: dict[str, Any]) -> Spare:
    if agent.spare is None or not agent.spare.alive:
        return Spare(agent, program=program)
    spare = take_spare(agent)
    spare.send(program)
    os.close(spare.order)
    return spare


def take_spare(agent: Agent) -> Spare:
    """Return the waiting spare, or fork one."""
    spare, agent.spare = agent.spare, None
    return spare if spare is not None and spare.alive else Spare(agent)


def _take_prestarted(
    agent: Agent, request: dict[str, Any], cwd: str, environment: dict[str, str]
) -> PrestartedCommand | None:
    """Return the prestarted command if it matches the request; otherwise discard it."""
    prestarted, agent.prestarted = agent.prestarted, None
    if prestarted is None:
        return None
    if not request.get("terminal") and cwd == agent.home and prestarted.matches(request["argv"], environment):
        return prestarted
    prestarted.discard()
    return None


class RunningProgram:
    """A running program and its three streams."""

    def __init__(self, agent: Agent, operation: int, pid: int, stdin: int, stdout: int, stderr: int | None) -> None:
        self.pid = pid
        self._agent, self._operation = agent, operation
        self.began = monotonic()
        self._outputs = {stdout: frames.STDOUT}
        if stderr is not None:
            self._outputs[stderr] = frames.STDERR
        self._terminal = stdout if stderr is None else None
        self._input = InputWriter(agent, operation, stdin, None if self._terminal is None else self._type_end)
        self._credit = frames.WINDOW
        self._paused: set[int] = set()
        self._end: tuple[int, Any] | None = None
        self._run_s = 0.0  # seconds
        self._alarm: int | None = None  # set until the output is read
        self.side_step: BuildStep | None = None  # a checker that runs beside the program; EXIT waits for its end
        agent.adopt(pid, self._ended)

    def forward_output_soon(self) -> None:
        """Start forwarding in a moment, or at the program's end.

        Most programs without input end before that, which saves a wake-up.
        """
        self._alarm = self._agent.after(_FORWARD_DELAY_S, self.forward_output)

    def forward_output(self) -> None:
        """Report the start, and forward the output from now on."""
        self._announce()
        for fd in self._outputs:
            self._agent.watch(fd, lambda fd=fd: self._readable(fd))  # type: ignore[misc]

    def _announce(self) -> None:
        if self._alarm is not None:
            self._agent.forget_alarm(self._alarm)
            self._alarm = None
        self._agent.send(frames.encode_json(self._operation, frames.STARTED, {"pid": self.pid}))

    def receive(self, kind: int, payload: bytes) -> None:
        """Handle a frame: input, its end, credit, a signal, a terminal size or a cancellation."""
        if kind == frames.INPUT:
            self._input.write(payload)
        elif kind == frames.INPUT_END:
            self._input.end()
        elif kind == frames.CREDIT:
            self._credit += int.from_bytes(payload, "big")
            for fd in list(self._paused):
                self._paused.discard(fd)
                self._agent.watch(fd, lambda fd=fd: self._readable(fd))  # type: ignore[misc]
            if self._end is not None:
                self._drain()
        elif kind == frames.SIGNAL:
            self._signal(int(frames.decode_json(payload)["signal"]))
        elif kind == frames.RESIZE and self._terminal in self._outputs:
            size = frames.decode_json(payload)
            _resize(self._terminal, int(size["columns"]), int(size["rows"]))
        elif kind == frames.CANCEL:
            self.cancel()

    def cancel(self) -> None:
        """Kill the program and everything that it started."""
        if self.side_step is not None:
            self.side_step.cancel()
        if self._end is None:
            process_trees.end_tree(self._agent, self.pid)

    def close_input(self) -> None:
        """Close the program's standard input."""
        self._input.close()

    def _signal(self, number: int) -> None:
        if self._end is not None:
            return
        group = self.pid
        if self._terminal in self._outputs and number != signals.SIGKILL:
            try:
                group = os.tcgetpgrp(self._terminal) or self.pid
            except OSError:
                pass
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            os.kill(self.pid, number)  # it leads no group yet; the pid stays its own until it is reaped

    def _type_end(self) -> None:
        """Type Ctrl-D (twice within a line), as a person would at the end of input; the terminal stays open."""
        try:
            os.write(self._input.fd or -1, b"\x04\x04" if self._input.within_line else b"\x04")
        except BlockingIOError:
            self._input.end_later()
        except OSError:
            pass  # nobody reads the terminal

    def _readable(self, fd: int) -> None:
        self._read(fd)
        if self._end is not None:
            self._drain()

    def _read(self, fd: int) -> bool:
        """Forward one chunk; False when there is nothing more for now."""
        if self._credit < frames.LEAST:
            self._agent.unwatch(fd)
            self._paused.add(fd)
            return False
        try:
            data = os.read(fd, min(frames.CHUNK, self._credit))
        except BlockingIOError:
            return False
        except OSError:  # a terminal whose last user is gone
            data = b""
        if not data:
            self._close(fd)
            return False
        self._credit -= frames.cost(data)
        self._agent.send(frames.encode(self._operation, self._outputs[fd], data))
        return True

    def _close(self, fd: int) -> None:
        self._agent.unwatch(fd)
        self._paused.discard(fd)
        del self._outputs[fd]
        os.close(fd)

    def _ended(self, status: int, usage: Any) -> None:
        if self._alarm is not None:
            self._announce()
        self._end, self._run_s = (status, usage), monotonic() - self.began
        self._drain()

    def side_step_ended(self) -> None:
        """Note that the checker beside the program has ended."""
        self.side_step = None
        if self._end is not None:
            self._drain()

    def _drain(self) -> None:
        # The program has ended, so all its output is in the pipes by now.  Read them until they are empty, not until
        # they are closed: a child that it left behind may hold them open forever.
        if self._agent.operations.get(self._operation) is not self:
            return
        for fd in list(self._outputs):
            while self._read(fd):
                pass
            if fd in self._paused:
                return  # the rest follows when the engine grants credit
        assert self._end is not None
        for fd in list(self._outputs):
            self._close(fd)
        self.close_input()
        if self.side_step is not None:
            self._agent.send(frames.encode_json(self._operation, frames.EVENT, {"ended": True}))
        else:
            report = {**outcome(self._agent, *self._end, self.began), "ran": self._run_s}
            self._agent.finish(self._operation, frames.EXIT, report)


def outcome(agent: Agent, status: int, usage: Any, began: float) -> dict[str, Any]:
    """Describe how a process ended and what it used."""
    return {
        "code": os.waitstatus_to_exitcode(status),
        "cpu": usage.ru_utime + usage.ru_stime,
        "peak": usage.ru_maxrss * 1024,
        "disk": disk(agent.home),
        "refused": [name for name, when in agent.refused.items() if when >= began][:16],
    }


def disk(path: str) -> dict[str, int]:
    """Return size and free space of the workspace's file system."""
    status = os.statvfs(path)
    return {
        "total": status.f_blocks * status.f_frsize,
        "free": status.f_bfree * status.f_frsize,
        "inodes": status.f_files,
        "inodes_free": status.f_ffree,
    }


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


def _start_with_pipes(
    agent: Agent, operation: int, argv: list[str], cwd: str, environment: dict[str, str]
) -> RunningProgram:
    child_ends, own_ends = pipes()
    try:
        try:
            pid = spawn(argv, cwd, environment, child_ends)
        except BlockingIOError:  # the process limit is reached
            spare, agent.spare = agent.spare, None
            if spare is None or not spare.alive:
                raise
            spare.kill(agent)
            pid = spawn(argv, cwd, environment, child_ends)
    except BaseException:
        for fd in own_ends:
            os.close(fd)
        raise
    finally:
        for fd in child_ends:
            os.close(fd)
    return RunningProgram(agent, operation, pid, *own_ends)


def spawn(argv: list[str], cwd: str, environment: dict[str, str], descriptors: tuple[int, ...]) -> int:
    """Start a program in a session of its own, with these as its descriptors 0, 1, 2 …; returns its pid."""
    executable = _find(argv[0], cwd, environment)
    try:
        os.chdir(cwd)  # for the child, which inherits it
        # Not a fork: the cost does not depend on the agent's size.  Our descriptors close at exec.
        pid = os.posix_spawn(
            executable,
            argv,
            environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(descriptors)],
            setsid=True,
            setsigmask=(),
            # Python ignores these signals, but programs expect the default
            setsigdef=(signals.SIGPIPE, signals.SIGXFSZ),
        )
    finally:
        os.chdir("/")
    expose_to_oom(pid)
    return pid


def _find(program: str, cwd: str, environment: dict[str, str]) -> str:
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


def _start_in_terminal(
    agent: Agent, operation: int, argv: list[str], cwd: str, environment: dict[str, str], size: dict[str, int]
) -> RunningProgram:
    executable = _find(argv[0], cwd, environment)
    environment.setdefault("TERM", "xterm-256color")
    master = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    fcntl.ioctl(master, 0x40045431, b"\0\0\0\0")  # TIOCSPTLCK: unlock
    number = int.from_bytes(fcntl.ioctl(master, 0x80045430, b"\0\0\0\0"), "little")  # TIOCGPTN
    name = f"/dev/pts/{number}"
    _resize(master, int(size["columns"]), int(size["rows"]))
    waiting, until_exec = os.pipe2(os.O_CLOEXEC)
    try:
        pid = os.fork()
    except OSError:
        for fd in (master, waiting, until_exec):
            os.close(fd)
        raise
    if pid == 0:
        try:
            os.setsid()
            # the first terminal that a session leader opens becomes its controlling terminal
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
    expose_to_oom(pid)
    os.set_blocking(master, False)
    return RunningProgram(agent, operation, pid, os.dup(master), master, None)


def _resize(terminal: int, columns: int, rows: int) -> None:
    import struct
    import termios

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def expose_to_oom(pid: int) -> None:
    """Let the kernel kill programs, not the agent, when memory runs out: the agent has to report it."""
    try:
        write_file(f"/proc/{pid}/oom_score_adj", b"1000")
    except OSError:
        pass
