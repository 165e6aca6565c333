"""Sends requests to the agent, and parses and checks its answers."""

from __future__ import annotations

from time import monotonic

from cloche.engine.link import Lost, Operation
from cloche.errors import FileMissing, FileProblem, InvalidRun, SandboxFailed
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.engine.sandbox import AsyncHostSandbox

_HINTS = {28: "Delete files or allow more with disk=.", 116: "Read the file again, and decide which contents to keep."}
ANSWER_S = 60.0  # time for an agent to answer; files are in memory, so an agent that takes longer is stuck


async def ask(
    box: AsyncHostSandbox, request: dict[str, Any], window: int = frames.WINDOW, *, begun: bool = False
) -> Operation:
    """Send a request and return its operation, which the caller must close.

    It creates the sandbox if need be; with `begun`, it is a part of the creation.
    """
    operation = box.link.open(window)
    try:
        try:
            frame = frames.encode_json(operation.number, frames.CALL, request)
        except ValueError:
            raise InvalidRun("The request is too long.", hint="Shorten its texts.") from None
        await (box.send(frame) if begun else box.begin(frame))
    except BaseException:
        box.link.close(operation)
        raise
    return operation


async def answer(
    box: AsyncHostSandbox, operation: Operation, about: str, patience: float | None = ANSWER_S
) -> tuple[int, bytes]:
    """Wait for the next frame of an answer; return its kind and payload.  An error from inside begins with `about`."""
    try:
        kind, payload = await box.link.receive(operation, None if patience is None else monotonic() + patience)
    except (Lost, TimeoutError) as failure:
        await box.explain_loss(failure)
        raise
    if kind == frames.FAIL:
        raise problem(decoded(payload), about)
    return kind, payload


async def reply(box: AsyncHostSandbox, operation: Operation, about: str) -> dict[str, Any]:
    """Wait for the last frame of an answer."""
    while True:
        kind, payload = await answer(box, operation, about)
        if kind == frames.REPLY:
            return decoded(payload)


async def call(box: AsyncHostSandbox, request: dict[str, Any], about: str, *, begun: bool = False) -> dict[str, Any]:
    """Send a request that has a single answer; `begun`: see `ask`."""
    operation = await ask(box, request, begun=begun)
    try:
        return await reply(box, operation, about)
    finally:
        box.link.close(operation)


async def cancel(box: AsyncHostSandbox, operation: Operation) -> None:
    """Cancel a request without waiting for the agent.  A sandbox that has ended needs no cancellation."""
    try:
        await box.link.send(frames.encode(operation.number, frames.CANCEL))
    except Lost:
        pass


def forget(box: AsyncHostSandbox, operation: Operation) -> None:
    """Cancel a request from code that cannot await."""
    box.link.close(operation)
    box.link.post(frames.encode(operation.number, frames.CANCEL))


def decoded(payload: bytes) -> dict[str, Any]:
    """Parse the JSON object in an answer."""
    try:
        return frames.decode_json(payload)
    except frames.Garbled as garbled:
        raise nonsense() from garbled


def nonsense() -> SandboxFailed:
    """Return the error for a malformed answer."""
    return SandboxFailed("The sandbox's answer makes no sense.", hint="Make a new one.")


def problem(failure: dict[str, Any], about: str) -> Exception:
    """Return the error for a failure that the agent reports."""
    number = failure.get("errno")
    message = f"{about}: {str(failure.get('message', 'failed'))[:1000]}"
    if number == 2:
        return FileMissing(message)
    known = number if isinstance(number, int) else 0
    return FileProblem(message, _HINTS.get(known, ""), known)
