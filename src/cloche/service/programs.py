"""The verb about one-shot runs: a program in a sandbox of its own, which ends with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cloche.configuration import Configuration
from cloche.engine.place import AsyncHostPlace
from cloche.engine.sandbox import AsyncHostSandbox
from cloche.io.tasks import off_loop
from cloche.model.events import Event
from cloche.model.files import Mount
from cloche.model.network import Network
from cloche.model.result import Result
from cloche.policy.caller import Caller
from cloche.policy.isolation import check_isolation
from cloche.policy.limits import limits_for
from cloche.policy.mounts import MountPolicy
from cloche.policy.network import policy_for
from cloche.sandbox.checks import checked_mounts
from cloche.sandbox.one_shot import checked_job, execute
from cloche.sandbox.processes import AsyncProcess
from cloche.service.environments import OwnedEnvironments
from cloche.service.packages import bound_on, check_packages
from cloche.service.run import Run
from cloche.service.runs import Runs
from cloche.service.secrets import Secrets
from cloche.service.verbs import verb
from cloche.walls import registry


class Programs:
    """Runs programs in fresh sandboxes."""

    def __init__(
        self,
        configuration: Configuration,
        mounts: MountPolicy,
        runs: Runs,
        secrets: Secrets,
        environments: OwnedEnvironments,
    ) -> None:
        self._configuration, self._mounts, self._runs, self._secrets = configuration, mounts, runs, secrets
        self._environments = environments

    @verb("run", starts="program")
    async def run(
        self,
        caller: Caller,
        code: str | None,
        *,
        language: str | None = "python",
        stdin: bytes | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        files: Mapping[str, str | bytes] | None = None,
        entry: str | None = None,
        mounts: Mapping[str, str] | Sequence[Mount] = (),
        network: Network | None = None,
        packages: Iterable[str] | Mapping[str, Iterable[str]] = (),
        environment: str | None = None,
        limits: Mapping[str, Any] | None = None,
        check: str = "report",
        isolation: str = "auto",
        interactive: bool = False,
        listened: bool = True,
    ) -> Run:
        """Start a program in a fresh sandbox, which is destroyed with it.

        `limits` are those that the caller named, by name.  Without `listened` the run's log gets no events.
        """
        allowed = limits_for({} if limits is None else limits, self._configuration)
        check_isolation(isolation)
        folders = self._mounts.check(checked_mounts(mounts))
        reachable = None
        if network is not None:
            reachable = policy_for(network, caller, self._configuration).effective
            reachable = await self._secrets.filled(caller.owner, reachable)
        bound = bound_on(caller)
        chosen = None if environment is None else await self._environments.found(caller, environment)
        size = len(code or "") + sum(map(len, (files or {}).values()))
        # To choose the language and the entry takes long for a long text.
        job = await off_loop(
            size,
            lambda: checked_job(
                code,
                allowed,
                language=language,
                entry=entry,
                stdin=stdin,
                args=args,
                env=env,
                files=files,
                check=check,
                mounts=folders,
                network=reachable,
                packages=packages,
                package_policy=bound,
                environment=chosen,
                is_interactive=interactive,
            ),
        )
        await check_packages(caller, job.packages)
        place = AsyncHostPlace(wall=registry.wall(isolation))

        async def work(run: Run) -> Result:
            def started(process: AsyncProcess, box: AsyncHostSandbox) -> None:
                run.stop, run.measure = process.kill, box.cpu_time
                if interactive:
                    run.control = process

            async def publish(event: Event) -> None:
                run.publish(event)
                await run.log.keep_pace()

            result = await execute(place, job, started, publish if listened else None)
            if run.measure is not None:
                run.cpu_counted = await run.measure() or 0.0
            return result

        text, language = job.program.code or "", job.program.language or ""
        moved = len(text) + len(stdin or b"") + sum(len(data) for _, data in job.files)
        return await self._runs.start(caller, work, language=language, code=text, limits=allowed, bytes_moved=moved)
