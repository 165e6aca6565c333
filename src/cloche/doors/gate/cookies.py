"""Browser sessions: a cookie stands for a key, so that the key itself stays out of the browser."""

from __future__ import annotations

from collections import Counter
from secrets import token_urlsafe

from starlette.datastructures import Headers
from starlette.responses import Response

from cloche.clock import steady

COOKIE = "cloche_session"
SESSION_S = 30 * 86400.0
MAX_SESSIONS = 1000
MAX_PER_KEY = 100


class BrowserSessions:
    """The sessions of all browsers, in memory: after a restart, people sign in again."""

    def __init__(self) -> None:
        self._sessions: dict[str, tuple[str, float]] = {}  # key id and end, by cookie

    def begin(self, key_id: str, response: Response, *, secure: bool) -> None:
        """Open a session for this key and set its cookie."""
        token = token_urlsafe(32)
        self._sessions[token] = (key_id, steady() + SESSION_S)
        self._make_room(key_id)
        response.set_cookie(COOKIE, token, int(SESSION_S), path="/", secure=secure, httponly=True, samesite="strict")

    def _make_room(self, key_id: str) -> None:
        """Forget the oldest session of a key that has too many; of all keys, of the one that has the most.

        So a key that signs in again and again signs nobody out but its own browsers.
        """
        counts = Counter(key for key, _ in self._sessions.values())
        if counts[key_id] > MAX_PER_KEY:
            self._forget_oldest(key_id)
        elif len(self._sessions) > MAX_SESSIONS:
            self._forget_oldest(counts.most_common(1)[0][0])

    def _forget_oldest(self, key_id: str) -> None:
        del self._sessions[next(token for token, (key, _) in self._sessions.items() if key == key_id)]

    def key_id(self, headers: Headers) -> str:
        """The id of the key that the request's cookie stands for, or nothing."""
        key_id, until = self._sessions.get(_cookie(headers), ("", 0.0))
        return key_id if steady() < until else ""


def _cookie(headers: Headers) -> str:
    """The value of our cookie, or nothing.

    Not by `http.cookies`, which takes a minute to read 60 KB of backslashes in quotation marks, on the event loop and
    before anybody has shown a key.  Our values have no characters that need quotation marks.
    """
    for pair in reversed(headers.get("cookie", "").split(";")):
        name, _, value = pair.partition("=")
        if name.strip() == COOKIE:
            return value.strip()
    return ""
