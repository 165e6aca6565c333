"""The verbs about environments: who sees them, what a build costs, and what is left of one that is cut off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cloche.configuration import load
from cloche.errors import Gone, Refused
from cloche.model.environments import EnvironmentSpec
from cloche.model.network import Network
from cloche.packages.environment_spec import spec_of
from cloche.policy.caller import Caller
from cloche.policy.refusals import TooMany
from cloche.service import builds
from cloche.service import environments as module
from cloche.service.sandboxes import NewSandbox
from cloche.service.service import Service

ADA, BOB = (Caller(f"key_{owner}", owner, frozenset(("run",))) for owner in ("ada", "bob"))
ENDLESS = "echo begun\nwhile :; do :; done\n"


@pytest.fixture(autouse=True)
def own_folder(jail: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOCHE_PACKAGES_FOLDER", str(tmp_path / "packages"))


async def opened(folder: Path, **settings: Any) -> Service:
    return await Service.open(load({"data_dir": str(folder), **settings}, environ={"HOME": str(folder)}).value)


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    running = await opened(tmp_path)
    yield running
    await running.close()


async def built(service: Service, caller: Caller, name: str, spec: EnvironmentSpec) -> list[dict[str, Any]]:
    """Build an environment; return the fields of the events."""
    await service.environments.create(caller, name, spec)
    log = await service.environments.follow(caller, name)
    found: list[Any] = [entry.event async for batch in log.batches() for entry in batch]
    return [{"kind": event.kind, **event.fields} for event in found]


async def has_begun(service: Service, caller: Caller, name: str) -> None:
    log = await service.environments.follow(caller, name)
    async for batch in log.batches():
        if any(getattr(entry.event, "fields", {}).get("text") == "begun" for entry in batch):
            return


async def test_a_build_goes_through_its_states_and_its_environment_can_be_used(service: Service) -> None:
    events = await built(service, ADA, "report", spec_of(files={"a.txt": b"1"}, setup="echo hello\n"))
    assert [each["state"] for each in events if each["kind"] != "log"] == ["building", "done"]
    assert "hello" in [each.get("text") for each in events]
    info = await service.environments.find(ADA, "report:latest")
    assert info.environment is not None
    assert info.build is not None
    assert (info.environment.shared, info.build.state) == (False, "done")
    run = await service.programs.run(ADA, "print(open('a.txt').read())", environment="report")
    assert (await run.outcome()).stdout == "1\n"
    made = await service.sandboxes.create(ADA, NewSandbox(environment="report"))
    cell = await service.sessions.run(ADA, made.record.id, "open('a.txt').read()")
    assert (await cell.outcome()).text == "'1'"


async def test_another_owner_finds_nothing(service: Service) -> None:
    await built(service, ADA, "private", spec_of(files={"a": b"1"}))
    calls = [
        service.environments.find(BOB, "private"),
        service.environments.follow(BOB, "private"),
        service.environments.sbom(BOB, "private"),
        service.environments.audit(BOB, "private"),
        service.environments.remove(BOB, "private"),
        service.programs.run(BOB, "1", environment="private"),
        service.sandboxes.create(BOB, NewSandbox(environment="private")),
        service.environments.create(BOB, "mine", EnvironmentSpec(base="private")),
    ]
    for call in calls:
        with pytest.raises(Gone, match=r"There is no (build of an )?environment private"):
            await call
    assert await service.environments.list(BOB) == []
    assert [each.name for each in await service.environments.list(ADA)] == ["private"]


async def test_a_build_that_fails_says_why_and_leaves_the_earlier_environment(service: Service) -> None:
    await built(service, ADA, "report", spec_of(files={"a": b"1"}))
    events = await built(service, ADA, "report", spec_of(setup="echo no more >&2\nfalse\n"))
    assert events[-1]["state"] == "failed"
    assert "no more" in events[-1]["error"]["message"]
    info = await service.environments.find(ADA, "report")
    assert info.environment is not None
    assert info.build is not None
    assert (info.build.state, info.build.hint) == ("failed", "Correct it, and build again.")


async def test_a_build_has_no_network_beyond_the_bound(tmp_path: Path) -> None:
    service = await opened(tmp_path, max_network="none")
    with pytest.raises(Refused, match="on this server"):
        await service.environments.create(ADA, "report", EnvironmentSpec(), Network(allow=["10.1.2.3"]))
    connect = "import socket; socket.create_connection(('192.0.2.1', 80), 2)"
    events = await built(service, ADA, "report", spec_of(setup=f'python3 -c "{connect}"\n'))
    assert events[-1]["state"] == "failed"
    assert "unreachable" in str(events).lower()
    await service.close()


async def test_builds_are_bounded_by_key_and_by_server(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_OF_KEY", 1)
    monkeypatch.setattr(module, "_QUEUE", 2)
    for caller in (ADA, BOB):
        await service.environments.create(caller, "one", spec_of(setup=ENDLESS))
    with pytest.raises(Refused, match="is being built already"):
        await service.environments.create(ADA, "one", EnvironmentSpec())
    with pytest.raises(TooMany, match="builds of environments under way"):
        await service.environments.create(ADA, "two", EnvironmentSpec())
    with pytest.raises(Refused, match="Too many environments"):
        await service.environments.create(Caller("key_c", "cid", frozenset(("run",))), "x", EnvironmentSpec())
    for caller in (ADA, BOB):
        await service.environments.remove(caller, "one")
    assert await service.environments.list(ADA) == []
    await built(service, ADA, "one", EnvironmentSpec())


async def test_a_build_is_charged_and_ends_with_the_cpu_time_of_its_key(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builds, "_CHARGE_S", 0.1)
    _, secret = await service.keyring.create("ada", "test", ("run",), {"limits": {"cpu_seconds_per_day": 1}})
    caller = service.keyring.find(secret)
    assert caller is not None
    events = await built(service, caller, "costly", spec_of(setup=ENDLESS))
    assert events[-1]["error"]["message"] == "The key has used all its CPU time of today."
    assert service.keyring.meter(caller).is_cpu_spent
    with pytest.raises(TooMany):
        await service.environments.create(caller, "costly", EnvironmentSpec())


async def test_a_build_that_a_stopping_server_cuts_off_has_failed(tmp_path: Path) -> None:
    first = await opened(tmp_path)
    await first.environments.create(ADA, "cut", spec_of(setup=ENDLESS))
    await has_begun(first, ADA, "cut")
    await asyncio.wait_for(first.close(), 20)
    second = await opened(tmp_path)
    info = await second.environments.find(ADA, "cut")
    assert info.environment is None
    assert info.build is not None
    assert (info.build.state, info.build.message) == ("failed", "The server was stopped during the build.")
    await second.close()


async def test_a_build_of_a_killed_server_has_failed(tmp_path: Path) -> None:
    record = builds.BuildRecord("bld_1", "ada", "lost", "building", 1.0)
    builds.BuildRecords(tmp_path / "builds").note(record)
    (tmp_path / "builds" / "fresh-1").touch()
    service = await opened(tmp_path)
    info = await service.environments.find(ADA, "lost")
    assert info.build is not None
    assert info.build.state == "failed"
    assert info.build.message == "The server was stopped or restarted during the build."
    log = await service.environments.follow(ADA, "lost")
    assert [entry.kind async for batch in log.batches() for entry in batch] == ["end"]
    assert len(list((tmp_path / "builds").iterdir())) == 1
    await service.environments.remove(ADA, "lost")
    with pytest.raises(Gone):
        await service.environments.find(ADA, "lost")
    await service.close()


async def test_every_build_is_in_the_audit_log(service: Service) -> None:
    await built(service, ADA, "noted", EnvironmentSpec())
    await service.environments.remove(ADA, "noted")
    admin = Caller("key_admin", "admin", frozenset(("admin",)))

    async def actions() -> set[str]:
        found, _ = await service.audit.list(admin, owner="ada", limit=100, after=None)
        return {each.action for each in found}

    assert {"environment.create", "environment.remove"} <= await actions()
