"""Charges work while it goes on, and stops the work of a key that has used its CPU seconds or bytes of the day.

A look at a sandbox takes two messages to its wall and none to its agent.  So a program that keeps its agent busy, or a
process that no run has started, is counted like everything else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from typing import Any

from cloche.errors import ClocheError
from cloche.policy.caller import Caller
from cloche.service.audit import Audit
from cloche.service.charges import Account, Charges
from cloche.service.commands import StartedCommand
from cloche.service.lifecycle import Lifecycle
from cloche.service.live import LiveSandbox
from cloche.service.run import Run
from cloche.service.runs import Runs

log = logging.getLogger("cloche.metering")

LOOK_S = 1.0  # between two looks at a sandbox that works, or whose key has a limit; a crash loses that much
_IDLE_LOOKS = 5  # a sandbox without work is looked at so many times more rarely
_OVERDRAFT_S = 0.5  # CPU time for work to end by itself, before its sandbox is paused
_STOP_S = 2.0  # for an agent to stop a program
_ANSWER_S = 2.0  # for walls to tell what sandboxes use


class Metering:
    """Looks at all work of this server, again and again."""

    def __init__(self, lifecycle: Lifecycle, runs: Runs, charges: Charges, audit: Audit) -> None:
        self._lifecycle, self._runs, self._charges, self._audit = lifecycle, runs, charges, audit
        self._looking: dict[str, asyncio.Task[None]] = {}  # by sandbox or run: a slow one delays no other
        self._charging: set[asyncio.Task[None]] = set()
        runs.when_bytes_are_spent = self._stop_output

    async def watch(self) -> None:
        """Look until the task is cancelled."""
        looks = 0
        while True:
            await asyncio.sleep(LOOK_S)
            looks += 1
            self._looking = {name: task for name, task in self._looking.items() if not task.done()}
            for live in self._lifecycle.all():
                matters = live.is_busy() or live.account.meter.limits_cpu or live.is_cpu_counted is None
                if (matters or looks % _IDLE_LOOKS == 0) and not live.box.paused:
                    self._look(live.id, self._look_at_sandbox(live))
            for run in self._runs.active():
                if run.measure is not None:
                    self._look(run.id, self._look_at_run(run))
            self._charges.record()

    async def charge_owner(self, owner: str) -> None:
        """Charge everything that an owner's work has used until now; a wall that does not answer is left out."""
        runs = (self._runs.charge(run) for run in self._runs.active() if run.owner == owner)
        sandboxes = (live.charge() for live in self._lifecycle.owned_by(owner) if not live.box.paused)
        tasks = {asyncio.create_task(_logged(charge)) for charge in (*runs, *sandboxes)}
        if tasks:
            self._charging |= tasks
            await asyncio.wait(tasks, timeout=_ANSWER_S)
            self._charging = {task for task in self._charging if not task.done()}
        self._charges.record()

    def _look(self, name: str, look: Coroutine[Any, Any, None]) -> None:
        if name in self._looking:
            look.close()
        else:
            self._looking[name] = asyncio.create_task(_logged(look))

    def _stop_output(self, run: Run) -> None:
        self._look(f"{run.id}: output", self._stop_run(run, "bytes_per_day"))

    async def _stop_run(self, run: Run, limit: str) -> None:
        account = self._charges.account_of(run.record.key)
        if not run.over:
            self._note(account, run.id, limit)
            await _within(run.stop_because(account.meter.spent_message(limit)))

    async def _look_at_run(self, run: Run) -> None:
        await self._runs.charge(run)
        account = self._charges.account_of(run.record.key)
        if account.meter.is_cpu_spent:
            await self._stop_run(run, "cpu_seconds_per_day")

    async def _look_at_sandbox(self, live: LiveSandbox) -> None:
        await live.charge()
        for account in live.payers():
            if account.meter.is_cpu_spent:
                await self._stop(live, account)

    async def _stop(self, live: LiveSandbox, account: Account) -> None:
        """Stop the key's runs and commands; if its sandbox works on, pause it, or end it where that is impossible."""
        reason = account.meter.spent_message()
        runs = [run for run in self._runs.active() if run.record.sandbox == live.id and run.record.key == account.key]
        commands = [command for command in live.commands.running() if command.account is account]
        work: list[Run | StartedCommand] = [*runs, *commands]
        if live.overdraft_s > _OVERDRAFT_S and account is live.account:
            self._note(account, live.id)
            live.happened("work.stopped", {"reason": reason})
            if work or not await self._lifecycle.pause_if_possible(live):
                await self._lifecycle.end(live, reason)
            live.overdraft_s = 0.0
        elif work:
            for each in work:
                self._note(account, each.id)
            live.happened("work.stopped", {"reason": reason})
            await asyncio.gather(*(_within(each.stop_because(reason)) for each in work))

    def _note(self, account: Account, target: str, limit: str = "cpu_seconds_per_day") -> None:
        details = {"limit": limit}
        try:
            self._audit.note(Caller(account.key, account.owner, frozenset()), "limit.stop", target, details)
        except ClocheError as problem:  # the disk is full: what has to be stopped is stopped
            log.error("the end of %s could not be recorded: %s", target, problem.message)


async def _within(stop: Awaitable[None]) -> None:
    """Wait for an agent, but not for long: the wall stops what goes on."""
    try:
        async with asyncio.timeout(_STOP_S):
            await stop
    except (TimeoutError, ClocheError):
        pass


async def _logged(look: Coroutine[Any, Any, None]) -> None:
    try:
        await look
    except Exception:
        log.exception("CPU time could not be counted")
