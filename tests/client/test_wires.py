"""Runs whose connection breaks go on, and nothing of them is lost or told twice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.client.wires import Wire
from tests.conftest import Server

import cloche
from cloche.blocking.client.sandbox import ServerSandbox
from cloche.model.events import End, Output

SLOWLY = "import time\nfor number in range(30):\n    print(number, flush=True)\n    time.sleep(0.02)\n'done'"
WHOLE = "".join(f"{number}\n" for number in range(30))


def test_a_stream_goes_on_after_its_connection_broke(server: Server, wire: Wire) -> None:
    with cloche.Sandbox(url=wire.url, api_key=server.key) as box:
        printed, last = b"", None
        for event in box.stream(SLOWLY):
            last = event
            if isinstance(event, Output):
                if printed.count(b"\n") in (3, 10, 20):
                    wire.cut()
                printed += event.data
        assert printed.decode() == WHOLE
        assert isinstance(last, End)
        assert last.result.stdout == WHOLE
        assert last.result.text == "'done'"
        assert isinstance(box.backend, ServerSandbox)
        assert [moment["code"] for moment in box.backend.call("GET", "/history")["items"]] == [SLOWLY]


async def test_a_stream_goes_on_asynchronously(server: Server, wire: Wire) -> None:
    async with cloche.AsyncSandbox(url=wire.url, api_key=server.key) as box:
        printed = b""
        async for event in box.stream(SLOWLY):
            if isinstance(event, Output):
                if printed.count(b"\n") == 5:
                    wire.cut()
                printed += event.data
        assert printed.decode() == WHOLE


def test_a_run_goes_on_after_its_connection_broke(server: Server, wire: Wire) -> None:
    with cloche.Sandbox(url=wire.url, api_key=server.key) as box:
        cut = threading.Timer(0.3, wire.cut)
        cut.start()
        result = box.run(SLOWLY)
        cut.join()
        assert result.stdout == WHOLE
        assert result.ok
        assert box.run("1").execution_count == 2


def test_an_event_that_was_cut_in_two_comes_once(server: Server, wire: Wire) -> None:
    seen = []

    def watch(data: bytes) -> bool:
        seen.append(data)
        return b"event: stdout" in data and sum(b"event: stdout" in piece for piece in seen) in (2, 4)

    with cloche.Sandbox(url=wire.url, api_key=server.key) as box:
        wire.watch = watch
        assert b"".join(e.data for e in box.stream(SLOWLY) if isinstance(e, Output)).decode() == WHOLE
        wire.watch = lambda _: False


def test_a_tool_is_called_once_though_the_connection_breaks(server: Server, wire: Wire) -> None:
    calls = []

    def look_up(number: int) -> int:
        calls.append(number)
        if number == 1:
            wire.cut()
        return number * 10

    with cloche.Sandbox(url=wire.url, api_key=server.key, tools={"look_up": look_up}) as box:
        result = box.run("[cloche.tools.look_up(number) for number in range(3)]")
        assert result.text == "[0, 10, 20]"
        assert calls == [0, 1, 2]
        assert [call.value for call in result.tool_calls] == [0, 10, 20]


def test_a_command_is_followed_after_its_connection_broke(server: Server, wire: Wire) -> None:
    with cloche.Sandbox(url=wire.url, api_key=server.key) as box:
        process = box.commands.start("for i in $(seq 0 29); do echo $i; sleep 0.02; done")
        printed = b""
        for event in process:
            if isinstance(event, Output):
                if printed.count(b"\n") in (3, 12):
                    wire.cut()
                printed += event.data
        assert printed.decode() == WHOLE
        assert process.wait().stdout == WHOLE


def test_turns_share_a_connection(server: Server, wire: Wire) -> None:
    with cloche.Sandbox(url=wire.url, api_key=server.key) as box:
        for number in range(20):
            assert box.run(f"{number}").text == str(number)
        box.files.write("a", "b")
        assert box.files.read("a") == b"b"
    assert wire.connections <= 5  # the last bytes of an answer may come too late for the next request


async def test_one_loop_after_another_uses_the_same_connections(server: Server, wire: Wire) -> None:
    box = cloche.AsyncSandbox(url=wire.url, api_key=server.key)
    await box.run("x = 1")

    def in_another_loop() -> None:
        import asyncio

        async def more() -> None:
            assert (await box.run("x")).text == "1"

        asyncio.run(more())

    thread = threading.Thread(target=in_another_loop)
    thread.start()
    thread.join()
    await box.close()


TLS = """
import cloche, sys
with cloche.Sandbox(url=sys.argv[1], api_key=sys.argv[2]) as box:
    print(box.run("6 * 7").text)
    box.files.write("big", b"x" * 3_000_000)
    printed = [event.data for event in box.stream("print('y' * 300_000)") if event.kind == "stdout"]
    print(len(box.files.read("big")), len(b"".join(printed)))
"""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> str:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    what = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    command = ["openssl", *what.split(), "-keyout", f"{path}.key", "-out", f"{path}.crt"]
    subprocess.run(command, check=True, capture_output=True)
    path.write_text(Path(f"{path}.key").read_text() + Path(f"{path}.crt").read_text())
    return str(path)


def test_a_server_behind_tls_is_used_like_any_other(server: Server, certificate: str) -> None:
    with Wire(server.url, certificate) as wire:
        environment = {**os.environ, "SSL_CERT_FILE": f"{certificate}.crt"}
        command = [sys.executable, "-c", TLS, wire.url.replace("http", "https"), server.key]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        assert done.stdout == "42\n3000000 300001\n", done.stderr


def test_a_certificate_that_nobody_vouches_for_is_refused(server: Server, certificate: str) -> None:
    with (
        Wire(server.url, certificate) as wire,
        pytest.raises(cloche.Misconfigured, match=r"not trusted: self.signed certificate"),
    ):
        cloche.run("", url=wire.url.replace("http", "https"), api_key=server.key)
