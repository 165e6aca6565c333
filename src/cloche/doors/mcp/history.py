"""`checkpoint`, `restore`, `undo`: a way back for a model that wants to try something."""

from __future__ import annotations

from typing import Annotated, Any

import mcp_types as types
from pydantic import Field

from cloche.doors.mcp.conversation import Visit
from cloche.doors.mcp.sessions import SessionArguments
from cloche.doors.mcp.tool import Answer, Tool, success
from cloche.errors import Gone, InvalidRun
from cloche.model.history import Restored
from cloche.results.cleaning import clean
from cloche.service.held import Held

_NO_UNDO = "Go back with checkpoint and restore; session_create with undo=true makes a session that can be undone."


class CheckpointArguments(SessionArguments):
    """What to call it."""

    name: Annotated[str, Field(max_length=100)] = ""
    """A name to restore it by; without one, use the id that is returned."""


class RestoreArguments(SessionArguments):
    """What to go back to."""

    checkpoint: Annotated[str, Field(min_length=1, max_length=300)]
    """The id or the name of a checkpoint."""


class CheckpointAnswer(Answer):
    """A checkpoint."""

    session: str
    checkpoint: str
    name: str
    lost: dict[str, Any]
    """What could not be remembered, by context: threads, sockets, child processes."""


class RestoredAnswer(Answer):
    """What became of the session."""

    session: str
    restarted: list[str]
    """Contexts that start anew, without variables."""
    lost: dict[str, Any]
    files: dict[str, Any]
    """How many files were written, removed and left as they were."""


async def checkpoint(visit: Visit, given: CheckpointArguments) -> types.CallToolResult:
    """Remember variables and files as they are now."""
    held, _ = await visit.sandbox(given.session)
    async with held.used() as box:
        taken = await box.checkpoint(given.name)
    held.happened("checkpoint", {"checkpoint": taken.id, "name": taken.name})
    text = f'Checkpoint {taken.id} was made. Go back with restore(checkpoint="{taken.name or taken.id}").'
    if taken.lost:
        text += f" It does not have: {clean(str(taken.lost))[:500]}"
    answer = CheckpointAnswer(session=held.id, checkpoint=taken.id, name=taken.name, lost=_cleaned(taken.lost))
    return success(text, answer)


async def restore(visit: Visit, given: RestoreArguments) -> types.CallToolResult:
    """Make variables and files what they were."""
    held, _ = await visit.sandbox(given.session)
    async with held.used() as box:
        try:
            restored = await box.restore(given.checkpoint)
        except Gone as problem:
            known = ", ".join(one.name or one.id for one in box.checkpoints.list()[-20:])
            raise Gone(
                problem.message, hint=f"There are: {known}." if known else "Make one with `checkpoint`."
            ) from None
    held.happened("restore", {"checkpoint": given.checkpoint})
    return _answer(held, restored, "Variables and files are what they were at the checkpoint.")


async def undo(visit: Visit, given: SessionArguments) -> types.CallToolResult:
    """Go back to before the last execution."""
    held, _ = await visit.sandbox(given.session)
    async with held.used() as box:
        try:
            restored = await box.undo()
        except InvalidRun as problem:
            raise InvalidRun(problem.message, hint=_NO_UNDO) from None
    held.happened("undo", {})
    return _answer(held, restored, "Variables and files are what they were before the last execution.")


def _answer(held: Held, restored: Restored, text: str) -> types.CallToolResult:
    if restored.restarted:
        text += f" These start anew, without variables: {', '.join(restored.restarted)}."
    answer = RestoredAnswer(
        session=held.id,
        restarted=list(restored.restarted),
        lost=_cleaned(restored.lost),
        files=_cleaned(restored.files),
    )
    return success(text, answer)


def _cleaned(told: Any) -> Any:
    """What a sandbox said, without what is no Unicode."""
    if isinstance(told, dict):
        return {clean(str(name)): _cleaned(value) for name, value in told.items()}
    if isinstance(told, list | tuple):
        return [_cleaned(value) for value in told]
    return clean(told) if isinstance(told, str) else told


TOOLS = (
    Tool(
        "checkpoint",
        "Make a checkpoint",
        "Remember the state of a session, Python variables and all files, so that `restore` can bring it back. Cheap "
        "and quick: make one before a step that you may regret.",
        CheckpointArguments,
        CheckpointAnswer,
        checkpoint,
    ),
    Tool(
        "restore",
        "Restore a checkpoint",
        "Bring the variables and files of a session back to what they were at a checkpoint. What happened since is "
        "lost. A checkpoint can be restored again and again.",
        RestoreArguments,
        RestoredAnswer,
        restore,
        destroys=True,
    ),
    Tool(
        "undo",
        "Undo an execution",
        "Go back to the state before the last code_execution of a session; again, to before the one before it. Only "
        "for sessions that session_create made with undo=true; elsewhere, use checkpoint and restore.",
        SessionArguments,
        RestoredAnswer,
        undo,
        destroys=True,
    ),
)
