"""Surveys this host: makes one row for each feature that Cloche needs, and tries each wall.

Only the trial decides whether Cloche can run.  The rows explain why it cannot, which protection is weaker, and the fix.
"""

from __future__ import annotations

import os
import sys
from json import loads
from time import monotonic

from cloche import environment, languages
from cloche.blocking.walls import registry
from cloche.doctor import namespaces
from cloche.doctor.check import MISSING, OK, WEAKER, Check
from cloche.environment.absence import explain
from cloche.errors import ClocheError
from cloche.languages.availability import INSTALL, INSTALLABLE, OLD, UNAVAILABLE, Availability, check_languages
from cloche.model.plain import Plain
from cloche.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from cloche.blocking.walls.registry import WallEntry
    from cloche.blocking.walls.wall import Wall

_KERNEL = (5, 12)  # for mount_setattr; everything else that the jail requires is older
_MACHINES = ("x86_64", "aarch64")
_TRIALS_S = 20.0


class WallState(Plain):
    """Whether a wall is available here, or else the reason; and how quickly its sandboxes start."""

    name: str
    available: bool
    reason: str = ""
    hint: str = ""
    first_s: float | None = None  # seconds for print(1) with nothing running yet; None when no sandbox was started
    next_s: float | None = None


class Survey(Plain):
    """All rows, and the state of all walls."""

    checks: tuple[Check, ...]
    walls: tuple[WallState, ...]

    @property
    def can_run(self) -> bool:
        """Whether a sandbox was started on this host and ran a program."""
        return any(wall.available and wall.first_s is not None for wall in self.walls)

    def as_dict(self) -> dict[str, Any]:
        """Return the survey as data for JSON."""
        return {
            "can_run": self.can_run,
            "checks": [check.as_dict() for check in self.checks],
            "walls": [wall.as_dict() for wall in self.walls],
        }


def survey(settings: Settings, report: Callable[[str], None] = lambda _: None) -> Survey:
    """Check everything; `report` is called with the name of each step when it begins."""
    report("Looking at the kernel")
    results, facts = try_all(), namespaces.read_facts()
    checks = [
        kernel(os.uname().release, os.uname().machine),
        namespaces.user_namespaces(results["user_namespace"], facts),
        namespaces.proc(results["fresh_proc"], facts),
        seccomp(results["seccomp"]),
        landlock(results["landlock"]),
        *control_groups(results["control_groups"]),
        identity(os.geteuid(), results["namespaces"]),
        python_environment(settings.environment or environment.location()),
        page_merging(_read("/sys/kernel/mm/ksm/run")),
    ]
    report("Looking for languages")
    states = check_languages(environment.manifest(settings.environment or environment.location()))
    report("Starting a sandbox")
    walls, found = [], {}
    for entry in registry.WALLS:
        state, programs = try_wall(entry, settings)
        walls.append(state)
        found.update(programs)
    return Survey((*checks, *spoken(states, found)), tuple(walls))


def kernel(release: str, machine: str) -> Check:
    """Check whether the kernel is new enough, and whether the jail supports the processor."""
    meaning = f"Linux {release} on {machine}."
    if machine not in _MACHINES:
        return Check("kernel", MISSING, meaning, f"The jail runs on {' and '.join(_MACHINES)} only.")
    numbers = tuple(int(part) for part in release.split("-")[0].split("+")[0].split(".")[:2] if part.isdigit())
    if numbers < _KERNEL:
        return Check("kernel", MISSING, meaning, f"The jail needs Linux {_KERNEL[0]}.{_KERNEL[1]} or later.")
    return Check("kernel", OK, meaning)


def seccomp(result: dict[str, Any]) -> Check:
    """Check whether the system-call filter can be loaded."""
    if "failed" in result:
        return Check(
            "system-call filter",
            MISSING,
            f"seccomp cannot be used: {result['failed']}.",
            "Use a kernel with CONFIG_SECCOMP_FILTER, and an outer container that allows seccomp(2).",
        )
    return Check("system-call filter", OK, "seccomp: programs reach only the system calls that they need.")


def landlock(result: dict[str, Any]) -> Check:
    """Check the kernel's version of Landlock, and explain its consequences."""
    abi, name = result.get("abi", 0), "Landlock"
    newer = "Linux {} or later can."
    if not abi:
        meaning = "A second lock on files is missing; mounts and permissions still hold."
        return Check(name, WEAKER, meaning, "Boot Linux 5.13 or later with `landlock` in the list of lsm= modules.")
    if abi == 1:
        meaning = "Version 1: files cannot be renamed or linked from one folder to another (EXDEV; most programs copy)."
        return Check(name, WEAKER, meaning, newer.format("5.19"))
    if abi < 6:
        meaning = f"Version {abi}: files are locked; Unix sockets and signals are kept in by namespaces alone."
        return Check(name, OK, meaning)
    return Check(name, OK, f"Version {abi}: a second lock on files, abstract Unix sockets and signals.")


_WITHOUT = {
    "memory": "The memory of a sandbox's processes is counted from outside instead, which misses the buffers of pipes "
    "and sockets; programs can make no memfd.",
    "cpu": "Processor time is not limited: one sandbox can take every core from the others.",
    "pids": "Processes are limited by a resource limit instead, which is as strict since Linux 5.14.",
}
_TITLES = {"memory": "memory limit", "cpu": "processor limit", "pids": "process limit"}


def control_groups(result: dict[str, Any]) -> list[Check]:
    """Check which limits control groups enforce, and what enforces the others."""
    controllers = result.get("controllers", {})
    missing = result.get("missing", {})
    checks = []
    for name, title in _TITLES.items():
        if name in controllers:
            meaning = f"By control group (version {controllers[name]}), for a sandbox as a whole."
            checks.append(Check(title, OK, meaning))
        else:
            checks.append(Check(title, WEAKER, _WITHOUT[name], missing.get(name) or result.get("failed", "")))
    return checks


def identity(uid: int, result: dict[str, Any]) -> Check:
    """Check which user of the host runs the sandboxes."""
    name = "host user"
    if result.get("privileged"):
        return Check(name, OK, "Run by root: each sandbox has a host user of its own, who owns nothing else.")
    whose = f"the caller's user ({uid})"
    if uid == 0:
        meaning = (
            "Root with few users mapped, or without all of CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_SYS_PTRACE and what "
            f"containers usually have: sandboxes share {whose}."
        )
        remedy = (
            "Give the container these (docker run --cap-add SYS_ADMIN --cap-add NET_ADMIN --cap-add SYS_PTRACE), or "
            "accept that only namespaces separate sandboxes from each other."
        )
        return Check(name, WEAKER, meaning, remedy)
    meaning = f"Run by an ordinary user: sandboxes share {whose} and its kernel quotas; only namespaces separate them."
    return Check(name, WEAKER, meaning, "Run Cloche as root to give each sandbox a host user of its own.")


def python_environment(home: str) -> Check:
    """Check whether the Python environment of the sandboxes has been built."""
    name = "Python environment"
    if not environment.is_built(home):
        message, remedy = explain(home)
        return Check(name, MISSING, f"{message} It belongs in {home}.", remedy)
    manifest = environment.manifest(home)
    meaning = f"Python {manifest['python']} with {len(manifest['packages'])} packages, in {home}."
    if environment.is_slim(home):
        return Check(name, OK, meaning, "It is the slim one. `cloche setup` installs pandas, Matplotlib and the rest.")
    return Check(name, OK, meaning)


def page_merging(run: str | None) -> Check:
    """Check whether the kernel merges equal pages (KSM): then the time of a write shows what others have in memory."""
    if run is not None and run.strip() == "1":
        meaning = "KSM is on: by timing writes, one sandbox can learn whether another holds a page that it guesses."
        remedy = "echo 2 > /sys/kernel/mm/ksm/run (and stop ksmtuned, if it runs)."
        return Check("page merging", WEAKER, meaning, remedy)
    return Check("page merging", OK, "KSM is off: memory is never shared by content.")


def spoken(states: Iterable[Availability], found: dict[str, str | None]) -> list[Check]:
    """Make one row per language; `found` has the program that runs it inside, or None; empty without a sandbox."""
    return [_spoken(state, found) for state in states]


def _spoken(state: Availability, found: dict[str, str | None]) -> Check:
    version = f"{state.title} {state.version or ''}".rstrip()
    if state.state in (INSTALLABLE, UNAVAILABLE):
        return Check(state.name, MISSING, state.why, state.remedy)
    if state.name not in found:
        return Check(state.name, MISSING, f"{version} is here, but no sandbox starts.")
    path = found[state.name]
    if path is None:
        meaning = f"{version} is on this host ({state.where}), but a sandbox cannot start it."
        return Check(state.name, MISSING, meaning, f"Install it below /usr, for instance by {INSTALL} {state.name}")
    if state.state == OLD:
        return Check(state.name, WEAKER, state.why, state.remedy)
    return Check(state.name, OK, f"{version}: {path} in the sandbox.", f"{state.why} {state.remedy}".strip())


def try_wall(entry: WallEntry, settings: Settings) -> tuple[WallState, dict[str, str | None]]:
    """Try a wall; return its state, and the programs of languages that were found inside its sandboxes.

    A trial of a wall on this host starts real sandboxes.  Of any other wall only the configuration is checked, because
    its sandboxes may cost money.
    """
    if entry.make_separate is None:
        return _configured(entry, settings), {}
    wall, close = entry.make_separate(settings)
    try:
        return _start_sandboxes(entry.name, wall)
    except (ClocheError, OSError) as problem:
        return _unavailable(entry.name, problem), {}
    finally:
        close()


def _start_sandboxes(name: str, wall: Wall) -> tuple[WallState, dict[str, str | None]]:
    from cloche.blocking.sandbox.one_shot import run
    from cloche.blocking.sandbox.sandbox import Sandbox

    times = []
    for _ in range(2):
        begin = monotonic()
        result = run("print(1)", wall=wall)
        times.append(monotonic() - begin)
        if result.stdout != "1\n":
            return WallState(name, False, f"print(1) did not print 1: {result.error}"), {}
    with Sandbox(wall=wall) as box:
        found = _programs_inside(box)
    return WallState(name, True, first_s=times[0], next_s=times[1]), found


def _configured(entry: WallEntry, settings: Settings) -> WallState:
    if not registry.is_offered(entry, settings):
        hint = f"It is optional, and needs {entry.needs}: {registry.variable(entry)}."
        return WallState(entry.name, False, "not configured", hint)
    try:
        entry.make(settings)
    except (ClocheError, OSError) as problem:
        return _unavailable(entry.name, problem)
    return WallState(entry.name, True, "configured; its sandboxes are not on this host, so none was started")


def _unavailable(name: str, problem: ClocheError | OSError) -> WallState:
    hint = problem.hint if isinstance(problem, ClocheError) and "cloche doctor" not in problem.hint else ""
    return WallState(name, False, getattr(problem, "message", "") or str(problem), hint)


def try_all() -> dict[str, dict[str, Any]]:
    """Run trials.py as a launcher is run; a trial without a result has `failed`."""
    import subprocess

    from cloche.doctor import trials

    argv = [sys._base_executable, "-I", "-S", trials.__file__]  # type: ignore[attr-defined]
    try:
        done = subprocess.run(argv, env={}, capture_output=True, text=True, timeout=_TRIALS_S)
        results: dict[str, dict[str, Any]] = loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as problem:
        failure = {"errno": None, "failed": f"the trial could not run ({problem})"}
        results = dict.fromkeys(trials.TRIALS, failure)
    return results


# Prints one line for each argument: the path where the shell finds it, or nothing.
_WHERE = 'for program; do found=$(command -v -- "$program") && echo "$found" || echo; done'


def _programs_inside(box: Any) -> dict[str, str | None]:
    """For each language of this host: its first program's path in a sandbox, or None if any program is missing."""
    tools = {language.name: languages.tools(language) for language in languages.everything()}
    wanted = {name: list(found.programs.values()) for name, found in tools.items() if found is not None}
    everything = list(dict.fromkeys(path for paths in wanted.values() for path in paths))
    lines = box.commands.run(["sh", "-c", _WHERE, "sh", *everything], timeout=20).stdout.split("\n")
    seen = dict(zip(everything, lines, strict=False))
    return {name: seen[paths[0]] if all(seen.get(path) for path in paths) else None for name, paths in wanted.items()}


def _read(path: str) -> str | None:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return None
