"""The access that a route declares where it is defined: whose requests it takes, and what bodies they may have.

A route that declares nothing is for admins and takes the smallest body, so forgetting a declaration closes a route
instead of opening it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, cast, get_args

from starlette.routing import BaseRoute

AccessScope = Literal["public", "page", "share", "port", "traffic", "sandbox", "read", "run", "admin"]
"""Whose requests a route takes:

public    everybody's
page      those of browsers: without a key they get the page where they can sign in
share     those of everybody who has the link, within the operator's setting `sharing`
port      those of everybody who has the address: the token in it is the key to one port of one sandbox
traffic   those with a sandbox's traffic token or its access token (E2B); they count like those of `sandbox`
sandbox   those with a sandbox's access token (E2B); they count as requests of the key that made the sandbox
read      those with any key
run       those with a key that may run code
admin     those with an admin's key
"""
BodyKind = Literal["none", "json", "envelopes", "upload", "input", "encoded", "stream"]
"""What bodies a route takes:

none      none that it reads; a client that sends a small one anyway is not refused
json      up to `max_body`, because the whole body is read into memory; values and depth are bounded as well
envelopes JSON messages of Connect's streams, up to `max_body` together; each message is bounded like JSON
upload    up to `max_upload`; the body is read piece by piece
input     JSON up to `max_body`, or any other type up to `max_upload`
encoded   an upload, and the route itself understands `Content-Encoding`
stream    of any length and encoding: the body is passed on to a server in a sandbox
"""
StreamKind = Literal["none", "run", "reader", "archive", "file", "port"]
"""Whether an answer may be a stream, which then holds a place of its key and sandbox (`cloche.policy.readers`):

none      it is no stream
run       it may be the stream of a run that the request starts; the run counts its own output
reader    it is a stream of events or of a terminal; its bytes count for the key's day
archive   it is made from files, whose bytes are counted as they are read
file      the same for one file, which holds a place of its key only: programs read many files at once
port      it passes on the answer of a server in a sandbox, whose connection is bounded and counted (`service.ports`)
"""
SCOPES: tuple[AccessScope, ...] = get_args(AccessScope)
BODIES: tuple[BodyKind, ...] = get_args(BodyKind)


class Access(NamedTuple):
    """The declaration of one route."""

    scope: AccessScope = "admin"
    body: BodyKind = "none"
    linked: bool = False
    """Whether links on other sites may lead a browser here."""
    stream: StreamKind = "none"


UNDECLARED = Access()
# Any key may find out that an address does not exist; without a key, nothing can be found out by trying addresses.
UNKNOWN = Access("read")
NOTHING_SECRET = Access("public")  # for the wrong method at an address that is public


def access_of(route: BaseRoute) -> Access:
    """The access that a route declares; UNDECLARED itself (not an equal value) when it declares none."""
    return cast(Access, getattr(route, "access", UNDECLARED))
