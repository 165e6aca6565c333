"""`cloche run --url`: the same program on a server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import Server

CLOCHE = [sys.executable, "-m", "cloche.cli.main", "run"]


def run(server: Server, *words: str, **more: object) -> subprocess.CompletedProcess[str]:
    command = [*CLOCHE, "--url", server.url, "--api-key", server.key, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **more)  # type: ignore[call-overload, no-any-return]


def test_output_errors_and_exit_code_come_back(server: Server) -> None:
    done = run(server, "-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)")
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 7)


def test_standard_input_arguments_files_and_environment_go_in(server: Server, tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("from the host")
    code = "import sys, os; print(sys.stdin.read(), sys.argv[1:], os.environ['NAME'], open('data.txt').read())"
    words = ["--env", "NAME=value", "--file", f"{tmp_path / 'data.txt'}:data.txt", "-c", code, "one", "two"]
    done = run(server, *words, input="typed")
    assert done.stdout == "typed ['one', 'two'] value from the host\n", done.stderr


@pytest.mark.parametrize(
    ("options", "code", "status"),
    [
        (["--timeout", "0.5"], "while True: pass", 124),
        (["--memory", "100M"], "x = bytearray(500_000_000)", 137),
        ([], "1/0", 1),
    ],
)
def test_exit_codes_are_those_of_a_run_on_this_host(server: Server, options: list[str], code: str, status: int) -> None:
    assert run(server, *options, "-c", code).returncode == status
    here = subprocess.run([*CLOCHE, *options, "-c", code], capture_output=True, timeout=60)
    assert here.returncode == status


def test_output_comes_as_it_happens_and_input_can_be_typed(server: Server) -> None:
    code = "print('name?', flush=True); print('hello', input())"
    environment = {**os.environ, "CLOCHE_URL": server.url, "CLOCHE_API_KEY": server.key}
    with subprocess.Popen(
        [*CLOCHE, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "name?\n"
        process.stdin.write("you\n")
        process.stdin.flush()
        assert process.stdout.readline() == "hello you\n"
        process.stdin.close()
        assert process.wait(30) == 0


def test_an_interrupt_is_for_the_program(server: Server) -> None:
    code = """
import os, signal, time
signal.signal(signal.SIGINT, lambda *_: (os.write(1, b'interrupted\\n'), os._exit(3)))
print('ready', flush=True)
while True: time.sleep(0.05)  # Python would not see a signal that comes right before a long wait
"""
    command = [*CLOCHE, "--url", server.url, "--api-key", server.key, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert process.wait(30) == 3


def test_without_a_server_it_fails_with_its_own_code(jail: None) -> None:
    command = [*CLOCHE, "--url", "http://127.0.0.1:1", "-c", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 125
    assert "cloche serve" in done.stderr


def test_the_sandbox_ends_with_the_run(server: Server) -> None:
    from cloche.blocking.client.server import server_at

    def alive() -> int:
        return len(server_at(server.url, server.key).items("/v1/sandboxes?state=alive"))

    before = alive()
    assert run(server, "-c", "print(1)").returncode == 0
    assert alive() <= before


def test_limits_reach_the_server(server: Server) -> None:
    from cloche.blocking.client.server import server_at

    assert run(server, "--build-timeout", "7", "--timeout", "11", "-c", "print(1)").returncode == 0
    newest = max(server_at(server.url, server.key).items("/v1/sandboxes"), key=lambda each: float(each["created"]))
    assert (newest["limits"]["build_timeout"], newest["limits"]["timeout"]) == (7, 11)
