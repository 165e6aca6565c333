"""The OpenAPI description makes sense in a generated client: names, summaries, security and refusals follow rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from jsonschema import validate  # type: ignore[import-untyped]

from cloche.doors.gate.cookies import COOKIE
from cloche.doors.http import app, examples
from cloche.doors.routing.description import SUBJECTS, DescribedApplication, split
from cloche.doors.routing.routes import OperationRoute

IDS = Path(__file__).with_name("operation_ids.txt")
NOBODY = cast(Any, None)


@pytest.fixture(scope="module")
def application() -> DescribedApplication:
    """The application of no server: the description needs none."""
    return cast(DescribedApplication, app.build(NOBODY, NOBODY, NOBODY, NOBODY))


@pytest.fixture(scope="module")
def described(application: DescribedApplication) -> dict[str, Any]:
    return application.openapi()


def operations(described: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def test_ids_are_unique_follow_one_rule_and_stay_as_they_are(described: dict[str, Any]) -> None:
    """Code that was written with a generated client breaks when an id changes, so the ids are on a list."""
    ids = [operation["operationId"] for _, _, operation in operations(described)]
    assert len(ids) == len(set(ids))
    for _, path, operation in operations(described):
        (subject,) = operation["tags"]
        assert subject in SUBJECTS, path
        assert re.fullmatch(rf"{subject}_[a-z]+(_[a-z]+)*", operation["operationId"]), path
    assert sorted(ids) == IDS.read_text().split(), f"add new ids to {IDS.name}; do not change those that are there"


def test_every_operation_has_a_sentence_for_people(described: dict[str, Any]) -> None:
    for method, path, operation in operations(described):
        summary = operation["summary"]
        assert re.match(r"[A-Z][a-z]+ \S+", summary), (method, path, summary)
        assert 10 <= len(summary) <= 110, (method, path, summary)
        assert "scope `" in operation["description"] or "Needs no key." in operation["description"]
        assert operation["summary"].lower() != operation["operationId"].replace("_", " ")


def test_security_is_what_the_route_declares(application: DescribedApplication, described: dict[str, Any]) -> None:
    schemes = described["components"]["securitySchemes"]
    assert (schemes["bearer"]["scheme"], schemes["header"]["name"], schemes["cookie"]["name"]) == (
        "bearer",
        "X-API-Key",
        COOKIE,
    )
    needing = 0
    for route in application.router.routes:
        if isinstance(route, OperationRoute) and route.include_in_schema:
            method = "".join(route.methods or ())
            path = re.sub(r":\w+\}", "}", route.path)
            told = described["paths"][path][method.lower()]["security"]
            scope = route.access.scope
            needs = scope in ("read", "run", "admin")
            assert told == ([{name: [scope]} for name in schemes] if needs else []), path
            needing += needs
    assert needing > 70


def test_every_refusal_is_described_and_no_answer_is_left_to_the_framework(described: dict[str, Any]) -> None:
    refusals = described["components"]["responses"]
    for method, path, operation in operations(described):
        answers = operation["responses"]
        if operation["security"]:
            assert {"401", "403", "429"} <= set(answers), (method, path)
        for status, answer in answers.items():
            if "$ref" in answer:
                answer = refusals[answer["$ref"].rpartition("/")[2]]
            assert answer["description"] not in ("", "Successful Response"), (method, path, status)
    assert "HTTPValidationError" not in described["components"]["schemas"]


def test_the_examples_of_the_reference_are_valid(described: dict[str, Any]) -> None:
    tried = 0
    for method, path, operation in operations(described):
        line = examples.example(method, path, operation, described)
        assert line.startswith("curl ")
        assert "{" not in line.partition("--json")[0], line
        kinds = operation.get("requestBody", {}).get("content", {})
        if "application/json" in kinds:
            schema = {**kinds["application/json"]["schema"], "components": described["components"]}
            validate(examples.body_of(operation, described), schema)
            tried += 1
    assert tried > 25


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Do this.", ("Do this", "")),
        ("Do this.  And\n    that.", ("Do this", "And that.")),
        ("Read v1.2 of it.", ("Read v1.2 of it", "")),
        ("No stop", ("No stop", "")),
    ],
)
def test_the_first_sentence_is_the_summary(text: str, parts: tuple[str, str]) -> None:
    assert split(text) == parts


def test_anybody_reads_the_description_which_says_nothing_about_this_server(
    server: Any, described: dict[str, Any]
) -> None:
    with httpx2.Client(base_url=server.url, trust_env=False) as stranger:
        assert stranger.get("/openapi.json").json() == described
        reference = stranger.get("/docs")
        foreign = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}
        assert stranger.get("/openapi.json", headers=foreign).status_code == 403
        assert stranger.get("/openapi.json", headers={"Host": "evil.example"}).status_code == 421
    assert reference.status_code == 200
    for _, path, operation in operations(described):
        assert f'id="{operation["operationId"]}"' in reference.text, path
    assert "<script src" not in reference.text
    assert "://" not in re.sub(r"http://localhost:7500|http://www\.w3\.org/2000/svg|http%3A", "", reference.text)
