"""The broker's own sandboxes: each runs one program of ours, with a network that reaches one package index or nothing.

Package files are read and unpacked in there, and never by this process.
"""

from __future__ import annotations

import json
import os
import sys
from threading import BoundedSemaphore

from cloche.errors import SandboxFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from cloche.model.files import Mount
    from cloche.model.network import Network
    from cloche.model.result import Result

PYTHON = f"python{sys.version_info[0]}.{sys.version_info[1]}"
_MEMORY, _DISK = "2G", "2G"
_places = BoundedSemaphore(max(2, os.cpu_count() or 1))  # sandboxes at a time


def run(
    code: str | None = None,
    *,
    language: str = "python",
    entry: str | None = None,
    args: Sequence[str] = (),
    stdin: str | None = None,
    files: Mapping[str, str | bytes] | None = None,
    env: Mapping[str, str] | None = None,
    mounts: Sequence[Mount] = (),
    network: Sequence[tuple[str, int]] = (),
    timeout_s: float,
    output: int = 4 << 20,
) -> Result:
    """Run one program in a sandbox of its own; `network` lists the hosts that it reaches."""
    from cloche.blocking.sandbox.one_shot import run as run_once

    with _places:  # whoever asks for many packages must not take the processors from everybody's programs
        return run_once(
            code,
            language=language,
            args=args,
            stdin=stdin,
            files=files,
            entry=entry,
            env=env,
            timeout=timeout_s,
            memory=_MEMORY,
            disk=_DISK,
            cpu=float(os.cpu_count() or 1),
            output=output,
            mounts=mounts,
            network=_only(network) if network else None,
            isolation="jail",
            url="",
        )


def _only(hosts: Sequence[tuple[str, int]]) -> Network:
    """The preset for package indexes, which may have private addresses, without all indexes but these."""
    from cloche.model.network import Network
    from cloche.packages import indexes

    others = [each for each in indexes.find().hosts if each not in hosts]
    return Network(allow=["packages"], deny=[f"{host}:{port}" for host, port in others])


def program(name: str) -> str:
    """The text of one of our programs, a module of this package that needs only the standard library."""
    with open(f"{os.path.dirname(os.path.abspath(__file__))}/{name}.py", encoding="utf-8") as file:
        return file.read()


def answer(result: Result) -> dict[str, Any]:
    """The JSON object that one of our programs has printed."""
    try:
        found = json.loads(result.stdout.strip().rpartition("\n")[2])
        if isinstance(found, dict):
            return found
    except ValueError:
        pass
    reason = result.error.message if result.error is not None else result.stderr.strip()[-300:]
    raise SandboxFailed(f"The packages could not be prepared: {reason}", hint="Try again.")
