"""A mistake on the command line is answered with one sentence, and with what was probably meant."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.cli.command import CLOCHE

from cloche.cli.main import main
from cloche.nearest import did_you_mean, nearest


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        ("rnu x.py", "There is no command 'rnu'.", "Did you mean run? See `cloche --help`."),
        ("sl", "There is no command 'sl'.", "Did you mean ls? See `cloche --help`."),
        ("ls --jsn", "`cloche ls` has no option --jsn.", "Did you mean --json? See `cloche ls --help`."),
        ("ls --al=1", "Argument --all: ignored explicit argument '1'.", "See `cloche ls --help`."),
        ("mcp install --client claud", "'claud' is no value of --client.", "Did you mean claude?"),
        ("languages instal ruby", "'instal' is no value of ACTION.", "Did you mean install?"),
        ("serve --prot 80", "`cloche serve` has no option --prot.", "Did you mean --port?"),
        ("doctor now", "`cloche doctor` does not know what to do with 'now'.", "See `cloche doctor --help`."),
    ],
)
def test_a_word_that_is_nearly_right_is_recognized(
    capsys: pytest.CaptureFixture[str], words: str, said: str, hint: str
) -> None:
    with pytest.raises(SystemExit) as left:
        main(words.split())
    assert left.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"cloche: {said}"
    assert lines[1].startswith(hint)
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        ("run -l pyhton -c 1", "The language 'pyhton' is unknown.", "Did you mean python?"),
        ("run --isolation jial -c 1", "There is no isolation 'jial'.", "Did you mean jail?"),
        ("run --check blok -c 1", "check='blok' is not known.", "Did you mean block?"),
        ("new pyton-cli", "There is no template 'pyton-cli'.", "Did you mean python-cli?"),
    ],
)
def test_a_value_that_is_nearly_right_is_recognized(
    jail: None, tmp_path: Path, words: str, said: str, hint: str
) -> None:
    done = subprocess.run([CLOCHE, *words.split()], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 125
    lines = done.stderr.splitlines()
    assert lines[0] == f"cloche: {said}"
    assert lines[1].startswith(hint)


def test_a_file_in_the_place_of_a_command_is_recognized(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.py").touch()
    with pytest.raises(SystemExit):
        main(["x.py"])
    assert "To run it: `cloche run x.py`." in capsys.readouterr().err


def test_nothing_is_suggested_for_a_word_like_no_other() -> None:
    assert did_you_mean("zzzz", ("run", "serve"), "Choose.") == "Choose."
    assert nearest("SERV", ("run", "serve")) == ["serve"]
    assert nearest("x" * 1_000_000, ("run", "serve")) == []
