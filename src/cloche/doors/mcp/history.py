"""`checkpoint`, `restore`, `undo`: a way back for a model that wants to try something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import mcp_types as types
from pydantic import Field

from cloche.doors.mcp.conversation import Visit
from cloche.doors.mcp.sessions import SessionArguments
from cloche.doors.mcp.tool import Answer, Tool, success
from cloche.errors import Gone, InvalidRun
from cloche.model.history import Restored
from cloche.results.cleaning import clean

_NO_UNDO = "Go back with checkpoint and restore; session_create with undo=true makes a session that can be undone."


class CheckpointArguments(SessionArguments):
    """What to call it."""

    name: Annotated[str, Field(max_length=100)] = ""
    """A name to restore it by; without one, use the id that is returned."""


class RestoreArguments(SessionArguments):
    """What to go back to."""

    checkpoint: Annotated[str, Field(min_length=1, max_length=300)]
    """The id or the name of a checkpoint."""


class CheckpointMade(Answer):
    """A checkpoint."""

    session: str
    checkpoint: str
    name: str
    lost: dict[str, Any]
    """What could not be remembered, by context: threads, sockets, child processes."""


class SessionRestored(Answer):
    """What became of the session."""

    session: str
    restarted: list[str]
    """Contexts that start anew, without variables."""
    lost: dict[str, Any]
    files: dict[str, Any]
    """How many files were written, removed and left as they were."""


async def checkpoint(visit: Visit, given: CheckpointArguments) -> types.CallToolResult:
    """Remember variables and files as they are now."""
    session, _ = await visit.sandbox(given.session)
    taken = await visit.service.sessions.checkpoint(visit.caller, session, given.name)
    text = f'Checkpoint {taken.id} was made. Go back with restore(checkpoint="{taken.name or taken.id}").'
    if taken.lost:
        text += f" It does not have: {clean(str(taken.lost))[:500]}"
    answer = CheckpointMade(session=session, checkpoint=taken.id, name=taken.name, lost=_cleaned(taken.lost))
    return success(text, answer)


async def restore(visit: Visit, given: RestoreArguments) -> types.CallToolResult:
    """Make variables and files what they were."""
    session, _ = await visit.sandbox(given.session)
    try:
        restored = await visit.service.sessions.restore(visit.caller, session, given.checkpoint)
    except Gone as problem:
        taken = await visit.service.sessions.checkpoints(visit.caller, session)
        names = ", ".join(one.name or one.id for one in taken[-20:])
        raise Gone(problem.message, hint=f"There are: {names}." if names else "Make one with `checkpoint`.") from None
    return _answer(session, restored, "Variables and files are what they were at the checkpoint.")


async def undo(visit: Visit, given: SessionArguments) -> types.CallToolResult:
    """Go back to before the last execution."""
    session, _ = await visit.sandbox(given.session)
    try:
        restored = await visit.service.sessions.undo(visit.caller, session)
    except InvalidRun as problem:
        raise InvalidRun(problem.message, hint=_NO_UNDO) from None
    return _answer(session, restored, "Variables and files are what they were before the last execution.")


def _answer(session: str, restored: Restored, text: str) -> types.CallToolResult:
    if restored.restarted:
        text += f" These start anew, without variables: {', '.join(restored.restarted)}."
    answer = SessionRestored(
        session=session,
        restarted=list(restored.restarted),
        lost=_cleaned(restored.lost),
        files=_cleaned(restored.files),
    )
    return success(text, answer)


def _cleaned(value: Any) -> Any:
    """A value from a sandbox, without what is not Unicode."""
    if isinstance(value, Mapping):
        return {clean(str(name)): _cleaned(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(one) for one in value]
    return clean(value) if isinstance(value, str) else value


TOOLS = (
    Tool(
        "checkpoint",
        "Make a checkpoint",
        "Remember the state of a session, Python variables and all files, so that `restore` can bring it back. Cheap "
        "and quick: make one before a step that you may regret.",
        CheckpointArguments,
        CheckpointMade,
        checkpoint,
    ),
    Tool(
        "restore",
        "Restore a checkpoint",
        "Bring the variables and files of a session back to what they were at a checkpoint. What happened since is "
        "lost. A checkpoint can be restored again and again.",
        RestoreArguments,
        SessionRestored,
        restore,
        destroys=True,
    ),
    Tool(
        "undo",
        "Undo an execution",
        "Go back to the state before the last code_execution of a session; again, to before the one before it. Only "
        "for sessions that session_create made with undo=true; elsewhere, use checkpoint and restore.",
        SessionArguments,
        SessionRestored,
        undo,
        destroys=True,
    ),
)
