"""What the doors share: keys, sandboxes, runs and their records, for many owners at once."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import time

from cloche.configuration import Configuration
from cloche.errors import ClocheError, Misconfigured
from cloche.model.records import audit_of
from cloche.policy.keys import Keyring
from cloche.sandbox.one_shot import run
from cloche.service.admission import Admission
from cloche.service.runs import Runs
from cloche.service.sandboxes import Sandboxes
from cloche.service.shares import Shares
from cloche.service.snapshots import Snapshots
from cloche.service.wishes import wall_for
from cloche.service.workspaces import Workspaces
from cloche.store.journal import Journal
from cloche.store.store import Store

log = logging.getLogger("cloche.service")

FINISH_S = 5.0  # for runs to finish when the server is stopped
_TRIM_S = 600.0  # how often what is too old is thrown away
_TRY_AGAIN_S = 10.0  # to start a sandbox, where none could be started so far


class Service:
    """One server's sandboxes and runs."""

    def __init__(self, configuration: Configuration, store: Store) -> None:
        self.configuration, self.store = configuration, store
        self.folder = Path(configuration.data_dir)
        self.journal = Journal(self.folder / "journal", store)
        self.keyring = Keyring(store)
        self.admission = Admission(
            configuration.runs_at_once, configuration.queue, configuration.queue_wait, configuration.memory_reserve
        )
        self.runs = Runs(self.journal, self.admission, self.keyring)
        self.workspaces = Workspaces(self.folder / "workspaces")
        self.snapshots = Snapshots(self.folder / "snapshots")
        self.shares = Shares(self.folder / "shares")
        self.sandboxes = Sandboxes(configuration, store, self.journal, self.keyring, self.runs, self.workspaces)
        self.started = time()
        self.stopping = False
        self.admin_key = ""
        self.trouble: ClocheError | None = None  # why no sandbox can be started here, if none can
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def open(cls, configuration: Configuration) -> Service:
        """Take up where the last server on these data left off."""
        folder = Path(configuration.data_dir)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as problem:
            raise Misconfigured(
                f"The data directory {folder} cannot be made: {problem.strerror}.",
                hint="Let the server's user write there, or choose another: --data-dir or CLOCHE_DATA_DIR.",
            ) from None
        store = await Store.open(configuration.database_url or f"sqlite:///{folder / 'cloche.db'}")
        service = cls(configuration, store)
        try:
            await service.journal.start()
            await service._recover()
            await service.keyring.load()
            service.admin_key = await service.keyring.ensure_admin(folder / "key")
            await service._load_usage()
            await service.workspaces.load()
            await service.snapshots.load()
            await service.shares.load()
        except BaseException:
            await store.close()
            raise
        service.sandboxes.start()
        service._tasks = [asyncio.create_task(service._keep()), asyncio.create_task(service._try_out())]
        return service

    async def drain(self) -> None:
        """Take nothing new; let runs finish, for a while; end sandboxes."""
        self.stopping = True
        self.admission.close()
        await self.runs.stop(FINISH_S)
        await self.sandboxes.stop()

    async def close(self) -> None:
        """The same, and write everything down."""
        await self.drain()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            await self.journal.stop()
        except ClocheError as problem:
            log.error("not all could be written to the database, the journal keeps it: %s", problem.message)
        await self.store.close()

    async def _recover(self) -> None:
        """What the last server had under way when it was killed has its outcome now, also in the audit log."""
        now = time()
        for left in await self.store.unsettled():
            self.journal.note(audit_of(replace(left, state="interrupted", error_kind="lost", ended=now)))
        await self.store.recover(now)

    async def _load_usage(self) -> None:
        """What keys have used today counts, whoever served them."""
        midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
        for key, (cpu, moved) in (await self.store.usage_by_key(midnight)).items():
            self.keyring.load_usage(key, cpu, moved)

    async def _try_out(self) -> None:
        """Start a sandbox before anybody asks for one: where none can be started, the operator hears of it now."""
        while True:
            try:
                await run("", wall=wall_for("auto"))
                self.trouble = None
                return
            except ClocheError as problem:
                if self.trouble is None:
                    log.error("%s %s", problem.message, problem.hint)
                self.trouble = problem
            await asyncio.sleep(_TRY_AGAIN_S)

    async def _keep(self) -> None:
        while True:
            settings = self.configuration
            try:
                await self.store.trim(settings.max_runs_kept, settings.max_audit_kept, 0.0)
            except Exception as problem:
                log.warning("old records could not be removed: %s", type(problem).__name__)
            try:
                await self.workspaces.remove_old(settings.persistent_age)
                await self.snapshots.remove_old(settings.persistent_age)
                await self.shares.remove_old(settings.persistent_age)
            except ClocheError as problem:
                log.warning("an old workspace could not be removed: %s", problem)
            await asyncio.sleep(_TRIM_S)
