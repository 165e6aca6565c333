"""The list of the host's folders that sandboxes see is saved, and made again when something has changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cloche.languages import preparation

ASK = (
    "from cloche.languages.host_folders import visible_folders; import sys; v = visible_folders();"
    "print(v['path'], 're' in sys.modules)"
)


def answer(path: str) -> str:
    done = subprocess.run(
        [sys.executable, "-I", "-c", ASK], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.skipif(shutil.which("julia") is not None, reason="this host has a Julia of its own")
def test_a_toolchain_that_comes_or_goes_is_noticed(tmp_path: Path) -> None:
    programs = tmp_path / "julia" / "bin"
    programs.mkdir(parents=True)
    path = f"{programs}:{os.environ['PATH']}"
    assert "toolchains/julia" not in answer(path)
    (programs / "julia").write_text("#!/bin/sh\n")
    (programs / "julia").chmod(0o755)
    assert "/opt/toolchains/julia/bin" in answer(path)
    again = answer(path)
    assert "/opt/toolchains/julia/bin" in again
    assert again.endswith("False")  # nothing was searched: not even the module for it was imported
    (programs / "julia").unlink()
    assert "toolchains/julia" not in answer(path)


def test_what_was_written_down_is_not_believed_when_it_is_broken() -> None:
    before = answer(os.environ["PATH"]).partition("]")[0]
    Path(preparation.location(), "seen").write_bytes(b"\x00broken")
    assert answer(os.environ["PATH"]).partition("]")[0] == before
