"""How a browser signs in: the key in the page's address becomes a cookie and leaves the address."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from cloche.doors.gate.cookies import set_token, token_of
from cloche.doors.gate.identity import Identity, wrong_key
from cloche.doors.page import files as page_files
from cloche.doors.page import plain

# Where a browser with a wrong key goes, so that the key leaves the address.  The page says what is wrong.
_REFUSED = "refused"
_LEAVE_THE_ADDRESS = {"Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}


async def sign_in(scope: Scope, headers: Headers, identity: Identity) -> Response | None:
    """Answer a request for the page if it brings a key or has none; None when the caller is signed in already."""
    query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    if keys := query.get("key"):
        caller = identity.by_secret(keys[0].strip())
        if caller is None:
            if plain.wants_page(scope, headers):
                return RedirectResponse(f"/?{_REFUSED}", 303, _LEAVE_THE_ADDRESS)
            raise wrong_key()
        response = RedirectResponse("/", 303, _LEAVE_THE_ADDRESS)
        token = await identity.sessions.begin(caller.key_id)
        set_token(response, token, secure=scope["scheme"] == "https")
        return response
    if identity.caller(scope, headers) is not None:
        return None
    page = page_files.page(401, {"Cache-Control": "no-store"})
    problem = plain.WRONG_KEY if _REFUSED in query else plain.SIGNED_OUT if token_of(headers) else ""
    return page or plain.sign_in(problem)
