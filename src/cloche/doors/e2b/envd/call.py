"""One request to envd: who asks, as which user, about which sandbox."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from starlette.types import Receive, Scope, Send

from cloche.doors.e2b.envd.connect import Problem
from cloche.doors.e2b.envd.users import User, by_header
from cloche.doors.e2b.sandboxes import E2bSandbox
from cloche.sandbox.sandbox import AsyncSandbox
from cloche.service.held import Held

_KEEPALIVE_S = 90.0
_MAX_TIME_S = 366 * 86400.0


@dataclass
class Call:
    """A request."""

    scope: Scope
    receive: Receive
    send: Send
    sandbox: E2bSandbox

    @property
    def held(self) -> Held:
        """The sandbox, as the server has it."""
        return self.sandbox.held

    @property
    def box(self) -> AsyncSandbox:
        """The sandbox itself."""
        return self.sandbox.held.box

    @cached_property
    def headers(self) -> dict[bytes, str]:
        """The headers, by their names in lower case."""
        return {name.lower(): value.decode("latin-1") for name, value in self.scope["headers"]}

    @cached_property
    def user(self) -> User:
        """On whose behalf."""
        return by_header(self.headers.get(b"authorization", ""), self.sandbox.traits.user)

    @property
    def time_s(self) -> float | None:
        """How long it may take, if the client says so."""
        given = self.headers.get(b"connect-timeout-ms", "")
        if not given:
            return None
        if not given.isdecimal() or len(given) > 15:
            raise Problem("invalid_argument", "Connect-Timeout-Ms is not a number")
        return min(int(given) / 1000, _MAX_TIME_S) or None

    @property
    def keepalive_s(self) -> float:
        """After so long a silence a stream says that it is still there."""
        given = self.headers.get(b"keepalive-ping-interval", "")
        return max(1.0, float(given)) if given.isdecimal() and len(given) < 6 else _KEEPALIVE_S
