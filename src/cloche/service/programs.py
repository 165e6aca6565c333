"""The verb about one-shot runs: a program in a sandbox of its own, which ends with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cloche import languages
from cloche.configuration import Configuration
from cloche.engine.box import checked_mounts
from cloche.engine.checks import checked_args, checked_env, checked_files
from cloche.engine.one_shot import one_shot, what_to_run
from cloche.model.files import Mount
from cloche.model.result import Result
from cloche.policy.caller import Caller
from cloche.policy.isolation import check_isolation
from cloche.policy.limits import limits_for
from cloche.policy.mounts import allowed_mounts
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
        folders = allowed_mounts(checked_mounts(mounts), self._configuration.mounts)
        written = checked_files(files)
        text, language, place = what_to_run(code, language, entry, dict(written))
        words, variables = checked_args(args), checked_env(env)
        spoken = languages.find(language)
        wall = registry.wall(isolation)

        async def work(run: Run) -> Result:
            box = one_shot(text, spoken.name, allowed, variables, folders, wall)
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
                        run.publish(event)
                        await run.log.keep_pace()
                assert process.result is not None
                return process.result
            finally:
                await box.let_go()

        moved = len(text) + len(stdin or b"") + sum(len(data) for _, data in written)
        return await self._runs.start(caller, work, language=spoken.name, code=text, limits=allowed, bytes_moved=moved)
