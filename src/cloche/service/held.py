"""A sandbox that is alive on the server, and all that is known of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic, time
from typing import Any

from cloche.errors import ClocheError, Gone
from cloche.model.limits import Limits
from cloche.model.records import SandboxRecord
from cloche.model.result import Result
from cloche.policy.meter import Meter
from cloche.sandbox.attempts import AsyncAttempt
from cloche.sandbox.sandbox import AsyncSandbox
from cloche.service.commands import Commands
from cloche.service.events import EventLog
from cloche.service.keeping import Keeping

FOLLOWED_S = 60.0  # output goes into the feed while somebody follows it, and for so long afterwards
MAX_FEED = 4 << 20  # characters of what has happened in a sandbox lately


class Held:
    """A sandbox that is alive, and all that the server knows of it."""

    def __init__(self, box: AsyncSandbox, record: SandboxRecord, idle_timeout: float, meter: Meter) -> None:
        self.box, self.record, self.idle_timeout, self.meter = box, record, idle_timeout, meter
        self.id, self.owner = record.id, record.owner
        self.feed = EventLog(MAX_FEED)
        self.commands = Commands(self)
        self.attempts: dict[str, AsyncAttempt] = {}
        self.notes: dict[str, Any] = {}  # what doors remember of it
        self.pauses = False  # instead of ending, when its time is up
        self.left_s = 0.0  # of its time, when it was paused
        self.ending: asyncio.Task[None] | None = None
        self.keeping: Keeping | None = None  # of a persistent one
        self.saver: asyncio.Task[None] | None = None
        self._uses = 0
        self._idle_since = monotonic()
        self._followed = -FOLLOWED_S
        self._followers = 0
        self._cpu_seen = 0.0
        self._measured = 0.0  # when that was
        self.gone = asyncio.Event()
        self.looking: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def used(self, *, saves: bool = True) -> AsyncIterator[AsyncSandbox]:
        """While something is done with it: not idle; then a persistent one's files are saved, if it `saves`."""
        self.begin_use()
        try:
            yield self.box
            if saves:
                await self.save()
        finally:
            self.end_use()

    def begin_use(self) -> None:
        """Something is done with it from now on; `end_use` has to follow."""
        self._uses += 1

    def end_use(self) -> None:
        """It is done."""
        self._uses -= 1
        self._idle_since = monotonic()

    async def save(self) -> None:
        """Before anything is acknowledged: have a persistent one's files where a crash does not reach them."""
        if self.keeping is not None:
            await self.keeping.save()

    async def save_after(self, result: Result) -> None:
        """The same after a run; one that has ended the sandbox tells so itself."""
        try:
            await self.save()
        except Gone:
            if result.error is None:
                raise

    async def save_if_possible(self) -> None:
        """The same where nobody waits for it; whoever follows the sandbox learns of problems."""
        if self.keeping is not None and not self.box.paused:
            await self.keeping.save_if_possible()

    def is_busy(self) -> bool:
        """Is something being done in it?"""
        return bool(self._uses or self.commands.running())

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[EventLog]:
        """While somebody follows all that happens in it."""
        self._followers += 1
        try:
            yield self.feed
        finally:
            self._followers -= 1
            self._followed = monotonic()

    def happened(self, kind: str, told: dict[str, Any], size: int = 0) -> None:
        """Have those who follow it know; what programs print only if there is somebody.  `size` as in EventLog.add."""
        if kind.endswith((".stdout", ".stderr")) and not self._followers and monotonic() > self._followed + FOLLOWED_S:
            return
        self.feed.add(kind, {"kind": kind, "time": time(), **told}, size)

    async def is_idle(self) -> bool:
        """Has nothing been done with it, nor by it, for its time?"""
        is_fresh = self._measured < self._idle_since
        if self._uses or (not is_fresh and monotonic() < self._idle_since + self.idle_timeout):
            return False
        try:
            used = (await self.box.usage()).cpu_time
            # A program that works, or waits for something, is work; a server that nobody uses is not.
            busy = is_fresh or used > self._cpu_seen + 0.01 * self.idle_timeout
            busy = busy or (bool(self.commands.running()) and not await self.box.ports.list())
        except ClocheError:
            return False  # it has just ended, and whoever waits for that tells why
        if not busy:
            return not self._uses
        self._cpu_seen, self._measured = used, monotonic()
        if not is_fresh:
            self._idle_since = self._measured
        return False

    @property
    def limits(self) -> Limits:
        """What it may use."""
        return self.box.limits
