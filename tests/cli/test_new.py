"""`cloche new`, as a shell uses it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from cloche import templates

CLOCHE = str(Path(sys.prefix) / "bin" / "cloche")


def new(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([CLOCHE, "new", *words], cwd=folder, capture_output=True, text=True, timeout=60)


def test_all_are_listed(tmp_path: Path) -> None:
    lines = new(tmp_path, "--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == templates.names()
    assert json.loads(new(tmp_path, "--list", "--json").stdout)[0]["name"] == templates.names()[0]
    assert list(tmp_path.iterdir()) == []


def test_a_project_is_made_and_never_overwritten(tmp_path: Path) -> None:
    done = new(tmp_path, "go-cli")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "go-cli/README.md"
    assert (tmp_path / "go-cli/words/words.go").read_text() == templates.find("go-cli").files["words/words.go"]
    (tmp_path / "go-cli/main.go").write_text("mine")
    again = new(tmp_path, "go-cli")
    assert again.returncode == 125
    assert "exists already" in again.stderr
    assert (tmp_path / "go-cli/main.go").read_text() == "mine"
    assert new(tmp_path, "go-cli", "other/place").returncode == 0
    assert (tmp_path / "other/place/go.mod").exists()


def test_a_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    done = new(tmp_path, "go-cli", "taken")
    assert done.returncode == 125
    assert "Traceback" not in done.stderr
    assert (tmp_path / "taken").read_text() == "mine"


def test_an_unknown_name_gets_the_known_ones(tmp_path: Path) -> None:
    for words in (("cobol-cli",), ()):
        done = new(tmp_path, *words)
        assert done.returncode == 125
        assert "python-data" in done.stderr


def test_json_is_what_a_run_takes(tmp_path: Path) -> None:
    told = json.loads(new(tmp_path, "c-make", "--json").stdout)
    assert told["entry"] in told["files"]
    assert list(tmp_path.iterdir()) == []
