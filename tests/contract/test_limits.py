"""Behind every wall: each limit is enforced, or an order that sets it is refused."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.contract.conftest import Contract

import cloche

TOO_MUCH: dict[str, tuple[Any, str]] = {
    "memory": ("64M", "kept = []\nwhile True: kept.append(bytes(1 << 20))"),
    "disk": ("8M", "with open('big', 'wb') as file:\n    while True: file.write(bytes(1 << 20))"),
    "processes": (8, "import os, time\nfor _ in range(20):\n    if os.fork() == 0: time.sleep(20)"),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_a_limit_stops_the_program_or_is_refused(isolation: str, contract: Contract, name: str) -> None:
    limit, code = TOO_MUCH[name]
    if not contract.can(name):
        with contract.refuses(name) as caught:
            cloche.run(code, isolation=isolation, **{name: limit})
        assert name in caught.value.hint
        return
    begin = time.monotonic()
    result = cloche.run(code, isolation=isolation, timeout=15, **{name: limit})
    assert result.error.kind == name
    assert time.monotonic() - begin < 10


def test_a_share_of_the_processors_is_kept_or_refused(isolation: str, contract: Contract) -> None:
    code = "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass\nprint(time.process_time())"
    if not contract.can("cpu"):
        with contract.refuses("cpu"):
            cloche.run(code, isolation=isolation, cpu=0.2)
        return
    assert float(cloche.run(code, isolation=isolation, cpu=0.2).stdout) < 0.5


def test_the_default_limits_are_no_order_for_limits(isolation: str) -> None:
    result = cloche.run("print(1)", isolation=isolation, memory="512M", cpu=1.0, disk="1G", processes=64)
    assert result.stdout == "1\n"


@pytest.mark.parametrize("code", ["import time; time.sleep(60)", "while True: pass"], ids=["asleep", "busy"])
def test_time_is_limited(isolation: str, code: str) -> None:
    begin = time.monotonic()
    result = cloche.run(code, isolation=isolation, timeout=0.5)
    assert (result.error.kind, result.exit_code) == ("timeout", 124)
    assert time.monotonic() - begin < 6


def test_output_is_limited(isolation: str) -> None:
    result = cloche.run("while True: print('x' * 1000)", isolation=isolation, output="100K")
    assert result.error.kind == "output"
    assert len(result.stdout) <= 100 << 10
