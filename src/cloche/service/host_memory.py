"""How much memory is left: on the host, and below the limits of the control groups that this process is in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

# limit, use, and which line of memory.stat says how much of the use is file cache that can be dropped
_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", b"total_inactive_file"),
    2: ("memory.max", "memory.current", b"inactive_file"),
}
_NONE = 1 << 60  # version 1 writes "no limit" as a number that is larger


class HostMemory:
    """Call it for the number of bytes that are left; None where nobody can tell."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._meminfo = f"{proc}/meminfo"
        groups = _groups(f"{proc}/self")  # found once: a server stays where it was started
        self._groups = [group for group in groups if os.path.exists(f"{group[1]}/{_FILES[group[0]][0]}")]

    def __call__(self) -> int | None:
        """The smallest of what the host and each group have left."""
        left = [amount for group in self._groups if (amount := _left_in(*group)) is not None]
        host = _line(_read(self._meminfo), b"MemAvailable:")
        if host is not None:
            left.append(host * 1024)
        return max(0, min(left)) if left else None


def _left_in(version: int, group: str) -> int | None:
    """What a group has left, or None when it has no limit; the ones above it have theirs."""
    limit_file, use_file, cache_line = _FILES[version]
    limit = _read(f"{group}/{limit_file}").strip()
    if not limit.isdigit() or int(limit) >= _NONE:
        return None
    use = _read(f"{group}/{use_file}").strip()
    cache = _line(_read(f"{group}/memory.stat"), cache_line) or 0
    return int(limit) - int(use or 0) + cache


def _groups(process: str) -> Iterator[tuple[int, str]]:
    """The group of this process and those above it, in each tree that limits memory."""
    own = _own_groups(_read(f"{process}/cgroup").decode())
    for line in _read(f"{process}/mountinfo").decode().splitlines():
        before, _, after = line.partition(" - ")
        words = after.split(" ")
        version = 2 if words[0] == "cgroup2" else 1 if words[0] == "cgroup" and "memory" in words[-1].split(",") else 0
        if version in own:
            root, point = before.split(" ")[3:5]
            for group in _upwards(Path(point), own[version], root):
                yield version, str(group)


def _own_groups(text: str) -> dict[int, str]:
    own = {}
    for line in text.splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            own[2] = path
        elif "memory" in controllers.split(","):
            own[1] = path
    return own


def _upwards(point: Path, path: str, root: str) -> Iterator[Path]:
    # In a container the mount shows a part of the tree alone, while the path may be told from the tree's top.
    inside = path.removeprefix(root.rstrip("/")) if path.startswith(root) else path
    group = point / inside.lstrip("/")
    if not group.is_dir():
        group = point
    while group != point:
        yield group
        group = group.parent
    yield point


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        parts = []
        while part := os.read(fd, 65536):
            parts.append(part)
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _line(text: bytes, name: bytes) -> int | None:
    """The number after a name at the beginning of a line."""
    start = (b"\n" + text).find(b"\n" + name + b" ")
    return int(text[start + len(name) :].split(None, 1)[0]) if start >= 0 else None
