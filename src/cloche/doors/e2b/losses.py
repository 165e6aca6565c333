"""Says what a snapshot or a fork of a sandbox does not keep: variables and running processes (docs/e2b.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cloche.doors.e2b.sandboxes import E2bSandbox
from cloche.policy.caller import Caller

_MOST = 10  # contexts and processes that are named
_MOST_CHARACTERS = 100  # of a command


async def losses_of(sandbox: E2bSandbox, caller: Caller) -> dict[str, Any]:
    """Return the fields of an answer that name the losses: `lost` for programs, `note` for people."""
    service, identity = sandbox.service, sandbox.view.id
    contexts = [context.id for context in await service.sessions.contexts(caller, identity)]
    running = [command for command in await service.commands.list(caller, identity) if not command.log.over]
    processes = [
        {"pid": command.pid, "command": " ".join(command.words)[:_MOST_CHARACTERS]} for command in running[:_MOST]
    ]
    parts = [
        _amount("the variables of", contexts, "context", "contexts"),
        _amount("", [str(command.pid) for command in running], "running process", "running processes"),
        "temporary files, in /tmp, /var/tmp, /dev/shm and /home/user/temp",
    ]
    return {
        "lost": {"contexts": contexts[:_MOST], "processes": processes},
        "note": f"Only files are kept. Not kept: {'; '.join(filter(None, parts))}.",
    }


def _amount(before: str, names: Sequence[str], one: str, many: str) -> str:
    if not names:
        return ""
    shown = ", ".join(names[:_MOST]) + (" …" if len(names) > _MOST else "")
    return f"{before} {len(names)} {one if len(names) == 1 else many} ({shown})".strip()
