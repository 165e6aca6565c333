"""Sandboxes that live on between requests: whose they are, what happens in them, and when they end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from time import time
from typing import Any

from cloche import languages
from cloche.configuration import Configuration
from cloche.errors import ClocheError, Gone, Refused
from cloche.model.records import AuditRecord, SandboxRecord
from cloche.model.result import Result
from cloche.policy.caller import Caller
from cloche.policy.keys import Keyring
from cloche.policy.refusals import Busy
from cloche.sandbox.checks import checked_mounts
from cloche.sandbox.sandbox import AsyncSandbox
from cloche.service.held import Held
from cloche.service.identity import new_id
from cloche.service.keeping import Keeping
from cloche.service.runs import Run, Runs
from cloche.service.wishes import (
    beyond,
    check_limits,
    check_mounts,
    checked_duration,
    checked_metadata,
    tool_of_caller,
    wall_for,
)
from cloche.service.workspaces import Workspaces
from cloche.store.journal import Journal
from cloche.store.store import Store

log = logging.getLogger("cloche.sandboxes")

_LOOK_S = 1.0  # how often lifetimes are looked at
_FULL_S = 5.0  # when to ask again for a sandbox
_LAST_WORDS_S = 2.0  # for runs and commands to notice that their sandbox has ended


class Sandboxes:
    """All sandboxes of this server that live on between requests."""

    def __init__(
        self,
        configuration: Configuration,
        store: Store,
        journal: Journal,
        keyring: Keyring,
        runs: Runs,
        workspaces: Workspaces,
    ) -> None:
        self._configuration, self._store, self._journal = configuration, store, journal
        self._keyring, self._runs, self._workspaces = keyring, runs, workspaces
        self._held: dict[str, Held] = {}
        self._leaving: dict[str, Held] = {}
        self._made: dict[tuple[str, str], asyncio.Future[str]] = {}  # by owner and idempotency key
        self._making = 0
        self._reaper: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look after lifetimes."""
        self._reaper = asyncio.create_task(self._reap())

    async def stop(self) -> None:
        """End them all."""
        if self._reaper is not None:
            self._reaper.cancel()
            await asyncio.gather(self._reaper, return_exceptions=True)
        known = [*self._held.values(), *self._leaving.values()]
        await asyncio.gather(*(self.end(held, "the server was stopped") for held in known))

    def idle_timeout(self, identity: str) -> float | None:
        """How long a living sandbox may be idle."""
        held = self._held.get(identity)
        return None if held is None else held.idle_timeout

    def living(self, identity: str) -> Held | None:
        """The sandbox of this id, whoever it belongs to; for those who bring another proof than a key."""
        return self._held.get(identity)

    def is_paused(self, identity: str) -> bool:
        """Does nothing run in it at the moment?"""
        held = self._held.get(identity)
        return held is not None and held.box.paused

    def alive(self) -> list[Held]:
        """All that there are now."""
        return list(self._held.values())

    async def create(self, caller: Caller, wish: dict[str, Any], idempotency: str | None = None) -> SandboxRecord:
        """A new sandbox; the same one again when it is asked for twice under one idempotency key."""
        if idempotency is None:
            return await self._create(caller, wish)
        place = (caller.owner, idempotency)
        while place in self._made:
            made = await asyncio.shield(self._made[place])
            if made:
                return await self.record(caller, made)
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._made[place] = future
        while len(self._made) > 10_000:
            self._made.pop(next(iter(self._made)))
        try:
            record = await self._create(caller, wish)
        except BaseException:
            self._made.pop(place, None)
            future.set_result("")
            raise
        future.set_result(record.id)
        return record

    async def _create(self, caller: Caller, wish: dict[str, Any]) -> SandboxRecord:
        settings = self._configuration
        ttl = checked_duration("ttl", wish.pop("ttl", None), settings.ttl, settings.max_ttl)
        idle = checked_duration("idle_timeout", wish.pop("idle_timeout", None), settings.idle_timeout, settings.max_ttl)
        metadata = checked_metadata(wish.pop("metadata", None))
        persistent = bool(wish.pop("persistent", False))
        workspace = wish.pop("workspace", None)
        names = wish.pop("tools", None) or []
        tools = {name: tool_of_caller(name) for name in names}
        check_mounts(wish.get("mounts") or (), settings.mounts)
        box = AsyncSandbox(tools=tools, wall=wall_for(wish.pop("isolation", "auto")), **wish)
        check_limits(box.limits, settings)
        if len(self._held) + self._making >= settings.sandboxes:
            raise Busy(
                f"There are {settings.sandboxes} sandboxes on this server already.",
                hint="End one, or try again later.",
                retry_after=_FULL_S,
            )
        meter = self._keyring.meter(caller)
        meter.begin_sandbox()
        self._making += 1
        record, keeping, now = None, None, time()
        try:
            identity = new_id("sbx", now)
            keeping = await self._keeping(caller, box, identity, persistent, workspace)
            record = SandboxRecord(
                id=identity,
                owner=caller.owner,
                key=caller.key_id,
                state="alive",
                created=now,
                wall=box.wall,
                limits=box.limits.as_dict(),
                metadata=metadata,
                expires=now + ttl,
                persistent=keeping is not None,
                workspace=None if keeping is None else keeping.workspace.id,
            )
            held = Held(box, record, idle, meter)
            self._journal.note(record)
            await box.open()
            if keeping is not None:
                await keeping.fill([mount.target for mount in checked_mounts(wish.get("mounts") or ())])
        except BaseException:
            meter.end_sandbox()
            await box.close()
            if record is not None:
                self._note(replace(record, state="ended", ended=time(), reason="it could not be started"))
            if keeping is not None:
                await self._workspaces.release(keeping.workspace, is_new=workspace is None)
            raise
        finally:
            self._making -= 1
        self._held[record.id] = held
        self._audit(caller, "sandbox.create", record.id, {"limits": record.limits})
        held.ending = asyncio.create_task(self._notice(held))
        if keeping is not None:
            held.keeping, keeping.tell = keeping, held.happened
            held.saver = asyncio.create_task(keeping.save_now_and_then(held.is_busy))
        return record

    async def _keeping(
        self, caller: Caller, box: AsyncSandbox, identity: str, persistent: bool, workspace: str | None
    ) -> Keeping | None:
        """Where its files are kept, if they are to be."""
        if workspace is not None:
            return Keeping(box, *await self._workspaces.open(caller.owner, workspace, identity))
        return Keeping(box, *await self._workspaces.begin(caller.owner, identity)) if persistent else None

    def find(self, caller: Caller, identity: str, *, paused: bool = False) -> Held:
        """A sandbox of the caller's that is alive; one that is `paused` only for those who can deal with it."""
        held = self._held.get(identity)
        if held is None or held.owner != caller.owner:
            raise Gone("There is no such sandbox.", hint="GET /v1/sandboxes lists those that there are.")
        if held.box.paused and not paused:
            raise Refused("The sandbox is paused.", hint="Have it go on: POST /v1/sandboxes/{id}/resume.")
        return held

    async def record(self, caller: Caller, identity: str) -> SandboxRecord:
        """What is known of a sandbox of the caller's, also of one that has ended."""
        held = self._held.get(identity)
        if held is not None and held.owner == caller.owner:
            return held.record
        leaving = self._leaving.get(identity)
        if leaving is not None and leaving.owner == caller.owner:
            await leaving.gone.wait()
            return leaving.record
        await self._journal.flush()
        known = await self._store.sandbox(caller.owner, identity)
        if known is None:
            raise Gone("There is no such sandbox.", hint="GET /v1/sandboxes lists those that there are.")
        return known

    async def list(
        self, caller: Caller, state: str | None, metadata: Mapping[str, str], limit: int, after: str | None
    ) -> tuple[list[SandboxRecord], str | None]:
        """A page of the caller's sandboxes, newest first."""
        await self._journal.flush()
        return await self._store.sandboxes(caller.owner, state=state, metadata=metadata, limit=limit, after=after)

    def change(self, caller: Caller, identity: str, changes: dict[str, Any]) -> SandboxRecord:
        """Give it more time, or other metadata."""
        held, settings = self.find(caller, identity, paused=True), self._configuration
        record = held.record
        if "metadata" in changes:
            record = replace(record, metadata=checked_metadata(changes["metadata"]))
        if "ttl" in changes:
            ttl = checked_duration("ttl", changes["ttl"], settings.max_ttl, settings.max_ttl)
            record = replace(record, expires=time() + ttl)
        if "idle_timeout" in changes:
            held.idle_timeout = checked_duration(
                "idle_timeout", changes["idle_timeout"], settings.max_ttl, settings.max_ttl
            )
        held.record = record
        self._note(record)
        return record

    async def pause(self, held: Held) -> None:
        """Have nothing in it run, and its time stand still; for as long as a sandbox may live."""
        await held.save_if_possible()
        await held.box.pause()
        if held.left_s:
            return  # somebody else was faster
        now = time()
        held.left_s = max((held.record.expires or now) - now, 1.0)
        held.record = replace(held.record, expires=now + self._configuration.max_ttl)
        self._note(held.record)
        held.happened("sandbox.paused", {})

    async def pause_if_possible(self, held: Held) -> bool:
        """The same where it may not be possible; is it paused?"""
        try:
            await self.pause(held)
        except Refused:
            held.pauses = False
        return held.box.paused

    async def resume(self, held: Held, ttl: float | None = None) -> None:
        """Have it go on, for the time that it had left or for another."""
        await held.box.resume()
        held.record = replace(held.record, expires=time() + (held.left_s if ttl is None else ttl))
        held.left_s = 0.0
        self._note(held.record)
        held.happened("sandbox.resumed", {})

    async def kill(self, caller: Caller, identity: str) -> None:
        """End a sandbox of the caller's; one that has ended already is fine."""
        held = self._held.get(identity) or self._leaving.get(identity)
        if held is None or held.owner != caller.owner:
            await self.record(caller, identity)
            return
        self._audit(caller, "sandbox.kill", identity, {})
        await self.end(held, "it was ended by its owner")

    async def end(self, held: Held, reason: str) -> None:
        """End it, and wait until nothing of it is left."""
        if held.id in self._held:
            await held.save_if_possible()
        if self._held.pop(held.id, None) is None:
            await held.gone.wait()
            return
        self._leaving[held.id] = held
        for task in (held.ending, held.saver):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        try:
            await held.box.close()
        finally:
            held.meter.end_sandbox()
            held.record = replace(held.record, state="ended", ended=time(), reason=reason)
            self._note(held.record)
            try:
                await self._last_words(held)
                if held.keeping is not None:
                    await held.keeping.close()
                    await self._workspaces.release(held.keeping.workspace)
            finally:
                held.happened("sandbox.ended", {"reason": reason})
                held.feed.end()
                self._leaving.pop(held.id, None)
                held.gone.set()

    async def _last_words(self, held: Held) -> None:
        """What still runs there is told its end, and tells it: before the feed is over."""
        runs = [run.task for run in self._runs.active() if run.record.sandbox == held.id and run.task is not None]
        tasks = [*runs, *held.commands.tasks()]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_LAST_WORDS_S)
            for task in late:
                task.cancel()  # it waits for an answer of somebody who has left
            await asyncio.gather(*late, return_exceptions=True)
        held.commands.end()

    # --- what is done in them

    async def run_cell(
        self,
        caller: Caller,
        held: Held,
        code: str,
        *,
        language: str | None = None,
        context: str | None = None,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        interactive: bool = False,
        keep: int | None = None,
    ) -> Run:
        """Run a cell in a session; it goes on whoever listens."""
        self.check_timeout(timeout)
        events = held.box.stream(
            code,
            language=language,
            context=context,
            stdin=stdin,
            env=env,
            timeout=timeout,
            interactive=interactive,
            keep=keep,
        )

        async def work(run: Run) -> Result:
            async def stop() -> None:
                if events.began:
                    await events.interrupt()
                elif run.task is not None:
                    run.task.cancel()  # it still waits for its turn

            held.begin_use()
            try:
                run.stop = stop
                if interactive:
                    run.control = events
                async for event in events:
                    if event.kind == "end":
                        assert events.result is not None
                        await held.save_after(events.result)
                    run.tell(event)
                    await run.log.keep_pace()
                assert events.result is not None
                return events.result
            finally:
                held.end_use()

        spoken = languages.find(language or "python")
        where = context or spoken.context or spoken.name
        return await self.run(caller, held, work, code, spoken.name, where, len(stdin or b""))

    def check_timeout(self, timeout: float | None) -> None:
        """A run cannot take longer than the operator allows."""
        if timeout is not None and timeout > self._configuration.max_timeout:
            raise beyond("timeout", self._configuration.max_timeout)

    async def run(
        self,
        caller: Caller,
        held: Held,
        work: Callable[[Run], Awaitable[Result]],
        code: str,
        language: str = "python",
        context: str = "",
        bytes_moved: int = 0,
    ) -> Run:
        """Do something in a sandbox that counts as a run."""

        def feed(kind: str, told: dict[str, Any], size: int) -> None:
            if kind == "started":
                told["code"] = code[:10_000]
                size += len(told["code"])
            held.happened(f"run.{kind}", told, size)

        return await self._runs.start(
            caller,
            work,
            language=language,
            code=code,
            limits=held.limits,
            sandbox=held.id,
            context=context,
            bytes_moved=bytes_moved,
            feed=feed,
        )

    # --- how they end

    async def _notice(self, held: Held) -> None:
        """Wait until it ends by itself."""
        reason = await held.box.ended()
        await self._last_words(held)  # before it is closed: what runs there tells why it was ended, not that it was
        await self.end(held, {"memory": "it needed too much memory", "timeout": "its time was up"}.get(reason, reason))

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            for held in list(self._held.values()):
                if held.looking is None or held.looking.done():  # none waits for another that is slow to answer
                    held.looking = asyncio.create_task(self._look_after(held))

    async def _look_after(self, held: Held) -> None:
        try:
            if held.record.expires is not None and time() > held.record.expires:
                if held.pauses and not held.box.paused and await self.pause_if_possible(held):
                    return
                await held.save_if_possible()
                await held.box.set_lifetime(0.001)  # by the wall: what runs there is told that its time was up
                await held.gone.wait()
            elif not held.box.paused and await held.is_idle():
                await self.end(held, "it was idle")
        except Exception:
            log.exception("sandbox %s could not be looked after", held.id)

    def _note(self, record: SandboxRecord) -> None:
        try:
            self._journal.note(record)
        except ClocheError as problem:
            log.error("the state of sandbox %s could not be recorded: %s", record.id, problem.message)

    def _audit(self, caller: Caller, action: str, target: str, details: dict[str, Any]) -> None:
        self._journal.note(AuditRecord(new_id("audit"), time(), caller.owner, caller.key_id, action, target, details))
