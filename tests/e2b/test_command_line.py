"""`cloche e2b`, as a shell uses it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cloche.policy import key_file

KEY = key_file.new_secret()
SHOWN = f"e2b_{KEY.encode().hex()}"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The environment of somebody on whose host a server was started."""
    key_file.make(tmp_path / "data" / "key", KEY)
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CLOCHE_DATA_DIR": str(tmp_path / "data")}


def cloche(environ: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cloche.cli.main", "e2b", *words]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)


def test_the_variables_are_printed_for_a_shell(environ: dict[str, str]) -> None:
    done = cloche(environ, "--port", "7611")
    script = f'{done.stdout}\necho "$E2B_API_URL $E2B_SANDBOX_URL $E2B_API_KEY"'
    told = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout

    assert (done.returncode, done.stderr) == (0, "")
    assert told == f"http://localhost:7611 http://localhost:7611 {SHOWN}\n"


def test_a_command_is_run_with_them_and_nothing_that_leads_elsewhere(environ: dict[str, str]) -> None:
    elsewhere = {"E2B_DEBUG": "true", "E2B_DOMAIN": "e2b.example"}
    code = 'echo $E2B_API_URL-$E2B_DEBUG-$E2B_DOMAIN "$@"; exit 7'
    server = ("--url", "https://cloche.example/", "--api-key", "e2b_00")
    done = cloche({**environ, **elsewhere}, *server, "--", "sh", "-c", code, "sh", "--port", "a b")

    assert (done.stdout, done.returncode) == ("https://cloche.example-- --port a b\n", 7)


def test_what_is_missing_is_said(environ: dict[str, str], tmp_path: Path) -> None:
    nowhere = cloche({**environ, "CLOCHE_DATA_DIR": str(tmp_path / "nowhere")})
    unknown = cloche(environ, "--", "no-such-command")

    assert nowhere.returncode == unknown.returncode == 125
    assert "no server has been started with this data directory yet" in nowhere.stderr
    assert "no-such-command cannot be run" in unknown.stderr
