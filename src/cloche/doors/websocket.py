"""The WebSocket at `/`: code goes in, progress and a result for a person come out (docs/clients/websocket.md).

    → {"type": "execute", "code": "print(6 * 7)", "language": "python"}
    ← {"type": "result", "output": "42\\n", "errors": "", "exit_code": 0, …}

Each message waits until the client has taken the one before, so nothing piles up here: a run goes on when nobody
takes its events, and its log (`cloche.service.event_log`) is bounded.
"""

from __future__ import annotations

import asyncio
import logging
from json import JSONDecoder, dumps
from time import monotonic
from typing import Any

from pydantic_core import from_json

from cloche.doors.gate.identity import caller_of
from cloche.doors.http.bodies import given_bytes
from cloche.doors.routing.routes import SocketRoute
from cloche.doors.shapes import displays_json, event_json, images
from cloche.doors.sockets import ClientLeft, Door, Socket
from cloche.errors import ClocheError, Gone, InvalidRun, Refused, SandboxFailed
from cloche.json_text import to_json
from cloche.model.kinds import kind_of
from cloche.model.result import Result
from cloche.policy.caller import Caller
from cloche.policy.refusals import Busy, TooMany
from cloche.results.fields import plain
from cloche.service.event_log import LogReader
from cloche.service.runs import Run
from cloche.service.sandboxes import NewSandbox
from cloche.service.service import Service

log = logging.getLogger("cloche.websocket")

MAX_IN_FLIGHT = 32  # runs of one connection, those that wait included
MAX_INPUT = 1 << 20  # characters of input that a run has not taken yet
FIRST_NEWS_S, NEWS_S = 1.0, 10.0  # until the client is told that a run goes on, and between further messages
_LONGEST_ID = 200
_LARGEST_ID = 2**53  # what JavaScript can tell apart
_BUDGET = 2000
_STREAMED = {"started": "started", "stdout": "stdout", "stderr": "stderr", "result": "display", "tool": "tool"}

_TEXT, _NUMBER, _NOTHING = (str,), (int, float), type(None)
# The fields of each message, and their types; other fields are ignored.
_FIELDS: dict[str, dict[str, tuple[type, ...]]] = {
    "execute": {
        "code": _TEXT,
        "language": (str, _NOTHING),
        "session": (str, bool, _NOTHING),
        "context": (str, _NOTHING),
        "timeout": (*_NUMBER, _NOTHING),
        "memory": (int, str, _NOTHING),
        "stdin": (str, _NOTHING),
        "interactive": (bool, _NOTHING),
        "stream": (bool, _NOTHING),
        "view": (str, _NOTHING),
        "budget": (int, _NOTHING),
    },
    "cancel": {},
    "input": {"data": (str, _NOTHING), "eof": (bool, _NOTHING)},
}
_NAMES = {str: "a text", bool: "true or false", int: "a number", float: "a number", _NOTHING: "null"}

Id = str | int | None


async def _handle(socket: Socket) -> None:
    service: Service = socket.scope["app"].state.service
    caller = caller_of(socket.scope)
    await socket.accept()
    await _Client(service, caller, socket).hold()


class _Turn:
    """One run of a connection, from the message that asks for it to its result."""

    def __init__(self, identity: Id, wish: dict[str, Any]) -> None:
        self.id, self.wish = identity, wish
        self.begun = monotonic()
        self.run: Run | None = None
        self.problem: Exception | None = None  # why there is none
        self.has_run = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.is_next = self.called_off = False  # is_next: it waits for no other run of its connection
        self.is_program = not wish.get("session")
        self.pending: list[tuple[bytes, bool]] = []  # input that it has not taken yet, and whether that is all
        self.pending_size = 0
        self.feeding: asyncio.Task[None] | None = None
        self.news: asyncio.TimerHandle | asyncio.Task[None] | None = None  # what tells the client that it goes on

    async def call_off(self) -> None:
        """Stop the run, or keep it from starting."""
        self.called_off = True
        if self.run is not None:
            await self.run.cancel()
        elif self.task is not None and self.is_next:
            self.task.cancel()  # otherwise the client hears of it in turn: results come in order


class _Client:
    """One client: several runs under way, and maybe a session of its own."""

    def __init__(self, service: Service, caller: Caller, socket: Socket) -> None:
        self._service, self._caller, self._socket = service, caller, socket
        self._turns: list[_Turn] = []
        self._in_order = asyncio.Lock()  # runs without an id: one after the other, or nobody could tell them apart
        self._own = ""  # the id of this connection's own sandbox
        self._own_memory: int | str | None = None
        self._making = asyncio.Lock()

    async def hold(self) -> None:
        """Answer until the client leaves; then end the runs and the session that were its own."""
        try:
            while (message := await self._socket.receive()) is not None:
                identity: Id = None
                try:
                    request = _parsed(message)
                    identity = _identity(request)
                    await self._take(identity, request)
                except ClocheError as problem:
                    await self._say(identity, _problem(problem))
        finally:
            await asyncio.shield(self._end())

    async def _take(self, identity: Id, request: dict[str, Any]) -> None:
        kind = request.get("type")
        if not isinstance(kind, str) or kind not in _FIELDS:
            raise InvalidRun(
                f"There is no message of the type {kind!r:.100}.", hint=f"The types are {', '.join(_FIELDS)}."
            )
        wish = _checked(kind, request)
        if kind == "execute":
            await self._execute(identity, wish)
            return
        turns = [turn for turn in self._turns if turn.id == identity]
        if not turns:
            raise Gone("No run with this id is under way.", hint="It may have ended already.")
        if kind == "cancel":
            for turn in turns:
                await turn.call_off()
        else:
            self._feed(turns[0], (wish.get("data") or "").encode("utf-8", "replace"), bool(wish.get("eof")))

    # --- runs

    async def _execute(self, identity: Id, wish: dict[str, Any]) -> None:
        self._service.keyring.meter(self._caller).admit_request()
        if len(self._turns) >= MAX_IN_FLIGHT:
            raise Refused(
                f"This connection has {MAX_IN_FLIGHT} runs under way.", hint="Wait for one to end, or cancel it."
            )
        if identity is not None and any(turn.id == identity for turn in self._turns):
            raise InvalidRun("A run with this id is under way.", hint="Give each run an id of its own.")
        turn = _Turn(identity, wish)
        if self._need_not_wait(turn):
            await self._begin(turn)
        self._turns.append(turn)
        turn.task = asyncio.create_task(self._carry_out(turn))

    def _need_not_wait(self, turn: _Turn) -> bool:
        """Can it begin at once?  Then its code is on its way before there is a task that waits for its end."""
        if self._service.runs.is_full() or (turn.id is None and any(other.id is None for other in self._turns)):
            return False
        return turn.wish.get("session") is not True or self._service.sandboxes.owner_of(self._own) is not None

    async def _begin(self, turn: _Turn) -> None:
        try:
            turn.run = await self._start(turn.wish)
            turn.has_run.set()
        except Exception as problem:
            turn.problem = problem

    async def _carry_out(self, turn: _Turn) -> None:
        turn.news = asyncio.get_running_loop().call_later(FIRST_NEWS_S, self._begin_news, turn)
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
            if not turn.called_off or turn.run is not None:
                raise
            await self._say(turn.id, _problem(_never_begun()))
        finally:
            turn.news.cancel()
            if turn.feeding is not None:
                turn.feeding.cancel()
            self._turns.remove(turn)

    async def _answer(self, turn: _Turn) -> None:
        """Carry a run out, and send the message that ends it."""
        try:
            if turn.run is None and turn.problem is None:
                if turn.called_off:
                    raise _never_begun()
                await self._begin(turn)
            if turn.problem is not None:
                raise turn.problem
            assert turn.run is not None
            if turn.wish.get("stream"):
                # As a reader until the result is written: the log keeps the displays as they were encoded until then.
                with turn.run.log.reader() as reader:
                    await self._stream(turn, turn.run, reader)
                    message = await _outcome(turn, turn.run)
            else:
                message = await _outcome(turn, turn.run)
        except ClocheError as problem:
            message = _message(turn.id, _problem(problem, "" if turn.run is None else turn.run.id))
        except ClientLeft:
            raise
        except Exception:
            log.exception("a run that was asked for by WebSocket failed by our own fault")
            fault = SandboxFailed("Something went wrong on our side.", hint="Try again.")
            message = _message(turn.id, _problem(fault))
        finally:
            if turn.news is not None:
                turn.news.cancel()
        await self._socket.send(message)

    async def _start(self, wish: dict[str, Any]) -> Run:
        session, stdin = wish.get("session"), wish.get("stdin")
        data = given_bytes("stdin", stdin, None)
        interactive = bool(wish.get("interactive"))
        if session:
            return await self._service.sessions.run(
                self._caller,
                await self._session(session, wish),
                wish["code"],
                language=wish.get("language"),
                context=wish.get("context"),
                stdin=data,
                timeout=wish.get("timeout"),
                interactive=interactive,
                keeps_all=True,
            )
        if wish.get("context") is not None:
            raise InvalidRun("Only a session has contexts.", hint='Say which: "session": true, or a sandbox\'s id.')
        options = {name: wish[name] for name in ("timeout", "memory") if wish.get(name) is not None}
        return await self._service.programs.run(
            self._caller,
            wish["code"],
            language=wish.get("language") or "python",
            stdin=data,
            limits=options,
            interactive=interactive,
            listened=interactive or bool(wish.get("stream")),
        )

    async def _session(self, session: str | bool, wish: dict[str, Any]) -> str:
        """The id of the sandbox that a message means; `true` is the connection's own, which the first use makes."""
        memory = wish.get("memory")
        if isinstance(session, str):
            if memory is not None:
                raise InvalidRun("The memory belongs to the sandbox.", hint="Set it when you make the sandbox.")
            return session
        async with self._making:
            if self._own:
                if memory is not None and memory != self._own_memory:
                    raise InvalidRun("The memory belongs to the session.", hint="Set it with the session's first run.")
                try:
                    return (await self._service.sandboxes.view(self._caller, self._own)).id
                except Gone:
                    memory = self._own_memory  # the session was idle, or ran out of memory: start a new one
            limits = {} if memory is None else {"memory": memory}
            made = await self._service.sandboxes.create(
                self._caller, NewSandbox(limits=limits, ttl=self._service.configuration.max_ttl)
            )
            self._own, self._own_memory = made.record.id, memory
            return self._own

    async def _stream(self, turn: _Turn, run: Run, reader: LogReader) -> None:
        """Send the events of a run; its end is not one of them, the result says that."""
        mark = "" if turn.id is None else f'"id":{dumps(turn.id)},'
        while batch := await reader.next():
            for entry in batch:
                kind = _STREAMED.get(entry.kind)
                if entry.kind == "clear":
                    await self._say(turn.id, {"type": "clear"})
                elif kind is not None and (text := event_json(run.log, entry)):
                    await self._socket.send(f'{{"type":"{kind}",{mark}{text[1:]}')

    # --- input

    def _feed(self, turn: _Turn, data: bytes, eof: bool) -> None:
        if not turn.wish.get("interactive"):
            raise InvalidRun("This run takes no input.", hint='Start it with "interactive": true.')
        if turn.pending_size + len(data) > MAX_INPUT:
            raise Refused("The run does not take its input.", hint="Send more when it has read what it was sent.")
        turn.pending.append((data, eof))
        turn.pending_size += len(data)
        if turn.feeding is None or turn.feeding.done():
            turn.feeding = asyncio.create_task(self._pass_on(turn))

    async def _pass_on(self, turn: _Turn) -> None:
        try:
            await turn.has_run.wait()
            assert turn.run is not None
            with turn.run.log.reader() as reader:
                await reader.next()  # from its first event on it takes input
            while turn.pending:
                data, eof = turn.pending[0]
                await turn.run.write(data, eof)
                turn.pending.pop(0)
                turn.pending_size -= len(data)
        except ClocheError:
            turn.pending, turn.pending_size = [], 0  # it has ended: nobody wants it any more

    # --- messages to the client

    async def _say(self, identity: Id, fields: dict[str, Any]) -> None:
        await self._socket.send(_message(identity, fields))

    def _begin_news(self, turn: _Turn) -> None:
        turn.news = asyncio.create_task(self._tell_news(turn))

    async def _tell_news(self, turn: _Turn) -> None:
        while True:
            lasted = f"{monotonic() - turn.begun:.0f} s"
            text = f"Running for {lasted}." if turn.run is not None else f"Waiting for {lasted}: others are running."
            try:
                await self._say(turn.id, {"type": "progress", "message": text})
            except ClientLeft:
                return
            await asyncio.sleep(NEWS_S)

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
                pass  # it has ended already


# --- what is received


def _parsed(message: str | bytes) -> dict[str, Any]:
    if isinstance(message, bytes):
        raise InvalidRun("Messages are JSON in text frames.", hint="Send text, not bytes.")
    try:
        request = _decoded(message)
    except (ValueError, RecursionError):
        raise InvalidRun(
            "This is not JSON.", hint='Send an object like {"type": "execute", "code": "1 + 1"}.'
        ) from None
    if not isinstance(request, dict):
        raise InvalidRun("A message is a JSON object.", hint='Send one like {"type": "execute", "code": "1 + 1"}.')
    return request


def _no_constant(name: str) -> Any:
    raise ValueError(name)


_decode = JSONDecoder(parse_constant=_no_constant).decode


def _decoded(message: str) -> Any:
    try:
        return from_json(message, allow_inf_nan=False, cache_strings="keys")
    except ValueError:
        return _decode(message)  # it takes more: lone surrogates, and what is nested deeply


def _identity(request: dict[str, Any]) -> Id:
    identity: Id = request.get("id")
    if identity is None or (isinstance(identity, str) and len(identity) <= _LONGEST_ID):
        return identity
    if type(identity) is int and abs(identity) <= _LARGEST_ID:
        return identity
    raise InvalidRun(f"An id is a text of at most {_LONGEST_ID} characters, or a whole number.")


def _checked(kind: str, request: dict[str, Any]) -> dict[str, Any]:
    wish: dict[str, Any] = {}
    for name, types in _FIELDS[kind].items():
        if name in request:
            if type(request[name]) not in types:
                wanted = " or ".join(dict.fromkeys(_NAMES[one] for one in types))
                raise InvalidRun(f"`{name}` has to be {wanted}.")
            wish[name] = request[name]
    if kind == "execute" and "code" not in wish:
        raise InvalidRun("There is no `code` to run.")
    if wish.get("view") not in (None, "full", "model"):
        raise InvalidRun('`view` is "full" or "model".')
    if not 50 <= (wish.get("budget") or _BUDGET) <= 1_000_000:
        raise InvalidRun("`budget` is a number of tokens from 50 to 1,000,000.")
    return wish


# --- messages to the client


def _message(identity: Id, fields: dict[str, Any]) -> str:
    if identity is not None:
        fields["id"] = identity
    return to_json(fields)


async def _outcome(turn: _Turn, run: Run) -> str:
    """The message that ends a run."""
    result = await run.outcome()
    text = _message(turn.id, _result(run, result, turn.wish))
    if turn.wish.get("view") == "model":
        return text
    # The displays are encoded by themselves: what the client was sent as events is not encoded again.
    return f'{text[:-1]},"results":{displays_json(run.log, result.results)}}}'


def _result(run: Run, result: Result, wish: dict[str, Any]) -> dict[str, Any]:
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
        "hint": "" if error is None else error.hint,
        "artifacts": plain(result.artifacts),
    }
    if run.record.sandbox is not None:
        fields.update(session=run.record.sandbox, context=run.record.context, restarted=result.restarted)
    if wish.get("view") == "model":
        fields.update(output=result.for_model(wish.get("budget") or _BUDGET), images=images(result))
    return fields


def output_text(result: Result) -> str:
    """The output of a run for a person: its standard output, then its displays as texts."""
    text = result.stdout
    for shown in result.results:
        form = shown.text if isinstance(shown.text, str) else f"[{', '.join(shown.mime)}]"
        text += ("\n" if text and not text.endswith("\n") else "") + form
    return text


def errors_text(result: Result) -> str:
    """The errors of a run for a person: its standard error, then what went wrong and what to do about it."""
    text, error = result.stderr, result.error
    if error is None:
        return text
    reasons = []
    if error.traceback and error.traceback.strip() not in text:
        reasons.append(error.traceback.rstrip("\n"))
    elif kind_of(error.kind).is_silent or not text:
        reasons.append(error.message)
    if error.hint:
        reasons.append(f"Hint: {error.hint}")
    lead = "\n" if text and not text.endswith("\n") else ""
    return f"{text}{lead}{chr(10).join(reasons)}\n" if reasons else text


def _never_begun() -> Gone:
    return Gone("The run was called off before it began.")


def _problem(problem: ClocheError, run_id: str = "") -> dict[str, Any]:
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


routes = [SocketRoute("/", Door(_handle), scope="run", name="websocket")]
