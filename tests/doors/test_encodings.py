"""A chart is encoded once on its way to a client, through whichever door it goes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Server
from tests.doors import sse
from tests.doors.counting.sitecustomize import MARK
from tests.doors.sse import STREAM
from tests.doors.test_mcp import client_of as mcp_client
from tests.doors.test_websocket import client_of as websocket_client
from websockets.asyncio.client import connect

# ruff: noqa: E501  (the code that a sandbox runs)

# A picture and the figure that it shows.  Both are too large for the store to keep, and each has the mark once.
CODE = f"""
import struct, zlib
from base64 import b64decode, b64encode
from IPython.display import display
mark = "{MARK[:10]}" + "{MARK[10:]}"  # the code itself has no mark
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
# The text begins at the 45th byte, so that its Base64 has the mark.
parts = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)), chunk(b"tEXt", b"key\\0" + b64decode(mark) + b"A" * 300_000)
picture = b64encode(b"\\x89PNG\\r\\n\\x1a\\n" + b"".join(parts) + chunk(b"IDAT", zlib.compress(bytes(2))) + chunk(b"IEND", b"")).decode()
chart = {{"type": "line", "title": mark, "elements": [{{"label": "x" * 100}} for _ in range(5000)]}}
display({{"image/png": picture, "application/vnd.cloche.chart+json": chart}}, raw=True)
"""


class Counting:
    """A server that counts the texts which it writes of the chart."""

    def __init__(self, server: Server, counted: Path) -> None:
        self.server, self._counted = server, counted
        self.http = server.client()
        self.sandbox = f"/v1/sandboxes/{self.http.post('/v1/sandboxes', json={}).json()['id']}"

    def encodings(self) -> list[str]:
        """Who encoded the chart since the last time."""
        found = self._counted.read_text().splitlines() if self._counted.exists() else []
        self._counted.write_text("")
        return found


@pytest.fixture
def counting(counting_server: Counting) -> Counting:
    counting_server.encodings()  # those of the test before, if it failed
    return counting_server


@pytest.fixture(scope="module")
def counting_server(jail: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counting]:
    folder = tmp_path_factory.mktemp("counting")
    environment = {
        "PYTHONPATH": str(Path(__file__).with_name("counting")),
        "COUNTED": str(folder / "counted"),
        "CLOCHE_WARM": "0",
    }
    server = Server(folder, env=environment)
    found = Counting(server, folder / "counted")
    yield found
    found.http.close()
    server.stop()


def by_http(counting: Counting) -> str:
    return counting.http.post(f"{counting.sandbox}/run", json={"code": CODE}).text


def by_events(counting: Counting) -> str:
    return counting.http.post(f"{counting.sandbox}/run", json={"code": CODE}, headers=STREAM).text


def by_websocket(counting: Counting, **options: Any) -> str:
    async def talk() -> str:
        async with websocket_client(counting.server) as client:
            await client.send(type="execute", code=CODE, session=counting.sandbox.rpartition("/")[2], **options)
            messages = [await client.receive()]
            while messages[-1]["type"] != "result":
                messages.append(await client.receive())
            return json.dumps(messages)

    return asyncio.run(talk())


def by_websocket_stream(counting: Counting) -> str:
    return by_websocket(counting, stream=True)


def by_mcp(counting: Counting) -> str:
    async def talk() -> str:
        async with mcp_client(counting.server) as client:
            return (await client.call_tool("code_execution", {"code": CODE})).model_dump_json()

    return asyncio.run(talk())


def by_e2b(counting: Counting) -> str:
    made = counting.http.post("/sandboxes", json={"templateID": "base", "secure": False}).json()
    headers = {"E2b-Sandbox-Port": "49999", "E2b-Sandbox-Id": made["sandboxID"]}
    return counting.http.post("/execute", json={"code": CODE}, headers=headers).text


@pytest.mark.parametrize(
    ("way", "marks"),
    [
        (by_http, 2),  # one of the picture and one of the figure
        (by_events, 4),  # the same when it is shown, and in the result at the end
        (by_websocket, 2),
        (by_websocket_stream, 4),
        (by_mcp, 2),  # the picture, and the title of the figure in the text
        (by_e2b, 2),
    ],
)
def test_a_chart_is_encoded_once(counting: Counting, way: Callable[[Counting], str], marks: int) -> None:
    assert way(counting).count(MARK) == marks
    assert len(encodings := counting.encodings()) == 1, encodings


def test_a_chart_is_encoded_once_for_all_who_listen(counting: Counting) -> None:
    hold = "open('go').read()"  # until the others listen
    counting.http.post(f"{counting.sandbox}/run", json={"code": "import os; os.path.exists('go') or os.mkfifo('go')"})
    with counting.http.stream("POST", f"{counting.sandbox}/run", json={"code": hold + CODE}, headers=STREAM) as first:
        events = sse.events(first)
        run = next(events).data["run_id"]
        with counting.http.stream("GET", f"/v1/runs/{run}/events") as second:
            others = sse.events(second)
            assert next(others).data["run_id"] == run
            counting.http.post(f"{counting.sandbox}/commands", json={"command": "echo > go", "wait": True})
            seen = [[(one.kind, str(one.data).count(MARK)) for one in each] for each in (events, others)]

    assert seen[0] == seen[1] == [("result", 2), ("end", 2)]
    assert len(encodings := counting.encodings()) == 1, encodings


def test_the_count_can_be_more(counting: Counting) -> None:
    first = by_events(counting)
    run = json.loads(first.partition("data: ")[2].partition("\n")[0])["run_id"]
    again = counting.http.get(f"/v1/runs/{run}/events").text  # nobody listened in between: no text was kept

    assert again.count(MARK) == first.count(MARK)
    assert len(counting.encodings()) == 2


def test_a_page_that_shows_no_charts_has_none_encoded(counting: Counting) -> None:
    async def look() -> list[dict[str, Any]]:
        address = f"{counting.server.url.replace('http', 'ws')}{counting.sandbox}/live"
        headers = {"Authorization": f"Bearer {counting.server.key}"}
        async with connect(address, additional_headers=headers, proxy=None) as socket:
            await socket.recv()
            await asyncio.to_thread(by_http, counting)
            found: list[dict[str, Any]] = []
            while not found or found[-1].get("event", {}).get("kind") != "run.end":
                found.append(json.loads(await socket.recv()))
            return found

    shown = [one["event"] for one in asyncio.run(look()) if one.get("event", {}).get("kind") == "run.result"]
    assert [event["cut"] for event in shown] == [True]
    assert len(encodings := counting.encodings()) == 1, encodings
