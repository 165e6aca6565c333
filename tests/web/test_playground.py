"""The playground as people see it, in a real Chromium (web/tests), its units (web/src/**/*.test.ts) and its types."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cloche.doors.page.files import BUILT

WEB = Path(__file__).parent.parent.parent / "web"
TOOLS = WEB / "node_modules" / ".bin"


def needs(is_there: bool, what: str) -> None:
    """On CI it has to be there; elsewhere its absence is a reason to skip."""
    if not is_there:
        if os.environ.get("CI"):
            pytest.fail(f"{what} is missing")
        pytest.skip(f"{what} is missing")


def run(*command: str, **env: str) -> None:
    """A tool of the page's, in its folder; what it says is shown when it fails."""
    done = subprocess.run(
        command, cwd=WEB, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, done.stdout[-20_000:]


@pytest.fixture(autouse=True)
def tools() -> None:
    """What `make page` installs."""
    needs(TOOLS.is_dir(), "web/node_modules (make page)")


@pytest.mark.timeout(120)
def test_types_are_right_and_those_of_the_server_are_up_to_date() -> None:
    run(str(TOOLS / "tsc"), "--noEmit")
    run(str(TOOLS / "tsc"), "--noEmit", "-p", "tests")
    script = WEB.parent / "scripts" / "page_types.py"
    run(str(WEB.parent / ".venv" / "bin" / "python"), str(script), "--check")


@pytest.mark.timeout(120)
def test_units() -> None:
    run(str(TOOLS / "vitest"), "run")


@pytest.mark.timeout(900)
def test_what_a_person_sees(server: Any) -> None:
    needs((BUILT / "index.html").is_file(), "the built page (make page)")
    browsers = ("chromium-headless-shell", "chromium", "google-chrome")
    needs(any(shutil.which(name) for name in browsers), "Chromium")
    run(str(TOOLS / "playwright"), "test", CLOCHE_PAGE=server.url, CLOCHE_KEY=server.key, WORKERS="1")
