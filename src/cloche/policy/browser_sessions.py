"""Sessions of browsers: a random token, in a cookie, stands for a key.  They survive a restart of the server.

Only digests of the tokens are kept: whoever reads the store cannot sign in.  A session ends with its key, because the
keyring does not know a revoked key.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha256
from secrets import token_urlsafe
from typing import Protocol

from cloche.errors import ClocheError
from cloche.model.records import BrowserSession

log = logging.getLogger("cloche.policy")

SESSION_S = 30 * 86400.0
MAX_SESSIONS = 1000
MAX_PER_KEY = 100


class SessionStore(Protocol):
    """Keeps sessions across restarts of the server."""

    async def browser_sessions(self) -> Sequence[BrowserSession]:
        """Return every session, the oldest first."""

    async def change_browser_sessions(self, new: Sequence[BrowserSession], removed: Sequence[str]) -> None:
        """Add sessions, and remove those with these ids."""


class BrowserSessions:
    """Holds the sessions of all browsers in memory; the store has them as well."""

    def __init__(self, store: SessionStore, *, now: Callable[[], float]) -> None:
        self._store, self._now = store, now
        self._sessions: dict[str, BrowserSession] = {}  # by id, the oldest first

    async def load(self, is_valid: Callable[[str], bool]) -> None:
        """Continue the sessions of an earlier server, except those that are over or whose key is not valid."""
        found = await self._store.browser_sessions()
        alive = [one for one in found if self._now() < one.until <= self._now() + SESSION_S and is_valid(one.key)]
        self._sessions = {one.id: one for one in alive}
        over = [one.id for one in found if one.id not in self._sessions]
        if over:
            await self._record([], over)

    async def begin(self, key_id: str) -> str:
        """Open a session for this key; return its token."""
        token = token_urlsafe(32)
        session = BrowserSession(_digest(token), key_id, self._now() + SESSION_S)
        self._sessions[session.id] = session
        await self._record([session], self._make_room(key_id))
        return token

    def key_id(self, token: str) -> str:
        """Return the id of the key that this token stands for, or nothing."""
        session = self._sessions.get(_digest(token)) if token else None
        return session.key if session is not None and self._now() < session.until else ""

    def _make_room(self, key_id: str) -> list[str]:
        """Forget the oldest session of a key that has too many; of all keys, of the one that has the most.

        So a key that signs in again and again signs nobody out but its own browsers.
        """
        counts = Counter(session.key for session in self._sessions.values())
        if counts[key_id] > MAX_PER_KEY:
            crowded = key_id
        elif len(self._sessions) > MAX_SESSIONS:
            crowded = counts.most_common(1)[0][0]
        else:
            return []
        oldest = next(session.id for session in self._sessions.values() if session.key == crowded)
        del self._sessions[oldest]
        return [oldest]

    async def _record(self, new: Sequence[BrowserSession], removed: Sequence[str]) -> None:
        try:
            await self._store.change_browser_sessions(new, removed)
        except ClocheError as problem:  # people can still sign in, but only until the next restart
            log.warning("a browser's session could not be recorded: %s", problem.message)


def _digest(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
