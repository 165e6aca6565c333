"""The verb about one-shot runs: a program in a sandbox of its own, which ends with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cloche.configuration import Configuration
from cloche.engine.place import AsyncHostPlace
from cloche.model.events import Event
from cloche.model.files import Mount
from cloche.model.result import Result
from cloche.policy.caller import Caller
from cloche.policy.isolation import check_isolation
from cloche.policy.limits import limits_for
from cloche.policy.mounts import allowed_mounts
from cloche.sandbox.checks import checked_mounts
from cloche.sandbox.one_shot import checked_job, execute
from cloche.sandbox.processes import AsyncProcess
from cloche.service.runs import Run, Runs
from cloche.service.verbs import verb
from cloche.walls import registry


class Programs:
    """Runs programs in fresh sandboxes."""

    def __init__(self, configuration: Configuration, runs: Runs) -> None:
        self._configuration, self._runs = configuration, runs

    @verb("run")
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
        job = checked_job(
            code,
            allowed,
            language=language,
            entry=entry,
            stdin=stdin,
            args=args,
            env=env,
            files=files,
            check=check,
            mounts=allowed_mounts(checked_mounts(mounts), self._configuration.mounts),
            is_interactive=interactive,
        )
        place = AsyncHostPlace(wall=registry.wall(isolation))

        async def work(run: Run) -> Result:
            def started(process: AsyncProcess, _let_go: object) -> None:
                run.stop = process.kill
                if interactive:
                    run.control = process

            async def publish(event: Event) -> None:
                run.publish(event)
                await run.log.keep_pace()

            return await execute(place, job, started, publish if listened else None)

        text, language = job.program.code or "", job.program.language or ""
        moved = len(text) + len(stdin or b"") + sum(len(data) for _, data in job.files)
        return await self._runs.start(caller, work, language=language, code=text, limits=allowed, bytes_moved=moved)
