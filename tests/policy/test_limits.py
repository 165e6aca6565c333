"""The operator's bounds: nobody gets more, through whichever verb of the service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Server

from cloche.configuration import Configuration, load
from cloche.errors import InvalidRun
from cloche.model.limits import BY_NAME, LIMITS, Limit, Limits
from cloche.policy.caller import Caller
from cloche.policy.limits import limits_for, reduced
from cloche.service.commands import CommandRequest
from cloche.service.sandboxes import NewSandbox
from cloche.service.service import Service

# What an operator allows here: a little more than the defaults.
ALLOWED: dict[str, Any] = {
    "timeout": 40.0,
    "memory": 600 << 20,
    "cpu": 1.5,
    "disk": 2 << 30,
    "processes": 70,
    "output": 11 << 20,
    "build_timeout": 61.0,
}
each_limit = pytest.mark.parametrize("row", LIMITS, ids=lambda row: row.name)


def allowed(row: Limit) -> Any:
    """A bound for a limit, also for one that is newer than this test."""
    return ALLOWED.get(row.name, getattr(Limits(), row.field))


def configured(folder: Path) -> Configuration:
    bounds = {row.setting: str(allowed(row)) for row in LIMITS}
    return load({"data_dir": str(folder), **bounds}, environ={"HOME": str(folder)}).value


def said(row: Limit) -> str:
    return f"^{row.name} is limited to {row.shown(allowed(row))} on this server"


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    opened = await Service.open(configured(tmp_path))
    try:
        yield opened
    finally:
        await opened.close()


CALLER = Caller("key_1", "ada", frozenset(("run",)))


@each_limit
async def test_a_sandbox_cannot_have_more_than_the_operator_allows(service: Service, row: Limit):
    with pytest.raises(InvalidRun, match=said(row)) as caught:
        await service.sandboxes.create(CALLER, NewSandbox(limits={row.name: allowed(row) * 2}))
    assert row.setting in caught.value.hint


@each_limit
async def test_a_program_cannot_have_more_than_the_operator_allows(service: Service, row: Limit):
    with pytest.raises(InvalidRun, match=said(row)):
        await service.programs.run(CALLER, "1", limits={row.name: allowed(row) * 2})


async def test_a_cell_cannot_take_longer_than_the_operator_allows(service: Service, jail: None):
    made = await service.sandboxes.create(CALLER, NewSandbox())
    with pytest.raises(InvalidRun, match=said(BY_NAME["timeout"])):
        await service.sessions.run(CALLER, made.record.id, "1", timeout=41)
    with pytest.raises(InvalidRun, match=said(BY_NAME["timeout"])):
        await service.attempts.start(CALLER, made.record.id, "1", timeout=41)
    with pytest.raises(InvalidRun, match=said(BY_NAME["timeout"])):
        await service.attempts.best_of(CALLER, made.record.id, ["1"], "1", timeout=41)


@pytest.mark.parametrize(
    ("limit", "request_"),
    [
        ("timeout", CommandRequest(command="true", timeout=41)),
        ("timeout", CommandRequest(code="1", timeout=41)),
        ("build_timeout", CommandRequest(code="1", build_timeout=62)),
    ],
)
async def test_a_command_cannot_take_longer_than_the_operator_allows(
    service: Service, jail: None, limit: str, request_: CommandRequest
) -> None:
    made = await service.sandboxes.create(CALLER, NewSandbox())
    with pytest.raises(InvalidRun, match=said(BY_NAME[limit])):
        await service.commands.start(CALLER, made.record.id, request_)
    with pytest.raises(InvalidRun, match=said(BY_NAME[limit])):
        await service.commands.run(CALLER, made.record.id, request_)


def test_the_containers_door_passes_the_same_bound(jail: None, tmp_path: Path) -> None:
    server = Server(tmp_path, "--max-timeout", "40")
    try:
        with server.client() as client:
            sandbox = client.post("/containers/start", json={}).json()["id"]
            for body in ({"command": "true"}, {"code": "1"}):
                answer = client.post("/containers/exec", json={"id": sandbox, "timeout": 41, **body})
                assert answer.status_code == 400, answer.text
                assert "is limited to 40 seconds on this server." in answer.json()["error"]["message"]
    finally:
        server.stop()


# What a caller gets


def test_a_time_of_none_is_the_longest_that_is_allowed(tmp_path: Path):
    found = limits_for({"timeout": None, "build_timeout": None}, configured(tmp_path))
    assert (found.timeout_s, found.build_timeout_s) == (40.0, 61.0)


def test_a_limit_that_nobody_names_is_the_default_or_what_is_allowed(tmp_path: Path):
    assert limits_for({}, configured(tmp_path)) == Limits()
    low = load({"max_memory": "64M", "max_cpu": "0.5"}, environ={"HOME": str(tmp_path)}).value
    assert limits_for({"disk": "2G"}, low) == Limits(memory_bytes=64 << 20, cpu=0.5, disk_bytes=2 << 30)


def test_what_a_door_wishes_is_reduced_to_what_is_allowed(tmp_path: Path):
    wanted = {"timeout": None, "memory": 1 << 40, "cpu": 1.0}
    assert reduced(wanted, configured(tmp_path)) == {"timeout": 40.0, "memory": 600 << 20, "cpu": 1.0}


@pytest.mark.parametrize("value", ["much", -1, True, [], 10**400])
def test_a_value_that_makes_no_sense_is_refused_as_in_the_library(tmp_path: Path, value: Any):
    with pytest.raises(InvalidRun, match="memory"):
        limits_for({"memory": value}, configured(tmp_path))
