"""A sandbox of this host and one of a server look the same to whoever holds them; so do their backends to the front."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from tests.conftest import Server

import cloche
from cloche.blocking.client.cells import ServerCell
from cloche.blocking.client.checkpoints import ServerCheckpoints
from cloche.blocking.client.files import ServerFiles, ServerReader, ServerWatcher, ServerWriter
from cloche.blocking.client.packages import ServerPackages
from cloche.blocking.client.place import ServerPlace
from cloche.blocking.client.processes import ServerProcess
from cloche.blocking.client.programs import ServerPrograms
from cloche.blocking.client.sandbox import ServerSandbox
from cloche.blocking.client.sessions import ServerSessions
from cloche.blocking.engine.cells import HostCell
from cloche.blocking.engine.checkpoints import HostCheckpoints
from cloche.blocking.engine.files import HostFiles, HostWatcher
from cloche.blocking.engine.packages import HostPackages
from cloche.blocking.engine.place import HostPlace
from cloche.blocking.engine.ports import HostPorts, HostTunnel
from cloche.blocking.engine.processes import HostProcess
from cloche.blocking.engine.program_cells import ProgramCell
from cloche.blocking.engine.programs import HostPrograms
from cloche.blocking.engine.sandbox import HostSandbox
from cloche.blocking.engine.sessions import HostSessions
from cloche.blocking.engine.transfers import HostReader, HostWriter
from cloche.blocking.sandbox import backend

Held = Callable[[cloche.Sandbox], Any]

HELD: dict[str, Held] = {
    "sandbox": lambda box: box,
    "files": lambda box: box.files,
    "commands": lambda box: box.commands,
    "ports": lambda box: box.ports,
    "packages": lambda box: box.packages,
    "contexts": lambda box: box.contexts,
    "checkpoints": lambda box: box.checkpoints,
    "tools": lambda box: box.tools,
    "process": lambda box: box.commands.start("true"),
    "program": lambda box: box.start_program("print(1)"),
    "program's events": lambda box: box.stream_program("print(1)"),
    "cell's events": lambda box: box.stream("1"),
    "context": lambda box: box.contexts.create(),
    "default context": lambda box: box.contexts.default("python"),
    "checkpoint": lambda box: box.checkpoint(),
    "attempt": lambda box: box.attempt("1"),
    "reading": lambda box: (box.files.write("there", "x"), box.files.read_stream("there"))[1],
    "writing": lambda box: box.files.write_stream("new"),
    "watch": lambda box: box.files.watch(),
}


@pytest.fixture(scope="module")
def pair(jail: None, served: Server) -> Any:
    """A sandbox of this host, and one of a server."""
    with (
        cloche.Sandbox(url="") as here,
        cloche.Sandbox(url=served.url, api_key=served.key) as there,
    ):
        yield here, there


@pytest.mark.parametrize("name", HELD)
def test_callers_hold_the_same_classes_with_the_same_attributes(name: str, pair: Any) -> None:
    here, there = (HELD[name](box) for box in pair)
    assert type(here) is type(there)
    assert public(here) == public(there)


def public(thing: object) -> dict[str, str]:
    """The public attributes of an object: the signatures of its methods, and the names of the rest."""
    found = {}
    for name in dir(thing):
        if not name.startswith("_"):
            value = inspect.getattr_static(thing, name)
            found[name] = str(inspect.signature(value)) if callable(value) else ""
    return found


def test_all_that_can_be_asked_of_a_sandbox_can_be_asked_of_a_servers(pair: Any) -> None:
    for box in pair:
        assert (box.paused, box.closed, box.env, box.wall) == (False, False, {}, "jail")
        assert box.limits.timeout_s == 30
        assert dict(box.metadata) == {}
        assert box.workspace is None


@pytest.mark.parametrize(("code", "status"), [("", 0), ("exit(3)", 3), ("import os; os.kill(os.getpid(), 9)", -9)])
def test_the_status_of_a_program_is_known_on_both_sides(code: str, status: int, pair: Any) -> None:
    for box in pair:
        process = box.start_program(code)
        process.wait()
        assert process.status == status


def test_a_pause_is_known_on_both_sides(pair: Any) -> None:
    for box in pair:
        box.pause()
        assert box.paused
        box.resume()
        assert not box.paused


def test_a_sandbox_that_is_paused_can_be_found_and_resumed(served: Server) -> None:
    with cloche.Sandbox(url=served.url, api_key=served.key) as box:
        box.run("x = 1")
        box.pause()
        with cloche.Sandbox(url=served.url, api_key=served.key, id=box.id) as guest:
            assert guest.paused
            guest.resume()
            assert [context.id for context in guest.contexts.list()] == ["python"]
            assert guest.run("x").text == "1"


def test_the_asynchronous_classes_are_the_same_as_the_blocking_ones() -> None:
    for name in ("Sandbox", "Process", "Context", "Checkpoint", "Attempt", "Reading", "Writing", "Connection"):
        blocking, other = getattr(cloche, name), getattr(cloche, f"Async{name}")
        assert names(blocking) == names(other)


def names(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


FULFILLED = [
    (backend.Place, HostPlace, ServerPlace),
    (backend.Backend, HostSandbox, ServerSandbox),
    (backend.FilesBackend, HostFiles, ServerFiles),
    (backend.Reader, HostReader, ServerReader),
    (backend.Writer, HostWriter, ServerWriter),
    (backend.Watcher, HostWatcher, ServerWatcher),
    (backend.PackagesBackend, HostPackages, ServerPackages),
    (backend.PortsBackend, HostPorts),
    (backend.Tunnel, HostTunnel),
    (backend.ProgramsBackend, HostPrograms, ServerPrograms),
    (backend.ProcessBackend, HostProcess, ServerProcess),
    (backend.SessionsBackend, HostSessions, ServerSessions),
    (backend.Cell, HostCell, ProgramCell, ServerCell),
    (backend.CheckpointsBackend, HostCheckpoints, ServerCheckpoints),
]


@pytest.mark.parametrize("kinds", FULFILLED, ids=lambda kinds: kinds[0].__name__)
def test_each_backend_has_the_methods_that_the_front_calls(kinds: tuple[type, ...]) -> None:
    protocol, *backends = kinds
    for name, method in vars(protocol).items():
        if not name.startswith("_") and inspect.isfunction(method):
            for kind in backends:
                given, wanted = (inspect.signature(found).parameters for found in (getattr(kind, name), method))
                extra = list(given.values())[len(wanted) :]
                assert [each.lstrip("_") for each in given][: len(wanted)] == list(wanted), f"{kind.__name__}.{name}"
                assert all(one.default is not one.empty for one in extra), f"{kind.__name__}.{name}"
