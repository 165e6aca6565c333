"""The table of walls, and the places that name isolations without reading it."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

import cloche
from cloche import settings
from cloche.cli import run
from cloche.doors.http.bodies import RunBody
from cloche.model.isolation import AUTO, ISOLATIONS
from cloche.policy.isolation import check_isolation
from cloche.settings import Settings
from cloche.walls import registry
from cloche.walls.registry import FEATURES, WALLS


def test_every_wall_has_a_name_that_callers_can_ask_for() -> None:
    assert (AUTO, *(entry.name for entry in WALLS)) == ISOLATIONS
    assert registry.find(AUTO).name == registry.DEFAULT == "jail"


def test_the_http_api_and_the_command_line_know_the_same_names() -> None:
    assert get_args(RunBody.model_fields["isolation"].annotation) == ISOLATIONS
    default, _, words = run.OPTIONS["isolation"]
    assert default == AUTO
    assert all(name in words for name in ISOLATIONS)


def test_every_folder_with_a_wall_is_in_the_table() -> None:
    folders = {path.parent.name for path in (Path(cloche.__file__).parent / "walls").glob("*/wall.py")}
    assert folders == {entry.name for entry in WALLS}


@pytest.mark.parametrize("entry", WALLS, ids=lambda entry: entry.name)
def test_a_row_is_complete(entry: registry.WallEntry) -> None:
    module = import_module(f"cloche.walls.{entry.name}.wall")
    assert entry.name in {getattr(each, "name", None) for each in vars(module).values() if isinstance(each, type)}
    assert entry.summary
    assert entry.needs
    assert not entry.setting or entry.setting in Settings._fields
    assert set(entry.cannot) <= set(FEATURES)


def test_the_setting_of_a_wall_is_read_from_the_variable_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for entry in WALLS:
        if entry.setting:
            monkeypatch.delenv(registry.variable(entry), raising=False)
            assert not registry.is_offered(entry, settings.load())
            monkeypatch.setenv(registry.variable(entry), "some value")
            assert registry.is_offered(entry, settings.load())


def test_an_unknown_isolation_is_refused_with_the_names_that_exist() -> None:
    with pytest.raises(cloche.InvalidRun, match="no isolation 'moon'") as caught:
        registry.wall("moon")
    assert all(name in caught.value.hint for name in ISOLATIONS)


def test_a_server_refuses_a_wall_that_its_operator_does_not_offer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLOCHE_E2B_API_KEY", raising=False)
    with pytest.raises(cloche.Refused, match="does not offer isolation 'e2b'") as caught:
        check_isolation("e2b")
    assert "CLOCHE_E2B_API_KEY" in caught.value.hint


def test_reading_the_table_imports_no_wall() -> None:
    code = (
        "import sys; from cloche.blocking.walls import registry; assert registry.WALLS; "
        "print([name for name in sys.modules if name.startswith(('cloche.walls.jail', 'cloche.walls.e2b', 'typing'))])"
    )
    argv, env = [sys.executable, "-S", "-c", code], {"PYTHONPATH": str(Path(cloche.__file__).parent.parent)}
    done = subprocess.run(argv, capture_output=True, text=True, env=env)
    assert done.stdout == "[]\n", done.stderr
