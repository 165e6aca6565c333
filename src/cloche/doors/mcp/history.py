"""The `checkpoint`, `restore` and `undo` tools, with which a model can try something and go back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import mcp_types as types
from pydantic import Field

from cloche.doors.mcp.conversation import Visit
from cloche.doors.mcp.sessions import SessionArguments
from cloche.doors.mcp.tool import Tool, ToolAnswer, success
from cloche.errors import Gone, InvalidRun
from cloche.model.history import Restored
from cloche.model.losses import losses_text
from cloche.results.cleaning import clean

_NO_UNDO = "Use checkpoint and restore instead; session_create with undo=true makes a session that supports undo."


class CheckpointArguments(SessionArguments):
    name: Annotated[str, Field(max_length=100)] = ""
    """A name for `restore`; without one, use the returned id."""


class RestoreArguments(SessionArguments):
    checkpoint: Annotated[str, Field(min_length=1, max_length=300)]
    """The id or the name of a checkpoint."""


class CheckpointMade(ToolAnswer):
    session: str
    checkpoint: str
    name: str
    lost: dict[str, Any]
    """State that could not be saved, by context: threads, sockets, child processes, or all variables (and why)."""
    note: str
    """The same in a sentence; empty if nothing is missing."""


class SessionRestored(ToolAnswer):
    session: str
    restarted: list[str]
    """Contexts that were restarted, without variables."""
    lost: dict[str, Any]
    """State that did not come back, by context, as in `checkpoint`."""
    files: dict[str, Any]
    """The number of files that were written, removed and left unchanged."""
    note: str
    """What did not come back, in a sentence; empty if everything did."""


async def checkpoint(visit: Visit, arguments: CheckpointArguments) -> types.CallToolResult:
    session = await visit.sandbox(arguments.session)
    taken = await visit.service.sessions.checkpoint(visit.caller, session, arguments.name)
    text = f'Checkpoint {taken.id} was made. Go back with restore(checkpoint="{taken.name or taken.id}").'
    lost = _cleaned(taken.lost)
    note = losses_text(lost)
    answer = CheckpointMade(session=session, checkpoint=taken.id, name=taken.name, lost=lost, note=note)
    return success(f"{text} {note}".rstrip(), answer)


async def restore(visit: Visit, arguments: RestoreArguments) -> types.CallToolResult:
    session = await visit.sandbox(arguments.session)
    try:
        restored = await visit.service.sessions.restore(visit.caller, session, arguments.checkpoint)
    except Gone as problem:
        taken = await visit.service.sessions.checkpoints(visit.caller, session)
        names = ", ".join(one.name or one.id for one in taken[-20:])
        raise Gone(
            problem.message, hint=f"Existing checkpoints: {names}." if names else "Make one with `checkpoint`."
        ) from None
    return _answer(session, restored, "Variables and files are as they were at the checkpoint.")


async def undo(visit: Visit, arguments: SessionArguments) -> types.CallToolResult:
    session = await visit.sandbox(arguments.session)
    try:
        restored = await visit.service.sessions.undo(visit.caller, session)
    except InvalidRun as problem:
        raise InvalidRun(problem.message, hint=_NO_UNDO) from None
    return _answer(session, restored, "Variables and files are as they were before the last execution.")


def _answer(session: str, restored: Restored, text: str) -> types.CallToolResult:
    if restored.restarted:
        text += f" These contexts were restarted, without variables: {clean(', '.join(restored.restarted))}."
    lost = _cleaned(restored.lost)
    note = losses_text(lost)
    answer = SessionRestored(
        session=session,
        restarted=[clean(name) for name in restored.restarted],
        lost=lost,
        files=_cleaned(restored.files),
        note=note,
    )
    return success(f"{text} {note}".rstrip(), answer)


def _cleaned(value: Any) -> Any:
    """Return a value from a sandbox with only valid Unicode in it."""
    if isinstance(value, Mapping):
        return {clean(str(name)): _cleaned(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(one) for one in value]
    return clean(value) if isinstance(value, str) else value


TOOLS = (
    Tool(
        "checkpoint",
        "Make a checkpoint",
        "Save the state of a session, Python variables and all files, so that `restore` can bring it back. Cheap and "
        "quick: make one before a step that you may want to take back.",
        CheckpointArguments,
        CheckpointMade,
        checkpoint,
    ),
    Tool(
        "restore",
        "Restore a checkpoint",
        "Return the variables and files of a session to their state at a checkpoint. Later changes are lost. A "
        "checkpoint can be restored any number of times.",
        RestoreArguments,
        SessionRestored,
        restore,
        destroys=True,
    ),
    Tool(
        "undo",
        "Undo an execution",
        "Return a session to its state before the last code_execution. Call it again to go back one more execution. "
        "Only for sessions that session_create made with undo=true; for others, use checkpoint and restore.",
        SessionArguments,
        SessionRestored,
        undo,
        destroys=True,
    ),
)
