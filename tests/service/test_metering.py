"""Work is charged to its key, whatever started it, is in the audit log, and stops when the key has no time left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import eventually_async

from cloche.configuration import load
from cloche.engine.host_only import on_this_host
from cloche.errors import ClocheError, Gone
from cloche.policy.caller import ANYBODY, Caller
from cloche.policy.refusals import TooMany
from cloche.service import metering
from cloche.service.commands import CommandRequest
from cloche.service.live import LiveSandbox
from cloche.service.run import Run
from cloche.service.sandboxes import NewSandbox
from cloche.service.service import Service
from cloche.service.tables import Window
from cloche.service.verbs import STARTS, VERBS

pytestmark = pytest.mark.usefixtures("jail")

SECRET = "a-secret-of-ada"
ENDLESS = "while True: pass"
TABLE = "/sandbox/table.csv"
DAY_S = 0.2  # CPU seconds that a key has

# The verbs of the scope `run` that start no process.  A new verb belongs here, or declares what it starts.
QUIET = {
    *("attempts.keep", "attempts.discard", "commands.find", "commands.kill_all", "ports.connect", "ports.grant"),
    *("files.join", "files.make_folder", "files.remove", "files.rename", "files.rename_described"),
    *("files.save", "files.write", "runs.answer", "runs.cancel", "runs.write", "workspaces.remove"),
    *("sandboxes.change", "sandboxes.create", "sandboxes.kill", "sandboxes.pause", "sandboxes.pause_if_possible"),
    *("sandboxes.resume", "sessions.default_context", "sessions.interrupt", "sessions.remove_checkpoint"),
    *("sessions.remove_context", "shares.create", "shares.revoke", "snapshots.remove", "snapshots.take"),
    *(
        "archives.has",
        "archives.keep",
        "archives.read",
        "network.replace",
        "environments.copy",
        "environments.create",  # its build is charged: tests/service/test_environments.py
        "environments.remove",
        "packages.install",
        "packages.search",
        "packages.uninstall",
        "secrets.create",
        "secrets.remove",
        "secrets.update",
        "tables.rows",
    ),
}


@dataclass
class Place:
    """A sandbox with a checkpoint, and the key that it belongs to."""

    service: Service
    caller: Caller
    live: LiveSandbox
    checkpoint: str

    @property
    def id(self) -> str:
        return self.live.id

    def command(self, command: str | list[str], **more: Any) -> CommandRequest:
        return CommandRequest(command=command, env={"TOKEN": SECRET}, **more)

    def use_up(self) -> None:
        """Let the key have nothing left of its day."""
        self.live.account.meter.use(cpu_s=DAY_S)

    async def audited(self) -> list[Any]:
        """The entries of this key, newest first."""
        found, _ = await self.service.audit.list(ANYBODY, owner=None, limit=100, after=None)
        return [entry for entry in found if entry.key == self.caller.key_id]

    async def is_stopped(self) -> bool:
        return any(entry.action == "limit.stop" for entry in await self.audited())

    async def used_s(self) -> float:
        used = await self.service.usage.of_owner(self.caller, 2)  # two, in case it is midnight
        return sum(day.cpu_time for day in used.days.values())


def python(code: str) -> list[str]:
    return ["python3", "-c", code]


# How each verb that starts processes is called, with code.
VERBS_THAT_START: dict[str, Callable[[Place, str], Awaitable[Any]]] = {
    "programs.run": lambda at, code: at.service.programs.run(at.caller, code, env={"TOKEN": SECRET}),
    "sessions.run": lambda at, code: at.service.sessions.run(at.caller, at.id, code, env={"TOKEN": SECRET}),
    "commands.start": lambda at, code: at.service.commands.start(at.caller, at.id, at.command(python(code))),
    "commands.run": lambda at, code: at.service.commands.run(at.caller, at.id, at.command(python(code))),
    "attempts.start": lambda at, code: at.service.attempts.start(at.caller, at.id, code),
    "attempts.best_of": lambda at, code: at.service.attempts.best_of(at.caller, at.id, [code], "1"),
    "sessions.create_context": lambda at, _: at.service.sessions.create_context(at.caller, at.id, "python"),
    "sessions.restart": lambda at, _: at.service.sessions.restart(at.caller, at.id),
    "sessions.checkpoint": lambda at, _: at.service.sessions.checkpoint(at.caller, at.id),
    "sessions.fork": lambda at, _: at.service.sessions.fork(at.caller, at.id),
    "sessions.compare": lambda at, _: at.service.sessions.compare(at.caller, at.id, at.checkpoint, None, None),
    "sessions.undo": lambda at, _: at.service.sessions.undo(at.caller, at.id),
    "sessions.restore": lambda at, _: at.service.sessions.restore(at.caller, at.id, at.checkpoint),
    "tables.file_rows": lambda at, _: at.service.tables.file_rows(at.caller, at.id, TABLE, Window()),
}

# Ways to use a processor for good: the verbs that run a caller's code, and what such code leaves behind.
DAEMON = f"import subprocess; subprocess.Popen({python(ENDLESS)!r}, start_new_session=True)"
SERVER = f"import os, socket; s = socket.create_server(('', 8000)); os.fork() or exec({ENDLESS!r})"
FORKS = "import os\nwhile True:\n  if not os.fork(): os._exit(sum(range(10**5)) and 0)\n  os.wait()"
DEAF = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n{ENDLESS}"


def endless(call: Callable[[Place, str], Awaitable[Any]]) -> Callable[[Place], Awaitable[Any]]:
    return lambda at: call(at, ENDLESS)


ENDLESS_WORK: dict[str, Callable[[Place], Awaitable[Any]]] = {
    **{name: endless(call) for name, call in VERBS_THAT_START.items() if STARTS.get(name) != "kernel"},
    "a terminal": lambda at: at.service.commands.start(
        at.caller, at.id, at.command("exec sh -c 'while :; do :; done'", pty=True)
    ),
    "many short processes": lambda at: at.service.commands.start(at.caller, at.id, at.command(python(FORKS))),
    "a daemon of a command": lambda at: at.service.commands.run(at.caller, at.id, at.command(python(DAEMON))),
    "a daemon of a cell": lambda at: at.service.sessions.run(at.caller, at.id, DAEMON),
    "a server of a cell": lambda at: at.service.sessions.run(at.caller, at.id, SERVER),
    "a thread of a cell": lambda at: at.service.sessions.run(
        at.caller, at.id, f"import threading; threading.Thread(target=exec, args=[{ENDLESS!r}]).start()"
    ),
    "a cell that ignores interrupts": lambda at: at.service.sessions.run(at.caller, at.id, DEAF),
}


@pytest.fixture
async def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    monkeypatch.setattr(metering, "LOOK_S", 0.1)
    monkeypatch.setattr(metering, "_OVERDRAFT_S", 0.2)
    opened = await Service.open(load({"data_dir": str(tmp_path)}, environ={"HOME": str(tmp_path)}).value)
    yield opened
    await opened.close()


async def key(service: Service, **limits: float) -> Caller:
    _, secret = await service.keyring.create("ada", "test", ("run",), {"limits": limits})
    found = service.keyring.find(secret)
    assert found is not None
    return found


async def place(service: Service, caller: Caller, **wishes: Any) -> Place:
    made = await service.sandboxes.create(caller, NewSandbox(undo=True, env={"KEPT": SECRET}, **wishes))
    live = service._lifecycle.get(made.record.id)
    assert live is not None
    return Place(service, caller, live, "")


async def over(work: Any) -> None:
    """Wait for the end of whatever a verb has started."""
    if isinstance(work, tuple):
        work = work[0]
    if hasattr(work, "outcome"):
        try:
            await asyncio.wait_for(work.outcome(), 20)
        except Gone:
            pass  # with its sandbox


async def is_refused(call: Awaitable[Any]) -> bool:
    try:
        await call
    except TooMany:
        return True
    return False


def test_every_verb_declares_whether_it_starts_processes() -> None:
    assert {name for name, scope in VERBS.items() if scope == "run"} - QUIET == set(STARTS)
    assert set(STARTS) == set(VERBS_THAT_START)


async def test_every_process_is_in_the_audit_log_and_none_starts_when_the_day_is_used_up(service: Service) -> None:
    at = await place(service, await key(service, cpu_seconds_per_day=1000))
    await over(await service.sessions.run(at.caller, at.id, f"open({TABLE!r}, 'w').write('a')"))
    at.checkpoint = (await service.sessions.checkpoint(at.caller, at.id)).id
    known = {entry.id for entry in await at.audited()}
    for name, call in VERBS_THAT_START.items():
        await over(await call(at, f"print('{SECRET}')"))
        fresh = [entry for entry in await at.audited() if entry.id not in known]
        known |= {entry.id for entry in fresh}
        assert len(fresh) == 1, (name, fresh)
        assert at.id in (fresh[0].target, fresh[0].details.get("sandbox")) or name == "programs.run"
        assert SECRET not in str(fresh[0]), name
        assert STARTS[name] in (fresh[0].details.get("kind", "kernel"), "kernel"), fresh[0]

    at.live.account.meter.use(cpu_s=1000)
    for name, call in VERBS_THAT_START.items():
        assert await is_refused(call(at, "1")), name
    assert await is_refused(service.sandboxes.create(at.caller, NewSandbox()))
    assert [entry for entry in await at.audited() if entry.id not in known] == []


@pytest.mark.parametrize("way", ENDLESS_WORK)
async def test_endless_work_is_charged_and_stopped(service: Service, way: str) -> None:
    at = await place(service, await key(service, cpu_seconds_per_day=DAY_S))
    work = await ENDLESS_WORK[way](at)
    meter = at.live.account.meter
    await eventually_async(lambda: meter.is_cpu_spent, 30, "the end of the day's CPU time")
    await over(work)

    async def rests() -> bool:
        if at.live.box.paused or at.live.gone.is_set():
            return True
        before = await on_this_host(at.live.box).cpu_time()
        await asyncio.sleep(0.3)
        return bool(at.live.box.paused) or await on_this_host(at.live.box).cpu_time() == before

    await eventually_async(rests, 30, "the rest")
    await eventually_async(at.is_stopped, 30, "the entry in the audit log")
    if isinstance(work, Run) and work.result is not None and work.result.error is not None:
        assert work.result.error.kind == "killed"
        assert f"{DAY_S} CPU seconds" in work.result.error.message or at.live.gone.is_set()
    counted = await on_this_host(at.live.box).cpu_time() or 0.0
    used = await at.used_s()
    assert used == pytest.approx(meter.cpu_s)
    if way == "programs.run":
        assert isinstance(work, Run)
        assert used >= DAY_S
        assert used == pytest.approx(work.record.cpu_time + counted, abs=0.01)
    else:
        assert used == pytest.approx(counted, abs=0.01)  # all of it, and nothing twice
    if not at.live.gone.is_set():
        next_step = service.sandboxes.resume if at.live.box.paused else service.sessions.restart
        assert await is_refused(next_step(at.caller, at.id))


async def test_commands_count_as_runs_at_once(service: Service) -> None:
    at = await place(service, await key(service, runs_at_once=1))
    sleep = at.command(["sleep", "600"])
    for _ in range(2):
        command = await service.commands.start(at.caller, at.id, sleep)
        for call in ("programs.run", "sessions.run", "commands.start", "commands.run"):
            with pytest.raises(TooMany) as refusal:
                await VERBS_THAT_START[call](at, "1")
            assert refusal.value.limit == "runs_at_once"
        await command.kill()
        await over(command)
    with pytest.raises(ClocheError):
        await service.commands.start(at.caller, at.id, at.command(["there-is-no-such-program"]))
    await over(await VERBS_THAT_START["sessions.run"](at, "1"))
    command = await service.commands.start(at.caller, at.id, sleep)
    await service.sandboxes.kill(at.caller, at.id)
    await over(await VERBS_THAT_START["programs.run"](at, "1"))


async def test_the_key_that_works_in_a_sandbox_pays_even_if_another_made_it(service: Service) -> None:
    at = await place(service, await key(service))
    guest = Place(service, await key(service, cpu_seconds_per_day=DAY_S), at.live, "")
    kept = await service.commands.start(at.caller, at.id, at.command(["sleep", "600"]))
    await kept.kill()
    await over(kept)
    work = await guest.service.sessions.run(guest.caller, at.id, ENDLESS)
    await over(work)
    assert f"{DAY_S} CPU seconds" in str(work.result and work.result.error)
    assert service.keyring.meter(guest.caller).cpu_s >= DAY_S
    assert service.keyring.meter(at.caller).cpu_s < DAY_S
    with pytest.raises(TooMany):
        await service.sessions.run(guest.caller, at.id, "1")
    await over(await service.sessions.run(at.caller, at.id, "1"))  # the sandbox, and its owner, go on


async def test_a_sandbox_whose_key_is_revoked_is_still_charged_and_stopped(service: Service) -> None:
    at = await place(service, await key(service, cpu_seconds_per_day=DAY_S))
    command = await service.commands.start(at.caller, at.id, at.command(python(ENDLESS)))
    await service.keyring.revoke(at.caller.key_id)
    await over(command)
    assert at.live.account.meter.cpu_s >= DAY_S
    assert await at.used_s() >= DAY_S


async def test_the_time_of_a_sandbox_that_ends_at_once_is_charged(service: Service, monkeypatch: Any) -> None:
    monkeypatch.setattr(metering, "LOOK_S", 600)
    await asyncio.sleep(0.2)
    at = await place(service, await key(service))
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    command = await service.commands.start(at.caller, at.id, at.command(python(burn)))
    await over(command)
    await service.sandboxes.kill(at.caller, at.id)
    assert at.live.account.meter.cpu_s >= 0.28
    assert await at.used_s() == pytest.approx(at.live.account.meter.cpu_s)
