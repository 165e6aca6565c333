"""The access that a route declares where it is defined: whose requests it takes, and what bodies they may have.

A route that declares nothing is for admins and takes the smallest body, so forgetting a declaration closes a route
instead of opening it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, cast, get_args

from starlette.routing import BaseRoute

AccessScope = Literal["public", "page", "share", "port", "sandbox", "read", "run", "admin"]
"""Whose requests a route takes:

public    everybody's
page      those of browsers: without a key they get the page where they can sign in
share     those of everybody who has the link, within the operator's setting `sharing`
port      those of everybody who has the address: the token in it is the key to one port of one sandbox
sandbox   those with a sandbox's own token (E2B); they count as requests of the key that made the sandbox
read      those with any key
run       those with a key that may run code
admin     those with an admin's key
"""
BodyKind = Literal["none", "json", "upload", "input", "encoded", "stream"]
"""What bodies a route takes:

none      none that it reads; a client that sends a small one anyway is not refused
json      up to `max_body`, because the whole body is read into memory
upload    up to `max_upload`; the body is read piece by piece
input     JSON up to `max_body`, or any other type up to `max_upload`
encoded   an upload, and the route itself understands `Content-Encoding`
stream    of any length and encoding: the body is passed on to a server in a sandbox
"""
SCOPES: tuple[AccessScope, ...] = get_args(AccessScope)
BODIES: tuple[BodyKind, ...] = get_args(BodyKind)


class Access(NamedTuple):
    """The declaration of one route."""

    scope: AccessScope = "admin"
    body: BodyKind = "none"
    linked: bool = False
    """Whether links on other sites may lead a browser here."""


UNDECLARED = Access()
# Any key may find out that an address does not exist; without a key, nothing can be found out by trying addresses.
UNKNOWN = Access("read")
NOTHING_SECRET = Access("public")  # for the wrong method at an address that is public


def access_of(route: BaseRoute) -> Access:
    """The access that a route declares; UNDECLARED itself (not an equal value) when it declares none."""
    return cast(Access, getattr(route, "access", UNDECLARED))
