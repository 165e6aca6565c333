"""Every described operation, with generated requests about objects that exist: the answers are as described."""

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
from tests.conftest import Server
from tests.fuzz.budget import SECONDS, SEED
from tests.fuzz.world import World

EXAMPLES = max(4, int(SECONDS / 6))  # of each operation, valid and invalid ones
# These go on until the client leaves; tests/doors has tests of their answers.
ENDLESS = ("/events", "/watch")
# Operations that end or replace objects, by the end of their path.
ENDING = {
    "/pause": ("sandbox_id",),
    "/keep": ("attempt",),
    "/discard": ("attempt",),
    "/undo": ("sandbox_id",),
    "/restore": ("context", "attempt"),
    "/signal": ("command",),
    "/stdin": ("command",),
}
# What a request needs besides its path and body, so that it cannot get further than 404 here.
UNREACHED = {
    "POST /v1/runs/{run_id}/calls/{call}": "a run that waits for a tool: tests/doors/test_sessions.py",
}
_CHECKS: Any = (status_code_conformance, content_type_conformance, response_schema_conformance)
_MANY = settings(
    max_examples=EXAMPLES,
    database=None,
    deadline=None,
    derandomize=SEED == 1,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def world(server: Server) -> Iterator[World]:
    with server.client() as http:
        made = World(http)
        yield made
        made.close()


@pytest.mark.timeout(SECONDS * 20 + 300)
def test_every_operation_answers_as_described(server: Server, world: World) -> None:
    """One after the other, so that the next one shows what the last one broke."""
    with server.client() as http:
        described = schemathesis.openapi.from_dict(http.get("/openapi.json").json())
    problems: list[str] = []
    unreached: list[str] = []
    tried = 0
    with httpx2.Client(base_url=server.url, timeout=20, trust_env=False) as http:
        for found in described.get_all_operations():
            operation = found.ok()
            if operation.path.endswith(ENDLESS):
                continue
            tried += 1
            attempts = Attempts(server, operation, world)
            problems += attempts.problems.values()
            if attempts.statuses <= {404} and operation.label not in UNREACHED:
                unreached.append(operation.label)
            assert http.get("/v1/health").status_code == 200, f"dead after {operation.label}"
    assert not problems, "\n\n".join(problems)
    assert not unreached, f"only 404, so nothing was tried: {unreached}"
    assert tried > 60


class Attempts:
    """Many requests of one operation, and the problems with their answers."""

    def __init__(self, server: Server, operation: Any, world: World) -> None:
        self._server, self._world = server, world
        self.problems: dict[str, str] = {}
        self.statuses: set[int] = set()
        can_be_wrong = bool(list(operation.query) or list(operation.body))  # ids are any text
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)[: 1 + can_be_wrong]:
            cases = operation.as_strategy(generation_mode=mode)

            @_MANY
            @given(cases, st.sampled_from((True, True, True, False)))
            def ask(case: Any, about_something: bool) -> None:
                self._ask(case, about_something)

            try:
                ask()
            except Unsatisfiable:
                continue  # nothing of it can be wrong
        if self.statuses <= {404}:  # all of them were about nothing: once more about something
            _once(operation, self._ask)

    def _ask(self, case: Any, about_something: bool) -> None:
        label = case.operation.label
        if about_something:
            for name in case.path_parameters or {}:
                if self._world.knows(name):
                    case.path_parameters[name] = self._world.id(name)
        if case.query and "wait" in case.query:
            case.query["wait"] = str(case.query["wait"])[:1]  # seconds
        try:
            answer = case.call(base_url=self._server.url, headers={"X-API-Key": self._server.key}, timeout=20)
        except Exception as problem:
            self.problems[type(problem).__name__] = f"{label}: {problem!r:.300}"
            return
        self.statuses.add(answer.status_code)
        self._keep_the_world(case, answer)
        if answer.status_code >= 500 and answer.status_code != 507 and "retry-after" not in answer.headers:
            self.problems[str(answer.status_code)] = f"{label}: {case.as_curl_command()[:900]} → {answer.text[:300]}"
        for check in _CHECKS:
            try:
                case.validate_response(answer, checks=[check])
            except BaseExceptionGroup as group:
                self.problems[check.__name__] = f"{label}: {answer.status_code} {str(group.exceptions[0])[:700]}"

    def _keep_the_world(self, case: Any, answer: Any) -> None:
        """Forget objects that a request has ended, and end those that it has made."""
        path: str = case.operation.path
        if answer.status_code >= 400:
            return
        if case.operation.method == "delete":
            self._world.forget(path.rpartition("{")[2].rstrip("}"))
        for ending, names in ENDING.items():
            if path.endswith(ending):
                self._world.forget(*names)
        if answer.status_code == 201 and path == "/v1/sandboxes":
            made = f"{self._server.url}/v1/sandboxes/{answer.json()['id']}"
            httpx2.delete(made, headers={"X-API-Key": self._server.key}, trust_env=False).raise_for_status()


def _once(operation: Any, ask: Any) -> None:
    @settings(_MANY, max_examples=2)
    @given(operation.as_strategy(generation_mode=GenerationMode.POSITIVE))
    def again(case: Any) -> None:
        ask(case, True)

    again()
