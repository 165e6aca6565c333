"""The folder of the corpora: other people's programs and notebooks, which are not part of this repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_BESIDE_THE_REPOSITORY = Path(__file__).resolve().parents[3] / "shared" / "corpora"
CORPORA = Path(os.environ.get("CLOCHE_CORPORA") or _BESIDE_THE_REPOSITORY)


def skip_without(path: Path) -> None:
    """Skip a test whose corpus is missing."""
    if not path.exists():
        pytest.skip(f"There is no corpus {path.name}: set CLOCHE_CORPORA to the folder of the corpora.")
