"""Sandboxes as E2B's clients see them, with their names, their tokens and their E2B properties."""

from __future__ import annotations

import asyncio
import hmac
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from secrets import token_bytes
from typing import Any

from cloche.clock import steady
from cloche.doors.e2b.times import instant
from cloche.errors import Gone
from cloche.policy.caller import Caller
from cloche.service.live import SandboxView
from cloche.service.service import Service

_OURS, _THEIRS = "sbx_", "sbx"  # E2B's id becomes part of a host name, in which no underscore is allowed
HOME = "/home/user"  # E2B's name for our /sandbox
VERSION = "0.6.13"  # of envd, E2B's agent, whose API we implement


def to_e2b(identity: str) -> str:
    """Convert our id to E2B's form."""
    return identity.replace(_OURS, _THEIRS, 1)


def from_e2b(name: str) -> str:
    """Convert E2B's id to our form; our own id remains unchanged."""
    return name if name.startswith(_OURS) or not name.startswith(_THEIRS) else name.replace(_THEIRS, _OURS, 1)


@dataclass
class Traits:
    """The properties of a sandbox that only E2B's clients set."""

    template: str = "base"
    timeout_s: float = 300.0  # as requested when the sandbox was created
    auto_resume: bool = False  # on the next request
    forgets: bool = False  # loses its memory when it is paused
    is_from_e2b: bool = False  # it was created through E2B's API
    is_secured: bool = True  # running code requires the access token, which clients before version 2 do not send
    is_public: bool = False  # everyone who knows its name may use its ports
    mask_host: str = ""  # the Host header that a server inside sees
    network: dict[str, Any] = field(default_factory=dict)
    internet: Any = None  # `allow_internet_access`
    user: str = "user"  # the user of requests that name none
    folder: str = ""  # of commands that name none; empty: the home of their user
    environment: str | None = None  # that stands behind the template
    labels: Mapping[str, str] = field(default_factory=dict)  # of that environment


class E2bSandbox:
    """A living sandbox as E2B's clients see it; one object for the whole life of the sandbox."""

    def __init__(self, service: Service, view: SandboxView, token: str, traffic_token: str) -> None:
        self.service, self.view, self.token = service, view, token
        self.id = to_e2b(view.id)
        self.traits = Traits()
        self.turn = asyncio.Lock()  # for pausing and resuming
        self.measured: list[tuple[dict[str, Any], float, float]] = []  # usage, when it was measured, CPU time by then
        self.programs: Any = None  # the processes and watchers that envd's clients have started
        self.watchers: dict[str, Any] = {}
        self.last_metrics: tuple[float, float] | None = None  # when envd's metrics were read, and the CPU time by then
        self._traffic_token = traffic_token

    @property
    def caller(self) -> Caller | None:
        """The caller whose key made the sandbox; None if that key was revoked."""
        return self.service.sandboxes.owner_of(self.view.id)

    @property
    def acting_caller(self) -> Caller:
        """The caller for a request whose token was checked; raises Gone if the key was revoked."""
        caller = self.caller
        if caller is None:
            raise Gone(f"Sandbox {self.id} not found.")
        return caller

    @property
    def traffic_token(self) -> str | None:
        """The token that requests to ports or contexts must carry; None if the sandbox is open to everyone."""
        return None if self.traits.is_public and not self.traits.is_secured else self._traffic_token

    @property
    def started(self) -> datetime:
        return instant(self.view.record.created)

    @property
    def ends(self) -> float:
        return self.view.record.expires or steady()

    @property
    def is_over(self) -> bool:
        """Whether the sandbox has ended, or its time is up."""
        return self.view.ended or steady() >= self.ends

    @property
    def is_there(self) -> bool:
        """Whether clients can find it.  A sandbox whose time is up counts as ended, unless it will be paused."""
        return not self.is_over or (self.view.pauses and not self.view.ended)

    @property
    def state(self) -> str:
        """E2B's name for the state."""
        return "paused" if self.view.paused else "running"

    async def forget(self, caller: Caller) -> None:
        """End every process, as if the sandbox had been started from its disk alone."""
        await self.service.commands.kill_all(caller, self.view.id)
        await self.service.sessions.restart(caller, self.view.id)

    def is_token(self, token: str) -> bool:
        """Return whether this is the access token.  It is void once the key was revoked."""
        return hmac.compare_digest(token.encode(), self.token.encode()) and self.caller is not None

    def is_traffic_token(self, token: str) -> bool:
        """Return whether this is the traffic token.  It is void once the key was revoked."""
        return hmac.compare_digest(token.encode(), self._traffic_token.encode()) and self.caller is not None

    def signature(self, path: str, operation: str, user: str, expiration: str) -> str:
        """Return the signature for the signed address of a file; `operation` is "read" or "write"."""
        parts = [path, operation, user, self.token, *([expiration] if expiration else [])]
        digest = sha256(":".join(parts).encode("utf-8", "surrogateescape")).digest()
        return "v1_" + b64encode(digest).decode().rstrip("=")


class Directory:
    """The living sandboxes by their E2B names."""

    def __init__(self, service: Service) -> None:
        self._service = service
        # Tokens are derived from it, so they become void when the server ends, like the sandboxes.
        self._secret = token_bytes(32)
        self._known: dict[str, E2bSandbox] = {}
        service.sandboxes.when_ended(self._forget)

    def _forget(self, identity: str) -> None:
        self._known.pop(identity, None)

    def of(self, view: SandboxView) -> E2bSandbox:
        """Return the E2B form of a sandbox."""
        known = self._known.get(view.id)
        if known is None:
            token, traffic = self._token("envd", view.id), self._token("traffic", view.id)
            known = self._known[view.id] = E2bSandbox(self._service, view, token, traffic)
        return known

    async def living(self, name: str) -> E2bSandbox | None:
        """Find a sandbox by its name, whoever owns it: its token decides who may use it."""
        identity = from_e2b(name)
        if identity in self._known:
            return self._known[identity]  # also when its key was revoked: then its token is refused
        owner = self._service.sandboxes.owner_of(identity)
        if owner is None:
            return None
        try:
            return self.of(await self._service.sandboxes.view(owner, identity))
        except Gone:
            return None

    def with_token(self, token: str) -> E2bSandbox | None:
        """Find a sandbox by its access token.  Only sandboxes that E2B clients know have given out a token."""
        return next((sandbox for sandbox in self.there() if sandbox.is_token(token)), None)

    async def find(self, caller: Caller, name: str) -> E2bSandbox:
        """Find a sandbox of the caller; raises Gone."""
        try:
            found = self.of(await self._service.sandboxes.view(caller, from_e2b(name)))
        except Gone:
            found = None
        if found is None or not found.is_there:
            raise Gone(f"Sandbox {name} not found.")
        return found

    def all(self, caller: Caller) -> list[E2bSandbox]:
        """List the caller's living sandboxes."""
        found = [self.of(view) for view in self._service.sandboxes.living(caller)]
        return [sandbox for sandbox in found if sandbox.is_there]

    def there(self) -> list[E2bSandbox]:
        """List the sandboxes of all owners that clients can find."""
        return [sandbox for sandbox in self._known.values() if sandbox.is_there]

    def _token(self, kind: str, identity: str) -> str:
        return hmac.new(self._secret, f"{kind}:{identity}".encode(), sha256).hexdigest()
