"""Attacks a wall with every probe, and records the outcomes."""

from __future__ import annotations

from json import dumps
from time import monotonic

from cloche.blocking.sandbox.one_shot import run
from cloche.blocking.sandbox.sandbox import Sandbox
from cloche.blocking.walls.registry import WallEntry
from cloche.blocking.walls.wall import Wall
from cloche.doctor.attacks import PROBES
from cloche.doctor.probe import END, NOT_HELD, NOT_TRIED, TOOLS, Finding, Probe, ProbeRun, judge_attempts, read_attempts
from cloche.doctor.scene import Scene
from cloche.errors import ClocheError
from cloche.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from cloche.blocking.sandbox.processes import Process

_TIMEOUT_S = 30


class Scorecard:
    """The outcome of each probe behind one wall."""

    def __init__(self, wall: str, findings: tuple[Finding, ...]) -> None:
        self.wall, self.findings = wall, findings

    @property
    def broken(self) -> list[Finding]:
        """Return the probes that got through."""
        return [finding for finding in self.findings if finding.verdict == NOT_HELD]

    def as_dict(self) -> dict[str, Any]:
        """Return the scorecard as data for JSON."""
        return {"wall": self.wall, "findings": [finding.as_dict() for finding in self.findings]}


def attack_separately(
    entry: WallEntry, settings: Settings, report: Callable[[Finding], None] = lambda _: None
) -> Scorecard:
    """Attack a separate wall of this host, which shares nothing with others; `report` is called with each finding."""
    assert entry.make_separate is not None
    wall, close = entry.make_separate(settings)
    try:
        return attack(wall, report=report)
    finally:
        close()


def attack(
    wall: Wall, probes: Sequence[Probe] = PROBES, report: Callable[[Finding], None] = lambda _: None
) -> Scorecard:
    """Try every probe behind an unused wall: the canary must be in place before the wall starts."""
    findings = []
    try:
        with Scene(wall) as scene:
            for probe in probes:
                findings.append(attempt(probe, scene))
                report(findings[-1])
    except (ClocheError, OSError) as problem:
        for probe in probes[len(findings) :]:
            findings.append(Finding(probe.row, probe.name, NOT_TRIED, f"No sandbox starts: {problem}"))
            report(findings[-1])
    return Scorecard(wall.name, tuple(findings))


def attempt(probe: Probe, scene: Scene, env: dict[str, str] | None = None) -> Finding:
    """Run one probe in its own sandbox; a test uses `env` to put a canary where it does not belong."""
    if probe.policy is None:
        return _attempt(probe, scene, env)
    with scene.outside.known():
        return _attempt(probe, scene, env)


def _attempt(probe: Probe, scene: Scene, env: dict[str, str] | None) -> Finding:
    source = TOOLS + probe.program + END
    options: dict[str, Any] = {"timeout": _TIMEOUT_S, **probe.limits, "env": env, "wall": scene.wall}
    if probe.policy is not None:
        options["network"] = probe.policy(scene)
    given = [dumps(scene.given())]
    begin = monotonic()
    try:
        if probe.look is None or probe.when == "gone":
            result = run(source, args=given, **options)
            elapsed = monotonic() - begin
            looked = probe.look(scene, None) if probe.look is not None else []
        else:
            with Sandbox(**options) as box:
                process = box.start_program(source, args=given, stdin=False)
                if probe.when == "after":
                    process.wait()
                else:
                    _wait_until_done(process)
                looked = probe.look(scene, box)
                result = process.wait()
                elapsed = monotonic() - begin
    except (ClocheError, OSError) as problem:
        return Finding(probe.row, probe.name, NOT_TRIED, str(problem))
    attempts, finished = read_attempts(result.stdout)
    seen = ProbeRun(result, attempts, finished, elapsed, scene, tuple(looked))
    verdict, detail = (probe.judge or judge_attempts)(seen)
    return Finding(probe.row, probe.name, verdict, detail)


def _wait_until_done(process: Process) -> None:
    """Wait until the program reports that it is done, or ends."""
    for event in process:
        if b'"done"' in getattr(event, "data", b""):
            return
