"""Where the tests of the library run: in this process, and on a server of their own, over HTTP.

A folder of tests uses it by importing `place` and the two hooks into its conftest.py.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Server

HERE, THERE = "embedded", "over HTTP"


_OPTIONS = ("--max-output", "1G", "--max-body", "256M", "--runs-at-once", "64", "--mounts", "/")
_served: list[tuple[Server, tempfile.TemporaryDirectory[str]]] = []  # for the folder that is being tested


def served() -> Server:
    """The server of this folder of tests, started by the first who wants it."""
    if not _served:
        folder = tempfile.TemporaryDirectory(prefix="cloche-served-")
        _served.append((Server(Path(folder.name), *_OPTIONS), folder))
    return _served[0][0]


@pytest.fixture(scope="module", params=[HERE, THERE], autouse=True)
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where sandboxes are made that do not say otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CLOCHE_URL", raising=False)
        if request.param == THERE:
            server = served()
            patch.setenv("CLOCHE_URL", server.url)
            patch.setenv("CLOCHE_API_KEY", server.key)
        yield request.param


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What makes sense in this process only runs in this process only; and of many cases of one test, one is sent.

    The rest is the same code behind the same request.  CLOCHE_TEST_ALL=1 sends them all.
    """
    twice, sent = set(), set[object]()
    for item in items:
        if _place(item) == THERE:
            test = (item.path, getattr(item, "originalname", item.name))
            if item.get_closest_marker("embedded") or (test in sent and not os.environ.get("CLOCHE_TEST_ALL")):
                twice.add(item)
            sent.add(test)
    if twice:
        config.hook.pytest_deselected(items=list(twice))
        items[:] = [item for item in items if item not in twice]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The server ends with the last test of its folder, so that it is in nobody else's way."""
    if _served and (nextitem is None or nextitem.path.parent != item.path.parent):
        server, folder = _served.pop()
        server.stop()
        folder.cleanup()


def _place(item: pytest.Item) -> Any:
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("place")
