"""One request to envd: its sandbox, and the user that it acts as."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from starlette.types import Receive, Scope, Send

from cloche.doors.e2b.envd.connect import ConnectProblem
from cloche.doors.e2b.envd.users import User, by_header
from cloche.doors.e2b.sandboxes import E2bSandbox
from cloche.policy.caller import Caller
from cloche.service.service import Service

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
    def service(self) -> Service:
        return self.sandbox.service

    @property
    def caller(self) -> Caller:
        """The caller on whose behalf the request acts: the one whose key made the sandbox."""
        return self.sandbox.acting_caller

    @property
    def identity(self) -> str:
        """Our id of the sandbox."""
        return self.sandbox.view.id

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
            raise ConnectProblem("invalid_argument", "Connect-Timeout-Ms is not a number")
        return min(int(given) / 1000, _MAX_TIME_S) or None

    @property
    def keepalive_s(self) -> float:
        """After so long a silence a stream says that it is still there."""
        given = self.headers.get(b"keepalive-ping-interval", "")
        return max(1.0, float(given)) if given.isdecimal() and len(given) < 6 else _KEEPALIVE_S
