"""A hint in the words of each door, from one failure: a program that runs out of time."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import cloche
from cloche.doors.e2b.results import error

ENDLESS = "while True: pass"


def test_each_door_names_the_time_limit_in_its_own_words(server: Any) -> None:
    here = cloche.run(ENDLESS, timeout=0.3).error
    assert here is not None
    assert "with timeout=." in here.hint
    with server.client() as http:
        answer = http.post("/v1/run", json={"code": ENDLESS, "timeout": 0.3}).json()
    assert "with `timeout`." in answer["error"]["hint"]
    with cloche.Sandbox(url=server.url, api_key=server.key) as box:
        again = box.run(ENDLESS, timeout=0.3).error
    assert again is not None
    assert "with timeout=." in again.hint
    command = [sys.executable, "-m", "cloche.cli.main", "run", "--timeout", "0.3", "-c", ENDLESS]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    assert "with --timeout." in done.stderr
    assert "with `timeout`." in error(here)["value"]
