"""The measurements: contests, each with its sides, taken in turns round after round.

In every round each side of a contest is sampled once, in an order that rotates, so that a noisy minute affects all of
them alike.  The ratio between the sides carries over to other machines, the milliseconds do not.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import cloche
from bench import languages, machine, neighbours, work
from bench.clients import Clients
from bench.engine import REPOSITORY, Engine
from bench.load import Load
from bench.network import Network
from bench.packages import Packages
from bench.server import Served
from bench.sessions import Sessions

BURST, IN_FLIGHT = 200, 8
DOCKER_BURST = 24  # fewer, because one start takes half a second
MORE_SANDBOXES = 8
GROWTH_RUNS = 500
FILE_MB = 1
ONCE = sys.maxsize  # a value for Contest.every

_OFTEN = {
    "turn": 2,
    "first": 8,
    "served run": 1,
    "served turn": 2,
    "served burst": 8,
    "served files": 8,
    "e2b first": 2,
    "e2b many": 8,
}  # contests of sessions and of the server that are not done in every fourth round

Sample = Callable[[], list[float]]


class Unavailable(Exception):
    """This side cannot be measured here; the report prints the reason."""


@dataclass(frozen=True)
class Contest:
    """One kind of work and its sides by name; a side is a function that returns one or more figures."""

    name: str
    sides: dict[str, Sample]
    every: int = 1  # run in every n-th round: long contests run less often
    warm_up: bool = True  # run once before the first round, to fill caches and to find out what works


@dataclass
class Samples:
    """The figures, and the reasons for missing ones, by contest and side."""

    figures: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    missing: dict[str, dict[str, str]] = field(default_factory=dict)
    broken: bool = False  # something failed that should have worked

    def of(self, contest: str, side: str) -> list[float]:
        return self.figures.get(contest, {}).get(side, [])

    def why_not(self, contest: str, side: str) -> str | None:
        return self.missing.get(contest, {}).get(side)

    def take(self, contest: Contest, side: str, keep: bool = True) -> None:
        """Let one side do its work; an error removes that side from the contest and is reported."""
        if self.why_not(contest.name, side):
            return
        try:
            figures = contest.sides[side]()
        except Exception as problem:  # whatever it is, the other sides are still measured
            self.broken = self.broken or not isinstance(problem, Unavailable)
            reason = str(problem) if isinstance(problem, Unavailable) else f"{type(problem).__name__}: {problem}"
            self.missing.setdefault(contest.name, {})[side] = " ".join(reason.split())[:200]
            return
        if keep:
            self.figures.setdefault(contest.name, {}).setdefault(side, []).extend(figures)


def measure(contests: list[Contest], rounds: int, deadline: float, quiet: machine.Quiet) -> tuple[Samples, int]:
    """Run the contests for all rounds, or as many as there is time for; return the samples and the number of rounds."""
    samples = Samples()
    for contest in contests:
        for side in contest.sides if contest.warm_up else ():
            samples.take(contest, side, keep=False)
    done = 0
    for number in range(rounds):
        if number and time.monotonic() > deadline:
            break
        for contest in contests:
            if number % contest.every == 0:
                for side in rotated(list(contest.sides), number // contest.every):
                    quiet.wait()
                    samples.take(contest, side)
        done += 1
    return samples, done


def rotated(items: list[str], by: int) -> list[str]:
    """Rotate a list."""
    by %= len(items)
    return items[by:] + items[:by]


class Lab:
    """All that do the work: the warm engine in this process, an engine without a pool beside it, and the others."""

    def __init__(self, scratch: Path) -> None:
        self._bare = work.Bare(scratch)
        self._docker = work.Docker()
        self._cli = REPOSITORY / ".venv" / "bin" / "cloche"
        cloche.warm_up()
        self._cold = Engine(sys.executable, CLOCHE_POOL="0")
        self._sessions = Sessions(self._bare.libraries)
        self._served = Served(scratch)
        self._clients = Clients(self._served)
        self._load = Load(scratch)
        self._network = Network()
        self._packages = Packages(scratch)
        self._hellos = languages.Hellos(scratch)

    def close(self) -> None:
        """End the second engine and the sessions; the first engine ends with this process."""
        self._cold.close()
        self._sessions.close()
        self._clients.close()
        self._served.close()
        self._load.close()
        self._network.close()

    def contests(self) -> list[Contest]:
        """List all contests in the order of the report."""
        hello: dict[str, Sample] = {**self._both(work.HELLO), "cold": self._hello_cold, "cli": self._hello_cli}
        burst: dict[str, Sample] = {
            "cloche": lambda: _burst(_run, BURST),
            "bare": lambda: _burst(self._bare.run, BURST),
            "docker": self._burst_docker,
        }
        return [
            Contest("hello", hello),
            Contest("pandas", self._both(work.PANDAS), every=2),
            Contest("chart", self._both(work.CHART), every=2),
            Contest("loop", self._both(work.LOOP, times_itself=True), every=2),
            Contest("matmul", self._both(work.MATMUL, times_itself=True), every=2),
            Contest("burst", burst, every=8, warm_up=False),
            Contest("memory", {"fresh": _memory_fresh, "pandas": _memory_pandas}, every=12, warm_up=False),
            Contest("box", {"close": _close, "command": _command, "write": _write, "read": _read}, every=2),
            Contest("output", self._both(work.OUTPUT), every=12),
            Contest("growth", {"cloche": _growth}, every=ONCE, warm_up=False),
            Contest("neighbour", neighbours.sides(), every=12, warm_up=False),
            *(Contest(name, sides, every=_OFTEN.get(name, 4)) for name, sides in self._sessions.sides().items()),
            *(Contest(name, sides, every=_OFTEN.get(name, 4)) for name, sides in self._served.sides().items()),
            *(Contest(name, sides, every=_OFTEN.get(name, 4)) for name, sides in self._clients.sides().items()),
            *(Contest(name, sides, every=4) for name, sides in self._network.sides().items()),
            *(Contest(name, sides, every=4) for name, sides in self._packages.sides().items()),
            *(Contest(name, sides, every=ONCE, warm_up=False) for name, sides in self._load.sides().items()),
            *(
                Contest(languages.contest(name), self._hellos.sides(name), languages.every(name))
                for name in languages.NAMES
            ),
        ]

    def _both(self, code: str, times_itself: bool = False) -> dict[str, Sample]:
        def side(run: Callable[[str], tuple[str, float]]) -> Sample:
            def sample() -> list[float]:
                output, seconds = run(code)
                work.check(code, output)
                return work.times(output) if times_itself else [seconds]

            return sample

        return {"cloche": side(_run), "bare": side(self._bare.run)}

    def _hello_cold(self) -> list[float]:
        answer = self._cold.ask("fresh", code=work.HELLO)
        work.check(work.HELLO, answer["output"])
        return [answer["run"]]

    def _hello_cli(self) -> list[float]:
        if not self._cli.exists() or not (REPOSITORY / "src/cloche/cli/main.py").exists():
            raise Unavailable("there is no `cloche` command yet")
        output, seconds = work.timed([str(self._cli), "run", "-c", work.HELLO], {"PATH": "/usr/bin:/bin"})
        work.check(work.HELLO, output)
        return [seconds]

    def _burst_docker(self) -> list[float]:
        missing = self._docker.missing()
        if missing:
            raise Unavailable(missing)
        return _burst(self._docker.run, DOCKER_BURST)


def _run(code: str) -> tuple[str, float]:
    """Time `cloche.run` as a caller sees it."""
    start = time.perf_counter()
    result = cloche.run(code, output="200M" if code == work.OUTPUT else "10M")
    seconds = time.perf_counter() - start
    if result.error is not None:
        raise work.WrongOutput(f"{result.error} {result.stderr[-200:]}")
    return result.stdout, seconds


def _burst(run: Callable[[str], tuple[str, float]], runs: int) -> list[float]:
    """Measure runs per second."""
    start = time.perf_counter()
    with ThreadPoolExecutor(IN_FLIGHT) as threads:
        outputs = [output for output, _ in threads.map(run, [work.HELLO] * runs)]
    seconds = time.perf_counter() - start
    for output in outputs:
        work.check(work.HELLO, output)
    return [runs / seconds]


# Memory, in MB of PSS over all processes: engine, nurseries, sandboxes


def _settled_pss() -> float:
    """Measure memory once no process starts or ends any more: the pool is full, ended processes are gone."""
    before: set[int] = set()
    for _ in range(20):
        family = machine.family()
        if family == before:
            break
        before = family
        time.sleep(0.4)
    return machine.pss_mb(before)


def _memory_fresh() -> list[float]:
    boxes: list[cloche.Sandbox] = []

    def one_more() -> None:
        boxes.append(cloche.Sandbox())
        boxes[-1].files.exists("nothing")  # an answer means that the sandbox has started

    return _memory(one_more, boxes)


def _memory_pandas() -> list[float]:
    boxes: list[cloche.Sandbox] = []

    def one_more() -> None:
        boxes.append(cloche.Sandbox())
        answer = boxes[-1].run("import pandas; len(pandas.DataFrame({'a': [1]}))").text
        if answer != "1":
            raise work.WrongOutput(str(answer))

    return _memory(one_more, boxes)


def _memory(one_more: Callable[[], None], sandboxes: list[cloche.Sandbox]) -> list[float]:
    try:
        one_more()
        one = _settled_pss()
        for _ in range(MORE_SANDBOXES):
            one_more()
        return [(_settled_pss() - one) / MORE_SANDBOXES]
    finally:
        for each in sandboxes:
            each.close()


def _growth() -> list[float]:
    """Measure how much memory the engine and its nurseries gain over many runs."""

    def runs(count: int) -> float:
        with ThreadPoolExecutor(IN_FLIGHT) as threads:
            list(threads.map(_run, [work.HELLO] * count))
        return _settled_pss()

    before = runs(50)
    return [runs(GROWTH_RUNS) - before]


# Work in one sandbox; seconds


def _in_a_sandbox(action: Callable[[cloche.Sandbox], object]) -> list[float]:
    with cloche.Sandbox() as box:
        box.files.write("temp/block", b"x" * (FILE_MB << 20))
        box.commands.run("true")
        start = time.perf_counter()
        action(box)
        return [time.perf_counter() - start]


def _close() -> list[float]:
    return _in_a_sandbox(lambda box: box.close())


def _command() -> list[float]:
    return _in_a_sandbox(lambda box: box.commands.run("true"))


def _write() -> list[float]:
    return _in_a_sandbox(lambda box: box.files.write("temp/more", b"x" * (FILE_MB << 20)))


def _read() -> list[float]:
    return _in_a_sandbox(lambda box: box.files.read("temp/block"))
