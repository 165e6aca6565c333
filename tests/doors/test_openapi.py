"""The description is true: whatever is asked gets an answer that it tells of, and nothing is ever our fault."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

EXAMPLES = 6
# These go on until somebody leaves; what they answer is tested elsewhere.
ENDLESS = ("/events", "/watch")
_CHECKS: Any = (status_code_conformance, content_type_conformance, response_schema_conformance)
_MANY = settings(
    max_examples=EXAMPLES,
    database=None,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def known(server: Any) -> Iterator[dict[str, list[str]]]:
    """Ids of things that are there, by the name that the description has for them."""
    with server.client() as http:
        sandbox = http.post("/v1/sandboxes", json={"undo": True}).json()["id"]
        path = f"/v1/sandboxes/{sandbox}"
        run = http.post(f"{path}/run", json={"code": "x = 1"}).json()["run_id"]
        http.put(f"{path}/files/there.txt", content=b"hello")
        yield {
            "sandbox_id": [sandbox],
            "run_id": [run],
            "path": ["there.txt", ".", "new/folder/file", "../x"],
            "command": [http.post(f"{path}/commands", json={"command": "cat"}).json()["id"]],
            "context": [http.post(f"{path}/contexts", json={}).json()["id"]],
            "checkpoint": [http.post(f"{path}/checkpoints", json={"name": "here"}).json()["id"], "here"],
            "attempt": [http.post(f"{path}/attempts", json={"code": "y = 2"}).json()["id"]],
        }
        http.delete(path)


@pytest.mark.timeout(300)
def test_every_operation_answers_as_described(server: Any, known: dict[str, list[str]]) -> None:
    """One after the other, so that what one of them breaks is seen at the next."""
    with server.client() as http:
        described = schemathesis.openapi.from_dict(http.get("/openapi.json").json())
    problems: list[str] = []
    tried = 0
    with httpx2.Client(base_url=server.url, timeout=20, trust_env=False) as http:
        for found in described.get_all_operations():
            operation = found.ok()
            if operation.path.endswith(ENDLESS):
                continue
            tried += 1
            problems += _attempt(server, operation, known)
            assert http.get("/v1/health").status_code == 200, f"dead after {operation.label}"
    assert not problems, "\n\n".join(problems)
    assert tried > 40


def _attempt(server: Any, operation: Any, known: dict[str, list[str]]) -> list[str]:
    """What is wrong with the answers to many requests of one operation."""
    problems: dict[str, str] = {}
    if operation.method == "delete":  # what the other requests need
        known = {} if operation.path.endswith("{sandbox_id}") else {"sandbox_id": known["sandbox_id"]}
    can_be_wrong = bool(list(operation.query) or list(operation.body))  # ids are any text
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)[: 1 + can_be_wrong]:
        strategy = operation.as_strategy(generation_mode=mode)
        cases = strategy.flatmap(lambda case: st.builds(_with_known, st.just(case), _choice(case, known)))

        @_MANY
        @given(cases)
        def ask(case: Any) -> None:
            _ask(server, case, problems)

        try:
            ask()
        except Unsatisfiable:
            continue  # nothing of it can be wrong
    return list(problems.values())


def _ask(server: Any, case: Any, problems: dict[str, str]) -> None:
    label = case.operation.label
    if case.query and "wait" in case.query:
        case.query["wait"] = str(case.query["wait"])[:1]  # seconds, and nobody has so many
    try:
        answer = case.call(base_url=server.url, headers={"X-API-Key": server.key}, timeout=20)
    except Exception as problem:
        problems[type(problem).__name__] = f"{label}: {problem!r:.300}"
        return
    if answer.status_code >= 500 and answer.status_code != 507 and "retry-after" not in answer.headers:
        problems[str(answer.status_code)] = f"{label}: {case.as_curl_command()[:900]} → {answer.text[:300]}"
    if label == "POST /v1/sandboxes" and answer.status_code == 201:
        made = f"{server.url}/v1/sandboxes/{answer.json()['id']}"
        httpx2.delete(made, headers={"X-API-Key": server.key}, trust_env=False).raise_for_status()
    for check in _CHECKS:
        try:
            case.validate_response(answer, checks=[check])
        except BaseExceptionGroup as group:
            problems[check.__name__] = f"{label}: {answer.status_code} {str(group.exceptions[0])[:700]}"


def _choice(case: Any, known: dict[str, list[str]]) -> Any:
    """Mostly things that are there, so that requests get far."""
    there = {name: st.sampled_from(known[name]) for name in case.path_parameters or {} if name in known}
    return st.one_of(st.fixed_dictionaries(there), st.fixed_dictionaries(there), st.just({}))


def _with_known(case: Any, chosen: dict[str, str]) -> Any:
    case.path_parameters = {**(case.path_parameters or {}), **chosen}
    return case


def test_what_succeeds_is_as_described(server: Any, known: dict[str, list[str]]) -> None:
    """Random requests rarely succeed, so here are some that do."""
    sandbox = "/v1/sandboxes/{sandbox_id}"
    identity = known["sandbox_id"][0]
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
