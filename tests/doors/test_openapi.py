"""The description is true: whatever is asked gets an answer that it tells of, and nothing is ever our fault."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis


@pytest.fixture
def identity(server: Any) -> Iterator[str]:
    """The id of a sandbox with a file."""
    with server.client() as http:
        made: str = http.post("/v1/sandboxes", json={"undo": True}).json()["id"]
        http.put(f"/v1/sandboxes/{made}/files/there.txt", content=b"hello")
        yield made
        http.delete(f"/v1/sandboxes/{made}")


def test_what_succeeds_is_as_described(server: Any, identity: str) -> None:
    """Random requests (tests/fuzz/test_operations.py) rarely succeed, so here are some that do."""
    sandbox = "/v1/sandboxes/{sandbox_id}"
    with server.client() as http:
        described = schemathesis.openapi.from_dict(http.get("/openapi.json").json())

        def ask(method: str, path: str, status: int = 200, **more: Any) -> Any:
            more.setdefault("path_parameters", {"sandbox_id": identity} if "{sandbox_id}" in path else {})
            address = path
            for name, value in more.pop("path_parameters").items():
                address = address.replace(f"{{{name}}}", value)
            answer = http.request(method, address, **more)
            assert answer.status_code == status, answer.text
            described[path][method].validate_response(answer)
            return answer

        chart = "import sys; print(1); sys.stderr.write('e'); open('/sandbox/output/x.txt', 'w').write('x')"
        ask("POST", "/v1/run", json={"code": chart})
        ask("POST", "/v1/run", json={"code": "1/0"})
        ask("POST", "/v1/run", json={"code": "1/0", "view": "model"})
        ask("POST", "/v1/run", json={"code": "1", "view": "model"}, headers={"Accept": "text/plain"})
        ask("POST", "/v1/run", json={"code": "1"}, headers={"Accept": "text/event-stream"})
        run = ask("POST", f"{sandbox}/run", json={"code": "from IPython.display import HTML; HTML('x')"}).json()[
            "run_id"
        ]
        ask("GET", "/v1/runs/{run_id}", path_parameters={"run_id": run})
        ask("GET", "/v1/runs/{run_id}/events", path_parameters={"run_id": run})
        ask("GET", "/v1/runs")
        ask("GET", "/v1/sandboxes")
        ask("GET", sandbox)
        ask("PATCH", sandbox, json={"ttl": 1000})
        ask("GET", f"{sandbox}/usage")
        ask("GET", f"{sandbox}/history")
        ask("POST", f"{sandbox}/attempts", 201, json={"code": "z = 1"})
        ask("POST", f"{sandbox}/best_of", json={"candidates": ["a = 1", "a = 2"], "score": "a"})
        ask("POST", f"{sandbox}/fork", 201, json={})
        ask("POST", f"{sandbox}/undo")
        ask("POST", f"{sandbox}/checkpoints", 201, json={"name": "z"})
        ask("POST", f"{sandbox}/commands", 201, json={"command": ["true"]})
        ask("POST", f"{sandbox}/commands", json={"command": "echo x", "wait": True})
        ask("GET", f"{sandbox}/commands")
        ask("GET", f"{sandbox}/files")
        ask("GET", f"{sandbox}/disk")
        ask("GET", f"{sandbox}/stat")
        ask("GET", f"{sandbox}/archive")
        ask("GET", f"{sandbox}/files/{{path}}", path_parameters={"sandbox_id": identity, "path": "there.txt"})
        ask("GET", "/v1/usage")
        ask("GET", "/v1/audit")
        ask("GET", "/metrics")
        key = ask("POST", "/v1/keys", 201, json={"owner": "ada", "name": "described"}).json()["id"]
        ask("GET", "/v1/keys")
        ask("DELETE", "/v1/keys/{key_id}", 204, path_parameters={"key_id": key})
        ask("GET", "/v1/health")
        ask("GET", "/v1/ready")
        ask("GET", "/v1/version")


def test_a_client_can_be_generated_from_the_description(server: Any) -> None:
    """Generators take the first form of an answer for the only one, and what has no form for nothing."""
    with server.client() as http:
        paths = http.get("/openapi.json").json()["paths"]
    answers = [
        (f"{method} {path} {status}", answer.get("content", {}))
        for path, operations in paths.items()
        for method, operation in operations.items()
        for status, answer in operation["responses"].items()
        if status in ("200", "201")
    ]

    assert len(answers) > 50
    for where, content in answers:
        assert content, where
        assert "application/json" not in content or next(iter(content)) == "application/json", where
        for kind, told in content.items():
            if kind == "application/json":
                assert told["schema"], where
            elif kind.startswith("text/"):
                assert told.get("schema", {}).get("type") in (None, "string"), where
