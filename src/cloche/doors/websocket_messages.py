"""Reads the messages of a WebSocket's client: each is checked against the fields of its type."""

from __future__ import annotations

from typing import Any

from cloche.doors.json_input import read_json
from cloche.errors import InvalidRun

BUDGET = 2000  # tokens of a text for a model, unless the message says otherwise
_LONGEST_ID = 200
_LARGEST_ID = 2**53  # JavaScript cannot represent larger integers exactly

_TEXT, _NUMBER, _NOTHING = (str,), (int, float), type(None)
# The fields of each message and their types; other fields are ignored.
FIELDS: dict[str, dict[str, tuple[type, ...]]] = {
    "execute": {
        "code": _TEXT,
        "language": (str, _NOTHING),
        "session": (str, bool, _NOTHING),
        "context": (str, _NOTHING),
        "timeout": (*_NUMBER, _NOTHING),
        "memory": (int, str, _NOTHING),
        "network": (str, list, dict, _NOTHING),
        "packages": (list, dict, _NOTHING),
        "environment": (str, _NOTHING),
        "stdin": (str, _NOTHING),
        "interactive": (bool, _NOTHING),
        "stream": (bool, _NOTHING),
        "view": (str, _NOTHING),
        "budget": (int, _NOTHING),
    },
    "cancel": {},
    "input": {"data": (str, _NOTHING), "eof": (bool, _NOTHING)},
}
_NAMES = {str: "a text", bool: "true or false", int: "a number", float: "a number", _NOTHING: "null"}
_NAMES |= {list: "a list", dict: "an object"}

Id = str | int | None


async def parsed_message(received: str | bytes) -> dict[str, Any]:
    """Parse a message as a JSON object."""
    if isinstance(received, bytes):
        raise InvalidRun("Messages are JSON in text frames.", hint="Send text, not bytes.")
    try:
        message = await read_json(received)
    except ValueError:
        raise InvalidRun(
            "This is not JSON.", hint='Send an object like {"type": "execute", "code": "1 + 1"}.'
        ) from None
    if not isinstance(message, dict):
        raise InvalidRun("A message is a JSON object.", hint='Send one like {"type": "execute", "code": "1 + 1"}.')
    return message


def identity_of(message: dict[str, Any]) -> Id:
    """Return the id by which the client knows its run."""
    identity: Id = message.get("id")
    if identity is None or (isinstance(identity, str) and len(identity) <= _LONGEST_ID):
        return identity
    if type(identity) is int and abs(identity) <= _LARGEST_ID:
        return identity
    raise InvalidRun(f"An id is a text of at most {_LONGEST_ID} characters, or a whole number.")


def checked_message(kind: str, message: dict[str, Any]) -> dict[str, Any]:
    """Return the known fields of a message of a type."""
    request: dict[str, Any] = {}
    for name, types in FIELDS[kind].items():
        if name in message:
            if type(message[name]) not in types:
                expected = " or ".join(dict.fromkeys(_NAMES[one] for one in types))
                raise InvalidRun(f"`{name}` has to be {expected}.")
            request[name] = message[name]
    if kind == "execute" and "code" not in request:
        raise InvalidRun("There is no `code` to run.")
    if request.get("view") not in (None, "full", "model"):
        raise InvalidRun('`view` has to be "full" or "model".')
    if not 50 <= (request.get("budget") or BUDGET) <= 1_000_000:
        raise InvalidRun("`budget` has to be a number of tokens from 50 to 1,000,000.")
    return request
