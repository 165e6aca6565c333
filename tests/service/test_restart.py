"""Whatever a server was doing when it was killed or stopped, the next one knows what became of it."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.conftest import Server
from tests.host.conftest import Host
from tests.waiting import eventually

Serve = Callable[..., Server]
EVENTS = {"Accept": "text/event-stream"}


@pytest.fixture
def host() -> Host:
    return Host()


def everything(client: httpx2.Client, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after: dict[str, str] = {}
    while True:
        page = client.get(path, params={"limit": 1000, **after}).json()
        found += page["items"]
        if page["next"] is None:
            return found
        after = {"after": page["next"]}


def events(response: httpx2.Response) -> Iterator[tuple[str, dict[str, Any]]]:
    kind = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield kind, json.loads(line.removeprefix("data: "))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@contextmanager
def busy(server: Server, acknowledged: list[str]) -> Iterator[None]:
    """Four who run programs one after the other, and note what they have heard of."""
    over = threading.Event()

    def work(number: int) -> None:
        with server.client() as client:
            while not over.is_set():
                try:
                    answer = client.post("/v1/run", json={"code": f"print({number})"})
                except httpx2.TransportError:
                    return
                if answer.status_code == 200:
                    acknowledged.append(answer.json()["run_id"])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_a_kill_while_busy_leaves_nothing_running_and_loses_no_record(serve: Serve, host: Host) -> None:
    server = serve(folder="one")
    acknowledged: list[str] = []
    started: list[str] = []
    listening: list[Iterator[tuple[str, dict[str, Any]]]] = []
    with server.client() as client, busy(server, acknowledged), ExitStack() as streams:
        boxes = [client.post("/v1/sandboxes", json={"persistent": number == 0}).json() for number in range(3)]
        for box in boxes:
            answer = client.post(
                f"/v1/sandboxes/{box['id']}/commands", json={"command": "setsid sleep 600 & sleep 600"}
            )
            assert answer.status_code == 201
        path = f"/v1/sandboxes/{boxes[0]['id']}"
        for where in ("/v1/run", f"{path}/run"):
            wish = {"code": "import time; time.sleep(600)"}
            response = streams.enter_context(client.stream("POST", where, json=wish, headers=EVENTS))
            listening.append(events(response))  # a client that stops to listen has left, and its program ends
            kind, told = next(listening[-1])
            assert kind == "started"
            started.append(told["run_id"])
        while len(acknowledged) < 20:
            time.sleep(0.01)
        ours, keepers = host.descendants(server.process.pid), host.keepers(server.process.pid)
        assert len(ours) >= 8
        server.kill()
        gone = host.settles(lambda: not any(map(is_alive, ours)) and not host.groups(*keepers), 2)
        assert gone, ([pid for pid in ours if is_alive(pid)], host.groups(*keepers))

    again = serve(folder="one")
    with again.client() as client:
        runs = everything(client, "/v1/runs")
        states = {run["id"]: run["state"] for run in runs}
        assert len(states) == len(runs)
        assert {states[run] for run in acknowledged} == {"done"}
        assert [states[run] for run in started] == ["interrupted", "interrupted"]
        assert "running" not in states.values()
        assert Counter(states.values())["interrupted"] <= 2 + 4  # and what the four had under way
        assert all(run["ended"] >= run["started"] for run in runs)
        audited = Counter(entry["target"] for entry in everything(client, "/v1/audit") if entry["action"] == "run")
        assert all(audited[run] == 1 for run in (*acknowledged, *started))
        sandboxes = everything(client, "/v1/sandboxes")
        assert {box["id"] for box in sandboxes} == {box["id"] for box in boxes}
        assert {box["state"] for box in sandboxes} == {"lost"}
        assert all(box["reason"] and box["ended"] for box in sandboxes)
        assert client.get(f"{path}/files").status_code == 410
        assert client.delete(path).status_code == 204
        assert client.post("/v1/run", json={"code": "print(1)"}).json()["stdout"] == "1\n"
    assert again.stop() == 0
    third = serve(folder="one")
    with third.client() as client:  # told once is told for good
        assert {run["id"]: run["state"] for run in everything(client, "/v1/runs")}.items() >= states.items()
        entries = Counter(entry["target"] for entry in everything(client, "/v1/audit") if entry["action"] == "run")
        assert all(entries[run] == 1 for run in (*acknowledged, *started))


def test_again_and_again(serve: Serve) -> None:
    acknowledged: list[str] = []
    for _ in range(3):
        server = serve(folder="one")
        with busy(server, acknowledged):
            enough = len(acknowledged) + 10
            while len(acknowledged) < enough:
                time.sleep(0.005)
            server.kill()
    with serve(folder="one").client() as client:
        states = {run["id"]: run["state"] for run in everything(client, "/v1/runs")}
        assert {states[run] for run in acknowledged} == {"done"}
        assert set(states.values()) <= {"done", "interrupted"}


def test_a_server_that_is_told_to_stop_finishes_what_is_under_way(serve: Serve, host: Host) -> None:
    server = serve(folder="one")
    outcomes: dict[str, Any] = {}

    def post(name: str, path: str, body: dict[str, Any]) -> None:
        with server.client() as client, client.stream("POST", path, json=body, headers=EVENTS) as response:
            for kind, told in events(response):
                outcomes.setdefault(name, []).append((kind, told))

    def has_started(name: str) -> bool:
        return any(kind == "started" for kind, _ in outcomes.get(name, ()))

    with server.client() as client:
        box = client.post("/v1/sandboxes", json={}).json()
        client.post(f"/v1/sandboxes/{box['id']}/commands", json={"command": "sleep 600"})
    wishes = {
        "short": ("/v1/run", {"code": "import time; time.sleep(2); print('finished')"}),
        "long": ("/v1/run", {"code": "import time; time.sleep(600)", "timeout": 700}),
        "cell": (f"/v1/sandboxes/{box['id']}/run", {"code": "import time; time.sleep(600)", "timeout": 700}),
    }
    threads = [threading.Thread(target=post, args=(name, *wish)) for name, wish in wishes.items()]
    for thread in threads:
        thread.start()
    assert host.settles(lambda: all(map(has_started, wishes)), 20)
    ours, keepers = host.descendants(server.process.pid), host.keepers(server.process.pid)
    begin = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - begin < 15
    for thread in threads:
        thread.join()
    assert outcomes["short"][-1][0] == "end"
    assert outcomes["short"][-1][1]["result"]["stdout"] == "finished\n"
    for name in ("long", "cell"):
        assert outcomes[name][-1][0] in ("error", "end"), outcomes[name]
    assert host.settles(lambda: not any(map(is_alive, ours)) and not host.groups(*keepers), 2)
    assert os.listdir(server.folder / "data" / "journal") in ([], ["lock"])
    with serve(folder="one").client() as client:
        states = Counter(run["state"] for run in everything(client, "/v1/runs"))
        assert states["done"] == 1
        assert states["interrupted"] + states["failed"] == 2
        (known,) = everything(client, "/v1/sandboxes")
        assert (known["state"], known["reason"]) == ("ended", "the server was stopped")


def test_a_data_directory_that_cannot_be_made_is_told(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(AssertionError, match=r"data directory .* cannot be used: Not a directory") as failed:
        serve("--data-dir", str(tmp_path / "file" / "data"))
    assert "Traceback" not in str(failed.value)


def test_the_time_that_sandboxes_and_runs_used_is_known_to_the_next_server(serve: Serve) -> None:
    def used(client: httpx2.Client) -> float:
        return float(sum(day["cpu_time"] for day in client.get("/v1/usage?days=2").json()["days"].values()))

    server = serve(folder="one")
    with server.client() as admin, ExitStack() as streams:
        key = admin.post("/v1/keys", json={"owner": "ada", "name": "a", "limits": {"cpu_seconds_per_day": 0.5}}).json()
        ada = streams.enter_context(server.client(key=key["key"]))
        path = f"/v1/sandboxes/{ada.post('/v1/sandboxes', json={}).json()['id']}"
        ada.post(f"{path}/commands", json={"command": "while :; do :; done"})
        endless = {"code": "while True: pass", "timeout": 600}
        response = streams.enter_context(admin.stream("POST", "/v1/run", json=endless, headers=EVENTS))
        listening = events(response)  # a client that stops to listen has left, and its program ends
        next(listening)
        eventually(lambda: min(used(ada), used(admin)) > 0.5)
        before = used(ada), used(admin)
        server.kill()
    again = serve(folder="one")
    with again.client() as admin, again.client(key=key["key"]) as ada:
        assert [used(one) >= known for one, known in zip((ada, admin), before, strict=True)] == [True, True]
        assert ada.post("/v1/run", json={"code": "1"}).status_code == 429
        assert admin.post("/v1/run", json={"code": "1"}).status_code == 200
