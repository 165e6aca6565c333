"""What happens first in a sandbox with an environment: making room for saved files, and its start command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloche.errors import InvalidRun, SandboxFailed
from cloche.packages import workshop
from cloche.packages.start_command import READY_S, script

if TYPE_CHECKING:
    from cloche.model.environments import Environment
    from cloche.sandbox.sandbox import AsyncSandbox

_GRACE_S = 30.0  # for a ready command that takes long itself


async def clear(box: AsyncSandbox) -> None:
    """Remove the environment's files from a new sandbox: those of a snapshot or a workspace take their place."""
    program = workshop.program("pack_files")
    result = await box.commands.run(["/opt/env/bin/python3", "-IS", "-c", program, "--clear"], timeout=_GRACE_S)
    if result.exit_code or result.error is not None:
        raise SandboxFailed("The files of the environment cannot be replaced by those of the snapshot.")


async def begin(box: AsyncSandbox, environment: Environment) -> None:
    """Start the environment's command, if it has one; raises InvalidRun if it does not become ready."""
    if not environment.start and not environment.ready:
        return
    process = await box.commands.start(
        ["/bin/bash", "-c", script(environment.start, environment.ready, ends=False)],
        cwd=environment.folder or None,
        stdin=False,
        timeout=READY_S + _GRACE_S,
    )
    result = await process.wait()
    if result.exit_code or result.error is not None:
        reason = result.stderr.strip()[-1000:] or (result.error.message if result.error is not None else "")
        raise InvalidRun(
            f"The start command of {environment.name} did not become ready: {reason}",
            hint="Correct the command or the files that it needs, and build the template again.",
        )
