"""The verbs about environments: build, find, list and remove them, their bills of materials and their audits.

A caller sees the host's environments, which everybody shares, and its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import cpu_count
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

from cloche.configuration import Configuration
from cloche.errors import Gone, Refused
from cloche.io.tasks import LARGE, off_loop
from cloche.model.environments import EnvironmentSpec, checked_name
from cloche.model.network import Network
from cloche.packages import of_this_host
from cloche.policy.caller import Caller
from cloche.policy.limits import reduced
from cloche.policy.network import policy_for
from cloche.policy.packages import policy_for as packages_policy_for
from cloche.policy.refusals import Busy, TooMany
from cloche.service.audit import Audit
from cloche.service.builds import BuildRecord, BuildRecords, EnvironmentBuild
from cloche.service.charges import Charges
from cloche.service.event_log import EventLog
from cloche.service.events import Notice
from cloche.service.identity import new_id
from cloche.service.secrets import Secrets
from cloche.service.verbs import verb

if TYPE_CHECKING:
    from cloche.model.environments import Environment
    from cloche.packages.environment_audit import EnvironmentAudit
    from cloche.packages.environments import Environments

_AT_ONCE, _QUEUE, _OF_KEY = 2, 32, 4  # builds under way, and those that wait: of all keys, and of one
_SOON_S = 10.0  # when to try again
_RESOURCES = {"memory": 2 << 30, "disk": 4 << 30, "processes": 256, "timeout": 600.0}


@dataclass(frozen=True, slots=True)
class EnvironmentInfo:
    """An environment, its newest build on this server, or both."""

    name: str
    environment: Environment | None
    build: BuildRecord | None


class OwnedEnvironments:
    """The environments of all owners."""

    def __init__(
        self, folder: Path, configuration: Configuration, charges: Charges, secrets: Secrets, audit: Audit
    ) -> None:
        self._configuration, self._charges, self._secrets, self._audit = configuration, charges, secrets, audit
        self._records = BuildRecords(folder)
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._builds: dict[tuple[str, str], EnvironmentBuild] = {}  # under way, by owner and name

    async def load(self) -> None:
        await asyncio.to_thread(self._records.load)

    async def stop(self) -> None:
        """End the builds that are under way, and wait until they have ended."""
        builds = list(self._builds.values())
        for build in builds:
            build.stop("The server was stopped during the build.")
        await asyncio.gather(*(build.task for build in builds if build.task is not None), return_exceptions=True)

    # --- verbs

    @verb("run")
    async def create(
        self, caller: Caller, name: str, spec: EnvironmentSpec, network: Network | None = None
    ) -> BuildRecord:
        """Begin to build an environment.  `find` and `follow` show how the build goes."""
        name = checked_name(name)
        account = self._charges.account(caller)
        account.meter.check_day()
        policy = await off_loop(LARGE, lambda: packages_policy_for(caller, of_this_host.policy()))
        for ecosystem in {each.ecosystem for each in spec.packages}:
            policy.check_request([each for each in spec.packages if each.ecosystem == ecosystem])
        reachable = policy_for(network or Network(), caller, self._configuration).effective
        reachable = await self._secrets.filled(caller.owner, reachable)
        if spec.base:
            await self.found(caller, spec.base)
        self._check_room(caller, name)
        record = BuildRecord(new_id("bld"), caller.owner, name, "queued", time())
        build = EnvironmentBuild(record, caller.key_id, account)
        self._builds[caller.owner, name] = build
        try:
            await asyncio.to_thread(self._records.note, record)
            self._audit.note(caller, "environment.create", record.id, {"name": name, "network": reachable.as_dict()})
        except BaseException:
            del self._builds[caller.owner, name]
            raise
        self._records.begin(build)
        resources = reduced({**_RESOURCES, "cpu": float(cpu_count() or 1)}, self._configuration)

        def work(report: Callable[[str], None], started: Callable[[Any], None]) -> Environment:
            return self._of(caller.owner).build(
                name, spec, policy, None if reachable.is_none else reachable, report, resources, started
            )

        build.task = asyncio.create_task(self._carry_out(build, work))
        return record

    @verb("read")
    async def find(self, caller: Caller, name: str) -> EnvironmentInfo:
        """An environment of the caller's or of the host, with the newest build of that name."""
        name = checked_name(name)
        build = self._records.find(caller.owner, name)
        try:
            environment = await self.found(caller, name)
        except Gone:
            if build is None:
                raise
            return EnvironmentInfo(name, None, build)
        return EnvironmentInfo(name, environment, build)

    @verb("read")
    async def list(self, caller: Caller) -> Sequence[EnvironmentInfo]:
        """The environments that the caller can use, and builds that have not led to one yet."""
        environments = await asyncio.to_thread(lambda: self._of(caller.owner).list())
        found = {
            each.name: EnvironmentInfo(each.name, each, self._records.find(caller.owner, each.name))
            for each in environments
        }
        for build in self._records.of(caller.owner):
            found.setdefault(build.name, EnvironmentInfo(build.name, None, build))
        return [found[name] for name in sorted(found)]

    @verb("run")
    async def remove(self, caller: Caller, name: str) -> None:
        """Remove an environment of the caller's, and end a build of that name.  Its sandboxes go on."""
        name = checked_name(name)
        build = self._builds.get((caller.owner, name))
        if build is not None and build.task is not None:
            build.stop("The environment was removed during the build.")
            await asyncio.wait([build.task])
        had_build = await asyncio.to_thread(self._records.forget, caller.owner, name)
        try:
            await asyncio.to_thread(lambda: self._of(caller.owner).remove(name))
        except Gone:
            if not had_build:
                raise
        self._audit.note(caller, "environment.remove", name)

    @verb("run")
    async def copy(self, caller: Caller, name: str, other: str) -> Environment:
        """Give an environment that the caller can use another name as well; both share their files."""
        name, other = checked_name(name), checked_name(other)
        if (caller.owner, other) in self._builds:
            raise Refused(f"The environment {other} is being built.", hint="Wait for the end of that build.")
        copy = await asyncio.to_thread(lambda: self._of(caller.owner).copy(name, other))
        self._audit.note(caller, "environment.copy", name, {"name": other})
        return copy

    @verb("read")
    async def sbom(self, caller: Caller, name: str) -> dict[str, Any]:
        """The bill of materials of an environment."""
        from cloche.packages.bill_of_materials import sbom

        environment = await self.found(caller, name)
        return await off_loop(LARGE, lambda: sbom(environment))

    @verb("read")
    async def audit(self, caller: Caller, name: str) -> EnvironmentAudit:
        """What the server's catalogue knows about the packages of an environment."""
        from cloche.packages.environment_audit import audit

        environment = await self.found(caller, name)
        return await off_loop(LARGE, lambda: audit(environment, of_this_host.shared().catalogue, time()))

    @verb("read")
    async def follow(self, caller: Caller, name: str) -> EventLog:
        """The log of the newest build of an environment."""
        name = checked_name(name)
        log = self._records.log(caller.owner, name)
        if log is None:
            raise Gone(
                f"There is no build of an environment {name}.", hint="List the environments to see what there is."
            )
        return log

    # --- for the other verbs

    async def found(self, caller: Caller, name: str) -> Environment:
        """The environment that a caller may use under this name."""
        return await asyncio.to_thread(lambda: self._of(caller.owner).find(name))

    # --- builds

    def _of(self, owner: str) -> Environments:
        from cloche.packages.environments import Environments

        return Environments(of_this_host.shared(), owner)

    def _check_room(self, caller: Caller, name: str) -> None:
        if (caller.owner, name) in self._builds:
            raise Refused(f"The environment {name} is being built already.", hint="Wait for the end of that build.")
        if sum(build.key == caller.key_id for build in self._builds.values()) >= _OF_KEY:
            raise TooMany(
                f"This key has {_OF_KEY} builds of environments under way.",
                "Wait until one of them is done.",
                limit="builds_at_once",
                retry_after=_SOON_S,
            )
        if len(self._builds) >= _QUEUE:
            raise Busy("Too many environments are being built.", "Try again later.", retry_after=_SOON_S)

    async def _carry_out(self, build: EnvironmentBuild, work: Callable[..., Environment]) -> None:
        loop = asyncio.get_running_loop()

        def report(line: str) -> None:
            loop.call_soon_threadsafe(build.log.add, Notice("log", {"text": line}))

        problem: BaseException | None = None
        charging: asyncio.Task[None] | None = None
        try:
            async with self._places:
                build.check_stopped()
                self._change(build, state="building")
                charging = asyncio.create_task(build.keep_charging())
                await asyncio.to_thread(work, report, build.started)
        except BaseException as failed:  # whatever it is belongs into the record
            problem = failed
        finally:
            if charging is not None:
                charging.cancel()
            await build.charge()
            self._builds.pop((build.record.owner, build.record.name), None)
        self._change(build, **build.outcome(problem))
        self._records.end(build)

    def _change(self, build: EnvironmentBuild, **fields: Any) -> None:
        build.change(**fields)
        self._records.note(build.record)
