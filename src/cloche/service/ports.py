"""The verbs about servers inside a sandbox: which ports listen, connections to them, and addresses for visitors."""

from __future__ import annotations

import asyncio
from base64 import b32encode
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from secrets import token_bytes
from typing import TYPE_CHECKING

from cloche.clock import steady
from cloche.errors import Gone, Refused
from cloche.policy.caller import ANYBODY, Caller
from cloche.policy.refusals import Busy, Ended
from cloche.service.live import LiveSandbox
from cloche.service.verbs import verb

if TYPE_CHECKING:
    from cloche.model.files import Port
    from cloche.policy.keys import Keyring
    from cloche.policy.meter import Meter
    from cloche.policy.readers import Readers
    from cloche.sandbox.ports import AsyncConnection
    from cloche.sandbox.sandbox import AsyncSandbox
    from cloche.service.lifecycle import Lifecycle

MAX_CONNECTIONS = 100  # to the servers of one sandbox
MAX_GRANTS = 200  # for one sandbox
START_S = 2.0  # the wait for a server that is just starting
_TOKEN_BYTES = 20  # 160 bits, 32 characters


class NotListening(Gone):
    """The sandbox is alive, and no server listens on the port."""


class MeteredConnection:
    """A connection to a server inside a sandbox.  Its bytes count for the caller's day, and end with it."""

    def __init__(self, connection: AsyncConnection, meter: Meter) -> None:
        self._connection, self._meter = connection, meter

    async def receive(self) -> bytes:
        """The next bytes; none at the end."""
        data = await self._connection.receive()
        self._meter.move(len(data))
        return data

    async def send(self, data: bytes) -> None:
        """Send all of it, as fast as the server reads."""
        self._meter.move(len(data))
        await self._connection.send(data)

    async def send_eof(self) -> None:
        await self._connection.send_eof()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.receive():
            yield data


@dataclass(frozen=True, slots=True)
class Grant:
    """Lets a client with the token reach one port of a sandbox without a key."""

    token: str
    caller: Caller
    port: int
    until: float | None  # None: for as long as the sandbox lives
    _live: LiveSandbox
    _keyring: Keyring

    @property
    def sandbox(self) -> str:
        return self._live.id

    @property
    def expires(self) -> float:
        lifetime = self._live.record.expires or float("inf")
        return lifetime if self.until is None else min(self.until, lifetime)

    @property
    def is_valid(self) -> bool:
        """A grant ends with its time, with its sandbox, and with the key that it was made with."""
        is_revoked = self.caller != ANYBODY and self._keyring.holder(self.caller.key_id) is None
        return not _has_ended(self._live) and steady() < self.expires and not is_revoked


class Ports:
    """Lists ports, connects to them, and grants visitors access to them."""

    def __init__(self, lifecycle: Lifecycle, keyring: Keyring, readers: Readers) -> None:
        self._lifecycle, self._keyring, self._readers = lifecycle, keyring, readers
        self._grants: dict[str, Grant] = {}
        self._open: Counter[str] = Counter()  # connections, by sandbox

    @verb("read")
    async def list(self, caller: Caller, sandbox: str) -> Sequence[Port]:
        live = await self._lifecycle.find(caller, sandbox)
        async with live.used() as box:
            return await box.ports.list()

    @verb("read")
    async def watch(self, caller: Caller, sandbox: str, interval_s: float) -> AsyncGenerator[Sequence[Port], None]:
        """Yield the ports, and again whenever they have changed.  That does not keep the sandbox from being idle."""
        live = await self._lifecycle.find(caller, sandbox, paused=True)
        return _changes(live, interval_s)

    @verb("read")
    async def wait(self, caller: Caller, sandbox: str, port: int, timeout_s: float) -> bool:
        """Return whether a server listens on the port, now or within the time."""
        live = await self._lifecycle.find(caller, sandbox)
        async with live.used() as box:
            try:
                await box.ports.wait(port, timeout_s)
            except Gone:
                await box.ports.list()  # raises when it is the sandbox that is gone
                return False
        return True

    @verb("run")
    @asynccontextmanager
    async def connect(self, caller: Caller, sandbox: str, port: int) -> AsyncIterator[MeteredConnection]:
        """Connect to a server.  The sandbox is not idle while the connection is open."""
        live = await self._lifecycle.find(caller, sandbox)
        if self._open[sandbox] >= MAX_CONNECTIONS:
            raise Busy(
                f"This sandbox has {MAX_CONNECTIONS} connections.",
                "Close some of them, or try again in a moment.",
                retry_after=1.0,
            )
        meter = self._keyring.meter(caller)
        meter.check_day()
        reader = self._readers.enter(caller.key_id)
        self._open[sandbox] += 1
        try:
            async with live.used() as box, await _connected(live, box, port) as connection:
                yield MeteredConnection(connection, meter)
        finally:
            reader.leave()
            self._open[sandbox] -= 1
            if not self._open[sandbox]:
                del self._open[sandbox]

    @verb("run")
    async def grant(self, caller: Caller, sandbox: str, port: int, ttl: float | None = None) -> Grant:
        """Make a token with which a visitor without a key reaches the port."""
        live = await self._lifecycle.find(caller, sandbox)
        self._grants = {token: grant for token, grant in self._grants.items() if grant.is_valid}
        if sum(grant.sandbox == sandbox for grant in self._grants.values()) >= MAX_GRANTS:
            raise Refused(f"This sandbox has {MAX_GRANTS} addresses already.", hint="Use one of them.")
        token = b32encode(token_bytes(_TOKEN_BYTES)).decode().lower()
        until = None if ttl is None else steady() + ttl
        grant = self._grants[token] = Grant(token, caller, port, until, live, self._keyring)
        return grant

    def granted(self, token: str) -> Grant | None:
        """The grant with this token, while it is valid."""
        found = self._grants.get(token)
        return found if found is not None and found.is_valid else None


async def _changes(live: LiveSandbox, interval_s: float) -> AsyncGenerator[Sequence[Port], None]:
    known: Sequence[Port] | None = None
    while not _has_ended(live):
        if not live.box.paused and (found := await live.look_at_ports()) != known:
            yield (known := found)
        await asyncio.sleep(interval_s)


async def _connected(live: LiveSandbox, box: AsyncSandbox, port: int) -> AsyncConnection:
    try:
        try:
            return await box.ports.connect(port)
        except Gone:
            await box.ports.wait(port, START_S)
            return await box.ports.connect(port)
    except Gone as problem:
        if _has_ended(live):
            raise Ended("The sandbox has ended.", hint="Make a new one.") from None
        raise NotListening(problem.message, problem.hint) from None


def _has_ended(live: LiveSandbox) -> bool:
    return live.record.state != "alive" or live.feed.over
