"""The spelling of header names, for servers in sandboxes and their clients.

HTTP ignores upper and lower case in the names of headers, and everything of ours sees them in lower case, as ASGI
requires.  Some programs do not ignore it.  So a name that is passed on is spelled as its sender spelled it.
"""

from __future__ import annotations

from typing import Any

from starlette.types import Scope

STATE = "spelling"


class Spelling:
    """The names of a request's headers as the client spelled them; few requests are passed on, so noting is quick."""

    def __init__(self) -> None:
        self._names: list[bytes] = []
        self._by_lower_case: dict[bytes, bytes] | None = None
        self.note = self._names.append

    def of(self, name: bytes) -> bytes:
        """Return the client's spelling of a name that is in lower case."""
        if self._by_lower_case is None:
            self._by_lower_case = {one.lower(): one for one in self._names}
        return self._by_lower_case.get(name, name)


def spelling_of(scope: Scope) -> Spelling:
    """Return the spelling of a request or a WebSocket, as its connection has noted it."""
    state: dict[str, Any] = scope.get("state", {})
    found = state.get(STATE)
    return found if isinstance(found, Spelling) else Spelling()


class SpelledName(bytes):
    """The name of a header in an answer: it is written as it is spelled, and equals any other spelling.

    Uvicorn writes each name in lower case, and compares it with names that are.
    """

    def lower(self) -> bytes:
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, bytes) and bytes.lower(self) == bytes.lower(other)

    def __hash__(self) -> int:
        return hash(bytes.lower(self))
