"""One-shot runs: a program in a sandbox of its own, which ends with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cloche.engine.place import AsyncHostPlace
from cloche.model.events import Event
from cloche.model.files import Mount
from cloche.model.limits import Limits
from cloche.model.result import Result
from cloche.sandbox.one_shot import checked_job, execute
from cloche.sandbox.processes import AsyncProcess
from cloche.service.runs import Run
from cloche.service.wishes import check_limits, check_mounts, wall_for

if TYPE_CHECKING:
    from cloche.policy.caller import Caller
    from cloche.service.service import Service


async def run_program(
    service: Service,
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
    limits: Limits | None = None,
    check: str = "report",
    isolation: str = "auto",
    interactive: bool = False,
    listened: bool = True,
) -> Run:
    """Start a program in a fresh sandbox, which is destroyed with it; `listened`: somebody wants its events."""
    limits = limits or Limits.of()
    check_limits(limits, service.configuration)
    check_mounts(mounts, service.configuration.mounts)
    job = checked_job(
        code,
        limits,
        language=language,
        entry=entry,
        stdin=stdin,
        args=args,
        env=env,
        files=files,
        check=check,
        mounts=mounts,
        is_interactive=interactive,
    )
    place = AsyncHostPlace(wall=wall_for(isolation))

    async def work(run: Run) -> Result:
        def started(process: AsyncProcess, _let_go: object) -> None:
            run.stop = process.kill
            if interactive:
                run.control = process

        async def tell(event: Event) -> None:
            run.tell(event)
            await run.log.keep_pace()

        return await execute(place, job, started, tell if listened else None)

    text, spoken = job.program.code or "", job.program.language or ""
    moved = len(text) + len(stdin or b"") + sum(len(data) for _, data in job.files)
    return await service.runs.start(caller, work, language=spoken, code=text, limits=limits, bytes_moved=moved)
