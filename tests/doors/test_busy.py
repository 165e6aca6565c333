"""When there is no room: runs wait in a fair queue, and are refused politely when it is full."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

import httpx2

if TYPE_CHECKING:
    from tests.conftest import Server

SLOW = "import time; time.sleep(3); print('done')"


def test_runs_wait_and_are_then_refused(serve: Callable[..., Server]) -> None:
    server = serve("--runs-at-once", "1", "--queue", "1", "--queue-wait", "20")
    answers: list[httpx2.Response] = []

    def ask() -> None:
        with server.client() as http:
            answers.append(http.post("/v1/run", json={"code": SLOW}))

    with server.client() as http:
        clients = [threading.Thread(target=ask) for _ in range(2)]
        for client in clients:
            client.start()
        _until(http, running=1, waiting=1)
        refused = http.post("/v1/run", json={"code": "print(1)"})
        assert refused.status_code == 503
        assert int(refused.headers["Retry-After"]) >= 1
        assert refused.json()["error"]["kind"] == "busy"
        assert refused.json()["error"]["hint"]
        assert http.get("/v1/health").status_code == 200
        for client in clients:
            client.join()
        assert [answer.json()["stdout"] for answer in answers] == ["done\n", "done\n"]
        assert http.post("/v1/run", json={"code": "print(1)"}).json()["stdout"] == "1\n"
        assert len(http.get("/v1/runs").json()["items"]) == 3  # what was refused was never accepted


def test_a_client_that_leaves_the_queue_passes_its_turn_on(serve: Callable[..., Server]) -> None:
    server = serve("--runs-at-once", "1", "--queue", "5", "--queue-wait", "20")
    with server.client() as http:
        first = threading.Thread(target=lambda: http.post("/v1/run", json={"code": SLOW}))
        first.start()
        with server.client() as watching:
            _until(watching, running=1, waiting=0)
            with server.client() as leaving:
                try:
                    leaving.post("/v1/run", json={"code": "print(1)"}, timeout=0.3)
                except httpx2.TimeoutException:
                    pass
            _until(watching, running=1, waiting=0)
        first.join()


def test_connections_beyond_the_descriptors_there_are_get_an_answer(serve: Callable[..., Server]) -> None:
    server = serve(descriptors=80)
    with ExitStack() as opened:
        clients = [opened.enter_context(server.client()) for _ in range(60)]
        told = [client.get("/v1/health").status_code for client in clients]  # none of them is closed yet
        assert (told[0], told[-1], set(told)) == (200, 503, {200, 503})
    with server.client() as http:
        _until_it_answers(http)
        assert http.post("/v1/run", json={"code": "print(1)"}).json()["stdout"] == "1\n"


def _until_it_answers(http: httpx2.Client) -> None:
    """Connections that were closed are noticed a moment later."""
    for _ in range(100):
        if http.get("/v1/health").status_code == 200:
            return
        time.sleep(0.05)
    raise AssertionError("it refuses everybody")


def _until(http: httpx2.Client, running: int, waiting: int) -> None:
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        lines = http.get("/metrics").text.splitlines()
        told = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines) if name[:1] != "#"}
        if (told["cloche_runs_running"], told["cloche_runs_waiting"]) == (running, waiting):
            return
    raise AssertionError(f"never {running} running and {waiting} waiting: {told}")
