"""A sandbox that is alive on this server.  Only the service holds one; doors get a `SandboxView`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

from cloche.engine.host_only import on_this_host
from cloche.errors import ClocheError, Gone
from cloche.model.files import Port
from cloche.model.limits import Limits
from cloche.model.network import NetworkPolicy
from cloche.model.records import SandboxRecord
from cloche.model.result import Result
from cloche.sandbox.attempts import AsyncAttempt
from cloche.sandbox.sandbox import AsyncSandbox
from cloche.service.charges import Account
from cloche.service.commands import SandboxCommands
from cloche.service.event_log import EventLog
from cloche.service.events import LoggedEvent, Notice, OfCommand, OfRun, OutputPiece
from cloche.service.retention import Retention
from cloche.service.workspaces.save import WorkspaceSaver

LISTINGS = 2  # of folders at once: each may take megabytes until it is sent
_MOST_LOOKING_S = 0.1  # CPU time of one look: the rest is a program's
FOLLOWED_S = 60.0  # the feed gets output while a client follows it, and for this long afterwards
MAX_FEED = 4 << 20  # characters of recent events in a sandbox
MAX_FEED_EVENT = 1 << 20  # characters of one of them


class LiveSandbox:
    """A living sandbox with its record, its feed of events, its commands and its saved files."""

    def __init__(
        self,
        box: AsyncSandbox,
        record: SandboxRecord,
        idle_timeout: float,
        account: Account,
        retention: Retention,
        network: NetworkPolicy,
    ) -> None:
        self.box, self.record, self.idle_timeout, self.account = box, record, idle_timeout, account
        self.retention = retention
        self.network = network  # has the values of its secrets: only `as_dict` of it may be recorded or answered
        self.changing_network = asyncio.Lock()
        self.moved = (0, 0)  # bytes that its programs have sent and received, when they were last counted
        self.moved_until = 0.0  # when to count them again
        self.lost_secrets: tuple[str, ...] = ()  # names of secrets that its workspace could not keep
        self.id, self.owner = record.id, record.owner
        self.feed = EventLog(MAX_FEED, space=retention.live)
        self.commands = SandboxCommands(self)
        self.listing = asyncio.Semaphore(LISTINGS)
        self.attempts: dict[str, AsyncAttempt] = {}
        self.pauses = False  # pause instead of ending when the time is up
        self.time_left_s = 0.0  # when it was paused
        self.ending: asyncio.Task[None] | None = None
        self.saver: WorkspaceSaver | None = None  # of a persistent sandbox
        self.saving_task: asyncio.Task[None] | None = None
        self._uses = 0
        self._idle_since = monotonic()
        self._followed = -FOLLOWED_S
        self._followers = 0
        self._cpu_seen = 0.0
        self._measured = 0.0  # when the CPU time was last read
        self._looking_s = 0.0  # CPU time of `look_at_ports`
        self._workers: Counter[Account] = Counter()  # the keys with runs or commands in it
        self._cpu_charged = 0.0
        self.is_cpu_counted: bool | None = None  # by its wall; None: not known yet
        self.overdraft_s = 0.0  # CPU time that was charged to its own key when that key had none left
        self.gone = asyncio.Event()
        self.inspection: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def used(self, *, saves: bool = True) -> AsyncIterator[AsyncSandbox]:
        """Keep the sandbox from being idle.  With `saves`, a persistent sandbox saves its files at the end."""
        self.begin_use()
        try:
            yield self.box
            if saves:
                await self.save()
        finally:
            self.end_use()

    def begin_use(self) -> None:
        self._uses += 1

    def end_use(self) -> None:
        self._uses -= 1
        self._idle_since = monotonic()

    # --- CPU time

    async def charge(self) -> None:
        """Charge what the wall has counted since the last time, whatever used it.

        The keys that have work running share it.  When there is none, the key that made the sandbox pays.
        """
        try:
            counted = await on_this_host(self.box).cpu_time()
        except ClocheError:
            return  # it could not be built
        if counted is None:
            self.is_cpu_counted = bool(self.is_cpu_counted)
            return
        self.is_cpu_counted = True
        used, self._cpu_charged = max(0.0, counted - self._cpu_charged), max(counted, self._cpu_charged)
        if used:
            payers = list(self._workers) or [self.account]
            if self.account in payers:
                is_spent = self.account.meter.is_cpu_spent
                self.overdraft_s = self.overdraft_s + used / len(payers) if is_spent else 0.0
            for payer in payers:
                payer.charge(used / len(payers))

    async def begin_work(self, account: Account) -> None:
        """Let a key pay for the sandbox from now on.  `end_work` must follow."""
        if account is not self.account:
            await self.charge()  # the others pay for what came before
        self._workers[account] += 1

    async def settle(self, account: Account) -> None:
        """Charge a key's work that ends now, if it matters that the key pays for it and pays at once.

        Most keys have no such limit and pay a second later, so that their runs do not wait for the wall.
        """
        if account is not self.account or account.meter.limits_cpu:
            await self.charge()

    def end_work(self, account: Account) -> None:
        self._workers[account] -= 1
        if not self._workers[account]:
            del self._workers[account]

    def payers(self) -> set[Account]:
        """The keys that pay for the sandbox."""
        return {self.account, *self._workers}

    # --- files and events

    async def save(self) -> None:
        """Save the files of a persistent sandbox.  Call it before a change is acknowledged: a crash may follow."""
        if self.saver is not None:
            await self.saver.save()

    async def save_after(self, result: Result) -> None:
        """Save after a run.  A run that ended the sandbox reports that itself."""
        try:
            await self.save()
        except Gone:
            if result.error is None:
                raise

    async def save_if_possible(self) -> None:
        """Save where no request waits.  Problems go to the feed."""
        if self.saver is not None and not self.box.paused:
            await self.saver.save_if_possible()

    def is_busy(self) -> bool:
        return bool(self._uses or self.commands.running())

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[EventLog]:
        """Count a client that follows the feed."""
        self._followers += 1
        try:
            yield self.feed
        finally:
            self._followers -= 1
            self._followed = monotonic()

    def happened(self, kind: str, fields: dict[str, Any]) -> None:
        """Add a notice to the feed: "file.write", "sandbox.paused" …"""
        self.publish(Notice(kind, fields))

    def publish(self, event: LoggedEvent, size: int = 0) -> None:
        """Add an event to the feed; output only while a client follows, or did until lately.

        A large event leaves only a notice: the feed must not keep the results of runs that the server has forgotten.
        """
        if isinstance(event, (OfRun, OfCommand)) and isinstance(event.event, OutputPiece):
            is_followed = self._followers or monotonic() < self._followed + FOLLOWED_S
            if not is_followed or not event.event.whole:
                return
        if size > MAX_FEED_EVENT and isinstance(event, OfRun):
            event, size = Notice(event.kind, {"run_id": event.run_id, "cut": True}), 0
        elif size > MAX_FEED_EVENT and isinstance(event, OfCommand):
            event, size = Notice(event.kind, {"command_id": event.command_id, "cut": True}), 0
        self.feed.add(event, size)

    async def is_idle(self) -> bool:
        """Return whether neither a request nor a program has worked in the sandbox for its idle time."""
        is_fresh = self._measured < self._idle_since
        if self._uses or (not is_fresh and monotonic() < self._idle_since + self.idle_timeout):
            return False
        try:
            used = (await self.box.usage()).cpu_time - self._looking_s
            # A program that computes or waits is work.  A server without clients is not.
            busy = is_fresh or used > self._cpu_seen + 0.01 * self.idle_timeout
            busy = busy or (bool(self.commands.running()) and not await self.look_at_ports())
        except ClocheError:
            return False  # the sandbox has just ended; the task that waits for its end reports the reason
        if not busy:
            return not self._uses
        self._cpu_seen, self._measured = used, monotonic()
        if not is_fresh:
            self._idle_since = self._measured
        return False

    async def look_at_ports(self) -> Sequence[Port]:
        """List the ports.  The kernel searches long tables for that: the time is not work of the sandbox."""
        before = (await self.box.usage()).cpu_time
        found = await self.box.ports.list()
        self._looking_s += min((await self.box.usage()).cpu_time - before, _MOST_LOOKING_S)
        return found

    @property
    def limits(self) -> Limits:
        return self.box.limits


class SandboxView:
    """A living sandbox as doors see it: the values are current, and nothing can be changed through it."""

    __slots__ = ("_live",)

    def __init__(self, live: LiveSandbox) -> None:
        self._live = live

    @property
    def id(self) -> str:
        return self._live.id

    @property
    def owner(self) -> str:
        return self._live.owner

    @property
    def record(self) -> SandboxRecord:
        return self._live.record

    @property
    def limits(self) -> Limits:
        return self._live.limits

    @property
    def env(self) -> dict[str, str]:
        return dict(self._live.box.env)

    @property
    def idle_timeout(self) -> float:
        return self._live.idle_timeout

    @property
    def paused(self) -> bool:
        return self._live.box.paused

    @property
    def pauses(self) -> bool:
        """Whether the sandbox pauses instead of ending when its time is up."""
        return self._live.pauses

    @property
    def network(self) -> NetworkPolicy:
        """The sandbox's access to the network."""
        return self._live.network

    @property
    def ended(self) -> bool:
        return self._live.box.closed or self._live.feed.over
