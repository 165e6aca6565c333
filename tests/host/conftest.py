"""What there is of ours on the host, counted."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cloche import environment
from cloche.walls.jail import cgroups


def children() -> dict[int, list[int]]:
    """The processes of this host by their parents."""
    found: dict[int, list[int]] = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] not in "ZX":
            found.setdefault(int(fields[1]), []).append(int(pid))
    return found


def descendants(pid: int) -> set[int]:
    """All below a process."""
    below, ahead, by_parent = set[int](), [pid], children()
    while ahead:
        new = by_parent.get(ahead.pop(), [])
        below.update(new)
        ahead += new
    return below


def groups(*owners: int) -> list[str]:
    """The control groups of these keepers."""
    place = cgroups.detect()
    try:
        prefixes = tuple(f"cloche-{owner}-" for owner in owners)
        return [name for fd in place.descriptors() for name in os.listdir(fd) if name.startswith(prefixes)]
    finally:
        place.close()


class Host:
    """Everything that a sandbox could leave behind."""

    descendants = staticmethod(descendants)
    groups = staticmethod(groups)

    @staticmethod
    def keepers(engine: int | None = None) -> list[int]:
        """The keepers that an engine has started."""
        return sorted(children().get(engine or os.getpid(), []))

    @staticmethod
    def nursery(keeper: int) -> int:
        """Its nursery."""
        return children()[keeper][0]

    @staticmethod
    def inits(nursery: int) -> list[int]:
        """The sandboxes of a nursery."""
        return sorted(children().get(nursery, []))

    def count(self) -> dict[str, int]:
        """What is there now."""
        keepers = self.keepers()
        nurseries = [pid for keeper in keepers for pid in children().get(keeper, [])]
        return {
            "processes": len(descendants(os.getpid())),
            "descriptors": len(os.listdir("/proc/self/fd")),
            "descriptors of nurseries": sum(_count(f"/proc/{pid}/fd") for pid in nurseries),
            "mounts": len(Path("/proc/self/mountinfo").read_text().splitlines()),
            "mounts of nurseries": sum(len(Path(f"/proc/{p}/mountinfo").read_text().splitlines()) for p in nurseries),
            "control groups": len(groups(*keepers)),
            "files in /tmp": len([name for name in os.listdir("/tmp") if "cloche" in name]),
            "files of ours": _count(environment.location()),
        }

    def settles(self, wanted: Callable[[], bool], within_s: float = 2.0) -> bool:
        """Does it come true in time?"""
        deadline = time.monotonic() + within_s
        while not wanted():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True


def _count(folder: str) -> int:
    try:
        return len(os.listdir(folder))
    except OSError:
        return 0


@pytest.fixture(scope="session")
def host() -> Host:
    return Host()
