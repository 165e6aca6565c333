"""Runs the programs that a build needs; a failure quotes their output."""

import os
import subprocess
from collections.abc import Mapping

from cloche.environment.failure import BuildFailed

__all__ = ["call"]


def call(step: str, command: list[str], settings: Mapping[str, str] | None = None) -> str:
    """Run a program with further environment variables; return its standard output."""
    try:
        done = subprocess.run(
            command, env={**os.environ, **(settings or {})}, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
    except OSError as error:
        raise BuildFailed(f"{step}: {error}") from error
    if done.returncode != 0:
        raise BuildFailed(f"{step} failed:\n{(done.stderr or done.stdout).strip()}")
    return done.stdout
