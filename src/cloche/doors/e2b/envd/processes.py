"""E2B's `process.Process`: commands and terminals, which keep running without a client."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from time import monotonic
from typing import Any

from cloche.doors.e2b.answers import BrokenOff
from cloche.doors.e2b.envd.call import Call
from cloche.doors.e2b.envd.connect import ConnectProblem, Stream, envelope, envelopes, message, only_message, text_of
from cloche.doors.e2b.sandboxes import E2bSandbox
from cloche.errors import ClocheError, FileMissing, FileProblem, InvalidRun
from cloche.io.tasks import off_loop
from cloche.service.commands import CommandRequest, StartedCommand
from cloche.service.event_log import LogEntry, LogReader
from cloche.service.events import OutputPiece
from cloche.service.live import SandboxView

REMEMBERED_S = 30.0  # for which a client can still connect to a process that has ended
KILLED_S = 5.0  # to wait for a killed process to end
_CHUNK, _TERMINAL_CHUNK = 32 << 10, 16 << 10  # bytes of output in one message
_KEPT = 64 << 10  # bytes of output in the result; small, since only other APIs show it and there may be many processes
_LOG = 2 << 20  # characters of events: a client may lag half of that behind before the process waits
_LOOK_AGAIN_S = 1.0  # while the sandbox is paused, and its clock with it
_MAX_TAG = 1000  # characters; tags of ended processes are remembered, too
_DIGITS = 20  # of a pid; more than the pid of any process has
_SIGNALS = {"SIGNAL_SIGKILL": 9, "SIGNAL_SIGTERM": 15}
_SIGNAL_NAMES = {
    1: "hangup",
    2: "interrupt",
    3: "quit",
    4: "illegal instruction",
    5: "trace/breakpoint trap",
    6: "aborted",
    7: "bus error",
    8: "floating point exception",
    9: "killed",
    10: "user defined signal 1",
    11: "segmentation fault",
    12: "user defined signal 2",
    13: "broken pipe",
    14: "alarm clock",
    15: "terminated",
}
_KEEPALIVE = message({"event": {"keepalive": {}}})
_DEADLINE = "the operation timed out"


class EnvdProcess:
    """A process that an E2B client has started."""

    def __init__(self, view: SandboxView, command: StartedCommand, request: dict[str, Any], takes_input: bool) -> None:
        self._view = view
        self.command = command
        self.config = {name: request["process"].get(name) for name in ("cmd", "args", "envs", "cwd")}
        self.tag: str | None = request.get("tag")
        self.is_terminal = command.pty
        self.takes_input = takes_input
        self.ended: float | None = None
        self.pid = command.pid or 0
        self._alarm: asyncio.TimerHandle | None = None
        self._killing: asyncio.Task[None] | None = None
        self.started = message({"event": {"start": {"pid": self.pid}}})
        command.task.add_done_callback(lambda _: self._end())

    def limit(self, seconds: float) -> None:
        """Kill the process after this many seconds, whether or not a client is connected then.

        The engine's own time limit does not fit: it also ends the children of the process, and E2B's agent does not.
        """
        self._alarm = asyncio.get_running_loop().call_later(seconds, self._time_is_up)

    def _time_is_up(self) -> None:
        if self._view.paused:
            self.limit(_LOOK_AGAIN_S)
        elif self.ended is None:
            self._killing = asyncio.create_task(self._kill())

    async def _kill(self) -> None:
        try:
            await self.command.signal(9)
        except ClocheError:
            pass  # the sandbox has ended, and the process with it

    def _end(self) -> None:
        self.ended = monotonic()
        self.config = {}
        if self._alarm is not None:
            self._alarm.cancel()

    def output(self, entries: list[LogEntry]) -> bytes:
        """Return the output among some events, as messages."""
        parts = []
        size = _TERMINAL_CHUNK if self.is_terminal else _CHUNK
        for entry in entries:
            event = entry.event
            if isinstance(event, OutputPiece):
                kind = b"pty" if self.is_terminal else event.kind.encode()
                for start in range(0, len(event.data), size):
                    data = b64encode(event.data[start : start + size])
                    parts.append(envelope(b'{"event":{"data":{"%b":"%b"}}}' % (kind, data)))
        return b"".join(parts)

    def end(self) -> bytes:
        """Return the final status as a message; raises if the sandbox has ended, or if the time was up."""
        status = self.command.status
        if status is None:
            raise BrokenOff  # to a client, an incomplete stream means that the sandbox is gone
        if self._killing is not None:
            raise ConnectProblem("deadline_exceeded", _DEADLINE)
        if status < 0:
            words = f"signal: {_SIGNAL_NAMES.get(-status, f'signal {-status}')}"
            fields: dict[str, Any] = {"exitCode": -1, "exited": False, "status": words, "error": words}
        else:
            words = f"exit status {status}"
            fields = {"exitCode": status, "exited": True, "status": words}
            if status:
                fields["error"] = words
        return message({"event": {"end": fields}})


class EnvdProcesses:
    """The processes of one sandbox, by their pids."""

    def __init__(self) -> None:
        self._by_pid: dict[int, EnvdProcess] = {}

    def add(self, program: EnvdProcess) -> None:
        """Remember a new process, and forget the ended ones that no client can connect to any more."""
        forgotten = monotonic() - REMEMBERED_S
        for pid in [pid for pid, known in self._by_pid.items() if known.ended is not None and known.ended < forgotten]:
            del self._by_pid[pid]
        self._by_pid[program.pid] = program

    def running(self) -> list[EnvdProcess]:
        return [program for program in self._by_pid.values() if program.ended is None]

    def find(self, request: dict[str, Any], *, ended: bool = False) -> EnvdProcess:
        """Find the process that a request names; with `ended`, also one that has ended recently."""
        selector = request.get("process")
        if not isinstance(selector, dict):
            raise ConnectProblem("invalid_argument", "no process is selected")
        pid, tag = selector.get("pid"), selector.get("tag")
        if type(pid) is int or (isinstance(pid, str) and pid.isdecimal()):
            number = int(pid[:_DIGITS]) if isinstance(pid, str) else pid
            found = [self._by_pid[number]] if number in self._by_pid else []
            name = f"pid {pid}"
        else:
            found = [known for known in self._by_pid.values() if tag is not None and known.tag == tag]
            name = f"tag {tag}"
        late = monotonic() - REMEMBERED_S
        for program in reversed(found):
            if program.ended is None or (ended and program.ended > late):
                return program
        raise ConnectProblem("not_found", f"process with {name} not found")


def processes_of(sandbox: E2bSandbox) -> EnvdProcesses:
    """Return the processes that E2B's clients have started in a sandbox."""
    if sandbox.programs is None:
        sandbox.programs = EnvdProcesses()
    found = sandbox.programs
    assert isinstance(found, EnvdProcesses)
    return found


# --- streams


async def start(call: Call, stream: Stream) -> None:
    """Start a process and stream its events until it ends; it keeps running when the client leaves."""
    request = await only_message(call.receive, call.max_message)
    time_s = call.time_s
    program = await _started(call, request)
    if time_s is not None:
        program.limit(time_s)
    with program.command.log.reader(is_awaited=True) as reader:
        await _relay(call, stream, program, reader, None)


async def _started(call: Call, request: dict[str, Any]) -> EnvdProcess:
    config = request.get("process")
    if not isinstance(config, dict) or not isinstance(config.get("cmd"), str):
        raise ConnectProblem("invalid_argument", "no command is given")
    for name, kind in (("args", list), ("envs", dict), ("cwd", str)):
        if not isinstance(config.get(name) or kind(), kind):
            raise ConnectProblem("invalid_argument", f"{name} has the wrong type")
    if not isinstance(request.get("tag") or "", str):
        raise ConnectProblem("invalid_argument", "tag is not a text")
    if len(request.get("tag") or "") > _MAX_TAG:
        raise ConnectProblem("invalid_argument", f"a tag has at most {_MAX_TAG} characters")
    user = call.user
    terminal = request.get("pty")
    takes_input = request.get("stdin") is not False and terminal is None
    env = {
        "E2B_SANDBOX": "true",
        "E2B_SANDBOX_ID": call.sandbox.id,
        "E2B_TEMPLATE_ID": call.sandbox.traits.template,
        **user.environment_with(call.sandbox.view.env),
        **(config.get("envs") or {}),
    }
    try:
        wanted = CommandRequest(
            command=[config["cmd"], *(config.get("args") or [])],
            cwd=user.resolve(config.get("cwd") or call.sandbox.traits.folder),
            env=env,
            pty=terminal is not None,
            size=_size(terminal) if terminal is not None else (80, 24),
            takes_input=takes_input,
            keep=_KEPT,
            log_size=_LOG,
        )
        command = await call.service.commands.start(call.caller, call.identity, wanted)
    except (FileMissing, FileProblem, InvalidRun) as problem:
        raise ConnectProblem("invalid_argument", text_of(problem)) from None
    if command.start_error is not None:
        raise ConnectProblem("invalid_argument", text_of(command.start_error))
    program = EnvdProcess(call.sandbox.view, command, request, takes_input)
    processes_of(call.sandbox).add(program)
    return program


async def connect(call: Call, stream: Stream) -> None:
    """Stream the new events of a process; for one that has just ended, only its final status."""
    request = await only_message(call.receive, call.max_message)
    deadline = None if call.time_s is None else monotonic() + call.time_s
    program = processes_of(call.sandbox).find(request, ended=True)
    log = program.command.log
    with log.reader(log.last, is_awaited=True) as reader:
        await _relay(call, stream, program, reader, deadline)


async def _relay(call: Call, stream: Stream, program: EnvdProcess, reader: LogReader, deadline: float | None) -> None:
    keepalive_s = call.keepalive_s
    async with program.command.in_use(saves=False):
        await stream.tell(program.started)
        stream.watch(reader.close)
        while True:
            patience = keepalive_s if deadline is None else min(keepalive_s, deadline - monotonic())
            entries = await reader.next(max(patience, 0))
            if stream.left:
                return
            output = program.output(entries)
            if reader.over or any(entry.kind == "exit" for entry in entries):
                break
            if deadline is not None and monotonic() >= deadline:
                await stream.tell(output)
                raise ConnectProblem("deadline_exceeded", _DEADLINE)
            if output or not entries:
                await stream.tell(output or _KEEPALIVE)
    if program.command.status == -9 and _has_ended(call):
        raise BrokenOff  # it was killed with its sandbox, and the agent just had time to report that
    try:
        output += program.end()
    except ConnectProblem as problem:
        await stream.finish(output, problem)
    else:
        await stream.finish(output)


def _has_ended(call: Call) -> bool:
    """Whether the sandbox has ended or is being ended."""
    return call.sandbox.is_over or call.sandbox.caller is None


async def stream_input(call: Call) -> dict[str, Any]:
    """Write the input that a client streams to a process, in order."""
    call.scope.setdefault("state", {})["patient"] = True  # such a request is silent while nothing is typed
    program: EnvdProcess | None = None
    try:
        async with asyncio.timeout(call.time_s), AsyncExitStack() as in_use:
            async for request in envelopes(call.receive, call.max_message):
                if isinstance(request.get("start"), dict):
                    program = processes_of(call.sandbox).find(request["start"])
                    await in_use.enter_async_context(program.command.in_use())
                elif isinstance(request.get("data"), dict):
                    if program is None:
                        raise ConnectProblem("invalid_argument", "the process has to be selected first")
                    await _write(program, request["data"].get("input"))
    except TimeoutError:
        raise ConnectProblem("deadline_exceeded", _DEADLINE) from None
    return {}


# --- calls


async def list_all(call: Call, _: dict[str, Any]) -> dict[str, Any]:
    """List the running processes that E2B's clients have started."""
    return {"processes": [_info(program) for program in processes_of(call.sandbox).running()]}


async def send_input(call: Call, request: dict[str, Any]) -> dict[str, Any]:
    program = processes_of(call.sandbox).find(request)
    async with program.command.in_use():
        await _write(program, request.get("input"))
    return {}


async def close_stdin(call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Close the standard input of a process.  To repeat that, or to do it after its end, is no error."""
    program = processes_of(call.sandbox).find(request, ended=True)
    if program.is_terminal:
        raise ConnectProblem(
            "failed_precondition", "the input of a terminal cannot be closed: send Ctrl+D (0x04) instead"
        )
    if program.takes_input and program.ended is None:
        program.takes_input = False
        await program.command.close_stdin()
    return {}


async def send_signal(call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Send SIGTERM or SIGKILL to a process; the answer to SIGKILL waits for its end."""
    program = processes_of(call.sandbox).find(request)
    number = _SIGNALS.get(str(request.get("signal")))
    if number is None:
        raise ConnectProblem("invalid_argument", f"invalid signal: {request.get('signal')}")
    await program.command.signal(number)
    if number == 9:
        # With a time limit, since its output may wait for a client that reads nothing.
        await asyncio.wait({program.command.task}, timeout=KILLED_S)
    return {}


async def update(call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Change the size of a terminal."""
    program = processes_of(call.sandbox).find(request)
    terminal = request.get("pty")
    if terminal is not None:
        if not program.is_terminal:
            raise ConnectProblem("failed_precondition", "the process has no terminal")
        try:
            await program.command.resize(*_size(terminal))
        except InvalidRun as problem:
            raise ConnectProblem("invalid_argument", text_of(problem)) from None
    return {}


def _info(program: EnvdProcess) -> dict[str, Any]:
    config = program.config
    fields: dict[str, Any] = {
        "pid": program.pid,
        "config": {"cmd": config["cmd"], "args": config.get("args") or [], "envs": config.get("envs") or {}},
    }
    if config.get("cwd"):
        fields["config"]["cwd"] = config["cwd"]
    if program.tag is not None:
        fields["tag"] = program.tag
    return fields


async def _write(program: EnvdProcess, source: Any) -> None:
    kind = "pty" if program.is_terminal else "stdin"
    if not isinstance(source, dict) or not isinstance(source.get(kind), str):
        raise ConnectProblem("failed_precondition", f"this process takes its input as `{kind}`")
    if not program.is_terminal and not program.takes_input:
        raise ConnectProblem("failed_precondition", "stdin not enabled or closed")
    try:
        data = await off_loop(len(source[kind]), lambda: b64decode(source[kind]))
    except (Error, ValueError):
        raise ConnectProblem("invalid_argument", "the input is not base64") from None
    await program.command.write(data)


def _size(terminal: Any) -> tuple[int, int]:
    size = terminal.get("size") if isinstance(terminal, dict) else None
    size = size if isinstance(size, dict) else {}
    return size.get("cols") or 80, size.get("rows") or 24


STREAMS: dict[str, Callable[[Call, Stream], Awaitable[None]]] = {"Start": start, "Connect": connect}
CALLS: dict[str, Callable[[Call, dict[str, Any]], Awaitable[dict[str, Any]]]] = {
    "List": list_all,
    "SendInput": send_input,
    "CloseStdin": close_stdin,
    "SendSignal": send_signal,
    "Update": update,
}
