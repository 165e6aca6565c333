"""Resolutions that are kept for a while: which exact packages a set of requirements led to."""

from __future__ import annotations

import json
import os
from time import time

from cloche.model.packages import Lock, LockedFile, LockedPackage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAX_FILES = 2000
_MAX_SIZE = 4 << 20


class KeptAnswers:
    """A folder of JSON objects, each whole or absent; the oldest go first."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find(self, key: str, lasts_s: float) -> dict[str, Any] | None:
        """Return the object for a key, unless it is older than this."""
        path = f"{self._folder}/{key}.json"
        try:
            if not 0 <= time() - os.stat(path).st_mtime < lasts_s:
                return None
            with open(path, encoding="utf-8") as file:
                found = json.loads(file.read(_MAX_SIZE))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def keep(self, key: str, value: dict[str, Any]) -> None:
        """Keep an object; it is there whole or not at all."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        draft = f"{self._folder}/{key}.{os.getpid()}.part"
        with open(draft, "w", encoding="utf-8") as file:
            json.dump(value, file)
        os.replace(draft, f"{self._folder}/{key}.json")
        self._forget_old()

    def _forget_old(self) -> None:
        with os.scandir(self._folder) as entries:
            there = sorted((entry.stat().st_mtime, entry.path) for entry in entries)
        for _, path in there[: max(0, len(there) - _MAX_FILES)]:
            try:
                os.unlink(path)
            except OSError:
                pass  # another process was quicker


class Resolutions:
    """A folder of locks."""

    def __init__(self, folder: str) -> None:
        self._kept = KeptAnswers(folder)

    def find(self, key: str, lasts_s: float) -> Lock | None:
        """Return the lock for a key, unless it is older than this."""
        found = self._kept.find(key, lasts_s)
        try:
            return None if found is None else lock_of(found)
        except (KeyError, TypeError):
            return None

    def keep(self, key: str, lock: Lock) -> None:
        """Keep a lock."""
        self._kept.keep(key, lock_data(lock))


def lock_data(lock: Lock) -> dict[str, Any]:
    """A lock as JSON."""
    return {
        "ecosystem": lock.ecosystem,
        "packages": [{**_fields(package), "file": _fields(package.file)} for package in lock.packages],
    }


def lock_of(data: dict[str, Any]) -> Lock:
    """The lock in such JSON."""
    packages = [{**each, "file": LockedFile(**each["file"])} for each in data["packages"]]
    return Lock(ecosystem=data["ecosystem"], packages=tuple(LockedPackage(**each) for each in packages))


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value._fields}
