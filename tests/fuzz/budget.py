"""How long fuzzing takes: half a minute in `make test`, or as long as CLOCHE_FUZZ_SECONDS says for each target."""

from __future__ import annotations

import os
from collections.abc import Iterator
from time import monotonic

SECONDS = float(os.environ.get("CLOCHE_FUZZ_SECONDS", "3"))
SEED = int(os.environ.get("CLOCHE_FUZZ_SEED", "1"))


def seeds() -> Iterator[int]:
    """Count up from the first seed until the time is over."""
    end, seed = monotonic() + SECONDS, SEED
    while monotonic() < end:
        yield seed
        seed += 1
