"""The Connect protocol as E2B's clients use it: single JSON messages, or streams of envelopes (connectrpc.com)."""

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
    20: "invalid_argument",  # not a directory
    21: "invalid_argument",  # is a directory
    22: "invalid_argument",
    30: "permission_denied",  # read-only
    36: "invalid_argument",  # name too long
    40: "invalid_argument",  # loop of symbolic links
    95: "unimplemented",
}


class ConnectProblem(Exception):
    """An error with one of Connect's codes."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    def as_json(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message}


def problem_of(error: ClocheError) -> ConnectProblem:
    """Translate an error to the code for which clients have an exception; raises Refusal if the sandbox is gone."""
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
    """Decode a message; an empty one is an empty object."""
    try:
        fields = loads(data) if data else {}
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise ConnectProblem("invalid_argument", "the message is not a JSON object")
    return fields


async def reply(send: Send, fields: dict[str, Any]) -> None:
    """Answer a call that returns a single message."""
    await answer(send, 200, fields)


async def fail(send: Send, problem: ConnectProblem) -> None:
    """Answer such a call with an error."""
    await answer(send, _CODES[problem.code], problem.as_json())


def envelope(message: bytes, flags: int = 0) -> bytes:
    """Wrap an encoded message for a stream."""
    return _HEAD.pack(flags, len(message)) + message


def message(fields: dict[str, Any]) -> bytes:
    """Encode a message and wrap it for a stream."""
    return envelope(to_json(fields).encode())


async def envelopes(receive: Receive) -> AsyncIterator[dict[str, Any]]:
    """Yield the messages that a client streams to us, as they arrive."""
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
                raise ConnectProblem("unimplemented", "compressed messages are not supported")
            yield parsed(payload)


async def only_message(receive: Receive) -> dict[str, Any]:
    """Receive the single message of a request whose answer is a stream."""
    found: dict[str, Any] | None = None
    async for fields in envelopes(receive):
        found = fields
    if found is None:
        raise ConnectProblem("invalid_argument", "the request has no message")
    return found


class Stream:
    """A stream of messages to a client."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._watcher: asyncio.Task[None] | None = None
        self.begun = self.left = False

    def watch(self, left: Any) -> None:
        """Call `left` when the client disconnects; the whole request must have been received."""

        async def wait() -> None:
            while (await self._receive())["type"] != "http.disconnect":
                pass
            self.left = True
            left()

        self._watcher = asyncio.create_task(wait())

    async def tell(self, messages: bytes) -> None:
        """Send messages that are already wrapped."""
        await self._begin()
        await self._send({"type": "http.response.body", "body": messages, "more_body": True})

    async def finish(self, messages: bytes = b"", problem: ConnectProblem | None = None) -> None:
        """Send the last messages and the end of the stream, unless the client has left."""
        if self.left:
            return
        await self._begin()
        end = b"{}" if problem is None else to_json({"error": problem.as_json()}).encode()
        await self._send({"type": "http.response.body", "body": messages + envelope(end, _LAST)})

    async def close(self) -> None:
        """Stop watching for the client's disconnection."""
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)

    async def _begin(self) -> None:
        if not self.begun:
            self.begun = True
            await self._send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", STREAM)]})
