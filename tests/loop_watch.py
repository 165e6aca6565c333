"""Finds out from a server's log whether one piece of work has held its event loop (cloche.doors.loop_watch).

The time is CPU time of the loop's thread, so it does not count while another process runs.  Still the same work takes
up to twice as much of it on a machine whose caches and cores others use, so each piece should take less than half.

Where the host of a virtual machine takes a processor away, or fetches a page of its memory, the kernel counts that time
as the thread's own: a loop that only reads the clock was seen to use 57 ms between two readings.  Nothing inside the
machine can tell such a stall from work.  But a piece of work that is too long is too long again, and a stall is not; so
a test during which the loop was held runs a second time.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.conftest import Server

_MOST_MS = 50
_HELD = re.compile(r"held the event loop for (\d+) ms.*")
_SECOND = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Fail a test of the shared server that holds its event loop; for the conftest.py of a folder to import."""
    server = pyfuncitem.funcargs.get("server")
    if not isinstance(server, Server) or pyfuncitem.stash.get(_SECOND, False):
        return (yield)
    begin = server.log.stat().st_size
    result = yield
    if _holds(server.log, begin):
        begin = server.log.stat().st_size
        pyfuncitem.stash[_SECOND] = True
        pyfuncitem.ihook.pytest_pyfunc_call(pyfuncitem=pyfuncitem)
        found = _holds(server.log, begin)
        assert not found, found
    return result


def _holds(log: Path, begin: int) -> list[str]:
    with open(log, "rb") as file:
        file.seek(begin)
        text = file.read().decode(errors="replace")
    return [match[0] for match in _HELD.finditer(text) if int(match[1]) >= _MOST_MS]
