"""The description is true: whatever is asked, within it or not, gets an answer that it tells of, and never our fault."""

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

EXAMPLES = 12
# These go on until somebody leaves; what they answer is tested elsewhere.
ENDLESS = ("/events", "/watch")
# These end what the other requests need.
DEADLY = ("delete /v1/sandboxes/{sandbox_id}", "delete /v1/keys/{key_id}", "post /containers/cleanup")
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
    if f"{operation.method} {operation.path}" in DEADLY:
        known = {}
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
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
    try:
        answer = case.call(base_url=server.url, headers={"X-API-Key": server.key}, timeout=20)
    except Exception as problem:
        problems[type(problem).__name__] = f"{label}: {problem!r:.300}"
        return
    if answer.status_code >= 500 and answer.status_code != 507 and "retry-after" not in answer.headers:
        problems[str(answer.status_code)] = f"{label}: {case.as_curl_command()[:900]} → {answer.text[:300]}"
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
