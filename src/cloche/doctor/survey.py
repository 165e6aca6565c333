"""What this host offers and what it lacks, row by row, and the check that decides: does a sandbox start?

Only the last one tells whether Cloche can run; the rows before it say why not, what is weaker, and how to mend it.
"""

from __future__ import annotations

import os
import sys
from json import loads
from time import monotonic

from cloche import environment, languages
from cloche.doctor import namespaces
from cloche.doctor.check import MISSING, OK, WEAKER, Check
from cloche.errors import ClocheError
from cloche.languages.state import INSTALL, INSTALLABLE, OLD, UNAVAILABLE, State, look
from cloche.model.plain import Plain
from cloche.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

_KERNEL = (5, 12)  # mount_setattr; everything else that the jail cannot do without is older
_MACHINES = ("x86_64", "aarch64")
_TRIALS_S = 20.0


class WallState(Plain):
    """A kind of isolation: can it be had here, why not, and how quickly does it start (seconds)?"""

    name: str
    available: bool
    reason: str = ""
    hint: str = ""
    first_s: float | None = None  # with nothing running yet
    next_s: float | None = None


class Survey(Plain):
    """All that was found."""

    checks: tuple[Check, ...]
    walls: tuple[WallState, ...]

    @property
    def can_run(self) -> bool:
        """Is there a wall to run behind?"""
        return any(wall.available for wall in self.walls)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "can_run": self.can_run,
            "checks": [check.as_dict() for check in self.checks],
            "walls": [wall.as_dict() for wall in self.walls],
        }


def survey(settings: Settings, report: Callable[[str], None] = lambda _: None) -> Survey:
    """Look at everything; `report` hears what is being looked at."""
    report("Looking at the kernel")
    told, facts = try_all(), namespaces.read_facts()
    checks = [
        kernel(os.uname().release, os.uname().machine),
        namespaces.user_namespaces(told["user_namespace"], facts),
        namespaces.proc(told["fresh_proc"], facts),
        seccomp(told["seccomp"]),
        landlock(told["landlock"]),
        *control_groups(told["control_groups"]),
        identity(os.geteuid(), told["namespaces"]),
        python_environment(settings.environment or environment.location()),
        page_merging(_read("/sys/kernel/mm/ksm/run")),
    ]
    report("Looking for languages")
    states = look(environment.manifest(settings.environment or environment.location()))
    report("Starting a sandbox")
    wall, found = try_jail(settings)
    return Survey((*checks, *spoken(states, found)), (wall,))


def kernel(release: str, machine: str) -> Check:
    """Is the kernel new enough, and of a machine that we know?"""
    meaning = f"Linux {release} on {machine}."
    if machine not in _MACHINES:
        return Check("kernel", MISSING, meaning, f"The jail knows {' and '.join(_MACHINES)} only.")
    numbers = tuple(int(part) for part in release.split("-")[0].split("+")[0].split(".")[:2] if part.isdigit())
    if numbers < _KERNEL:
        return Check("kernel", MISSING, meaning, f"The jail needs Linux {_KERNEL[0]}.{_KERNEL[1]} or later.")
    return Check("kernel", OK, meaning)


def seccomp(told: dict[str, Any]) -> Check:
    """Can the system-call filter be loaded?"""
    if "failed" in told:
        return Check(
            "system-call filter",
            MISSING,
            f"seccomp cannot be used: {told['failed']}.",
            "Use a kernel with CONFIG_SECCOMP_FILTER, and an outer container that allows seccomp(2).",
        )
    return Check("system-call filter", OK, "seccomp: programs reach only the system calls that they need.")


def landlock(told: dict[str, Any]) -> Check:
    """Which Landlock is there, and what the version means."""
    abi, name = told.get("abi", 0), "Landlock"
    newer = "Linux {} or later brings it."
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
    "memory": "Each process is limited by a resource limit instead, which does not count shared memory: "
    "a sandbox can use its limit once per process.",
    "cpu": "Processor time is not limited: one sandbox can take every core from the others.",
    "pids": "Processes are limited by a resource limit instead, which is as strict since Linux 5.14.",
}
_TITLES = {"memory": "memory limit", "cpu": "processor limit", "pids": "process limit"}


def control_groups(told: dict[str, Any]) -> list[Check]:
    """What is limited by control groups, and what happens to the rest."""
    controllers = told.get("controllers", {})
    missing = told.get("missing", {})
    checks = []
    for name, title in _TITLES.items():
        if name in controllers:
            meaning = f"By control group (version {controllers[name]}), for a sandbox as a whole."
            checks.append(Check(title, OK, meaning))
        else:
            checks.append(Check(title, WEAKER, _WITHOUT[name], missing.get(name) or told.get("failed", "")))
    return checks


def identity(uid: int, told: dict[str, Any]) -> Check:
    """As whom are sandboxes run?"""
    name = "host user"
    if told.get("privileged"):
        return Check(name, OK, "Run by root: each sandbox has a host user of its own, who owns nothing else.")
    whose = f"the caller's user ({uid})"
    if uid == 0:
        meaning = (
            "Root with few users mapped, or without all of CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_SYS_PTRACE and what "
            f"containers usually have: sandboxes share {whose}."
        )
        remedy = (
            "Give the container these (docker run --cap-add SYS_ADMIN --cap-add NET_ADMIN --cap-add SYS_PTRACE), or "
            "accept that namespaces alone part sandboxes from each other."
        )
        return Check(name, WEAKER, meaning, remedy)
    meaning = f"Run by an ordinary user: sandboxes share {whose} and its kernel quotas; namespaces alone part them."
    return Check(name, WEAKER, meaning, "Run Cloche as root to give each sandbox a host user of its own.")


def python_environment(home: str) -> Check:
    """Has the sandboxes' Python been built?"""
    name = "Python environment"
    if not environment.is_built(home):
        remedy = "Run `make install` in the clone, or `python -m cloche.environment`."
        return Check(name, MISSING, f"Not built; it belongs in {home}.", remedy)
    manifest = environment.manifest(home)
    return Check(name, OK, f"Python {manifest['python']} with {len(manifest['packages'])} packages, in {home}.")


def page_merging(run: str | None) -> Check:
    """Does the kernel merge equal pages (KSM)?  The time of a write then tells what another has in memory."""
    if run is not None and run.strip() == "1":
        meaning = "KSM is on: by timing writes, one sandbox can learn whether another holds a page that it guesses."
        remedy = "echo 2 > /sys/kernel/mm/ksm/run (and stop ksmtuned, if it runs)."
        return Check("page merging", WEAKER, meaning, remedy)
    return Check("page merging", OK, "KSM is off: memory is never shared by content.")


def spoken(states: Iterable[State], found: dict[str, str | None]) -> list[Check]:
    """One row per language; `found` says which program runs it inside, or None, and is empty without a sandbox."""
    return [_spoken(state, found) for state in states]


def _spoken(state: State, found: dict[str, str | None]) -> Check:
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


def try_jail(settings: Settings) -> tuple[WallState, dict[str, str | None]]:
    """Really start a sandbox, twice; tell how it went, and which languages were found inside."""
    from cloche.blocking.sandbox.one_shot import run
    from cloche.blocking.sandbox.sandbox import Sandbox
    from cloche.blocking.walls.jail.wall import Jail
    from cloche.walls.jail.nurseries import Nurseries

    nurseries = Nurseries(settings, visible=languages.visible)
    try:
        times = []
        for _ in range(2):
            begin = monotonic()
            result = run("print(1)", wall=Jail(nurseries))
            times.append(monotonic() - begin)
            if result.stdout != "1\n":
                return WallState("jail", False, f"print(1) did not print 1: {result.error}"), {}
        with Sandbox(wall=Jail(nurseries)) as box:
            found = _programs_inside(box)
        return WallState("jail", True, first_s=times[0], next_s=times[1]), found
    except (ClocheError, OSError) as problem:
        hint = problem.hint if isinstance(problem, ClocheError) and "cloche doctor" not in problem.hint else ""
        return WallState("jail", False, getattr(problem, "message", "") or str(problem), hint), {}
    finally:
        nurseries.close()


def try_all() -> dict[str, dict[str, Any]]:
    """Run trials.py as a launcher would be run; whatever it could not tell has `failed`."""
    import subprocess

    from cloche.doctor import trials

    argv = [sys._base_executable, "-I", "-S", trials.__file__]  # type: ignore[attr-defined]
    try:
        done = subprocess.run(argv, env={}, capture_output=True, text=True, timeout=_TRIALS_S)
        told: dict[str, dict[str, Any]] = loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as problem:
        failure = {"errno": None, "failed": f"it could not be tried ({problem})"}
        told = dict.fromkeys(trials.TRIALS, failure)
    return told


# For each argument, one line: where the shell finds it, or nothing.
_WHERE = 'for program; do found=$(command -v -- "$program") && echo "$found" || echo; done'


def _programs_inside(box: Any) -> dict[str, str | None]:
    """For each language that this host has: its first program as sandboxes see it, or None where one is missing."""
    tools = {language.name: languages.tools(language) for language in languages.everything()}
    wanted = {name: list(found.programs.values()) for name, found in tools.items() if found is not None}
    everything = list(dict.fromkeys(path for paths in wanted.values() for path in paths))
    told = box.commands.run(["sh", "-c", _WHERE, "sh", *everything], timeout=20).stdout.split("\n")
    seen = dict(zip(everything, told, strict=False))
    return {name: seen[paths[0]] if all(seen.get(path) for path in paths) else None for name, paths in wanted.items()}


def _read(path: str) -> str | None:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return None
