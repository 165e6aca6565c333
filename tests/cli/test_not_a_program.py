"""`cloche run FILE` refuses a file that is no program, with a sentence that says why."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CLOCHE = str(Path(sys.prefix) / "bin" / "cloche")

pytestmark = pytest.mark.usefixtures("jail")


def run(folder: Path, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [CLOCHE, "run", *words], cwd=folder, input=stdin, capture_output=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("name", "data", "why", "instead"),
    [
        ("photo.png", b"\x89PNG\r\n\x1a\n\0", b"photo.png is not a program: it is a PNG picture.", b"--file photo.png"),
        ("photo.py", b"\x89PNG\r\n\x1a\n\0", b"photo.py is not a program: it is a PNG picture.", b"--file photo.py"),
        ("tool", b"\x7fELF\2\1\1\0", b"tool is not source code: it is a compiled program.", b"./tool"),
        ("wide.py", "\ufeffprint(1)".encode("utf-16-le"), b"wide.py is not a program: it is text in UTF-16.", b"UTF-8"),
        ("odd", b"\1\0\2", b"odd is not a program: it is binary data.", b"--file odd"),
        ("sales.csv", b"a,b\n1,2\n", b"files that end in .csv are in none of its languages", b"--file sales.csv"),
        ("Makefile", b"all:\n\ttrue\n", b"a file called makefile is in none", b"-l NAME"),
        ("thing", b'{"a": [1, null]}', b"thing is not a program: it looks like JSON.", b"-l NAME"),
        ("empty", b"\n", b"empty is empty: there is nothing to run.", b"right file"),
        ("nowhere/", None, b"nowhere/ is empty: there is nothing to run.", b"right folder"),
        ("folder/notes.md", b"# Notes", b"folder has no program", b"--entry"),
    ],
)
def test_it_is_refused_with_a_sentence(
    tmp_path: Path, name: str, data: bytes | None, why: bytes, instead: bytes
) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.mkdir() if data is None else path.write_bytes(data)
    done = run(tmp_path, "folder" if name.startswith("folder") else name)
    assert (done.stdout, done.returncode) == (b"", 125)
    assert why in done.stderr
    assert instead in done.stderr


def test_standard_input_is_refused_as_well(tmp_path: Path) -> None:
    done = run(tmp_path, "-", stdin=b"GIF89a\0")
    assert (done.stderr.splitlines()[0], done.returncode) == (
        b"cloche: standard input is not a program: it is a GIF picture.",
        125,
    )


def test_programs_that_look_unusual_still_run(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_bytes(b"")
    assert run(tmp_path, "empty.py").returncode == 0
    (tmp_path / "numbers.csv").write_text("print(6 * 7)")
    assert run(tmp_path, "-l", "python", "numbers.csv").stdout == b"42\n"
