"""The service: the verbs that doors call, and what they share."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import time

from cloche import environment, settings
from cloche.clock import steady
from cloche.configuration import Configuration
from cloche.errors import ClocheError
from cloche.model.records import audit_of
from cloche.policy.browser_sessions import BrowserSessions
from cloche.policy.keys import Keyring
from cloche.policy.mounts import MountPolicy
from cloche.policy.readers import Readers
from cloche.sandbox.one_shot import run
from cloche.service.admission import Admission
from cloche.service.allocator import keep_trimmed
from cloche.service.archives import Archives
from cloche.service.attempts import Attempts
from cloche.service.audit import Audit
from cloche.service.charges import Charges
from cloche.service.commands import Commands
from cloche.service.data_folder import DataFolder
from cloche.service.environments import OwnedEnvironments
from cloche.service.files import Files
from cloche.service.keys import Keys
from cloche.service.lifecycle import Lifecycle
from cloche.service.metering import Metering
from cloche.service.network import Networks
from cloche.service.packages import Installs
from cloche.service.ports import Ports
from cloche.service.programs import Programs
from cloche.service.retention import Retention
from cloche.service.runs import Runs
from cloche.service.sandboxes import Sandboxes
from cloche.service.secrets import Secrets
from cloche.service.sessions import Sessions
from cloche.service.shares import Shares
from cloche.service.snapshots import Snapshots
from cloche.service.tables import Tables
from cloche.service.usage import UsageReports
from cloche.service.workspaces.workspaces import Workspaces
from cloche.store.journal import Journal
from cloche.store.store import Store

log = logging.getLogger("cloche.service")

FINISH_S = 5.0  # for runs to finish when the server stops
_TRIM_S = 600.0  # how often old records and files are removed
_TRY_AGAIN_S = 10.0  # between two attempts to start a first sandbox


class Service:
    """Everything that a caller can ask of this server, by subject.  `verbs.VERBS` lists the verbs."""

    def __init__(self, configuration: Configuration, store: Store) -> None:
        self.configuration, self._store = configuration, store
        folder = Path(configuration.data_dir)
        self._folder = DataFolder(folder)
        self._journal = Journal(folder / "journal", store)
        self.keyring = Keyring(store, now=steady)
        self.browser_sessions = BrowserSessions(store, now=steady)
        self.readers = Readers(configuration.readers_per_key, configuration.readers_per_sandbox)
        self.admission = Admission(
            configuration.runs_at_once,
            configuration.queue,
            configuration.queue_wait,
            configuration.memory_reserve,
            keys=self._key_count,
        )
        self.audit = Audit(store, self._journal)
        self.keys = Keys(self.keyring, self.audit)
        self._charges = Charges(self._journal, self.keyring)
        self.runs = Runs(store, self._journal, self.admission, self._charges, Retention())
        shown = (environment.location(settings.environment()), environment.home())
        mounts = MountPolicy(configuration.mounts, folder, shown)
        self.secrets = Secrets(store, folder / "secrets-key", self.audit)
        self.environments = OwnedEnvironments(folder / "builds", configuration, self._charges, self.secrets, self.audit)
        self.archives = Archives(folder / "archives")
        self.programs = Programs(configuration, mounts, self.runs, self.secrets, self.environments)
        self.workspaces = Workspaces(folder / "workspaces")
        self._lifecycle = Lifecycle(
            configuration,
            store,
            self._journal,
            self.audit,
            self._charges,
            self.runs,
            self.workspaces,
            self._key_count,
        )
        self._metering = Metering(self._lifecycle, self.runs, self._charges, self.audit)
        self.snapshots = Snapshots(folder / "snapshots", self._lifecycle)
        self.sandboxes = Sandboxes(
            configuration,
            mounts,
            store,
            self._journal,
            self.keyring,
            self._lifecycle,
            self.workspaces,
            self.snapshots,
            self.secrets,
            self.environments,
        )
        self.networks = Networks(configuration, self._lifecycle, self.secrets)
        self.packages = Installs(self._lifecycle)
        self.sessions = Sessions(configuration, self._lifecycle, self.runs)
        self.attempts = Attempts(configuration, self._lifecycle, self.runs)
        self.commands = Commands(configuration, self._lifecycle, self.runs)
        self.files = Files(self._lifecycle, self.keyring)
        self.tables = Tables(self._lifecycle)
        self.ports = Ports(self._lifecycle, self.keyring, self.readers)
        self.usage = UsageReports(store, self._journal, self._lifecycle, self._metering)
        self.shares = Shares(folder / "shares", configuration, self.audit)
        self.started = time()
        self.stopping = False
        self.admin_key = ""
        self.trouble: ClocheError | None = None  # why no sandbox can be started here
        self._tried, self._works = asyncio.Event(), asyncio.Event()  # a sandbox was tried out; one has worked
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def open(cls, configuration: Configuration) -> Service:
        """Open the data directory and continue where the last server stopped."""
        folder = Path(configuration.data_dir)
        await DataFolder(folder).open()
        store = await Store.open(configuration.database_url or f"sqlite:///{folder / 'cloche.db'}")
        service = cls(configuration, store)
        try:
            await service._journal.start()
            await service._recover()
            await service.keyring.load()
            service.admin_key = await service.keyring.ensure_admin(folder / "key")
            await service.browser_sessions.load(lambda key: service.keyring.holder(key) is not None)
            await service._load_usage()
            await service.workspaces.load()
            await service.snapshots.load()
            await service.shares.load()
            await service.environments.load()
        except BaseException:
            await store.close()
            raise
        service._lifecycle.start()
        parts = (service._keep(), service._try_out(), service._metering.watch(), keep_trimmed())
        service._tasks = [asyncio.create_task(work) for work in parts]
        return service

    def refuse_new(self) -> None:
        """Accept no more runs: the server is about to stop."""
        self.stopping = True
        self.admission.close()

    async def check_ready(self) -> None:
        """Raise the reason why the server cannot do its work, if there is one."""
        await self._store.ping()
        await self._folder.check_room()
        await self.tried_out()
        if self.trouble is not None:
            raise self.trouble

    async def tried_out(self) -> None:
        """Wait until a first sandbox has worked, or `trouble` says why none can."""
        await self._tried.wait()

    async def works(self) -> None:
        """Wait until a sandbox has worked."""
        await self._works.wait()

    def _key_count(self) -> int | None:
        """How many keys share this server; None if it requires none."""
        return self.keyring.count() if self.configuration.auth else None

    def sandbox_count(self) -> int:
        """How many sandboxes are alive, of all owners."""
        return self._lifecycle.count()

    async def drain(self) -> None:
        """Accept nothing new, let runs finish for a while, and end the sandboxes."""
        self.refuse_new()
        await self.environments.stop()
        await self.runs.stop(FINISH_S)
        await self._lifecycle.stop()
        self._charges.record()

    async def close(self) -> None:
        """Drain, and record everything."""
        await self.drain()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            await self._journal.stop()
        except ClocheError as problem:
            log.error("the database did not take everything; the journal keeps the rest: %s", problem.message)
        await self._record_uses()
        await self._store.close()

    async def _recover(self) -> None:
        """Give the runs that a killed server has left their outcome, also in the audit log."""
        now = time()
        for left in await self._store.unsettled():
            self._journal.note(audit_of(replace(left, state="interrupted", error_kind="lost", ended=now)))
        await self._store.recover(now)

    async def _load_usage(self) -> None:
        """Count what keys used today before this server started."""
        midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
        for key, (cpu, moved) in (await self._store.usage_by_key(midnight)).items():
            self.keyring.load_usage(key, cpu, moved)

    async def _try_out(self) -> None:
        """Start a sandbox before the first request, so that the operator learns at once when none can start."""
        while True:
            try:
                await run("", url="")
                self.trouble = None
                self._tried.set()
                self._works.set()
                self.networks.prepare()
                return
            except ClocheError as problem:
                if self.trouble is None:
                    log.error("%s", problem)
                self.trouble = problem
                self._tried.set()
            await asyncio.sleep(_TRY_AGAIN_S)

    async def _record_uses(self) -> None:
        try:
            await self.keyring.record_uses()
        except ClocheError as problem:
            log.warning("the last use of keys could not be recorded: %s", problem.message)

    async def _keep(self) -> None:
        while True:
            settings = self.configuration
            await self._record_uses()
            try:
                await self._store.trim(settings.max_runs_kept, settings.max_audit_kept, 0.0)
            except Exception as problem:
                log.warning("old records could not be removed: %s", type(problem).__name__)
            try:
                await self.workspaces.remove_old(settings.persistent_age)
                await self.snapshots.remove_old(settings.persistent_age)
                await self.shares.remove_old(settings.persistent_age)
                await self.archives.remove_old()
            except ClocheError as problem:
                log.warning("an old workspace could not be removed: %s", problem)
            await asyncio.sleep(_TRIM_S)
