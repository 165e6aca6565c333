"""`cloche doctor` as a person meets it."""

from __future__ import annotations

import subprocess
import sys
from argparse import Namespace
from json import loads

import pytest

from cloche.cli import doctor
from cloche.doctor import probes
from cloche.doctor.probe import HELD, NOT_HELD, Finding
from cloche.doctor.probes import Scorecard


def run(**options: bool) -> int:
    return doctor.main(Namespace(**{"probe": False, "json": False, **options}))


@pytest.fixture
def broken(monkeypatch):
    """Probes of which one gets through."""
    findings = (Finding("T1", "Files", HELD), Finding("T2", "Processes", NOT_HELD, "[red]saw[/red] process 7"))

    def attack(_entry, _settings, report):
        for finding in findings:
            report(finding)
        return Scorecard("jail", findings)

    monkeypatch.setattr(probes, "attack_separately", attack)


def test_it_says_that_cloche_can_run(jail, capsys):
    assert run() == 0
    assert "Cloche can run here" in capsys.readouterr().out


def test_it_shows_every_wall(jail, capsys):
    run()
    walls = capsys.readouterr().out.partition("Walls")[2]
    assert "jail  available: the first print(1) took" in walls
    assert "e2b   not configured" in walls


def test_it_says_what_to_do_where_cloche_cannot_run(monkeypatch, capsys):
    monkeypatch.setenv("CLOCHE_ENVIRONMENT", "/nowhere")
    assert run(probe=True) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "Cloche cannot run here. First: Python environment. Run `cloche setup`" in out


def test_json_has_all_of_it(jail, broken, capsys):
    assert run(json=True, probe=True) == 2
    told = loads(capsys.readouterr().out)
    assert told["can_run"] is True
    assert {check["state"] for check in told["checks"]} <= {"ok", "weaker", "missing"}
    assert told["walls"][0]["name"] == "jail"
    assert [finding["verdict"] for finding in told["probes"][0]["findings"]] == [HELD, NOT_HELD]


def test_a_probe_that_gets_through_is_shown_as_it_is_and_makes_the_exit_code_2(jail, broken, capsys):
    assert run(probe=True) == 2
    out = capsys.readouterr().out
    assert "NOT held: [red]saw[/red] process 7" in out
    assert "1 of 2 probes got through" in out


def test_naming_its_options_costs_no_heavy_import():
    code = "import sys; import cloche.cli.doctor; print(sorted({'rich', 'dataclasses', 'json'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
