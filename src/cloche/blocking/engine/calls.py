# Generated from src/cloche/engine/calls.py by scripts/blocking.py: edit that file instead.
"""Calls: something is asked of the agent, and its answer is made sense of, or refused."""

from __future__ import annotations

from time import monotonic

from cloche.blocking.engine.link import Lost, Operation
from cloche.errors import FileMissing, FileProblem, SandboxFailed
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.blocking.engine.box import Box

ANSWER_S = 60.0  # for an agent to answer; files are in memory, so this is for ever


def ask(box: Box, request: dict[str, Any]) -> Operation:
    """Begin a call; close its operation when it is over."""
    box.open()
    operation = box.link.open()
    try:
        box.tell(frames.encode_json(operation.number, frames.CALL, request))
    except BaseException:
        box.link.close(operation)
        raise
    return operation


def answer(box: Box, operation: Operation, about: str, patience: float | None = ANSWER_S) -> tuple[int, bytes]:
    """The next frame of a call, its kind and payload; raises what went wrong inside, with `about` in front of it."""
    try:
        kind, payload = box.link.receive(operation, None if patience is None else monotonic() + patience)
    except (Lost, TimeoutError) as failure:
        box.explain_loss(failure)
        raise
    if kind == frames.FAIL:
        raise problem(told(payload), about)
    return kind, payload


def reply(box: Box, operation: Operation, about: str) -> dict[str, Any]:
    """What a call is answered in the end."""
    while True:
        kind, payload = answer(box, operation, about)
        if kind == frames.REPLY:
            return told(payload)


def cancel(box: Box, operation: Operation) -> None:
    """Have the agent forget a call, without waiting for that; a sandbox that is gone has forgotten it."""
    try:
        box.link.send(frames.encode(operation.number, frames.CANCEL))
    except Lost:
        pass


def forget(box: Box, operation: Operation) -> None:
    """The same, from where nothing can be awaited."""
    box.link.close(operation)
    box.link.post(frames.encode(operation.number, frames.CANCEL))


def told(payload: bytes) -> dict[str, Any]:
    """The JSON object in an answer."""
    try:
        return frames.decode_json(payload)
    except frames.Garbled as garbled:
        raise nonsense() from garbled


def nonsense() -> SandboxFailed:
    """What to raise for an answer that is not of the form that it should have."""
    return SandboxFailed("The sandbox's answer makes no sense.", hint="Make a new one.")


def problem(told: dict[str, Any], about: str) -> Exception:
    """What to raise for a failure that the agent tells of."""
    number = told.get("errno")
    message = f"{about}: {str(told.get('message', 'failed'))[:1000]}"
    if number == 2:
        return FileMissing(message)
    hint = "Delete files or allow more with disk=." if number == 28 else ""
    return FileProblem(message, hint, number if isinstance(number, int) else 0)
