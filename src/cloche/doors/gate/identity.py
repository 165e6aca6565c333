"""Finds out whose request it is: by the key in its headers, in a WebSocket's subprotocol, or behind a cookie."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Scope

from cloche.doors.gate.cookies import token_of
from cloche.policy.caller import ANYBODY, Caller
from cloche.policy.refusals import Unauthorized
from cloche.service.service import Service

_KEY_PROTOCOL = "cloche-key."
_HOW_TO_SEND = "Send it as `Authorization: Bearer KEY` or `X-API-Key: KEY`; `cloche key` prints the server's own."


class Identity:
    """Knows the server's keys and the sessions of browsers."""

    def __init__(self, service: Service) -> None:
        self._keyring, self._needs_keys = service.keyring, service.configuration.auth
        self.sessions = service.browser_sessions

    def caller(self, scope: Scope, headers: Headers) -> Caller | None:
        """The caller; None when the request has no key that is known here."""
        found = self._by_subprotocol(scope) or self.by_header(headers) or self._by_cookie(headers)
        return found if self._needs_keys else ANYBODY

    def known_caller(self, scope: Scope, headers: Headers) -> Caller:
        """The caller; raises a refusal that says whether the request has no key, or one that is not known here."""
        has_key = any(one.startswith(_KEY_PROTOCOL) for one in scope.get("subprotocols", ()))
        caller = self.caller(scope, headers)
        if caller is not None:
            return caller
        if has_key or "authorization" in headers or "x-api-key" in headers:
            raise wrong_key()
        if token_of(headers):
            raise Unauthorized(
                "This browser is not signed in any more: 30 days have passed, or its key was revoked.",
                "Sign in again: `cloche key` prints the server's own key.",
                sent="cookie",
            )
        raise Unauthorized("This request needs an API key.", _HOW_TO_SEND)

    def by_header(self, headers: Headers) -> Caller | None:
        """The caller, for clients that are not browsers."""
        if not self._needs_keys:
            return ANYBODY
        kind, _, token = headers.get("authorization", "").partition(" ")
        caller = self._keyring.find(token.strip()) if kind.lower() == "bearer" else None
        if caller is None and (secret := headers.get("x-api-key", "")):
            caller = self._keyring.find(secret)
        return caller

    def by_secret(self, secret: str) -> Caller | None:
        return self._keyring.find(secret)

    def _by_subprotocol(self, scope: Scope) -> Caller | None:
        """A browser's WebSocket cannot have headers of its own: the key comes as `cloche-key.KEY`, beside `cloche`."""
        if scope["type"] != "websocket":
            return None
        offered = scope.get("subprotocols", [])
        secrets = [one.removeprefix(_KEY_PROTOCOL) for one in offered if one.startswith(_KEY_PROTOCOL)]
        # Routes and servers in sandboxes must not see the key.
        scope["subprotocols"] = [one for one in offered if not one.startswith(_KEY_PROTOCOL)]
        return self._keyring.find(secrets[0]) if len(secrets) == 1 and secrets[0] else None

    def _by_cookie(self, headers: Headers) -> Caller | None:
        key_id = self.sessions.key_id(token_of(headers))
        return self._keyring.holder(key_id) if key_id else None


def wrong_key() -> Unauthorized:
    """The refusal of a key that is mistyped, revoked or of another server: nobody learns which of these it is."""
    return Unauthorized(
        "This server does not know this key.",
        "It may be mistyped or revoked, or belong to another server. `cloche key` prints the server's own.",
        sent="key",
    )


def caller_of(scope: Scope) -> Caller:
    """The caller that the gate has admitted."""
    caller: Caller = scope["state"]["caller"]
    return caller
