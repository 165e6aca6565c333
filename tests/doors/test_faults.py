"""The last resort: a problem on our side reaches the log, and only its id reaches the client."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any
from unittest.mock import MagicMock

import httpx2
import pytest

from cloche.configuration import Configuration
from cloche.doors.e2b.answers import refusal
from cloche.doors.e2b.envd.connect import problem_of
from cloche.doors.faults import for_client
from cloche.doors.http.problems import problem_response
from cloche.doors.server import application
from cloche.doors.shapes import problem_json
from cloche.errors import ClocheError, Gone, InvalidRun, Misconfigured, SandboxFailed, Unavailable
from cloche.store.database import Database

SECRETS = ("/var/lib/cloche/data", "/opt/cloche/environment/bin/python", "/root/.cache/x", "db.internal")


def host_errors() -> list[ClocheError]:
    """Errors with texts for operators."""
    away = Database("postgresql://user:password@db.internal/cloche")._translated(OSError("no route to db.internal"))
    rejected = Database("postgresql://user:password@db.internal/cloche")._translated(ValueError("of db.internal"))
    return [
        away,
        rejected,
        SandboxFailed("No sandbox can be started here: /var/lib/cloche/data is missing."),
        Misconfigured("The Python is missing.", hint="Look at /opt/cloche/environment/bin/python."),
        Unavailable("The journal in /root/.cache/x cannot be written."),
        ClocheError("It is at /root/.cache/x."),
    ]


@pytest.mark.parametrize("number", range(6))
def test_no_door_says_anything_about_the_host(number: int) -> None:
    error = host_errors()[number]
    shown = [
        bytes(problem_response(error).body).decode(),
        refusal(error).message,
        problem_of(error).message,
        str(problem_json(error)),
    ]
    for text in shown:
        assert not [secret for secret in SECRETS if secret in text], text
    assert any(secret in str(error) for secret in SECRETS)  # the operator still learns it


def test_texts_about_the_request_stay() -> None:
    for error in (
        InvalidRun("/etc/passwd/x is no path of yours."),
        Gone("/sandbox/a/b does not exist."),
        SandboxFailed("The workspace is damaged.", hint="See GET /v1/workspaces."),
        SandboxFailed("The sandbox could not read /sandbox/a/b."),
    ):
        assert for_client(error) is error


@pytest.mark.parametrize("path", ["/v1/version", "/v1/health", "/sandboxes", "/v2", "/nothing", "/files"])
async def test_an_unexpected_exception_is_an_id(caplog: pytest.LogCaptureFixture, path: str) -> None:
    service = MagicMock()
    service.configuration = Configuration()
    service.keyring.find.side_effect = RuntimeError("/var/lib/cloche/data")
    service.sandboxes.living.side_effect = RuntimeError("/var/lib/cloche/data")
    gate = application(service, MagicMock())
    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
    headers = [(b"host", b"localhost"), (b"x-api-key", b"k")]
    more = {"scheme": "http", "server": ("x", 1), "client": ("x", 1), "headers": headers, "root_path": "", "state": {}}
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    with caplog.at_level(logging.ERROR):
        await gate({**scope, **more}, receive, send)
    body = b"".join(message.get("body", b"") for message in sent).decode()
    assert "/var/lib" not in body
    if sent[0]["status"] == 500:
        found = re.search(r"fault ([0-9a-f]{8})", body)
        assert found is not None
        assert len([record for record in caplog.records if found[1] in record.getMessage()]) == 1
    else:
        assert (path, sent[0]["status"]) in [("/v1/health", 200), ("/files", 401)]


def test_an_upload_to_a_sandbox_that_ends_meanwhile(http: httpx2.Client, server: Any) -> None:
    sandbox = f"/v1/sandboxes/{http.post('/v1/sandboxes', json={}).json()['id']}"

    def pieces() -> Iterator[bytes]:
        for number in range(2000):
            if number == 20:
                with server.client() as another:
                    assert another.delete(sandbox).status_code == 204
            yield b"x" * 100_000

    answer = http.put(f"{sandbox}/files/f", content=pieces())
    assert answer.status_code == 404
    assert "Errno" not in answer.text
