"""Measures the memory that is still available on the host and within the control groups of this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

# the files with limit and use, and the line of memory.stat that counts the file cache, which the kernel can drop
_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", b"total_inactive_file"),
    2: ("memory.max", "memory.current", b"inactive_file"),
}
_NO_LIMIT = 1 << 60  # version 1 writes "no limit" as a larger number


class HostMemory:
    """Call it to get the number of available bytes, or None if that cannot be measured."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._meminfo = f"{proc}/meminfo"
        groups = _groups(f"{proc}/self")  # looked up once: a server stays in the groups that it was started in
        self._groups = [group for group in groups if os.path.exists(f"{group[1]}/{_FILES[group[0]][0]}")]

    def __call__(self) -> int | None:
        """The smallest amount that is available, on the host or in any of the groups."""
        amounts = [amount for group in self._groups if (amount := _available_in(*group)) is not None]
        host = _line(_read(self._meminfo), b"MemAvailable:")
        if host is not None:
            amounts.append(host * 1024)
        return max(0, min(amounts)) if amounts else None


def _available_in(version: int, group: str) -> int | None:
    """The bytes that a group may still use, or None when the group itself has no limit."""
    limit_file, use_file, cache_line = _FILES[version]
    limit = _read(f"{group}/{limit_file}").strip()
    if not limit.isdigit() or int(limit) >= _NO_LIMIT:
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
    # In a container the mount shows only a part of the tree, while the path may begin at the top of the tree.
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
