"""Which lines of some modules ran: enough to tell whether an input led to a new place."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any


class Lines:
    """Collects the executed lines of files whose path contains one of these parts, while it is active."""

    def __init__(self, *parts: str) -> None:
        self._parts = parts
        self._is_ours: dict[str, bool] = {}
        self.seen: set[tuple[str, int]] = set()

    def __enter__(self) -> Lines:
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        ours = self._is_ours.get(name)
        if ours is None:
            ours = self._is_ours[name] = any(part in name for part in self._parts)
        return self._line if ours else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        self.seen.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line
