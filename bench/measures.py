"""What is measured: contests, each with its sides, taken in turns round after round.

In every round each side of a contest is sampled once, in an order that rotates, so that a noisy minute falls on all of
them alike.  What carries over to another machine is the ratio between the sides, not the milliseconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import cloche
from bench import languages as spoken
from bench import machine, neighbours, work
from bench.clients import Clients
from bench.engine import REPOSITORY, Engine
from bench.server import Served
from bench.sessions import Sessions

BURST, IN_FLIGHT = 200, 8
DOCKER_BURST = 24  # where one start takes half a second, fewer show as much
MORE_SANDBOXES = 8
GROWTH_RUNS = 500
FILE_MB = 1
ONCE = sys.maxsize  # as Contest.every

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
    """This side cannot be measured here; the reason is for the report."""


@dataclass(frozen=True)
class Contest:
    """One kind of work, and who does it: sides by name, each gives one or more figures when it is called."""

    name: str
    sides: dict[str, Sample]
    every: int = 1  # done in every so manieth round: what takes long is done less often
    warm_up: bool = True  # once before the first round, to fill caches and to find out what works


@dataclass
class Samples:
    """What was measured: figures and reasons by contest and side."""

    figures: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    missing: dict[str, dict[str, str]] = field(default_factory=dict)
    broken: bool = False  # something failed that should work

    def of(self, contest: str, side: str) -> list[float]:
        """The figures of one side."""
        return self.figures.get(contest, {}).get(side, [])

    def why_not(self, contest: str, side: str) -> str | None:
        """Why there are none."""
        return self.missing.get(contest, {}).get(side)

    def take(self, contest: Contest, side: str, keep: bool = True) -> None:
        """Have one side do its work; a fault takes that side out of the contest and is told in the report."""
        if self.why_not(contest.name, side):
            return
        try:
            figures = contest.sides[side]()
        except Exception as problem:  # whatever it is: the others are measured all the same
            self.broken = self.broken or not isinstance(problem, Unavailable)
            reason = str(problem) if isinstance(problem, Unavailable) else f"{type(problem).__name__}: {problem}"
            self.missing.setdefault(contest.name, {})[side] = " ".join(reason.split())[:200]
            return
        if keep:
            self.figures.setdefault(contest.name, {}).setdefault(side, []).extend(figures)


def measure(contests: list[Contest], rounds: int, deadline: float, quiet: machine.Quiet) -> tuple[Samples, int]:
    """Take all contests through the rounds, or through as many as there is time for; the samples and that number."""
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
    """The same, starting elsewhere."""
    by %= len(items)
    return items[by:] + items[:by]


class Lab:
    """Everybody who does the work: the warm engine in this process, one without a pool beside it, the others."""

    def __init__(self, scratch: Path) -> None:
        self._bare = work.Bare(scratch)
        self._docker = work.Docker()
        self._cli = REPOSITORY / ".venv" / "bin" / "cloche"
        cloche.warm_up()
        self._cold = Engine(sys.executable, CLOCHE_POOL="0")
        self._sessions = Sessions(self._bare.libraries)
        self._served = Served(scratch)
        self._clients = Clients(self._served)
        self._hellos = spoken.Hellos(scratch)

    def close(self) -> None:
        """End the second engine and the sessions; the first engine ends with this process."""
        self._cold.close()
        self._sessions.close()
        self._clients.close()
        self._served.close()

    def contests(self) -> list[Contest]:
        """All there is, in the order of the report."""
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
            *(Contest(spoken.contest(name), self._hellos.sides(name), spoken.every(name)) for name in spoken.NAMES),
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
    """`cloche.run`, as a caller sees it."""
    start = time.perf_counter()
    result = cloche.run(code, output="200M" if code == work.OUTPUT else "10M")
    seconds = time.perf_counter() - start
    if result.error is not None:
        raise work.WrongOutput(f"{result.error} {result.stderr[-200:]}")
    return result.stdout, seconds


def _burst(run: Callable[[str], tuple[str, float]], runs: int) -> list[float]:
    """Runs per second."""
    start = time.perf_counter()
    with ThreadPoolExecutor(IN_FLIGHT) as threads:
        outputs = [output for output, _ in threads.map(run, [work.HELLO] * runs)]
    seconds = time.perf_counter() - start
    for output in outputs:
        work.check(work.HELLO, output)
    return [runs / seconds]


# Memory, in MB of PSS over all processes: engine, nurseries, sandboxes


def _settled_pss() -> float:
    """What all takes once no process comes or goes: the pool is full again, what has ended is gone."""
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
        boxes[-1].files.exists("nothing")  # it has answered once, so it is there

    return _memory(one_more, boxes)


def _memory_pandas() -> list[float]:
    boxes: list[cloche.Sandbox] = []

    def one_more() -> None:
        boxes.append(cloche.Sandbox())
        answer = boxes[-1].run("import pandas; len(pandas.DataFrame({'a': [1]}))").text
        if answer != "1":
            raise work.WrongOutput(str(answer))

    return _memory(one_more, boxes)


def _memory(one_more: Callable[[], None], held: list[cloche.Sandbox]) -> list[float]:
    try:
        one_more()
        one = _settled_pss()
        for _ in range(MORE_SANDBOXES):
            one_more()
        return [(_settled_pss() - one) / MORE_SANDBOXES]
    finally:
        for each in held:
            each.close()


def _growth() -> list[float]:
    """What the engine and its nurseries gain over many runs."""

    def runs(count: int) -> float:
        with ThreadPoolExecutor(IN_FLIGHT) as threads:
            list(threads.map(_run, [work.HELLO] * count))
        return _settled_pss()

    before = runs(50)
    return [runs(GROWTH_RUNS) - before]


# One sandbox, and what is done with it; seconds


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
