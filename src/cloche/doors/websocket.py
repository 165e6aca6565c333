"""The WebSocket at `/`: clients send code, and receive progress and results for people (docs/clients/websocket.md).

    → {"type": "execute", "code": "print(6 * 7)", "language": "python"}
    ← {"type": "result", "output": "42\\n", "errors": "", "exit_code": 0, …}

Each message waits until the client has received the previous one, so messages do not accumulate here.  A run continues
even if its events are not received; its log (`cloche.service.event_log`) is bounded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from json import dumps
from time import monotonic
from typing import Any

from cloche.doors.faults import for_client, unexpected
from cloche.doors.gate.identity import caller_of
from cloche.doors.http.bodies import given_bytes
from cloche.doors.json_pieces import json_pieces
from cloche.doors.pictures import work_for_model
from cloche.doors.plain_text import errors_text, output_text
from cloche.doors.routing.routes import SocketRoute
from cloche.doors.shapes import event_pieces, text_and_images, wrapped
from cloche.doors.sockets import ClientLeft, Door, Socket
from cloche.doors.websocket_messages import BUDGET, FIELDS, Id, checked_message, identity_of, parsed_message
from cloche.errors import ClocheError, Gone, InvalidRun, Refused
from cloche.json_text import to_json
from cloche.model.network import Network
from cloche.model.result import Result
from cloche.policy.caller import Caller
from cloche.policy.refusals import Busy, TooMany
from cloche.results.fields import in_words_of, plain
from cloche.sandbox.checks import checked_network
from cloche.service.event_log import LogReader
from cloche.service.run import Run
from cloche.service.sandboxes import NewSandbox
from cloche.service.service import Service

log = logging.getLogger("cloche.websocket")

MAX_IN_FLIGHT = 32  # runs of one connection, including those that wait
MAX_INPUT = 1 << 20  # bytes of input that a run has not read yet
FIRST_PROGRESS_S, PROGRESS_S = 1.0, 10.0  # before the first progress message of a run, and between later ones
_STREAMED = {"started": "started", "stdout": "stdout", "stderr": "stderr", "result": "display", "tool": "tool"}

_CHANGE_NETWORK = "Change it with PUT /v1/sandboxes/{id}/network."


async def _handle(socket: Socket) -> None:
    service: Service = socket.scope["app"].state.service
    caller = caller_of(socket.scope)
    await socket.accept()
    await _Client(service, caller, socket).serve()


class _Turn:
    """One run of a connection, from its `execute` message to its result."""

    def __init__(self, identity: Id, request: dict[str, Any]) -> None:
        self.id, self.request = identity, request
        self.begun = monotonic()
        self.run: Run | None = None
        self.problem: Exception | None = None  # why the run could not be started
        self.has_run = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.is_next = self.cancelled = False  # is_next: no other run of the connection comes first
        self.is_program = not request.get("session")
        self.pending: list[tuple[bytes, bool]] = []  # unread input, and whether it is the last
        self.pending_size = 0
        self.feeding: asyncio.Task[None] | None = None
        self.reporting: asyncio.TimerHandle | asyncio.Task[None] | None = None  # sends progress messages

    async def cancel(self) -> None:
        """Stop the run, or keep it from starting."""
        self.cancelled = True
        if self.run is not None:
            await self.run.cancel()
        elif self.task is not None and self.is_next:
            self.task.cancel()  # a later run is reported when its turn comes, since results come in order


class _Client:
    """One client, with its runs in progress and maybe its own session."""

    def __init__(self, service: Service, caller: Caller, socket: Socket) -> None:
        self._service, self._caller, self._socket = service, caller, socket
        self._turns: list[_Turn] = []
        # Runs without an id run one by one, since clients could not tell their results apart.
        self._in_order = asyncio.Lock()
        self._own = ""  # the id of the connection's own sandbox
        self._own_memory: int | str | None = None
        self._own_network: Network | None = None
        self._own_environment: str | None = None
        self._creating = asyncio.Lock()

    async def serve(self) -> None:
        """Answer until the client leaves; then end its runs and its own session."""
        try:
            while (received := await self._socket.receive()) is not None:
                identity: Id = None
                try:
                    message = await parsed_message(received)
                    identity = identity_of(message)
                    await self._dispatch(identity, message)
                except ClocheError as problem:
                    await self._say(identity, _problem(problem))
        finally:
            await asyncio.shield(self._end())

    async def _dispatch(self, identity: Id, message: dict[str, Any]) -> None:
        kind = message.get("type")
        if not isinstance(kind, str) or kind not in FIELDS:
            raise InvalidRun(f"The message type {kind!r:.100} is unknown.", hint=f"The types are {', '.join(FIELDS)}.")
        request = checked_message(kind, message)
        if kind == "execute":
            await self._execute(identity, request)
            return
        turns = [turn for turn in self._turns if turn.id == identity]
        if not turns:
            raise Gone("No run with this id is in progress.", hint="It may have ended already.")
        if kind == "cancel":
            for turn in turns:
                await turn.cancel()
        else:
            self._feed(turns[0], (request.get("data") or "").encode("utf-8", "replace"), bool(request.get("eof")))

    # --- runs

    async def _execute(self, identity: Id, request: dict[str, Any]) -> None:
        self._service.keyring.meter(self._caller).admit_request()
        if len(self._turns) >= MAX_IN_FLIGHT:
            raise Refused(
                f"This connection has {MAX_IN_FLIGHT} runs in progress.", hint="Wait for one to end, or cancel it."
            )
        if identity is not None and any(turn.id == identity for turn in self._turns):
            raise InvalidRun("A run with this id is in progress.", hint="Give each run a different id.")
        turn = _Turn(identity, request)
        if self._can_begin(turn):
            await self._begin(turn)
        self._turns.append(turn)
        turn.task = asyncio.create_task(self._carry_out(turn))

    def _can_begin(self, turn: _Turn) -> bool:
        """Return whether the run can begin at once.  Its code is then sent before a task waits for its end."""
        if self._service.runs.is_full(self._caller) or (
            turn.id is None and any(other.id is None for other in self._turns)
        ):
            return False
        if turn.request.get("session") and turn.request.get("packages"):
            return False  # to install them takes long, and other messages must not wait for it
        return turn.request.get("session") is not True or self._service.sandboxes.owner_of(self._own) is not None

    async def _begin(self, turn: _Turn) -> None:
        try:
            turn.run = await self._start(turn.request)
            turn.has_run.set()
        except Exception as problem:
            turn.problem = problem

    async def _carry_out(self, turn: _Turn) -> None:
        turn.reporting = asyncio.get_running_loop().call_later(FIRST_PROGRESS_S, self._start_reporting, turn)
        try:
            if turn.id is None:
                async with self._in_order:
                    turn.is_next = True
                    await self._answer(turn)
            else:
                turn.is_next = True
                await self._answer(turn)
        except ClientLeft:
            if turn.is_program and turn.run is not None:
                await turn.run.cancel()
        except asyncio.CancelledError:
            if not turn.cancelled or turn.run is not None:
                raise
            await self._say(turn.id, _problem(_never_begun()))
        finally:
            turn.reporting.cancel()
            if turn.feeding is not None:
                turn.feeding.cancel()
            self._turns.remove(turn)

    async def _answer(self, turn: _Turn) -> None:
        """Wait for a run, and send the message that ends it."""
        with ExitStack() as readers:
            message, size = await self._last_message(turn, readers)
            prepare = message.prepare if isinstance(message, _Outcome) else None
            await self._socket.send_pieces(message, size, prepare)

    async def _last_message(self, turn: _Turn, readers: ExitStack) -> tuple[Iterable[str], int]:
        """Wait for a run; return the message that ends it, and about how many bytes are kept while it is sent."""
        try:
            if turn.run is None and turn.problem is None:
                if turn.cancelled:
                    raise _never_begun()
                await self._begin(turn)
            if turn.problem is not None:
                raise turn.problem
            assert turn.run is not None
            if turn.request.get("stream"):
                # The connection stays a reader until the result is sent: the log keeps the encoded displays until then.
                reader = readers.enter_context(turn.run.log.reader())
                await self._stream(turn, turn.run, reader)
            result = await turn.run.outcome()
            work = work_for_model(result) if turn.request.get("view") == "model" else 0
            return _Outcome(turn, turn.run), max(turn.run.size, work)
        except ClocheError as problem:
            return _problem_text(turn.id, problem, "" if turn.run is None else turn.run.id), 0
        except ClientLeft:
            raise
        except Exception as problem:
            return _problem_text(turn.id, unexpected(problem)), 0
        finally:
            if turn.reporting is not None:
                turn.reporting.cancel()

    async def _start(self, request: dict[str, Any]) -> Run:
        session, stdin = request.get("session"), request.get("stdin")
        data = await given_bytes("stdin", stdin, None)
        interactive = bool(request.get("interactive"))
        packages = request.get("packages") or ()
        if session:
            sandbox = await self._session(session, request)
            if packages:
                language = str(request.get("language") or "python")
                await self._service.packages.install(self._caller, sandbox, packages, language=language)
            return await self._service.sessions.run(
                self._caller,
                sandbox,
                request["code"],
                language=request.get("language"),
                context=request.get("context"),
                stdin=data,
                timeout=request.get("timeout"),
                interactive=interactive,
                keeps_all=True,
            )
        if request.get("context") is not None:
            raise InvalidRun("Only a session has contexts.", hint='Add "session": true, or the id of a sandbox.')
        options = {name: request[name] for name in ("timeout", "memory") if request.get(name) is not None}
        return await self._service.programs.run(
            self._caller,
            request["code"],
            language=request.get("language") or "python",
            stdin=data,
            network=checked_network(request.get("network")),
            packages=packages,
            environment=request.get("environment"),
            limits=options,
            interactive=interactive,
            listened=interactive or bool(request.get("stream")),
        )

    async def _session(self, session: str | bool, request: dict[str, Any]) -> str:
        """Return the id of the requested sandbox; `true` is the connection's own, which the first use creates."""
        memory, network = request.get("memory"), checked_network(request.get("network"))
        environment = request.get("environment")
        if isinstance(session, str):
            if environment is not None:
                raise InvalidRun("A sandbox has its environment already.", hint="Name it when you create the sandbox.")
            if memory is not None:
                raise InvalidRun("A sandbox has a fixed memory limit.", hint="Set it when you create the sandbox.")
            if network is not None:
                raise InvalidRun("A sandbox has a network policy already.", hint=_CHANGE_NETWORK)
            return session
        async with self._creating:
            if self._own:
                if memory is not None and memory != self._own_memory:
                    raise InvalidRun("A session has a fixed memory limit.", hint="Set it with the session's first run.")
                if environment is not None and environment != self._own_environment:
                    raise InvalidRun("The session has another environment.", hint="Name it with the first run.")
                if network is not None and network != self._own_network:
                    raise InvalidRun("The session has another network policy.", hint=_CHANGE_NETWORK)
                try:
                    return (await self._service.sandboxes.view(self._caller, self._own)).id
                except Gone:
                    # The session was idle, or ran out of memory: start a new one.
                    memory, network = self._own_memory, self._own_network
                    environment = self._own_environment
            limits = {} if memory is None else {"memory": memory}
            ttl = self._service.configuration.max_ttl
            wanted = NewSandbox(limits=limits, network=network, environment=environment, ttl=ttl)
            made = await self._service.sandboxes.create(self._caller, wanted)
            self._own, self._own_memory, self._own_network = made.record.id, memory, network
            self._own_environment = environment
            return self._own

    async def _stream(self, turn: _Turn, run: Run, reader: LogReader) -> None:
        """Send the events of a run, except its end, which the result reports."""
        mark = "" if turn.id is None else f'"id":{dumps(turn.id)},'
        while batch := await reader.next():
            for entry in batch:
                kind = _STREAMED.get(entry.kind)
                if entry.kind == "clear":
                    await self._say(turn.id, {"type": "clear"})
                elif kind is not None:
                    pieces = wrapped(f'{{"type":"{kind}",{mark}', event_pieces(run.log, entry), cut=1)
                    await self._socket.send_pieces(pieces, entry.size)

    # --- input

    def _feed(self, turn: _Turn, data: bytes, eof: bool) -> None:
        if not turn.request.get("interactive"):
            raise InvalidRun("This run accepts no input.", hint='Start it with "interactive": true.')
        if turn.pending_size + len(data) > MAX_INPUT:
            raise Refused("The run does not read its input.", hint="Send more when it has read the earlier input.")
        turn.pending.append((data, eof))
        turn.pending_size += len(data)
        if turn.feeding is None or turn.feeding.done():
            turn.feeding = asyncio.create_task(self._pass_on(turn))

    async def _pass_on(self, turn: _Turn) -> None:
        try:
            await turn.has_run.wait()
            assert turn.run is not None
            with turn.run.log.reader() as reader:
                await reader.next()  # a run accepts input from its first event on
            while turn.pending:
                data, eof = turn.pending[0]
                await turn.run.write(data, eof)
                turn.pending.pop(0)
                turn.pending_size -= len(data)
        except ClocheError:
            turn.pending, turn.pending_size = [], 0  # the run has ended and reads no more

    # --- messages to the client

    async def _say(self, identity: Id, fields: dict[str, Any]) -> None:
        await self._socket.send(_message(identity, fields))

    def _start_reporting(self, turn: _Turn) -> None:
        turn.reporting = asyncio.create_task(self._report_progress(turn))

    async def _report_progress(self, turn: _Turn) -> None:
        while True:
            lasted = f"{monotonic() - turn.begun:.0f} s"
            text = f"Running for {lasted}." if turn.run is not None else f"Waiting for {lasted}: other runs come first."
            try:
                await self._say(turn.id, {"type": "progress", "message": text})
            except ClientLeft:
                return
            await asyncio.sleep(PROGRESS_S)

    async def _end(self) -> None:
        turns = list(self._turns)
        for turn in turns:
            if turn.task is not None:
                turn.task.cancel()
        await asyncio.gather(*(turn.task for turn in turns if turn.task is not None), return_exceptions=True)
        for turn in turns:
            if turn.is_program and turn.run is not None:
                await turn.run.cancel()
        if self._own:
            try:
                await self._service.sandboxes.kill(self._caller, self._own, "its connection was closed")
            except Gone:
                pass  # the session has ended already


# --- messages to the client


def _message(identity: Id, fields: dict[str, Any]) -> str:
    if identity is not None:
        fields["id"] = identity
    return to_json(fields)


class _Outcome:
    """The message that ends a run.  It is made when the client reads it, which may be long after the run."""

    def __init__(self, turn: _Turn, run: Run) -> None:
        self._turn, self._run = turn, run
        self._fields: dict[str, Any] = {}

    def prepare(self) -> None:
        """Make its fields, if the run is still known: to shorten a long text takes long."""
        result, turn = self._run.result, self._turn
        if result is None:
            return
        fields = _result(self._run, result, turn.request)
        if turn.request.get("view") != "model":
            fields["results"] = result.results
        if turn.id is not None:
            fields["id"] = turn.id
        self._fields = fields

    def __iter__(self) -> Iterator[str]:
        if not self._fields:
            self.prepare()
        if self._fields:
            yield from json_pieces(self._fields, self._run.log)
        else:
            yield from _problem_text(self._turn.id, self._run.forgotten_problem(), self._run.id)


def _problem_text(identity: Id, problem: ClocheError, run_id: str = "") -> Iterator[str]:
    yield _message(identity, _problem(problem, run_id))


def _result(run: Run, result: Result, request: dict[str, Any]) -> dict[str, Any]:
    error = result.error
    fields: dict[str, Any] = {
        "type": "result",
        "output": output_text(result),
        "errors": errors_text(result),
        "exit_code": result.exit_code,
        "run_id": run.id,
        "duration": result.duration,
        "memory_peak": result.memory_peak,
        "truncated": result.truncated,
        "error": plain(error),
        "hint": "" if error is None else in_words_of("http", error).hint,
        "artifacts": plain(result.artifacts),
        "network": plain(result.network),
    }
    if run.record.sandbox is not None:
        fields.update(session=run.record.sandbox, context=run.record.context, restarted=result.restarted)
    if request.get("view") == "model":
        fields["output"], fields["images"] = text_and_images(result, request.get("budget") or BUDGET)
    return fields


def _never_begun() -> Gone:
    return Gone("The run was cancelled before it began.")


def _problem(problem: ClocheError, run_id: str = "") -> dict[str, Any]:
    problem = for_client(problem)
    fields: dict[str, Any] = {
        "type": "error",
        "message": problem.message,
        "hint": problem.hint,
        "kind": "limit" if isinstance(problem, TooMany) else problem.code,
    }
    if isinstance(problem, TooMany | Busy):
        fields["retry_after"] = problem.retry_after
    if run_id:
        fields["run_id"] = run_id
    return fields


routes = [SocketRoute("/", Door(_handle), scope="run", name="websocket", stream="run")]
