"""Probes: held by the jail as it is, and not held by one that lacks the wall which they are about."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import cloche
from cloche.blocking.walls import registry
from cloche.blocking.walls.jail.wall import Jail
from cloche.doctor.attacks import PROBES, files, limits, neighbours
from cloche.doctor.probe import HELD, NOT_HELD, NOT_TRIED, Probe, read_attempts
from cloche.doctor.probes import attack, attack_separately, attempt
from cloche.doctor.scene import Scene
from cloche.doctor.survey import try_all
from cloche.engine import egress_process
from cloche.settings import Settings
from cloche.walls.jail.nursery_client import Nurseries

SETTINGS = Settings(pool=0, warm=False)


@pytest.fixture(scope="module")
def scene(jail: None) -> Iterator[Callable[..., Scene]]:
    """A scene with some walls removed; made once for each set of them."""
    made: dict[frozenset[str], Scene] = {}
    with ExitStack() as stack:

        def get(*without: str, settings: Settings = SETTINGS) -> Scene:
            names = frozenset(without)
            if names not in made or settings is not SETTINGS:
                nurseries = Nurseries(settings, without=names)
                stack.callback(nurseries.close)
                made[names] = stack.enter_context(Scene(Jail(nurseries)))
            return made[names]

        yield get


def probe(words: str) -> Probe:
    (found,) = [probe for probe in PROBES if words in probe.name]
    return found


@pytest.fixture(scope="module")
def has_control_groups() -> bool:
    return not try_all()["control_groups"].get("missing")


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: f"{probe.row} {probe.name}")
def test_the_jail_holds(probe: Probe, scene, has_control_groups: bool):
    if probe.row == "T20" and not has_control_groups:
        pytest.skip("without control groups limits are weaker here, and `cloche doctor` says so")
    finding = attempt(probe, scene())
    assert (finding.verdict, finding.detail) == (HELD, "")


@pytest.mark.parametrize(
    ("removed", "words", "gained"),
    [
        ("network", "host's loopback", "a service on the host's loopback"),
        ("network", "way to any network", "interface"),
        ("network", "neighbour's files", "the neighbour's port"),
        ("dumpable", "The agent's memory", "/proc/1/environ"),
        ("dumpable proc", "slowed down", "chosen first when memory runs out"),
        ("proc", "slowed down", "chosen before this program"),
        ("dumpable", "Other processes", "the agent's root"),
        ("dumpable call:pidfd_getfd", "imitated", ""),  # who can write to the stream decides what is seen
        ("filter", "No namespace", "unshare user"),
        ("filter", "bpf", "io_uring_setup"),
        ("filter", "slowed down", "fewer descriptors"),
        ("filter", "Exotic sockets", "netlink"),
        ("call:keyctl", "bpf", "keyctl"),
        ("call:clone3", "No namespace", "clone3 user"),
        ("call:socket", "Exotic sockets", "netlink"),
        ("masks", "/proc tells nothing", "read /proc/cmdline"),
        ("capabilities", "There are no capabilities", "CapBnd"),
        ("cgroups", "Memory: shared", "512 MiB in a memfd"),
        ("cgroups", "of all processes together", "8 children"),
        ("cgroups", "Processor time", "processors"),
    ],
)
def test_a_missing_wall_is_noticed(removed: str, words: str, gained: str, scene):
    finding = attempt(probe(words), scene(*removed.split()))
    assert finding.verdict == NOT_HELD
    assert gained in finding.detail


@pytest.mark.parametrize(
    ("words", "more", "gained"),
    [
        ("nothing but its hosts", "{0.other}:{0.port}", "a name without a rule"),
        ("nothing but its hosts", "{0.allowed}:{0.other_port}", "another port"),
        ("nothing but its hosts", "{0.address}/32:{0.port}", "the address of an allowed name"),
    ],
)
def test_a_policy_that_allows_more_is_noticed(words: str, more: str, gained: str, scene):
    here = scene()
    usual = probe(words)
    assert usual.policy is not None
    rules = [*usual.policy(here), more.format(here.outside)]
    finding = attempt(usual.replace(policy=lambda _: rules), here)
    assert finding.verdict == NOT_HELD
    assert gained in finding.detail


@pytest.mark.parametrize(
    ("words", "removed", "gained"),
    [
        ("notation leads", "cloche.egress.decision.Policy._is_open", "an allowed name with a closed address"),
        ("TLS and HTTP", "cloche.egress.connection.Connection._check_name", "a foreign name in TLS"),
    ],
)
def test_a_check_that_is_missing_is_noticed(words, removed, gained, scene, monkeypatch, tmp_path):
    """In an egress process of its own, which is started without one of its checks."""
    module, name, attribute = removed.rsplit(".", 2)
    package = str(Path(cloche.__file__).parents[1])
    program = tmp_path / "egress.py"
    program.write_text(
        f"import importlib, sys\nsys.path.insert(0, {package!r})\n"
        f"setattr(importlib.import_module({module!r}).{name}, {attribute!r}, lambda *_: True)\n"
        "from cloche.egress.process import main\nsys.exit(main())\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("_PROGRAM", str(program)), ("_control", None), ("_pid", 0)):
            patch.setattr(egress_process, name, value)
        finding = attempt(probe(words), scene())
        assert egress_process.pid()
        egress_process._give_up()
    assert finding.verdict == NOT_HELD
    assert gained in finding.detail


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="int 0x80 is of x86")
def test_int_0x80_is_noticed_without_the_filter(scene):
    finding = attempt(probe("call conventions"), scene("filter"))
    if "int 0x80" not in finding.detail:
        pytest.skip("this kernel has no 32-bit calls at all")
    assert finding.verdict == NOT_HELD


def test_a_prober_with_the_agents_number_is_not_seen_in_the_agent(scene, monkeypatch):
    here = scene()  # as in a container, where `cloche doctor` is pid 1
    given = here.given()
    monkeypatch.setattr(here, "given", lambda: {**given, "pid": 1, "since": given["since"] + 1})
    finding = attempt(probe("Other processes"), here)
    assert (finding.verdict, finding.detail) == (HELD, "")


def test_a_canary_in_the_environment_is_found(scene):
    here = scene()
    finding = attempt(probe("server's memory"), here, env={"LEAKED": here.canary})
    assert finding.verdict == NOT_HELD
    assert "own memory" in finding.detail


def test_no_canary_is_found_behind_a_nursery_that_was_forked_in_a_hurry(jail):
    nurseries = Nurseries(Settings(pool=0, warm=False, one_run=True))
    try:
        card = attack(Jail(nurseries), [probe("server's memory"), probe("descriptor leaked")])
    finally:
        nurseries.close()
    assert [finding.verdict for finding in card.findings] == [HELD, HELD]


class Leaky:
    """A sandbox whose files are read by name on the host: what the engine must never do."""

    def read(self, path: str, length: int) -> bytes:
        with open(path[path.index("/tmp/") :], "rb") as file:
            return file.read(length)

    def list(self, path: str, depth: int) -> list[Any]:
        folder = path[path.index("/tmp/") :]
        return [SimpleNamespace(path=f"{folder}/{name}") for name in os.listdir(folder)]


def test_a_file_of_the_host_that_comes_back_is_noticed(tmp_path):
    secret = f"/tmp/{tmp_path.name}-{os.getpid()}/secret"
    os.mkdir(os.path.dirname(secret))
    try:
        with open(secret, "w") as file:
            file.write("the canary")
        bait: Any = SimpleNamespace(secret_file=secret, canary="the canary")
        gained = files._take_back(bait, SimpleNamespace(files=Leaky()))  # type: ignore[arg-type]
    finally:
        os.unlink(secret)
        os.rmdir(os.path.dirname(secret))
    assert any("gave a file of the host" in line for line in gained)
    assert any("showed the host" in line for line in gained)


def test_a_survivor_on_the_host_is_noticed():
    bait: Any = SimpleNamespace(abstract="cloche-survivor")
    code = "import ctypes; ctypes.CDLL(None).prctl(15, b'cloche-survivor', 0, 0, 0); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as survivor:
        assert survivor.stdout is not None
        survivor.stdout.readline()
        assert limits._survivors(bait, None) == [f"process {survivor.pid} is still alive"]
        survivor.kill()
    assert limits._survivors(bait, None) == []


def test_a_neighbour_who_is_denied_something_is_noticed():
    denied = SimpleNamespace(run_program=lambda *_, **__: SimpleNamespace(stdout="a timer (errno 11)\n"))
    bait: Any = SimpleNamespace(neighbour=denied)
    assert neighbours._neighbour_still_gets(bait, None) == ["the neighbour is denied a timer (errno 11)"]


def test_a_program_that_dies_was_not_tried(scene):
    finding = attempt(Probe("T0", "dies", "tell('something', 'refused')\nraise SystemExit(3)"), scene())
    assert finding.verdict == NOT_TRIED
    assert "exit code 3" in finding.detail


def test_a_program_that_attacks_nothing_was_not_tried(scene):
    assert attempt(Probe("T0", "does nothing", ""), scene()).verdict == NOT_TRIED


def test_what_a_program_prints_cannot_harm_a_terminal():
    attempts, finished = read_attempts(
        '["\\u001b[31m", "gained", "\\u0007' + "x" * 1000 + '"]\n"done"\n[1, 2, 3]\nnoise\n'
    )
    assert attempts == (("?[31m", "gained", "?" + "x" * 199),)
    assert finished


def test_where_no_sandbox_starts_nothing_was_tried():
    card = attack_separately(registry.find("jail"), Settings(environment="/nowhere"))
    assert {finding.verdict for finding in card.findings} == {NOT_TRIED}
    assert not card.broken


def test_a_scene_leaves_nothing_behind(jail):
    nurseries = Nurseries(SETTINGS)
    try:
        with Scene(Jail(nurseries)) as here:
            folder, shared, canary = here.folder, here.shared_file, here.canary
        assert not os.path.exists(folder)
        assert not os.path.exists(shared)
        assert canary not in os.environ.values()
        assert here.abstract not in Path("/proc/net/unix").read_text()
    finally:
        nurseries.close()


def test_every_row_about_the_jail_has_a_probe():
    assert {probe.row for probe in PROBES} == {f"T{number}" for number in (*range(1, 16), 20, 35, 50)}
