"""A refused system call is named: in the kind of the error, and by its name."""

import pytest

import cloche
from cloche import languages

MOUNT = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None):
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
"""


@pytest.mark.parametrize(
    ("code", "language", "call"),
    [
        (MOUNT, "python", "mount"),
        ("import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)", "python", "socket"),
        ("unshare --user true", "bash", "unshare"),
    ],
)
def test_a_refused_call_is_an_error_of_kind_policy_that_names_it(code, language, call):
    result = cloche.run(code, language=language)

    assert result.error is not None
    assert result.error.kind == "policy"
    assert call in result.error.message
    assert "Operation not permitted" in result.stderr


def test_a_program_that_gets_over_a_refusal_has_no_error():
    result = cloche.run(MOUNT.replace("raise OSError", "print"))

    assert result.error is None
    assert "Operation not permitted" in result.stdout


def test_an_error_that_has_nothing_to_do_with_the_refusal_keeps_its_kind():
    result = cloche.run(MOUNT.replace("raise OSError", "print") + "\n1 / 0")

    assert result.error is not None
    assert (result.error.kind, result.error.name) == ("runtime", "ZeroDivisionError")


def test_a_refusal_is_told_for_the_command_that_met_it_and_not_for_the_next():
    with cloche.Sandbox() as box:
        first = box.commands.run("unshare --user true")
        second = box.commands.run("cat /proc/self/mem; echo Operation not permitted >&2; exit 1")

    assert first.error is not None
    assert first.error.kind == "policy"
    assert second.error is not None
    assert second.error.kind == "exit"


def test_a_flood_of_refused_calls_does_not_keep_the_agent_from_its_work():
    flood = "import ctypes\nlibc = ctypes.CDLL(None)\nwhile True: libc.unshare(0x10000000)"
    with cloche.Sandbox(cpu=2) as box:
        process = box.start_program(flood, timeout=20)
        answers = [box.commands.run("echo here").stdout for _ in range(3)]
        process.kill()

    assert answers == ["here\n"] * 3


def test_a_missing_language_is_unavailable_and_not_an_exception():
    if languages.tools(languages.find("julia")) is not None:
        pytest.skip("this host has all languages")
    result = cloche.run("println(1)", language="julia")

    assert result.error is not None
    assert result.error.kind == "unavailable"
    assert result.error.hint
