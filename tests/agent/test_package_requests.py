"""The socket on which programs ask for packages: whatever they send harms nobody but themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import cloche

pytestmark = pytest.mark.embedded

ASK = """
import json, socket
def ask(data, whole=True):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect("\\0cloche-packages")
        answer = b""
        try:
            connection.sendall(data)
            if whole:
                connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65536):
                answer += piece
        except (BrokenPipeError, ConnectionResetError):
            pass
        return answer
"""


@pytest.fixture(scope="module")
def shared(jail: None) -> Iterator[cloche.Sandbox]:
    with cloche.Sandbox(timeout=60) as box:
        box.run(ASK)
        yield box


@pytest.mark.parametrize(
    "line",
    [
        "b'not json\\n'",
        "b'[1, 2]\\n'",
        "b'{\"requirements\": 5}\\n'",
        'b\'{"requirements": ["../../etc"]}\\n\'',
        'b\'{"requirements": ["x @ file:///etc/passwd"]}\\n\'',
        'b\'{"requirements": ["--index-url=http://example.org"]}\\n\'',
        'b\'{"requirements": ["a\\\\n--extra-index-url x"]}\\n\'',
        'b\'{"requirements": [], "folder": "relative"}\\n\'',
        "b'[' * 60000 + b'\\n'",
        "b'{}\\n'",
    ],
)
def test_a_request_that_makes_no_sense_is_answered(shared: cloche.Sandbox, line: str) -> None:
    result = shared.run(f"json.loads(ask({line}, False))['exit']")
    assert result.error is None, result.error
    assert result.text in ("1", "2")


def test_a_line_without_end_is_dropped(shared: cloche.Sandbox) -> None:
    assert shared.run("ask(b'x' * 2_000_000, False)").text == "b''"


def test_many_connections_leave_the_agent_alone(shared: cloche.Sandbox) -> None:
    code = """
kept = []
for _ in range(200):
    each = socket.socket(socket.AF_UNIX)
    each.setblocking(False)
    try:
        each.connect("\\0cloche-packages")
    except BlockingIOError:
        pass
    kept.append(each)
1 + 1
"""
    assert shared.run(code).text == "2"
    assert shared.run("for each in kept: each.close()\n'closed'").text == "'closed'"
    assert shared.run("json.loads(ask(b'{}\\n', False))['exit']").text in ("1", "2")


def test_requests_do_not_pile_up_in_the_engine(shared: cloche.Sandbox) -> None:
    code = """
import threading
answers = []
def one():
    answers.append(ask(b'{"requirements": ["no-such-package-of-cloche"]}\\n', False))
threads = [threading.Thread(target=one) for _ in range(12)]
for each in threads: each.start()
for each in threads: each.join()
len(answers), sum(b"installs run in this sandbox already" in each for each in answers) > 0
"""
    result = shared.run(code)
    assert result.text == "(12, True)", result
    assert shared.run("1 + 1").text == "2"
