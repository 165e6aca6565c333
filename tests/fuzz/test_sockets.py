"""WebSockets: mutated messages of valid conversations, at every address that takes messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.conftest import Server
from tests.fuzz.budget import SECONDS, seeds
from tests.fuzz.mutations import Mutator
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.frames import Opcode
from websockets.sync.client import ClientConnection, connect

CORPUS = Path(__file__).parent / "corpus" / "websocket"
_INTERNAL_ERROR = 1011
_MESSAGES_EACH = 8  # on one connection
MESSAGES: dict[str, list[dict[str, Any]]] = {
    "/": [
        {"type": "execute", "id": "a", "code": "print(1)", "language": "python", "timeout": 5, "stream": True},
        {"type": "execute", "code": "x = 1", "session": True, "view": "model", "budget": 100},
        {"type": "execute", "id": 7, "code": "input()", "interactive": True, "memory": "256M", "timeout": 1},
        {"type": "input", "id": 7, "data": "hello\n", "eof": True},
        {"type": "cancel", "id": "a"},
    ],
    "/v1/sandboxes/{sandbox}/terminal": [
        {"type": "resize", "columns": 80, "rows": 24},
        {"type": "signal", "signal": "SIGINT"},
        {"type": "signal", "signal": 28},
    ],
    "/v1/sandboxes/{sandbox}/live": [
        {"type": "usage", "interval": 1},
        {"type": "follow", "command": "{command}"},
    ],
}


@pytest.fixture
def names(http: httpx2.Client) -> Iterator[dict[str, str]]:
    sandbox = http.post("/v1/sandboxes", json={}).raise_for_status().json()["id"]
    command = http.post(f"/v1/sandboxes/{sandbox}/commands", json={"command": "cat"}).raise_for_status().json()["id"]
    yield {"sandbox": sandbox, "command": command}
    http.delete(f"/v1/sandboxes/{sandbox}")


@pytest.mark.timeout(SECONDS + 120)
def test_no_message_is_the_servers_fault(server: Server, names: dict[str, str]) -> None:
    begun = server.log.stat().st_size
    for path in sorted(CORPUS.glob("*.json")):
        kept = json.loads(path.read_text())
        frames = [(Opcode(kind), bytes.fromhex(data)) for kind, data in kept["frames"]]
        assert _converse(server, kept["address"].replace("{sandbox}", names["sandbox"]), frames) == ""
    sent = 0
    for seed in seeds():
        mutator = Mutator(seed)
        address = mutator.random.choice(sorted(MESSAGES))
        frames = [_frame(mutator, address, names) for _ in range(_MESSAGES_EACH)]
        problem = _converse(server, address.replace("{sandbox}", names["sandbox"]), frames)
        with open(server.log, "rb") as log:
            log.seek(begun)
            if b"Traceback" in (written := log.read()):
                problem = written.decode()[-2000:]
        assert not problem, f"seed {seed}: {problem}\n{_keep(address, frames)}"
        sent += len(frames)
    print(f"{sent} messages")


def _frame(mutator: Mutator, address: str, names: dict[str, str]) -> tuple[Opcode, bytes]:
    message = json.loads(json.dumps(mutator.random.choice(MESSAGES[address])).replace("{command}", names["command"]))
    if mutator.random.random() < 0.2:
        kind = mutator.random.choice((Opcode.TEXT, Opcode.BINARY, Opcode.PING, Opcode.PONG))
        return kind, mutator.data(json.dumps(message).encode())[:100]
    return Opcode.TEXT, json.dumps(mutator.json(message)).encode("utf-8", "surrogatepass")


def _converse(server: Server, address: str, frames: list[tuple[Opcode, bytes]]) -> str:
    """Send frames on a new connection; return what is wrong with the server's behaviour."""
    headers = {"Authorization": f"Bearer {server.key}"}
    url = server.url.replace("http", "ws") + address
    try:
        with connect(url, additional_headers=headers, proxy=None, open_timeout=30, close_timeout=10) as socket:
            with suppress(ConnectionClosed):
                for kind, data in frames:
                    _send(socket, kind, data)
                for _ in frames:
                    socket.recv(timeout=0.02)
            socket.close()
            return "the connection ended with an internal error" if socket.close_code == _INTERNAL_ERROR else ""
    except TimeoutError:
        return ""  # nothing more is said
    except (OSError, WebSocketException) as problem:
        return f"{type(problem).__name__}: {problem}"


def _send(socket: ClientConnection, kind: Opcode, data: bytes) -> None:
    """Send a frame as it is: the library would refuse invalid UTF-8."""
    with socket.send_context():
        match kind:
            case Opcode.TEXT:
                socket.protocol.send_text(data)
            case Opcode.BINARY:
                socket.protocol.send_binary(data)
            case Opcode.PING:
                socket.protocol.send_ping(data)
            case _:
                socket.protocol.send_pong(data)


def _keep(address: str, frames: list[tuple[Opcode, bytes]]) -> str:
    """Write the frames down, so that the finding can be tried again."""
    text = json.dumps({"address": address, "frames": [(int(kind), data.hex()) for kind, data in frames]})
    place = CORPUS / f"finding-{abs(hash(text)) % 10**8}.json"
    CORPUS.mkdir(parents=True, exist_ok=True)
    place.write_text(text + "\n")
    return f"The frames are kept as {place.name}; commit it with the mend."
