"""Facts about this host for E2B's templates: the versions that sandboxes have, and its system packages."""

from __future__ import annotations

import asyncio
import platform
import subprocess
from functools import cache
from typing import NamedTuple

from cloche import environment, settings
from cloche.packages import system_packages


class HostVersions(NamedTuple):
    """What sandboxes of this host have; a version is empty where they do not have the program."""

    system: str
    python: str
    node: str


async def versions() -> HostVersions:
    """What sandboxes of this host have."""
    return await asyncio.to_thread(_versions)


async def installed_packages() -> tuple[str, ...]:
    """The system packages of this host."""
    return await asyncio.to_thread(system_packages.installed)


@cache
def _versions() -> HostVersions:
    home = settings.load().environment or environment.location()
    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        system = "Linux"
    try:
        done = subprocess.run(["node", "--version"], capture_output=True, text=True, timeout=20, check=True)
        node = done.stdout.strip().removeprefix("v")
    except (OSError, subprocess.SubprocessError):
        node = ""
    return HostVersions(system, str(environment.manifest(home).get("python", "")), node)
