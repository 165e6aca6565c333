"""The `session_*` tools, with which a model creates, lists, interrupts, restarts and ends sandboxes."""

from __future__ import annotations

from typing import Annotated

import mcp_types as types
from pydantic import Field

from cloche.doors.mcp.conversation import Visit, duration, time_text
from cloche.doors.mcp.tool import Answer, Tool, ToolAnswer, ToolArguments, success
from cloche.model.network import network_of
from cloche.results.cleaning import clean
from cloche.service.live import SandboxView
from cloche.service.sandboxes import NewSandbox

MAX_LISTED = 100

_WHICH = (
    "The id of a session, which the first result gave as `session`. Leave it out to use this connection's own session. "
    "If your variables and files are missing in the next call, your client opens a connection for every call: pass the "
    "id in all further calls."
)
Session = Annotated[str | None, Field(description=_WHICH)]


Hosts = Annotated[list[Annotated[str, Field(max_length=300)]] | None, Field(max_length=100)]


Packages = Annotated[list[Annotated[str, Field(max_length=500)]], Field(max_length=100)]
EnvironmentName = Annotated[str, Field(min_length=1, max_length=100)]


class NoArguments(ToolArguments):
    pass


class SessionArguments(ToolArguments):
    session: Session = None


class CreateArguments(ToolArguments):
    name: Annotated[str, Field(max_length=200)] = ""
    """A description of its purpose, for people to read."""
    timeout: Annotated[float, Field(gt=0)] | None = None
    """The default time limit for each execution, in seconds."""
    memory: str | None = None
    """The memory limit, for example '512M' or '2G'."""
    idle_timeout: Annotated[float, Field(gt=0)] | None = None
    """The session ends after this many seconds without work."""
    environment: EnvironmentName | None = None
    """The environment to start from, which has packages and files already; environment_list shows what there is."""
    network: Hosts = None
    """What the session may reach: hosts such as 'api.example.org' or '*.example.org:8443', or 'packages' (the
    indexes of pip and npm), or 'public'. By default nothing."""
    packages: Packages | None = None
    """Packages to install in the session, such as 'polars' or 'httpx>=0.27'; 'npm:' before a name is for JavaScript."""
    undo: bool = False
    """Save the state before every execution, so that `undo` can go back."""


class LivingSession(Answer):
    """A living session."""

    session: str
    name: str
    is_own: bool
    """Whether this is the conversation's own session, which is used when no session is named."""
    created: str
    expires: str | None = None
    idle_timeout: float
    """The session ends after this many seconds without work."""


class SessionMade(LivingSession, ToolAnswer):
    pass


class SessionsAnswer(ToolAnswer):
    sessions: list[LivingSession]


class DoneAnswer(ToolAnswer):
    session: str
    done: str


async def make(visit: Visit, arguments: CreateArguments) -> types.CallToolResult:
    """Create a session in addition to the conversation's own."""
    limits = {name: value for name in ("timeout", "memory") if (value := getattr(arguments, name)) is not None}
    network = None if arguments.network is None else network_of(arguments.network)
    request = NewSandbox(
        limits=limits,
        network=network,
        packages=arguments.packages or (),
        environment=arguments.environment,
        idle_timeout=arguments.idle_timeout,
        undo=arguments.undo,
    )
    session = await visit.kept.create(visit.caller, request, visit.client, arguments.name)
    made = await visit.service.sandboxes.view(visit.caller, session)
    text = (
        f'New session: {session}. Pass session="{session}" to use it. It is empty, and ends after '
        f"{duration(made.idle_timeout)} without work."
    )
    return success(text, SessionMade(**_living(visit, made).model_dump()))


async def listed(visit: Visit, _: NoArguments) -> types.CallToolResult:
    """List the caller's living sessions."""
    found, following = await visit.service.sandboxes.list(visit.caller, "alive", {}, MAX_LISTED, None)
    living = {view.id: view for view in visit.service.sandboxes.living(visit.caller)}
    answers = [_living(visit, living[info.record.id]) for info in found if info.record.id in living]
    lines = [
        f"{one.session}{f' ({one.name})' if one.name else ''}, since {one.created}"
        + (", this conversation's own" if one.is_own else "")
        for one in answers
    ]
    if following is not None:
        lines.append("… and older ones.")
    return success("\n".join(lines) or "There are no sessions.", SessionsAnswer(sessions=answers))


async def end(visit: Visit, arguments: SessionArguments) -> types.CallToolResult:
    session = arguments.session or (visit.conversation.session if visit.conversation is not None else "")
    if not session and visit.conversation is not None:
        return success("There was nothing to end.", DoneAnswer(session="", done="nothing"))
    session = await visit.sandbox(session)
    await visit.service.sandboxes.kill(visit.caller, session)
    return success(
        f"The session {session} has ended; its variables and files are deleted.",
        DoneAnswer(session=session, done="ended"),
    )


async def restart(visit: Visit, arguments: SessionArguments) -> types.CallToolResult:
    session = await visit.sandbox(arguments.session)
    await visit.service.sessions.restart(visit.caller, session)
    text = f"The session {session} was restarted: variables are lost, files remain."
    return success(text, DoneAnswer(session=session, done="restarted"))


async def interrupt(visit: Visit, arguments: SessionArguments) -> types.CallToolResult:
    session = await visit.sandbox(arguments.session)
    await visit.service.sessions.interrupt(visit.caller, session)
    text = f"The code in the session {session} was interrupted; variables and files remain."
    return success(text, DoneAnswer(session=session, done="interrupted"))


def _living(visit: Visit, view: SandboxView) -> LivingSession:
    record = view.record
    return LivingSession(
        session=view.id,
        name=clean(record.metadata.get("name", "")),
        is_own=visit.conversation is not None and visit.conversation.session == view.id,
        created=time_text(record.created),
        expires=None if record.expires is None else time_text(record.expires),
        idle_timeout=view.idle_timeout,
    )


TOOLS = (
    Tool(
        "session_create",
        "New session",
        "Create another session: an empty sandbox with its own variables and files. You rarely need this, because "
        "code_execution already has a session; create one to keep two pieces of work apart, to have more memory, or to "
        "be able to undo. Returns the id to pass as `session`.",
        CreateArguments,
        SessionMade,
        make,
    ),
    Tool(
        "session_list",
        "List sessions",
        "List the living sessions: yours, and those that the user has open in other chats or programs. You can use any "
        "of them by its id.",
        NoArguments,
        SessionsAnswer,
        listed,
        reads=True,
    ),
    Tool(
        "session_end",
        "End a session",
        "End a session for good and delete its variables and files. After you end this conversation's own session, the "
        "next code_execution starts with an empty one.",
        SessionArguments,
        DoneAnswer,
        end,
        destroys=True,
        idempotent=True,
    ),
    Tool(
        "session_restart",
        "Restart a session",
        "Restart the interpreters of a session: all variables are lost, files remain. Use it when the state is "
        "confused, or memory is short.",
        SessionArguments,
        DoneAnswer,
        restart,
        destroys=True,
        idempotent=True,
    ),
    Tool(
        "session_interrupt",
        "Interrupt a session",
        "Stop the code that is running in a session, like Ctrl-C. Variables and files remain.",
        SessionArguments,
        DoneAnswer,
        interrupt,
        idempotent=True,
    ),
)
