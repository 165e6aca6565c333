"""Finds out from a server's log whether one piece of work has held its event loop (cloche.doors.loop_watch).

The time is CPU time of the loop's thread, so it does not count while another process runs.  Still the same work takes
up to twice as much of it on a machine whose caches and cores others use, so each piece should take less than half.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MOST_MS = 50
_HELD = re.compile(r"held the event loop for (\d+) ms.*")


@contextmanager
def not_held(log: Path) -> Iterator[None]:
    """Fail if the loop is held for 50 ms or longer meanwhile."""
    begin = log.stat().st_size
    yield
    with open(log, "rb") as file:
        file.seek(begin)
        log_text = file.read().decode(errors="replace")
    found = [match[0] for match in _HELD.finditer(log_text) if int(match[1]) >= _MOST_MS]
    assert not found, found
