"""The cookie of a signed-in browser: a token stands for a key, so that the key itself stays out of the browser."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.responses import Response

from cloche.policy.browser_sessions import SESSION_S

COOKIE = "cloche_session"


def set_token(response: Response, token: str, *, secure: bool) -> None:
    """Give a browser the token of its session."""
    response.set_cookie(COOKIE, token, int(SESSION_S), path="/", secure=secure, httponly=True, samesite="strict")


def token_of(headers: Headers) -> str:
    """The value of our cookie, or nothing.

    Not by `http.cookies`, which takes a minute to read 60 KB of backslashes in quotation marks, on the event loop and
    before anybody has shown a key.  Our values have no characters that need quotation marks.
    """
    for pair in reversed(headers.get("cookie", "").split(";")):
        name, _, value = pair.partition("=")
        if name.strip() == COOKIE:
            return value.strip()
    return ""
