"""A server that runs out of file descriptors refuses what is new, keeps what lives, burns no CPU time, and recovers."""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tests.waiting import eventually

if TYPE_CHECKING:
    from tests.conftest import Server

TICK = 100  # of CPU time, a second


def test_sandboxes_leave_descriptors_for_everything_else(serve: Callable[..., Server]) -> None:
    server = serve("--sandboxes", "500", descriptors=448)
    with server.client() as http, ExitStack() as stack:
        key = http.post("/v1/keys", json={"owner": "ada", "name": "ada"}).json()["key"]
        ada = stack.enter_context(server.client(key))
        answers = [ada.post("/v1/sandboxes", json={}) for _ in range(30)]
        made = [f"/v1/sandboxes/{answer.json()['id']}" for answer in answers if answer.status_code == 201]
        assert 2 <= len(made) < 30
        assert {answer.status_code for answer in answers} == {201, 503}
        assert http.post("/v1/run", json={"code": "print(1)"}).json()["stdout"] == "1\n"
        assert http.post("/v1/sandboxes", json={}).status_code == 201
        for path in made:  # not one was lost, and the process that made them is the same
            assert ada.post(f"{path}/run", json={"code": "print(2)"}).json()["stdout"] == "2\n"
        assert ada.delete(made[0]).status_code == 204
        assert http.get("/v1/ready").status_code == 200
    assert "descriptors suffice for" in server.log.read_text()


def test_a_server_without_a_free_descriptor_waits_for_one(serve: Callable[..., Server]) -> None:
    server = serve()
    process = server.process.pid
    with server.client() as http:
        assert http.post("/v1/run", json={"code": "print(1)"}).json()["stdout"] == "1\n"
    usual = resource.prlimit(process, resource.RLIMIT_NOFILE)
    resource.prlimit(process, resource.RLIMIT_NOFILE, (5, usual[1]))
    before = _cpu_ticks(process)
    with ExitStack() as opened:
        for _ in range(20):
            opened.enter_context(socket.create_connection(("127.0.0.1", server.port), 5))
        time.sleep(1)  # nothing happens meanwhile: that is the point
        assert _cpu_ticks(process) - before < TICK // 5
        resource.prlimit(process, resource.RLIMIT_NOFILE, usual)
        with server.client() as http:
            assert http.post("/v1/run", json={"code": "print(1)"}).json()["stdout"] == "1\n"
    log = server.log.read_text()
    assert log.count("connections have to wait") == 1
    assert "Traceback" not in log


def test_connections_leave_descriptors_for_runs(serve: Callable[..., Server]) -> None:
    server = serve(descriptors=160)
    folder = Path(f"/proc/{server.process.pid}/fd")
    with ExitStack() as opened:
        clients = [opened.enter_context(server.client()) for _ in range(150)]
        for client in clients:
            assert client.get("/v1/health").status_code == 200
            opened.enter_context(socket.create_connection(("127.0.0.1", server.port), 5))
        assert len(list(folder.iterdir())) < 140
        assert _answer(server) == "1\n"
    eventually(lambda: len(list(folder.iterdir())) < 60)
    assert _answer(server) == "1\n"


def _answer(server: Server) -> str:
    with server.client() as http:
        return str(http.post("/v1/run", json={"code": "print(1)"}).json().get("stdout"))


def _cpu_ticks(process: int) -> int:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
