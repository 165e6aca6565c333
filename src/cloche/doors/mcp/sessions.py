"""`session_*`: sandboxes that a model makes, lists, interrupts, restarts and ends."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import mcp_types as types
from pydantic import Field

from cloche.doors.mcp.conversation import Visit, create
from cloche.doors.mcp.tool import Answer, Tool, ToolArguments, success
from cloche.results.cleaning import clean
from cloche.service.live import SandboxView
from cloche.service.sandboxes import NewSandbox

MAX_LISTED = 100

Session = str | None
_WHICH = "The session's id. Leave it out for this conversation's own session."


class Nothing(ToolArguments):
    """No arguments."""


class SessionArguments(ToolArguments):
    """Which session."""

    session: Annotated[Session, Field(description=_WHICH)] = None


class CreateArguments(ToolArguments):
    """What the new session should be like."""

    name: Annotated[str, Field(max_length=200)] = ""
    """What it is for, for people to read."""
    timeout: Annotated[float, Field(gt=0)] | None = None
    """Seconds that each execution may take unless it says otherwise."""
    memory: str | None = None
    """As in '512M' or '2G'."""
    idle_timeout: Annotated[float, Field(gt=0)] | None = None
    """Seconds without any work after which it ends by itself."""
    undo: bool = False
    """Remember the state before every execution, so that `undo` can go back."""


class SessionAnswer(Answer):
    """A session."""

    session: str
    name: str
    is_own: bool
    """It is this conversation's own: what is used when no session is named."""
    created: str
    expires: str | None = None
    idle_timeout: float
    """Seconds without any work after which it ends."""


class SessionsAnswer(Answer):
    """The sessions that there are."""

    sessions: list[SessionAnswer]


class DoneAnswer(Answer):
    """What was done, to which session."""

    session: str
    done: str


async def make(visit: Visit, given: CreateArguments) -> types.CallToolResult:
    """A new session, beside the conversation's own."""
    limits = {name: value for name in ("timeout", "memory") if (value := getattr(given, name)) is not None}
    request = NewSandbox(limits=limits, idle_timeout=given.idle_timeout, undo=given.undo)
    session = await create(visit.service, visit.caller, request, visit.client, given.name)
    made = await visit.service.sandboxes.view(visit.caller, session)
    text = (
        f'New session: {session}. Pass session="{session}" to use it. It is empty, and ends after '
        f"{made.idle_timeout:g} seconds without work."
    )
    return success(text, _answer(visit, made))


async def listed(visit: Visit, _: Nothing) -> types.CallToolResult:
    """The caller's sessions that are alive."""
    found, following = await visit.service.sandboxes.list(visit.caller, "alive", {}, MAX_LISTED, None)
    living = {view.id: view for view in visit.service.sandboxes.living(visit.caller)}
    answers = [_answer(visit, living[info.record.id]) for info in found if info.record.id in living]
    lines = [
        f"{one.session}{f' ({one.name})' if one.name else ''}, since {one.created}"
        + (", this conversation's own" if one.is_own else "")
        for one in answers
    ]
    if following is not None:
        lines.append("… and older ones.")
    return success("\n".join(lines) or "There are no sessions.", SessionsAnswer(sessions=answers))


async def end(visit: Visit, given: SessionArguments) -> types.CallToolResult:
    """End a session with everything in it."""
    session = given.session or (visit.conversation.session if visit.conversation is not None else "")
    if not session and visit.conversation is not None:
        return success("There was nothing to end.", DoneAnswer(session="", done="nothing"))
    session, _ = await visit.sandbox(session)
    await visit.service.sandboxes.kill(visit.caller, session)
    return success(
        f"The session {session} has ended; its variables and files are gone.", DoneAnswer(session=session, done="ended")
    )


async def restart(visit: Visit, given: SessionArguments) -> types.CallToolResult:
    """Forget variables, keep files."""
    session, _ = await visit.sandbox(given.session)
    await visit.service.sessions.restart(visit.caller, session)
    text = f"The session {session} was restarted: variables are gone, files are still there."
    return success(text, DoneAnswer(session=session, done="restarted"))


async def interrupt(visit: Visit, given: SessionArguments) -> types.CallToolResult:
    """Stop what runs."""
    session, _ = await visit.sandbox(given.session)
    await visit.service.sessions.interrupt(visit.caller, session)
    text = f"The code in the session {session} was interrupted; variables and files are still there."
    return success(text, DoneAnswer(session=session, done="interrupted"))


def _answer(visit: Visit, view: SandboxView) -> SessionAnswer:
    record = view.record
    return SessionAnswer(
        session=view.id,
        name=clean(record.metadata.get("name", "")),
        is_own=visit.conversation is not None and visit.conversation.session == view.id,
        created=_time(record.created),
        expires=None if record.expires is None else _time(record.expires),
        idle_timeout=view.idle_timeout,
    )


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


TOOLS = (
    Tool(
        "session_create",
        "New session",
        "Make another session: an empty sandbox with variables and files of its own. You rarely need this, for "
        "code_execution has a session by itself; make one to keep two pieces of work apart, to have more memory, or to "
        "be able to undo. Returns the id to pass as `session`.",
        CreateArguments,
        SessionAnswer,
        make,
    ),
    Tool(
        "session_list",
        "List sessions",
        "List the sessions that are alive: yours, and those that the user has open elsewhere, in a chat or a program. "
        "Any of them can be used by its id.",
        Nothing,
        SessionsAnswer,
        listed,
        reads=True,
    ),
    Tool(
        "session_end",
        "End a session",
        "End a session for good: its variables and its files are gone. After ending this conversation's own session, "
        "the next code_execution starts with an empty one.",
        SessionArguments,
        DoneAnswer,
        end,
        destroys=True,
        idempotent=True,
    ),
    Tool(
        "session_restart",
        "Restart a session",
        "Restart the interpreters of a session: all variables are forgotten, files stay. Use it when the state is "
        "muddled, or memory is short.",
        SessionArguments,
        DoneAnswer,
        restart,
        destroys=True,
        idempotent=True,
    ),
    Tool(
        "session_interrupt",
        "Interrupt a session",
        "Stop the code that runs in a session now, like Ctrl-C. Variables and files stay.",
        SessionArguments,
        DoneAnswer,
        interrupt,
        idempotent=True,
    ),
)
