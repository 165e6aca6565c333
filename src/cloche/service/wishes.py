"""What callers wish a sandbox to be, held against what the operator allows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from os.path import realpath
from typing import Any

from cloche import settings as engine_settings
from cloche.configuration import Configuration
from cloche.engine import default
from cloche.errors import InvalidRun, Refused
from cloche.model.files import Mount
from cloche.model.limits import Limits, within
from cloche.service.events import ToolRequested
from cloche.service.runs import current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.walls.wall import AsyncWall


def check_limits(limits: Limits, settings: Configuration) -> None:
    """A caller cannot have more than the operator allows."""
    bounds = {
        "timeout": (limits.timeout_s, settings.max_timeout),
        "memory": (limits.memory_bytes, settings.max_memory),
        "disk": (limits.disk_bytes, settings.max_disk),
        "processes": (limits.processes, settings.max_processes),
        "output": (limits.output_bytes, settings.max_output),
    }
    for name, (asked, most) in bounds.items():
        if asked is None or asked > most:
            raise beyond(name, most)


def beyond(name: str, most: float) -> InvalidRun:
    """The refusal of what passes a bound."""
    return InvalidRun(f"{name} may be at most {most:g} on this server.", hint=f"Ask for less {name}.")


def check_mounts(mounts: Mapping[str, str] | Sequence[Mount], allowed: Sequence[str]) -> None:
    """Folders of the host are the operator's to give."""
    names = list(mounts) if isinstance(mounts, Mapping) else [mount.source for mount in mounts]
    for name in names:
        real = realpath(str(name))
        if not any(f"{real}/".startswith(realpath(folder).rstrip("/") + "/") for folder in allowed):
            raise Refused(
                f"The folder {name} may not be mounted.",
                hint="The operator names those that may be with `mounts` in the server's configuration.",
            )


def wall_for(isolation: str) -> AsyncWall:
    """The wall that a caller asks for: what costs the operator money elsewhere has to be offered by the operator."""
    known = engine_settings.load()
    if isolation == "e2b" and not known.e2b_api_key:
        raise Refused(
            "This server has no E2B-compatible service to run code on.",
            hint="Leave `isolation` out; the operator can name one with CLOCHE_E2B_API_KEY in its environment.",
        )
    return default.wall(isolation, known)


def checked_metadata(metadata: Any) -> dict[str, str]:
    """A few short texts by short names."""
    told = metadata or {}
    if not isinstance(told, dict) or len(told) > 50:
        raise InvalidRun("metadata is an object of at most 50 texts.")
    for name, value in told.items():
        if not isinstance(name, str) or not isinstance(value, str) or not 0 < len(name) <= 100 or len(value) > 1000:
            raise InvalidRun("metadata is an object of texts: names up to 100 characters, values up to 1,000.")
    return dict(told)


def checked_duration(name: str, asked: Any, usual: float, most: float) -> float:
    """Seconds, within what the operator allows."""
    if asked is None:
        return min(usual, most)
    return within(name, asked, 0.001, most, "seconds")


def tool_of_caller(name: str) -> Callable[..., Awaitable[Any]]:
    """A function of a caller who is somewhere else."""

    async def call(*args: Any, **kwargs: Any) -> Any:
        run = current.get(None)
        if run is None:
            raise RuntimeError("nobody follows this code")
        return await run.ask(lambda call: ToolRequested(call, name, list(args), kwargs))

    return call
