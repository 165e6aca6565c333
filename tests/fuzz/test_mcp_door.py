"""MCP: mutated messages of a valid conversation, to every tool that is offered."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conftest import Server
from tests.fuzz.budget import SECONDS
from tests.fuzz.requests import Request, Target, filled

from cloche.doors.mcp.server import TOOLS

_HEADERS = {
    "Authorization": "Bearer {key}",
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-06-18",
    "Mcp-Session-Id": "{conversation}",
}
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "code_execution": {"code": "print(1)", "language": "python", "timeout": 5},
    "session_create": {"language": "python"},
    "session_list": {},
    "session_end": {"session": "nothing"},
    "session_restart": {},
    "session_interrupt": {},
    "files_read": {"path": "a.txt"},
    "files_write": {"path": "a.txt", "content": "hello"},
    "files_list": {"path": "."},
    "environment_list": {},
    "packages_install": {"packages": ["six"], "language": "python"},
    "packages_search": {"query": "six"},
    "checkpoint": {"name": "here"},
    "restore": {"checkpoint": "here"},
    "undo": {},
}
_START = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"roots": {"listChanged": True}},
    "clientInfo": {"name": "fuzz", "version": "1"},
}


def _message(method: str, parameters: dict[str, Any] | None = None, identity: int | None = 1) -> Request:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": parameters or {}}
    if identity is not None:
        message["id"] = identity
    return Request("POST", "/mcp", message, headers=_HEADERS)


MESSAGES = [
    _message("notifications/initialized", identity=None),
    _message("ping"),
    _message("tools/list"),
    _message("resources/list"),
    _message("resources/templates/list"),
    _message("resources/read", {"uri": "sandbox:///a.txt"}),
    _message("prompts/list"),
    _message("notifications/cancelled", {"requestId": 7, "reason": "no"}, identity=None),
    _message("logging/setLevel", {"level": "debug"}),
    *(_message("tools/call", {"name": name, "arguments": given}) for name, given in _ARGUMENTS.items()),
]


@pytest.mark.timeout(SECONDS + 120)
def test_no_message_is_the_servers_fault(server: Server) -> None:
    target = Target(server, "mcp")
    start = _message("initialize", _START)
    headers = {name: value for name, value in _HEADERS.items() if not name.startswith(("M", "Au"))}
    with server.client() as http:

        def begin() -> list[Request]:
            begun = http.post("/mcp", json=start.payload, headers=headers).raise_for_status()
            target.names = {"key": server.key, "conversation": begun.headers["mcp-session-id"]}
            return [filled(message, **target.names) for message in (*MESSAGES, start)]

        conversation = begin()
        for request in [*target.past(), *conversation]:
            assert target.problem(request) == "", request
        sent = target.fuzz(begin)
    assert target.statuses[200] > len(conversation) // 2, target.statuses
    print(f"{sent} messages: {target.statuses}")


def test_the_conversation_has_every_tool() -> None:
    assert set(TOOLS) == set(_ARGUMENTS)
