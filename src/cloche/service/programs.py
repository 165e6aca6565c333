"""One-shot runs: a program in a sandbox of its own, which ends with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cloche import languages
from cloche.engine.one_shot import one_shot, what_to_run
from cloche.model.files import Mount
from cloche.model.limits import Limits
from cloche.model.result import Result
from cloche.sandbox.checks import checked_args, checked_env, checked_files, checked_mounts
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
    written = checked_files(files)
    text, language, place = what_to_run(code, language, entry, dict(written))
    words, variables = checked_args(args), checked_env(env)
    folders, spoken = checked_mounts(mounts), languages.find(language)
    wall = wall_for(isolation)

    async def work(run: Run) -> Result:
        box = one_shot(text, spoken.name, limits, variables, folders, wall)
        try:
            for path, data in written:
                await box.files.write(path, data)
            has_input = stdin is not None or interactive
            process = await box.start_program(
                text,
                language=spoken.name,
                entry=place,
                args=words,
                check=check,
                stdin=has_input,
                ends_sandbox=True,
                files=[path for path, _ in written] or None,
            )
            run.stop = process.kill
            if interactive:
                run.control = process
            if stdin is not None and interactive:
                await process.write(stdin)
            elif stdin is not None:
                await process.feed(stdin)
            while (event := await process.next_event()) is not None:
                if listened:
                    run.tell(event)
                    await run.log.keep_pace()
            assert process.result is not None
            return process.result
        finally:
            await box.let_go()

    moved = len(text) + len(stdin or b"") + sum(len(data) for _, data in written)
    return await service.runs.start(caller, work, language=spoken.name, code=text, limits=limits, bytes_moved=moved)
