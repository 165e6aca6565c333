"""The egress process itself: what it leaves behind, and what its answers to the engine can have."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cloche.egress import process
from cloche.egress.attempts import MAX_REASON, Attempts

PROGRAM = str(Path(process.__file__).with_name("__main__.py"))
# Its main function is another one, in the same program.
OTHER = """
import runpy, sys, time, resource
from cloche.egress import process, resolver
was = process.main
def main():
    resolver._threads.submit(time.sleep, 60)  # a name server that does not answer
    process.asyncio.run = lambda work: work.close()
    was()
    print(resource.getrlimit(resource.RLIMIT_CORE), flush=True)
    return 0
process.main = main
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.parametrize(("limit", "expected"), [("unlimited", "(1, 1)"), ("0", "(0, 0)")])
def test_it_ends_at_once_and_leaves_no_core_file(limit: str, expected: str) -> None:
    """The engine waits for its end; a core file would have the secrets of all sandboxes."""
    begin = time.monotonic()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        done = subprocess.run(
            ["sh", "-c", f'ulimit -c {limit}; exec "$0" -c "$1" "$2" 3<&0', sys.executable, OTHER, PROGRAM],
            stdin=theirs.fileno(),
            capture_output=True,
            text=True,
            timeout=20,
        )
    assert done.stdout == f"{expected}\n", done.stderr
    assert time.monotonic() - begin < 10


def test_an_answer_fits_into_a_message_whatever_programs_have_named() -> None:
    attempts = Attempts()
    for _ in range(250):
        attempt = attempts.begin("x" * 400, 80)
        attempt.rule, attempt.reason = "y" * 300, "\xff" * 5000
    seen: list[dict[str, Any]] = []
    while page := process._page(attempts.since(len(seen), 0.0, 100)):
        assert len(json.dumps(page)) < 128 << 10
        seen += page
    assert [each["number"] for each in seen] == list(range(1, 251))
    assert {len(each["reason"]) for each in seen} == {MAX_REASON}
    assert attempts.since(0, seen[99]["time"] * 1e9, 10) == []
    assert [each["number"] for each in attempts.since(248, 0.0, 10)] == [249, 250]
