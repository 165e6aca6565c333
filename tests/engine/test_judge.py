"""From what was seen to what is said."""

from __future__ import annotations

import time
from typing import Any

import pytest

from cloche.engine.judge import Facts, find_traceback, judge
from cloche.model.kinds import KINDS
from cloche.model.limits import Limits

pytestmark = pytest.mark.embedded

TRACE = """Traceback (most recent call last):
  File "/sandbox/code/main.py", line 1, in <module>
    1/0
    ~^~
ZeroDivisionError: division by zero
"""


def kind(**facts: Any) -> str | None:
    error = judge(Facts(**facts), Limits())
    assert error is None or (error.kind in KINDS and error.message and error.hint)
    return None if error is None else error.kind


def test_nothing_is_wrong_with_exit_code_zero() -> None:
    assert kind(exit_code=0) is None


def test_an_exit_without_a_reason_on_standard_error_points_at_the_output() -> None:
    error = judge(Facts(exit_code=1), Limits())  # as most tools for tests end, which tell everything on standard output
    assert error is not None
    assert error.hint == "Its output may say why; if not, check its logic."


def test_a_traceback_on_the_way_to_exit_code_zero_is_nothing() -> None:
    assert kind(exit_code=0, stderr_tail=TRACE, is_python=True) is None


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"exit_code": 3}, "exit"),
        ({"exit_code": 1, "stderr_tail": "bad\n"}, "exit"),
        ({"exit_code": 1, "stderr_tail": TRACE, "is_python": True}, "runtime"),
        ({"exit_code": 1, "stderr_tail": TRACE}, "exit"),
        ({"exit_code": 3, "stderr_tail": TRACE, "is_python": True}, "exit"),
        ({"exit_code": 1, "stderr_tail": '  File "x", line 1\n    (\nSyntaxError: y\n', "is_python": True}, "syntax"),
        ({"exit_code": -9, "timed_out": True}, "timeout"),
        ({"exit_code": -9, "reason": "timeout"}, "timeout"),
        ({"exit_code": 0, "timed_out": True}, "timeout"),
        ({"exit_code": -9, "oom_kills": 1}, "memory"),
        ({"exit_code": -9, "reason": "memory"}, "memory"),
        ({"exit_code": 1, "oom_kills": 1, "stderr_tail": TRACE, "is_python": True}, "memory"),
        ({"exit_code": 0, "oom_kills": 1}, None),
        ({"exit_code": 2, "stderr_tail": "main.sh: xrealloc: cannot allocate 134217856 bytes\n"}, "memory"),
        ({"exit_code": 1, "stderr_tail": "main.rb: failed to allocate memory (NoMemoryError)\n"}, "memory"),
        ({"exit_code": 1, "stderr_tail": "malloc: Cannot allocate memory\n"}, "memory"),
        ({"exit_code": 0, "stderr_tail": "malloc: Cannot allocate memory\n"}, None),
        (
            {"exit_code": 1, "stderr_tail": TRACE.rstrip() + " (GPU out of memory)\n", "is_python": True},
            "runtime",
        ),
        ({"exit_code": 1, "stderr_tail": "malloc: Cannot allocate memory\n" + "then something else\n" * 200}, "exit"),
        (
            {
                "exit_code": 1,
                "stderr_tail": TRACE.replace("ZeroDivisionError: division by zero", "MemoryError"),
                "is_python": True,
            },
            "memory",
        ),
        ({"exit_code": -9, "output_cut": True}, "output"),
        ({"exit_code": -9, "output_cut": True, "lost": True}, "output"),
        ({"exit_code": -9, "lost": True}, "lost"),
        ({"exit_code": -9, "reason": "closed", "lost": True}, "killed"),
        ({"exit_code": -15}, "killed"),
        ({"exit_code": -64}, "killed"),
        ({"exit_code": 1, "disk_free": 0}, "disk"),
        ({"exit_code": 1, "inodes_free": 0}, "disk"),
        ({"exit_code": 1, "stderr_tail": "cp: No space left on device\n"}, "disk"),
        ({"exit_code": 1, "disk_free": 1 << 20, "inodes_free": 9}, "exit"),
        ({"exit_code": 1, "processes_refused": 3}, "processes"),
        ({"exit_code": 0, "processes_refused": 3}, None),
        (
            {
                "exit_code": 1,
                "stderr_tail": TRACE.replace("division by zero", "can't start new thread"),
                "is_python": True,
            },
            "processes",
        ),
    ],
)
def test_what_was_seen_decides_the_kind(facts: dict[str, object], expected: str | None) -> None:
    assert kind(**facts) == expected


def test_the_message_names_the_limit_that_was_met() -> None:
    limits = Limits.of(timeout=2.5, memory="64M", disk="1.5G", processes=7, output=1000)
    said = {
        "2.5 seconds": judge(Facts(exit_code=-9, timed_out=True), limits),
        "64 MB": judge(Facts(exit_code=-9, oom_kills=1), limits),
        "1.5 GB": judge(Facts(exit_code=1, disk_free=0), limits),
        "7 processes": judge(Facts(exit_code=1, processes_refused=1), limits),
        "1000 bytes": judge(Facts(exit_code=-9, output_cut=True), limits),
    }
    for words, error in said.items():
        assert error is not None
        assert words in error.message


@pytest.mark.parametrize(
    "name", ["ModuleNotFoundError", "FileNotFoundError", "EOFError", "KeyError", "PermissionError"]
)
def test_common_exceptions_have_a_hint_of_their_own(name: str) -> None:
    def hint(of: str) -> str:
        stderr = TRACE.replace("ZeroDivisionError", of)
        error = judge(Facts(exit_code=1, stderr_tail=stderr, is_python=True), Limits())
        assert error is not None
        return error.hint

    assert hint(name) != hint("ZeroDivisionError")


def test_without_a_network_the_hint_says_so() -> None:
    stderr = TRACE.replace("ZeroDivisionError: division by zero", "OSError: [Errno 101] Network is unreachable")
    error = judge(Facts(exit_code=1, stderr_tail=stderr, is_python=True), Limits())
    assert error is not None
    assert "network" in error.hint


def test_the_last_traceback_counts() -> None:
    found = find_traceback(TRACE + "something\n" + TRACE.replace("ZeroDivisionError", "KeyError"))
    assert found is not None
    assert found.name == "KeyError"
    assert found.text.count("Traceback") == 1


def test_a_chain_of_tracebacks_is_one() -> None:
    chain = TRACE + "\nDuring handling of the above exception, another exception occurred:\n\n" + TRACE
    found = find_traceback("before\n" + chain)
    assert found is not None
    assert found.text == chain


GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "/sandbox/code/main.py", line 1, in <module>
  | ExceptionGroup: several (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/sandbox/code/main.py", line 1, in <module>
    | ValueError: 1
    +------------------------------------
"""


@pytest.mark.parametrize("trace", [TRACE, GROUP])
def test_a_traceback_counts_also_right_after_a_line_that_was_not_ended(trace: str) -> None:
    for said in ("", "before\n", "before\nloading 30% ... "):
        found = find_traceback(said + trace)
        assert found is not None
        assert found.text == trace
    chain = trace + "\nDuring handling of the above exception, another exception occurred:\n\n" + TRACE
    found = find_traceback("loading 30% ... " + chain)
    assert found is not None
    assert found.text == chain


@pytest.mark.parametrize(
    "text", ["", "\n", "Traceback", "Traceback (most recent call last):", "x: y", "\0" * 9, "\n" * 99]
)
def test_what_is_no_traceback_is_none(text: str) -> None:
    assert find_traceback(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "Traceback (most recent call last):\n  x\n" * 6000,
        "  + Exception Group Traceback (most recent call last):\n" * 4800,
        "  + Exception Group Traceback " * 9000,
        'x Traceback (most recent call last):\n  File "' * 5000,
    ],
)
def test_a_long_text_is_searched_in_no_time(text: str) -> None:
    begin = time.process_time()
    assert find_traceback(text) is None
    assert time.process_time() - begin < 0.4  # and not for seconds, in which everybody else would wait


def test_tests_that_fail_are_an_exit_and_what_they_raised_is_in_their_report() -> None:
    report = f"F\n======\nFAIL: test_a\n------\n{TRACE}\n------\nRan 1 test in 0.029s\n\nFAILED (failures=1)\n"
    assert kind(exit_code=1, stderr_tail=report, is_python=True) == "exit"
