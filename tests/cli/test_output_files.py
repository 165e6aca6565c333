"""`cloche run --out DIR` copies the output files of a program out of its sandbox, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import run

from cloche.cli.output_files import OutputFolder
from cloche.model.files import Entry, Listing

PROGRAM = """
import os
os.mkdir("output/deep")
open("output/a.txt", "w").write("hello")
open("output/deep/b.bin", "wb").write(bytes(300_000))
os.symlink("/etc/passwd", "output/link")
os.mkfifo("output/pipe")
open("output/\\x1b[31mred", "w").write("x")
os.makedirs("output/deep/.git")
open("output/deep/.git/config", "w").write("[core]\\n\\tfsmonitor = touch owned")
open("output/.envrc", "w").write("touch owned")
print("done")
"""
HIDDEN = "its name is hidden, and programs of yours may take commands from such a file"

pytestmark = pytest.mark.usefixtures("jail")


@pytest.mark.parametrize("is_remote", [False, True], ids=["here", "over HTTP"])
def test_files_are_copied_and_listed(tmp_path: Path, request: pytest.FixtureRequest, is_remote: bool) -> None:
    where: tuple[str, ...] = ()
    env = {}
    if is_remote:
        server = request.getfixturevalue("served")
        where, env = ("--url", server.url), {"CLOCHE_API_KEY": server.key}
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "a.txt").symlink_to(tmp_path / "precious")
    (tmp_path / "precious").write_text("kept")
    done = run(tmp_path, *where, "--out", "results", "-c", PROGRAM, **env)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
    assert done.stderr.splitlines() == [
        "cloche: 2 files copied to results",
        "  a.txt (5 bytes, replaced)",
        "  deep/b.bin (300 kB)",
        "  not copied: ?[31mred: its name has characters that cannot be printed",
        f"  not copied: .envrc: {HIDDEN}",
        f"  not copied: deep/.git/config: {HIDDEN}",
        "  not copied: link: it is a link",
        "  not copied: pipe: it is not a file",
    ]
    assert (tmp_path / "precious").read_text() == "kept"
    assert (tmp_path / "results" / "a.txt").read_text() == "hello"
    assert sorted(path.name for path in (tmp_path / "results").rglob("*")) == ["a.txt", "b.bin", "deep"]


def test_files_that_a_project_brought_along_are_not_copied_back(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "output").mkdir(parents=True)
    (project / "output" / "old.txt").write_text("same")
    (project / "output" / "changed.txt").write_text("before")
    (project / "main.py").write_text("open('output/changed.txt', 'w').write('after!')")
    done = run(tmp_path, "--out", "project/output", "project")
    assert done.stderr.splitlines() == ["cloche: 1 file copied to project/output", "  changed.txt (6 bytes, replaced)"]
    assert (project / "output" / "changed.txt").read_text() == "after!"


def test_the_files_of_a_program_that_fails_are_copied_too(tmp_path: Path) -> None:
    code = "open('output/log', 'w').write('x')\nwhile True: pass"
    done = run(tmp_path, "--out", "o", "--timeout", "1", "--json", "-c", code)
    assert done.returncode == 124
    assert (tmp_path / "o" / "log").read_text() == "x"
    assert json.loads(done.stdout)["error"]["kind"] == "timeout"


def test_a_folder_that_cannot_be_used_is_refused_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(tmp_path, "--out", "file", "-c", "print('ran')")
    assert (done.stdout, done.returncode) == ("", 125)
    assert "file cannot be used for output" in done.stderr


class Liar:
    """The files of a sandbox whose agent lies about them."""

    def __init__(self, *entries: Entry, pieces: Iterable[bytes] = (b"lie", b"")) -> None:
        self._entries, self._pieces = entries, pieces

    def list(self, path: str, depth: int) -> Listing:
        found = Listing(self._entries)
        found.truncated = False
        return found

    def reader(self, path: str, offset: int, length: int | None) -> Any:
        class Reader:
            begin = staticmethod(lambda: 1)
            next = staticmethod(iter(self._pieces).__next__)
            close = staticmethod(lambda: None)

        return Reader()


def test_no_name_leads_out_of_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "way").symlink_to(tmp_path / "outside")
    names = ["../outside/a", "/etc/cron.d/a", "/sandbox/output/../../outside/a", "/sandbox/output/", "way/a", ".", "b"]
    folder = OutputFolder(str(tmp_path / "inside"), {})
    folder.fill(Liar(*(Entry(name, "file", 1, 0o644, 0.0) for name in names)))  # type: ignore[arg-type]
    folder.report()
    assert list((tmp_path / "outside").iterdir()) == []
    assert sorted(path.name for path in (tmp_path / "inside").iterdir()) == ["b", "way"]
    assert capsys.readouterr().err.count("not copied") == 6


def test_a_file_that_never_ends_is_not_collected_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has the name and, as the agent says, the size of a file that the program was given."""
    monkeypatch.setattr("cloche.cli.output_files.MAX_BYTES", 8 << 20)
    folder = OutputFolder(str(tmp_path), {"output/a": b"x"})
    pieces = repeat(bytes(1 << 20), 1000)
    folder.fill(Liar(Entry("/sandbox/output/a", "file", 1, 0o644, 0.0), pieces=pieces))  # type: ignore[arg-type]
    folder.report()
    assert len(list(pieces)) > 900  # were never read
    assert "not copied: a: more than" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
