"""A request to envd, with its sandbox and the user as whom it acts."""

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

    @property
    def max_message(self) -> int:
        """The largest message that a stream may contain, in bytes."""
        return self.service.configuration.max_body

    @cached_property
    def headers(self) -> dict[bytes, str]:
        """The headers, by lower-case name."""
        return {name.lower(): value.decode("latin-1") for name, value in self.scope["headers"]}

    @cached_property
    def user(self) -> User:
        return by_header(self.headers.get(b"authorization", ""), self.sandbox.traits.user)

    @property
    def time_s(self) -> float | None:
        """The time limit in seconds, if the client sets one."""
        text = self.headers.get(b"connect-timeout-ms", "")
        if not text:
            return None
        if not text.isdecimal() or len(text) > 15:
            raise ConnectProblem("invalid_argument", "Connect-Timeout-Ms is not a number")
        return min(int(text) / 1000, _MAX_TIME_S) or None

    @property
    def keepalive_s(self) -> float:
        """The seconds of silence after which a stream sends a keepalive message."""
        text = self.headers.get(b"keepalive-ping-interval", "")
        return max(1.0, float(text)) if text.isdecimal() and len(text) < 6 else _KEEPALIVE_S
