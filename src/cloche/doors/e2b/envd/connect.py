"""The Connect protocol as E2B's clients use it: single JSON messages, or streams of envelopes (connectrpc.com)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from struct import Struct
from typing import Any

from starlette.types import Receive, Send

from cloche.doors.e2b.answers import BrokenOff, Refusal, answer
from cloche.doors.faults import for_client
from cloche.doors.json_input import read_json
from cloche.errors import ClocheError, FileMissing, FileProblem, Gone, InvalidRun, Refused, Unavailable
from cloche.io.tasks import LARGE, off_loop
from cloche.json_text import to_json
from cloche.model.result import Error
from cloche.model.wording import worded
from cloche.policy.refusals import Busy, TooMany

STREAM = b"application/connect+json"
_HEAD = Struct(">BI")
_LAST = 2
_ENTRY = 200  # bytes of a usual entry of a list of files
_MAX_TEXT = 10_000  # characters of an error, which may repeat what the client sent
_AT_ONCE = 200  # messages that are read before others have their turn
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
    23: "resource_exhausted",  # too many open files, on the host or in the agent
    24: "resource_exhausted",
    28: "resource_exhausted",  # the disk is full, or too much is watched
    30: "permission_denied",  # read-only
    36: "invalid_argument",  # name too long
    40: "invalid_argument",  # loop of symbolic links
    95: "failed_precondition",  # the file system has no such attributes
    122: "resource_exhausted",  # a quota
}


class ConnectProblem(Exception):
    """An error with one of Connect's codes."""

    def __init__(self, code: str, message: str) -> None:
        message = message if len(message) <= _MAX_TEXT else f"{message[:_MAX_TEXT]}…"
        super().__init__(message)
        self.code, self.message = code, message

    def as_json(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message}


def text_of(error: ClocheError | Error) -> str:
    """Return the text of an error, with the hint that says what to do."""
    return f"{error.message} {worded(error.hint, 'e2b')}".strip()


def problem_of(error: ClocheError) -> ConnectProblem:
    """Translate an error to the code for which clients have an exception; raises Refusal if the sandbox is gone."""
    if isinstance(error, FileMissing):
        return ConnectProblem("not_found", error.message)
    if isinstance(error, Gone):
        raise Refusal(502, "The sandbox was not found") from error
    error = for_client(error, "e2b")
    text = text_of(error)
    if isinstance(error, TooMany | Refused):
        return ConnectProblem("resource_exhausted", text)
    if isinstance(error, Busy | Unavailable):
        return ConnectProblem("unavailable", text)
    if isinstance(error, InvalidRun):
        return ConnectProblem("invalid_argument", text)
    if isinstance(error, FileProblem):
        return ConnectProblem(_BY_ERRNO.get(error.errno or 0, "failed_precondition"), text)
    return ConnectProblem("internal", text)


async def parsed(data: bytes) -> dict[str, Any]:
    """Decode a message; an empty one is an empty object."""
    try:
        fields = await read_json(data) if data else {}
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise ConnectProblem("invalid_argument", "the message is not a JSON object")
    return fields


async def reply(send: Send, fields: dict[str, Any]) -> None:
    """Answer a call that returns a single message."""
    size = (len(fields.get("entries", ())) + len(fields.get("events", ()))) * _ENTRY
    await answer(send, 200, await off_loop(size, lambda: _encoded(fields)))


def _encoded(fields: dict[str, Any]) -> bytes:
    """Encode a message and free it: to free a list of 300,000 files would hold the event loop."""
    text = to_json(fields).encode()
    fields.clear()
    return text


async def fail(send: Send, problem: ConnectProblem) -> None:
    """Answer such a call with an error."""
    await answer(send, _CODES[problem.code], problem.as_json())


def envelope(message: bytes, flags: int = 0) -> bytes:
    """Wrap an encoded message for a stream."""
    return _HEAD.pack(flags, len(message)) + message


def message(fields: dict[str, Any]) -> bytes:
    """Encode a message and wrap it for a stream."""
    return envelope(to_json(fields).encode())


def last_message(problem: ConnectProblem | None) -> bytes:
    """The end of a stream, with the problem that ended it."""
    return envelope(b"{}" if problem is None else to_json({"error": problem.as_json()}).encode(), _LAST)


async def envelopes(receive: Receive, most: int) -> AsyncIterator[dict[str, Any]]:
    """Yield the messages that a client streams to us, as they arrive; each may have `most` bytes."""
    data, more, count = bytearray(), True, 0
    while more:
        received = await receive()
        if received["type"] != "http.request":
            raise BrokenOff
        data += received.get("body", b"")
        more = received.get("more_body", False)
        while len(data) >= _HEAD.size:
            flags, size = _HEAD.unpack_from(data)
            if size > most:
                raise ConnectProblem("resource_exhausted", f"a message has at most {most} bytes")
            if len(data) < _HEAD.size + size:
                break
            end = _HEAD.size + size
            if size < LARGE:
                payload = bytes(data[_HEAD.size : end])
                del data[:end]
            else:
                payload, data = await _first(data, end), data[end:]
            if flags & _LAST:
                return
            if flags:
                raise ConnectProblem("unimplemented", "compressed messages are not supported")
            count += 1
            if not count % _AT_ONCE:
                await asyncio.sleep(0)
            yield await parsed(payload)


async def _first(data: bytearray, end: int) -> bytes:
    """Copy the payload of a long message in a thread."""
    return await asyncio.to_thread(lambda: bytes(memoryview(data)[_HEAD.size : end]))


async def only_message(receive: Receive, most: int) -> dict[str, Any]:
    """Receive the single message of a request whose answer is a stream."""
    found: dict[str, Any] | None = None
    async for fields in envelopes(receive, most):
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
        await self._send({"type": "http.response.body", "body": messages + last_message(problem)})

    async def close(self) -> None:
        """Stop watching for the client's disconnection."""
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)

    async def _begin(self) -> None:
        if not self.begun:
            self.begun = True
            await self._send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", STREAM)]})
