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


def test_runs_of_one_key_that_never_end_leave_room_for_others(serve: Callable[..., Server]) -> None:
    server = serve("--runs-at-once", "8", "--queue", "4")
    with server.client() as http, ExitStack() as stack:
        keys = [http.post("/v1/keys", json={"owner": name, "name": name}).json()["key"] for name in "abcde"]
        greedy, *modest = [stack.enter_context(server.client(key)) for key in keys]
        refused: list[int] = []

        def ask() -> None:
            try:
                answer = greedy.post("/v1/run", json={"code": "import time; time.sleep(60)", "timeout": 60})
                refused.append(answer.status_code)
            except httpx2.TransportError:
                pass  # the test is over

        asking = [threading.Thread(target=ask) for _ in range(12)]
        for thread in asking:
            thread.start()
        _until(http, running=5, waiting=4)  # two thirds of eight; the others were refused
        for client in (*modest, http):
            assert client.post("/v1/run", json={"code": "print(1)"}).json()["stdout"] == "1\n"
        server.kill()
        for thread in asking:
            thread.join()
        assert refused == [503] * 3


def test_sandboxes_of_one_key_leave_room_for_others(serve: Callable[..., Server]) -> None:
    server = serve("--sandboxes", "4")
    with server.client() as http, ExitStack() as stack:
        keys = [http.post("/v1/keys", json={"owner": name, "name": name}).json()["key"] for name in "ab"]
        greedy, modest = [stack.enter_context(server.client(key)) for key in keys]
        answers = [greedy.post("/v1/sandboxes", json={}) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [201, 201, 503]
        assert "the last free places are for other keys" in answers[-1].json()["error"]["message"]
        assert modest.post("/v1/sandboxes", json={}).status_code == 201
        assert http.post("/v1/sandboxes", json={}).status_code == 201
        assert greedy.delete(f"/v1/sandboxes/{answers[0].json()['id']}").status_code == 204
        assert greedy.post("/v1/sandboxes", json={}).status_code == 201  # every key has one


def test_connections_beyond_the_descriptors_take_the_places_of_idle_ones(
    serve: Callable[..., Server],
) -> None:
    server = serve(descriptors=80)
    with ExitStack() as opened:
        clients = [opened.enter_context(server.client()) for _ in range(60)]
        told = [client.get("/v1/health").status_code for client in clients]  # none of them is closed yet
        assert set(told) == {200}  # idle connections make way
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
