"""Keeps the living sandboxes of this server: finds them, pauses them, and ends them when their time is up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from time import time
from typing import Any

from cloche.clock import steady
from cloche.configuration import Configuration
from cloche.errors import ClocheError, Gone, Refused
from cloche.model.records import SandboxRecord
from cloche.policy.caller import Caller
from cloche.policy.refusals import Busy, Ended
from cloche.policy.shares import may_take
from cloche.service import descriptors
from cloche.service.audit import Audit
from cloche.service.charges import Charges
from cloche.service.live import LiveSandbox
from cloche.service.runs import Runs
from cloche.service.workspaces.workspaces import Workspaces
from cloche.store.journal import Journal
from cloche.store.store import Store

log = logging.getLogger("cloche.sandboxes")

_INSPECT_S = 1.0  # how often lifetimes are checked
_FULL_S = 5.0  # when to try again for a sandbox
_LAST_EVENTS_S = 2.0  # for runs and commands to notice that their sandbox has ended
_REASONS = {"memory": "it needed too much memory", "timeout": "its time was up"}


class Lifecycle:
    """The living sandboxes, by id."""

    def __init__(
        self,
        configuration: Configuration,
        store: Store,
        journal: Journal,
        audit: Audit,
        charges: Charges,
        runs: Runs,
        workspaces: Workspaces,
        key_count: Callable[[], int | None],
    ) -> None:
        self._configuration, self._store, self._journal, self.audit = configuration, store, journal, audit
        self.charges, self._runs, self._workspaces, self._key_count = charges, runs, workspaces, key_count
        self._most = min(configuration.sandboxes, descriptors.most_sandboxes())
        if self._most < configuration.sandboxes:
            log.warning("descriptors suffice for %d sandboxes only: allow more, see `ulimit -Hn`", self._most)
        self.retention = runs.retention
        self._live: dict[str, LiveSandbox] = {}
        self._leaving: dict[str, LiveSandbox] = {}
        self._being_made = 0
        self._reaper: asyncio.Task[None] | None = None
        self.when_ended: list[Callable[[str], None]] = []  # called with the id of each sandbox that has ended

    def start(self) -> None:
        self._reaper = asyncio.create_task(self._reap())

    async def stop(self) -> None:
        """End all sandboxes."""
        if self._reaper is not None:
            self._reaper.cancel()
            await asyncio.gather(self._reaper, return_exceptions=True)
        known = [*self._live.values(), *self._leaving.values()]
        await asyncio.gather(*(self.end(live, "the server was stopped") for live in known))

    # --- finding

    async def find(self, caller: Caller, identity: str, *, paused: bool = False) -> LiveSandbox:
        """The caller's living sandbox.  A paused one is refused unless the verb works on `paused` sandboxes."""
        live = self._live.get(identity)
        if live is None or live.owner != caller.owner:
            record = await self.record(caller, identity)  # raises Gone where there never was one
            raise Ended(f"The sandbox has ended: {record.reason or record.state}.", hint="Make a new one.")
        if live.box.paused and not paused:
            raise Refused("The sandbox is paused.", hint="Resume it: POST /v1/sandboxes/{id}/resume.")
        return live

    async def find_for_work(self, caller: Caller, identity: str, action: str, **details: Any) -> LiveSandbox:
        """The caller's living sandbox, for a verb that starts processes in it: checked and in the audit log."""
        live = await self.find(caller, identity)
        self.charges.account(caller).meter.check_day()
        self.audit.note(caller, action, identity, details)
        return live

    def get(self, identity: str) -> LiveSandbox | None:
        """The living sandbox with this id, of any owner."""
        return self._live.get(identity)

    def all(self) -> list[LiveSandbox]:
        return list(self._live.values())

    def owned_by(self, owner: str) -> list[LiveSandbox]:
        return [live for live in self._live.values() if live.owner == owner]

    def count(self) -> int:
        return len(self._live)

    async def record(self, caller: Caller, identity: str) -> SandboxRecord:
        """The record of a sandbox of the caller's, living or ended."""
        live = self._live.get(identity)
        if live is not None and live.owner == caller.owner:
            return live.record
        leaving = self._leaving.get(identity)
        if leaving is not None and leaving.owner == caller.owner:
            await leaving.gone.wait()
            return leaving.record
        await self._journal.flush()
        known = await self._store.sandbox(caller.owner, identity)
        if known is None:
            raise Gone("There is no such sandbox.", hint="GET /v1/sandboxes lists your sandboxes.")
        return known

    # --- beginning

    def reserve(self, own: int) -> None:
        """Take a place for a key that has `own` sandboxes already; `add` or `give_up` must follow."""
        most = self._most
        free = most - len(self._live) - self._being_made
        if free < 1:
            raise Busy(
                f"There are {most} sandboxes on this server already.",
                hint="End one, or try again later.",
                retry_after=_FULL_S,
            )
        if descriptors.are_short():
            raise Busy(
                "The server has too few descriptors left for another sandbox.",
                hint="End a sandbox that you no longer need, or try again later.",
                retry_after=_FULL_S,
            )
        holding = len({live.record.key for live in self._live.values()})
        if not may_take(own, free, most, self._key_count(), holding):
            raise Busy(
                f"This key has {own} of the {most} sandboxes that the server can have; the last free places are for "
                "other keys.",
                hint="End a sandbox that you no longer need, or try again later.",
                retry_after=_FULL_S,
            )
        self._being_made += 1

    def give_up(self) -> None:
        self._being_made -= 1

    def add(self, live: LiveSandbox) -> None:
        """Look after a sandbox from now on."""
        self._being_made -= 1
        self._live[live.id] = live
        live.ending = asyncio.create_task(self._notice_end(live))

    # --- pausing

    async def pause(self, live: LiveSandbox) -> None:
        """Stop everything inside and the sandbox's clock, for as long as a sandbox may live."""
        await live.save_if_possible()
        await live.box.pause()
        if live.time_left_s:
            return  # another request was faster
        await live.charge()
        now = steady()
        live.time_left_s = max((live.record.expires or now) - now, 1.0)
        live.record = replace(live.record, expires=now + self._configuration.max_ttl)
        self.note(live.record)
        live.happened("sandbox.paused", {})

    async def pause_if_possible(self, live: LiveSandbox) -> bool:
        """Pause where the wall can; return whether the sandbox is paused."""
        try:
            await self.pause(live)
        except Refused:
            live.pauses = False
        return live.box.paused

    async def resume(self, live: LiveSandbox, ttl: float | None = None) -> None:
        """Continue, for the time that was left or for another."""
        await live.box.resume()
        live.record = replace(live.record, expires=steady() + (live.time_left_s if ttl is None else ttl))
        live.time_left_s = 0.0
        self.note(live.record)
        live.happened("sandbox.resumed", {})

    # --- ending

    async def kill(self, caller: Caller, identity: str, reason: str) -> None:
        """End a sandbox of the caller's.  One that has ended already is fine."""
        live = self._live.get(identity) or self._leaving.get(identity)
        if live is None or live.owner != caller.owner:
            await self.record(caller, identity)
            return
        self.audit.note(caller, "sandbox.kill", identity)
        await self.end(live, reason)

    async def end(self, live: LiveSandbox, reason: str) -> None:
        """End a sandbox, and wait until nothing of it is left."""
        if live.id in self._live:
            await live.save_if_possible()
        if self._live.pop(live.id, None) is None:
            await live.gone.wait()
            return
        self._leaving[live.id] = live
        for task in (live.ending, live.saving_task):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        try:
            await live.box.close()
            await live.charge()
        finally:
            live.account.meter.end_sandbox()
            live.record = replace(live.record, state="ended", ended=time(), reason=reason)
            self.note(live.record)
            try:
                await self._last_events(live)
                if live.saver is not None:
                    await live.saver.close()
                    await self._workspaces.release(live.saver.workspace)
            finally:
                live.happened("sandbox.ended", {"reason": reason})
                live.feed.end()
                self._leaving.pop(live.id, None)
                live.gone.set()
                for callback in self.when_ended:
                    callback(live.id)

    async def _last_events(self, live: LiveSandbox) -> None:
        """Let runs and commands report how they ended, before the feed is over."""
        runs = [run.task for run in self._runs.active() if run.record.sandbox == live.id and run.task is not None]
        tasks = [*runs, *live.commands.tasks()]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_LAST_EVENTS_S)
            for task in late:
                task.cancel()  # it waits for the answer of a client that has left
            await asyncio.gather(*late, return_exceptions=True)
        live.commands.end()

    async def _notice_end(self, live: LiveSandbox) -> None:
        """Wait until the sandbox ends by itself."""
        reason = await live.box.ended()
        await self._last_events(live)  # before it is closed: its runs report why it ended, not that it was closed
        await self.end(live, _REASONS.get(reason, reason))

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(_INSPECT_S)
            for live in list(self._live.values()):
                if live.inspection is None or live.inspection.done():  # a slow sandbox delays no other
                    live.inspection = asyncio.create_task(self._inspect(live))

    async def _inspect(self, live: LiveSandbox) -> None:
        try:
            if live.record.expires is not None and steady() > live.record.expires:
                if live.pauses and not live.box.paused and await self.pause_if_possible(live):
                    return
                await live.save_if_possible()
                await live.box.set_lifetime(0.001)  # the wall ends it, so that its runs report that the time was up
                await live.gone.wait()
            elif not live.box.paused and await live.is_idle():
                await self.end(live, "it was idle")
        except Exception:
            log.exception("sandbox %s could not be inspected", live.id)

    # --- records

    def note(self, record: SandboxRecord) -> None:
        """Record a state that has happened already; a full disk cannot undo it."""
        try:
            self._journal.note(record)
        except ClocheError as problem:
            log.error("the state of sandbox %s could not be recorded: %s", record.id, problem.message)
