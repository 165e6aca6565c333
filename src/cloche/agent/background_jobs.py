"""Jobs on many files, done in a fork of the agent, so that the agent keeps serving the engine."""

from __future__ import annotations

import os
from _collections import deque  # type: ignore[import-not-found]

from cloche.agent import signals
from cloche.wire.light_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cloche.agent.main import Agent

    Job = Callable[[], dict[str, Any]]
    Done = Callable[[dict[str, Any] | OSError], None]

_MAX_REPORT = 1 << 20


class BackgroundJobs:
    """A queue of jobs.  Only one runs at a time: two on the same files would disturb each other."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._waiting: deque[tuple[Job, Done]] = deque()
        self._done: Done | None = None  # the callback of the running job
        self._report = bytearray()

    def add(self, job: Job, done: Done, quick: bool = False) -> None:
        """Run a job.  `done` receives the job's result, or the OSError that it failed with.

        A `quick` job runs in the agent itself if no other job is running.
        """
        if quick and self._done is None:
            report = _report(job)  # a fork would take longer than the job
            done(report["done"] if "done" in report else OSError(*report["failed"]))
            return
        self._waiting.append((job, done))
        if self._done is None:
            self._next()

    def _next(self) -> None:
        if not self._waiting:
            return
        job, self._done = self._waiting.popleft()
        self._report.clear()
        try:
            reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as problem:
            self._end(problem)
            return
        try:
            if os.fork() == 0:
                _run_in_child(job, writing)
        except OSError as problem:
            os.close(reading)
            self._end(problem)
            return
        finally:
            os.close(writing)
        self._agent.watch(reading, lambda: self._readable(reading))

    def _readable(self, fd: int) -> None:
        try:
            data = os.read(fd, 64 << 10)
        except BlockingIOError:
            return
        self._report += data
        if data and len(self._report) <= _MAX_REPORT:
            return
        self._agent.unwatch(fd)
        os.close(fd)
        try:
            report = loads(self._report.decode())
        except ValueError:
            report = {"failed": [4, "the job was killed before it finished"]}
        self._end(report["done"] if "done" in report else OSError(*report["failed"]))

    def _end(self, outcome: dict[str, Any] | OSError) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(outcome)
        if self._done is None:
            self._next()


def _report(job: Job) -> dict[str, Any]:
    """Run the job and return its result or its failure."""
    try:
        return {"done": job()}
    except OSError as problem:
        return {"failed": [problem.errno or 5, problem.strerror or str(problem)]}
    except Exception as problem:
        return {"failed": [5, f"{type(problem).__name__}: {problem}"]}


def _run_in_child(job: Job, writing: int) -> None:
    """Run the job in the forked child and write the report to the pipe."""
    try:
        signals.set_wakeup_fd(-1)
        os.set_blocking(writing, True)
        data = dumps(_report(job)).encode()
        while data:
            data = data[os.write(writing, data) :]
    finally:
        os._exit(0)
