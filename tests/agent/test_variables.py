"""A fork gets the variables of its order, of which only the changes travel."""

from __future__ import annotations

import os

import pytest

from cloche.agent import variables
from cloche.wire.light_json import dumps, loads


def test_only_the_changes_travel_and_the_fork_has_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variables, "_inherited", {})
    monkeypatch.setattr(variables, "_now", {})
    monkeypatch.setenv("KEPT", "1")
    monkeypatch.setenv("REMOVED", "1")
    monkeypatch.setenv("OTHER", "before")
    before = dict(os.environ)
    variables.note()
    wanted = {**before, "OTHER": "after", "ADDED": "é\udcff"}
    del wanted["REMOVED"]
    expected = {**wanted, "EARLY": "1"}

    changes = variables.difference(wanted)
    assert changes == {"REMOVED": None, "OTHER": "after", "ADDED": "é\udcff"}
    try:
        variables.put(expected)  # a spare that waits for its order
        variables.put(variables.changed(loads(dumps(changes))))
        assert dict(os.environ) == wanted
    finally:
        variables.put(before)
    assert dict(os.environ) == before
