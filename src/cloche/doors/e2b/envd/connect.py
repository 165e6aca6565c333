"""Connect's protocol as E2B's clients speak it: JSON messages, one by one or in envelopes (connectrpc.com)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from json import loads
from struct import Struct
from typing import Any

from starlette.types import Receive, Send

from cloche.doors.e2b.answers import BrokenOff, Refusal, answer
from cloche.errors import ClocheError, FileMissing, FileProblem, Gone, InvalidRun, Refused
from cloche.json_text import to_json
from cloche.policy.refusals import Busy, TooMany

MAX_MESSAGE = 64 << 20  # bytes of one message
STREAM = b"application/connect+json"
_HEAD = Struct(">BI")
_LAST = 2
_CODES = {
    "canceled": 499,
    "unknown": 500,
    "invalid_argument": 400,
    "deadline_exceeded": 504,
    "not_found": 404,
    "already_exists": 409,
    "permission_denied": 403,
    "resource_exhausted": 429,
    "failed_precondition": 400,
    "aborted": 409,
    "unimplemented": 501,
    "internal": 500,
    "unavailable": 503,
    "unauthenticated": 401,
}
_BY_ERRNO = {
    1: "permission_denied",
    13: "permission_denied",
    17: "already_exists",
    20: "invalid_argument",  # no directory
    21: "invalid_argument",  # a directory
    22: "invalid_argument",
    30: "permission_denied",  # read-only
    36: "invalid_argument",  # too long a name
    40: "invalid_argument",  # links that lead in a circle
    95: "unimplemented",
}


class ConnectProblem(Exception):
    """An error with one of Connect's codes."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    def told(self) -> dict[str, str]:
        """As the clients read it."""
        return {"code": self.code, "message": self.message}


def problem_of(error: ClocheError) -> ConnectProblem:
    """What went wrong, with the code that the clients have an exception for; raises what is no code but a state."""
    if isinstance(error, FileMissing):
        return ConnectProblem("not_found", error.message)
    if isinstance(error, Gone):
        raise Refusal(502, "The sandbox was not found") from error
    text = f"{error.message} {error.hint}".strip()
    if isinstance(error, TooMany | Refused):
        return ConnectProblem("resource_exhausted", text)
    if isinstance(error, Busy):
        return ConnectProblem("unavailable", text)
    if isinstance(error, InvalidRun):
        return ConnectProblem("invalid_argument", text)
    if isinstance(error, FileProblem):
        return ConnectProblem(_BY_ERRNO.get(error.errno or 0, "internal"), text)
    return ConnectProblem("internal", text)


def parsed(data: bytes) -> dict[str, Any]:
    """A message."""
    try:
        told = loads(data) if data else {}
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise ConnectProblem("invalid_argument", "the message is not a JSON object")
    return told


async def reply(send: Send, told: dict[str, Any]) -> None:
    """Answer a call that has one answer."""
    await answer(send, 200, told)


async def fail(send: Send, problem: ConnectProblem) -> None:
    """The same with an error."""
    await answer(send, _CODES[problem.code], problem.told())


def envelope(message: bytes, flags: int = 0) -> bytes:
    """One message of a stream."""
    return _HEAD.pack(flags, len(message)) + message


def message(told: dict[str, Any]) -> bytes:
    """The same, of what it tells."""
    return envelope(to_json(told).encode())


async def envelopes(receive: Receive) -> AsyncIterator[dict[str, Any]]:
    """The messages that a client streams to us, as they come."""
    data, more = bytearray(), True
    while more:
        received = await receive()
        if received["type"] != "http.request":
            raise BrokenOff
        data += received.get("body", b"")
        more = received.get("more_body", False)
        while len(data) >= _HEAD.size:
            flags, size = _HEAD.unpack_from(data)
            if size > MAX_MESSAGE:
                raise ConnectProblem("resource_exhausted", f"a message has at most {MAX_MESSAGE} bytes")
            if len(data) < _HEAD.size + size:
                break
            payload = bytes(data[_HEAD.size : _HEAD.size + size])
            del data[: _HEAD.size + size]
            if flags & _LAST:
                return
            if flags:
                raise ConnectProblem("unimplemented", "compressed messages are not taken")
            yield parsed(payload)


async def only_message(receive: Receive) -> dict[str, Any]:
    """The one message of a request whose answer is a stream."""
    found: dict[str, Any] | None = None
    async for told in envelopes(receive):
        found = told
    if found is None:
        raise ConnectProblem("invalid_argument", "the request has no message")
    return found


class Stream:
    """Messages on their way to a client, for as long as it listens."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._watcher: asyncio.Task[None] | None = None
        self.begun = self.left = False

    def watch(self, left: Any) -> None:
        """Call `left` when the client has gone; the request must have come whole."""

        async def wait() -> None:
            while (await self._receive())["type"] != "http.disconnect":
                pass
            self.left = True
            left()

        self._watcher = asyncio.create_task(wait())

    async def tell(self, messages: bytes) -> None:
        """Send messages, in their envelopes."""
        await self._begin()
        await self._send({"type": "http.response.body", "body": messages, "more_body": True})

    async def finish(self, messages: bytes = b"", problem: ConnectProblem | None = None) -> None:
        """Send the last ones, and how it ended; nothing to a client that has gone."""
        if self.left:
            return
        await self._begin()
        told = b"{}" if problem is None else to_json({"error": problem.told()}).encode()
        await self._send({"type": "http.response.body", "body": messages + envelope(told, _LAST)})

    async def close(self) -> None:
        """Watch no longer."""
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)

    async def _begin(self) -> None:
        if not self.begun:
            self.begun = True
            await self._send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", STREAM)]})
