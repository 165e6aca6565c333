"""Builds of environments: those under way, and what is recorded about the newest one of each name."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from json import dumps, loads
from pathlib import Path
from secrets import token_hex
from time import time
from typing import TYPE_CHECKING, Any

from cloche.errors import ClocheError, Gone
from cloche.packages.environment_build import StepFailed
from cloche.service.event_log import EventLog
from cloche.service.events import Notice

if TYPE_CHECKING:
    from cloche.service.charges import Account

log = logging.getLogger("cloche.environments")

MAX_LOG = 1 << 20  # characters of a build's log
_LOGS = 50  # of builds that have ended: the newest ones
_MOST = 200  # records of one owner
_CHARGE_S = 2.0
_ENDING = ".json"
UNDER_WAY = ("queued", "building")


@dataclass(frozen=True, slots=True)
class BuildRecord:
    """A build of an environment: `state` is "queued", "building", "done" or "failed"."""

    id: str
    owner: str
    name: str
    state: str
    created: float
    ended: float | None = None
    message: str = ""  # why it failed
    hint: str = ""
    step: int | None = None  # which step failed, if one did


class EnvironmentBuild:
    """A build under way, with its log and the account that pays for it."""

    def __init__(self, record: BuildRecord, key: str, account: Account) -> None:
        self.record, self.key, self._account = record, key, account
        self.log = EventLog(MAX_LOG)
        self.task: asyncio.Task[None] | None = None
        self._backend: Any = None  # of its sandbox
        self._charged = 0.0
        self._stopped = ""  # why somebody has stopped it

    def started(self, backend: Any) -> None:
        """Note the build's sandbox; called in the build's thread."""
        self._backend = backend
        if self._stopped:
            self._end_sandbox()

    def stop(self, reason: str) -> None:
        """Have the build end soon."""
        self._stopped = self._stopped or reason
        if self._backend is not None:
            asyncio.get_running_loop().run_in_executor(None, self._end_sandbox)

    def check_stopped(self) -> None:
        """Raise the reason why the build has been stopped."""
        if self._stopped:
            raise Gone(self._stopped)

    async def keep_charging(self) -> None:
        """Charge the CPU time of the build, and stop it when its key has none left."""
        while True:
            await asyncio.sleep(_CHARGE_S)
            await self.charge()
            if self._account.meter.is_cpu_spent:
                self.stop("The key has used all its CPU time of today.")

    async def charge(self) -> None:
        """Charge what the wall has counted since the last time."""
        if self._backend is not None:
            try:
                counted = await asyncio.to_thread(self._backend.cpu_time) or 0.0
            except ClocheError:
                return
            used, self._charged = max(0.0, counted - self._charged), max(counted, self._charged)
            if used:
                self._account.charge(used)

    def change(self, **fields: Any) -> None:
        """Change the record, and announce that in the log."""
        self.record = replace(self.record, **fields)
        if self.record.state in UNDER_WAY:
            self.log.add(Notice("state", {"state": self.record.state}))
        else:
            _finish(self.log, self.record)

    def outcome(self, problem: BaseException | None) -> dict[str, Any]:
        """The fields of the record after the end."""
        if problem is None:
            return {"state": "done", "ended": time()}
        message, hint, step = self._stopped, "Build it again.", None
        if not message and isinstance(problem, ClocheError):
            message, hint = problem.message, problem.hint
            step = problem.number if isinstance(problem, StepFailed) else None
        elif not message:
            log.error("the build %s of an environment failed", self.record.id, exc_info=problem)
            message = "The build failed for a reason of the server's own."
            hint = "The server's log has the reason."
        return {"state": "failed", "ended": time(), "message": message, "hint": hint, "step": step}

    def _end_sandbox(self) -> None:
        try:
            self._backend.spent(final=True)
        except ClocheError:
            pass  # it has ended already


class BuildRecords:
    """The newest build of each owner and name, in a folder: a file for each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[tuple[str, str], BuildRecord] = {}
        self._logs: dict[str, EventLog] = {}  # by the build's id
        self._ended: deque[str] = deque()  # ids of builds whose logs are kept

    def load(self) -> None:
        """Read the records.  A build that was under way has failed: its sandbox has ended with the server."""
        for path in self._folder.glob("*"):
            if path.suffix != _ENDING:
                path.unlink(missing_ok=True)  # left over from a crash
                continue
            try:
                record = BuildRecord(**loads(path.read_bytes()))
            except (OSError, ValueError, TypeError) as problem:
                log.error("the record of a build in %s cannot be read: %s", path, problem)
                continue
            if record.state in UNDER_WAY:
                reason = "The server was stopped or restarted during the build."
                record = replace(record, state="failed", ended=time(), message=reason, hint="Build it again.")
                self._write(record)
            self._known[record.owner, record.name] = record

    def find(self, owner: str, name: str) -> BuildRecord | None:
        return self._known.get((owner, name))

    def of(self, owner: str) -> Sequence[BuildRecord]:
        """The builds of an owner, newest first."""
        found = [record for record in self._known.values() if record.owner == owner]
        return sorted(found, key=lambda record: record.id, reverse=True)

    def log(self, owner: str, name: str) -> EventLog | None:
        """The log of the newest build; its end alone, if the rest was forgotten."""
        record = self.find(owner, name)
        if record is None:
            return None
        kept = self._logs.get(record.id)
        if kept is None:
            kept = EventLog(MAX_LOG)
            _finish(kept, record)
        return kept

    def note(self, record: BuildRecord) -> None:
        """Record a build or its new state, in place of an earlier build of that name."""
        self._write(record)
        self._known[record.owner, record.name] = record
        for old in self.of(record.owner)[_MOST:]:
            if old.state not in UNDER_WAY:
                self.forget(old.owner, old.name)

    def begin(self, build: EnvironmentBuild) -> None:
        """Keep the log of a build that begins."""
        self._logs[build.record.id] = build.log

    def end(self, build: EnvironmentBuild) -> None:
        """Keep the log for a while after the end."""
        self._ended.append(build.record.id)
        while len(self._ended) > _LOGS:
            self._logs.pop(self._ended.popleft(), None)

    def forget(self, owner: str, name: str) -> bool:
        """Remove the record of a build; return whether there was one."""
        record = self._known.pop((owner, name), None)
        if record is None:
            return False
        self._logs.pop(record.id, None)
        self._path(record).unlink(missing_ok=True)
        return True

    def _path(self, record: BuildRecord) -> Path:
        place = sha256(f"{record.owner}\0{record.name}".encode()).hexdigest()[:32]
        return self._folder / f"{place}{_ENDING}"

    def _write(self, record: BuildRecord) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self._folder / f"fresh-{token_hex(8)}"
        with open(fresh, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(dumps(asdict(record)).encode())
        os.replace(fresh, self._path(record))


def _finish(target: EventLog, record: BuildRecord) -> None:
    fields: dict[str, Any] = {"name": record.name, "state": record.state}
    if record.state == "failed":
        fields["error"] = {"message": record.message, "hint": record.hint}
    target.add(Notice("end", fields))
    target.end()
