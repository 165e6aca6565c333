"""Runs the installed `cloche run` as a person would, without a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CLOCHE = str(Path(sys.prefix) / "bin" / "cloche")


def run(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run it in a folder."""
    return subprocess.run(
        [CLOCHE, "run", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env={**os.environ, **env},
    )
