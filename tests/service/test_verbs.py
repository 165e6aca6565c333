"""The verbs of the service: each declares a scope, and none can be called with less."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cloche.configuration import load
from cloche.policy.caller import Caller
from cloche.policy.refusals import Forbidden
from cloche.service.sandboxes import NewSandbox
from cloche.service.service import Service
from cloche.service.verbs import VERBS

READER, RUNNER = (Caller("key_1", "ada", frozenset((scope,))) for scope in ("read", "run"))
ADMIN = {"keys.create", "keys.list", "keys.revoke", "audit.list", "usage.by_key"}
READ = {
    *("sandboxes.view", "sandboxes.info", "sandboxes.list", "sandboxes.living", "sandboxes.usage", "sandboxes.follow"),
    *("sessions.contexts", "sessions.variables", "sessions.checkpoints", "sessions.history"),
    *("commands.list", "commands.follow"),
    *("files.stat", "files.describe", "files.list", "files.describe_all", "files.disk", "files.open", "files.watch"),
    *("network.bound", "network.policy", "network.log", "network.moved"),
    *("packages.list", "packages.policy"),
    *("environments.find", "environments.list", "environments.sbom", "environments.audit", "environments.follow"),
    *("ports.list", "ports.wait", "ports.watch", "runs.list", "runs.record", "runs.follow", "usage.of_owner"),
    *("keys.current", "secrets.find", "secrets.list"),
    *("shares.list", "snapshots.find", "snapshots.list", "workspaces.find", "workspaces.list"),
}


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    opened = await Service.open(load({"data_dir": str(tmp_path)}, environ={"HOME": str(tmp_path)}).value)
    yield opened
    await opened.close()


def verbs_of(service: Service) -> dict[str, Any]:
    """Every method of the service's subjects that takes a caller, by subject and name."""
    subjects = {name: value for name, value in vars(service).items() if type(value).__module__.startswith("cloche.")}
    found = {}
    for subject in subjects.values():
        module = type(subject).__module__.rpartition(".")[2]
        for name, method in inspect.getmembers(subject, inspect.ismethod):
            if not name.startswith("_") and next(iter(inspect.signature(method).parameters), "") == "caller":
                found[f"{module}.{name}"] = method
    return found


# These are for other parts of the service, which have checked the caller already, or are the keyring itself.
INNER = {
    *("runs.start", "runs.start_in", "runs.is_full", "audit.note", "keys.meter", "snapshots.fill"),
    "environments.found",
    *("lifecycle.find", "lifecycle.find_for_work", "lifecycle.kill", "lifecycle.record", "charges.account"),
}


async def test_every_method_that_takes_a_caller_declares_its_scope(service: Service) -> None:
    assert set(verbs_of(service)) - set(VERBS) == INNER


async def test_the_scope_of_every_verb_is_as_listed_here(service: Service) -> None:
    assert {name for name, scope in VERBS.items() if scope == "admin"} == ADMIN
    assert {name for name, scope in VERBS.items() if scope == "read"} == READ
    assert set(VERBS.values()) == {"read", "run", "admin"}


async def test_no_verb_can_be_called_with_less_than_its_scope(service: Service) -> None:
    tried = 0
    for name, method in verbs_of(service).items():
        lesser = {"run": READER, "admin": RUNNER}.get(VERBS.get(name, ""))
        if lesser is not None:
            with pytest.raises(Forbidden):
                method(lesser)  # before its other arguments are even looked at
            tried += 1
    assert tried > 25


async def test_a_verb_with_enough_scope_goes_on(service: Service) -> None:
    with pytest.raises(TypeError):
        await service.sandboxes.kill(RUNNER)  # type: ignore[call-arg]  # not refused: an argument is missing


async def test_what_one_cell_displays_beyond_the_usual_does_not_change_another(service: Service, jail: None) -> None:
    made = await service.sandboxes.create(RUNNER, NewSandbox())
    table = "import pandas; pandas.DataFrame({'a': range(1000)})"

    async def rows(shows: dict[str, Any] | None) -> int:
        run = await service.sessions.run(RUNNER, made.record.id, table, keeps_all=True, shows=shows)
        shown = (await run.outcome()).results[0].mime
        return max(len(str(value)) for value in shown.values())

    usual = await rows(None)
    assert await rows({"rows": 5000, "saved": True}) > 2 * usual
    assert await rows(None) == usual
