"""Where the tests of the library run: in this process, and on a server, over HTTP.

A folder of tests uses it by importing `place` and the hook into its conftest.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

HERE, THERE = "embedded", "over HTTP"


@pytest.fixture(scope="module", params=[HERE, THERE], autouse=True)
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where sandboxes are made that do not say otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CLOCHE_URL", raising=False)
        if request.param == THERE:
            server = request.getfixturevalue("served")
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


def _place(item: pytest.Item) -> Any:
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("place")
