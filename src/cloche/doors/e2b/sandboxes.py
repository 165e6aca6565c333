"""A sandbox as E2B's clients know it: its name, its token, and what they said of it that others do not ask for."""

from __future__ import annotations

import asyncio
import hmac
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from secrets import token_bytes
from time import time
from typing import Any

from cloche.errors import Gone
from cloche.policy.caller import ANYBODY, Caller
from cloche.service.held import Held
from cloche.service.service import Service

_OURS, _THEIRS = "sbx_", "sbx"  # a name of theirs is part of a host's name, which has no underscore
_NOTE = "e2b"
HOME = "/home/user"  # what E2B's clients call our /sandbox
VERSION = "0.6.13"  # of envd, E2B's agent: what clients may expect of ours


def to_e2b(identity: str) -> str:
    """An id of ours, as E2B's clients know it."""
    return identity.replace(_OURS, _THEIRS, 1)


def from_e2b(name: str) -> str:
    """The other way; an id of ours stays what it is."""
    return name if name.startswith(_OURS) or not name.startswith(_THEIRS) else name.replace(_THEIRS, _OURS, 1)


@dataclass
class Traits:
    """What an E2B client has said of a sandbox, and nobody else knows of."""

    template: str = "base"
    timeout_s: float = 300.0  # that it was made with
    auto_resume: bool = False  # with the next request to it
    forgets: bool = False  # what it had in memory, when it was paused
    is_secured: bool = True  # code wants the access token, which clients before version 2 do not send
    is_public: bool = True  # its ports, to whoever knows its name
    mask_host: str = ""  # what a server inside reads as the Host header
    internet: bool | None = None
    network: dict[str, Any] = field(default_factory=dict)
    user: str = "user"  # who runs what no user is named for


class E2bSandbox:
    """A sandbox that is alive; the same object for as long as it is."""

    def __init__(self, service: Service, held: Held, token: str, traffic_token: str) -> None:
        self.service, self.held, self.token = service, held, token
        self.id = to_e2b(held.id)
        self.traits = Traits()
        self.turn = asyncio.Lock()  # to pause it, or have it go on
        self.measured: list[tuple[dict[str, Any], float, float]] = []  # what it used; when, and its CPU time by then
        self._traffic_token = traffic_token

    @property
    def caller(self) -> Caller | None:
        """On whose behalf something is done in it; None when the key that made it was revoked."""
        key = self.held.record.key
        return ANYBODY if key == ANYBODY.key_id else self.service.keyring.holder(key)

    @property
    def traffic_token(self) -> str | None:
        """What its ports want to see, unless they are public."""
        return None if self.traits.is_public else self._traffic_token

    @property
    def ends(self) -> float:
        """When its time is up."""
        return self.held.record.expires or time()

    @property
    def is_over(self) -> bool:
        """Has it ended, or is its time up?"""
        return self.held.box.closed or time() >= self.ends

    @property
    def is_there(self) -> bool:
        """Can clients find it?  One whose time is up is as good as ended, unless it will be paused."""
        return not self.is_over or (self.held.pauses and not self.held.box.closed)

    @property
    def state(self) -> str:
        """In E2B's words."""
        return "paused" if self.held.box.paused else "running"

    async def forget(self) -> None:
        """End all that runs in it: what would be gone after a start from its disk alone."""
        for command in self.held.commands.running():
            await command.process.kill()
        await self.held.box.restart()

    def is_token(self, given: str) -> bool:
        """Is this its access token?  One whose key was revoked has none."""
        return hmac.compare_digest(given.encode(), self.token.encode()) and self.caller is not None

    def signature(self, path: str, operation: str, user: str, expiration: str) -> str:
        """What a signed address of a file has to carry; `operation` is "read" or "write"."""
        parts = [path, operation, user, self.token, *([expiration] if expiration else [])]
        digest = sha256(":".join(parts).encode("utf-8", "surrogateescape")).digest()
        return "v1_" + b64encode(digest).decode().rstrip("=")


class Directory:
    """All sandboxes of the server, by the names that E2B's clients have for them."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._secret = token_bytes(32)  # tokens are derived from it: sandboxes end with the server, and they with them

    def of(self, held: Held) -> E2bSandbox:
        """A sandbox of ours as one of E2B's."""
        known = held.notes.get(_NOTE)
        if known is None:
            token, traffic = self._token("envd", held.id), self._token("traffic", held.id)
            known = held.notes[_NOTE] = E2bSandbox(self._service, held, token, traffic)
        assert isinstance(known, E2bSandbox)
        return known

    def living(self, name: str) -> E2bSandbox | None:
        """The sandbox of this name, whoever it belongs to: its token says who may use it."""
        identity = from_e2b(name)
        held = self._service.sandboxes.living(identity)
        return None if held is None else self.of(held)

    def with_token(self, token: str) -> E2bSandbox | None:
        """The sandbox whose access token this is."""
        return next((sandbox for sandbox in self.all() if sandbox.is_token(token)), None)

    def find(self, caller: Caller, name: str) -> E2bSandbox:
        """A sandbox of the caller's; raises Gone."""
        try:
            found = self.of(self._service.sandboxes.find(caller, from_e2b(name), paused=True))
        except Gone:
            found = None
        if found is None or not found.is_there:
            raise Gone(f"Sandbox {name} not found.")
        return found

    def all(self, owner: str | None = None) -> Iterator[E2bSandbox]:
        """Those that are alive."""
        for held in self._service.sandboxes.alive():
            found = self.of(held)
            if owner in (None, held.owner) and found.is_there:
                yield found

    def signed(self, path: str, operation: str, user: str, expiration: str, signature: str) -> E2bSandbox | None:
        """The sandbox that a signed address is for, which does not say so: the one whose signature it is."""
        given = signature.encode()
        for sandbox in self.all():
            if hmac.compare_digest(sandbox.signature(path, operation, user, expiration).encode(), given):
                return sandbox
        return None

    def _token(self, kind: str, identity: str) -> str:
        return hmac.new(self._secret, f"{kind}:{identity}".encode(), sha256).hexdigest()
