"""The Python kernel: runs cells one after another in one process, so that their variables stay.

`prepare` runs in the nursery, where IPython is imported and warmed up; `main` runs in a process forked from it.
"""

from __future__ import annotations

import os
import sys
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

from cloche.agent import signals
from cloche.kernels import (
    class_sources,
    forking,
    ipython_shell,
    library_patches,
    output_streams,
    stdin,
    tables,
    tools,
    variables,
    warm_up,
    worker_pools,
)
from cloche.kernels.channel import Channel
from cloche.wire import frames
from cloche.wire.light_json import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_prepared: list[Any] = []  # the shell that the nursery built


def prepare() -> None:
    """Build the shell and use it a little, so that the first cell of every kernel is fast."""
    _prepared[:] = [ipython_shell.build()]
    warm_up.warm_up(_prepared[0])


def main(control: int, order: dict[str, Any]) -> NoReturn:
    """Serve as the kernel until the agent is gone."""
    PythonKernel(Channel(control), order).serve()


class PythonKernel:
    """The kernel's loop, and the path of a cell through it."""

    def __init__(self, channel: Channel, order: dict[str, Any]) -> None:
        self._channel = channel
        signals.signal(signals.SIGINT, signals.SIG_IGN)
        if not _prepared:
            _prepared[:] = [ipython_shell.build()]
        self._shell = _prepared[0]
        self._outputs = output_streams.install(channel)
        stdin.install()
        ipython_shell.enter(self._shell, channel.send_message)
        class_sources.install()
        library_patches.install()
        self._calls = tools.install(channel, order.get("tools") or [], self._shell)
        sys.argv = [""]
        sys.path.insert(0, "")  # the current folder, whatever it is
        self._files: list[Any] = []  # in a frozen copy: the open files and their offsets
        self._is_frozen = self._is_child = False
        os.register_at_fork(before=output_streams.flush, after_in_child=self._leave_channel)
        channel.send_json(frames.STARTED, {"pid": os.getpid(), "lost": {}}, 0)

    def serve(self) -> NoReturn:
        """Handle frames, one after another."""
        while True:
            try:
                self._run_tasks()
                frame = self._channel.receive()
                if frame is None:
                    _finish()
                operation, kind, payload = frame
                self._channel.operation = operation
                # The agent has handled the previous cell's frames before it sends this one.
                self._channel.needs_sync = False
                request = loads(payload.decode())
                if kind == frames.CELL:
                    self._run(request)
                elif kind == frames.FORK:
                    self._fork(operation, request)
                elif kind == frames.ASK:
                    self._answer(request)
            except BaseException as problem:  # a signal handler that a cell left behind raised, or we failed
                _report_own_error(problem)

    def _run(self, cell: dict[str, Any]) -> None:
        """Run a cell; the agent gets an EXIT frame in any case."""
        before = _cpu_time()
        if type(cell.get("number")) is int and cell["number"] > 0:
            self._shell.execution_count = cell["number"]
        count = self._shell.execution_count
        try:
            status, code = self._execute(cell)
        except BaseException as problem:  # something that the code left behind broke our own code
            _report_own_error(problem)
            status, code = "error", 1
        if self._is_child:  # the code forked, and the child has come here, too
            os._exit(code)
        self._channel.send_json(
            frames.EXIT,
            {
                "status": status,
                "code": code,
                "count": count,
                "cpu": round(_cpu_time() - before, 6),
                "peak": getrusage(RUSAGE_SELF).ru_maxrss * 1024,
            },
        )

    def _execute(self, cell: dict[str, Any]) -> tuple[str, int]:
        """Run the code and send its results; returns how it ended."""
        kernel_shell = self._shell
        result = None
        changed = _change_environment(cell.get("env"))
        shows = cell.get("shows") or {}
        tables.allow(shows.get("rows"))
        library_patches.SavedPictures.displayed = bool(shows.get("saved"))
        if cell.get("input"):
            stdin.give(*self._channel.take(1))
        kernel_shell.has_failed = kernel_shell.was_interrupted = False
        kernel_shell.display_pub.begin()
        sys.displayhook = kernel_shell.displayhook
        try:
            signals.signal(signals.SIGINT, self._interrupt)
            try:
                result = kernel_shell.run_cell(cell["code"], store_history=True)
            finally:
                signals.signal(signals.SIGINT, signals.SIG_IGN)
        except BaseException as problem:  # the interrupt came after the code had ended, or in our own code
            kernel_shell.report(problem)
        status, code = self._status(result)
        output_streams.flush()
        if not self._is_child:
            stdin.end()
            _restore_environment(changed)
        return status, code

    def _status(self, result: Any) -> tuple[str, int]:
        problem = result and (result.error_before_exec or result.error_in_exec)
        if isinstance(problem, SystemExit):
            code = _exit_code(problem)
            return ("exit" if code else "ok"), code
        failed = self._shell.has_failed or problem is not None
        return ("error", 1) if failed else ("ok", 0)

    def _interrupt(self, _signal: int, _frame: Any) -> None:
        if self._channel.interrupted():
            self._shell.was_interrupted = True
            raise KeyboardInterrupt

    def _run_tasks(self) -> None:
        """Let tasks that cells left behind continue until the next frame arrives."""
        asyncio = sys.modules.get("asyncio")
        loop = self._shell.loop
        if asyncio is None or loop is None or loop.is_closed() or self._is_frozen or not asyncio.all_tasks(loop):
            return
        loop.add_reader(self._channel.fileno(), loop.stop)
        try:
            loop.run_forever()
        finally:
            loop.remove_reader(self._channel.fileno())
            if self._calls is not None:
                self._calls.watch(loop)

    def _fork(self, operation: int, request: dict[str, Any]) -> None:
        control, stdout, stderr = self._channel.take(3)
        lost = forking.lost({self._channel.fileno(), control}, self._shell.loop)
        running = worker_pools.running_futures()
        output_streams.flush()
        try:
            is_copy = forking.fork()
        except OSError as problem:
            self._channel.send_json(frames.FAIL, {"errno": problem.errno, "message": str(problem)}, operation)
            is_copy = False
        else:
            if not is_copy:
                self._channel.send_json(frames.REPLY, {}, operation)
        if not is_copy:
            for fd in (control, stdout, stderr):
                os.close(fd)
            return
        # After the fork: libraries may close their files in the copy (Matplotlib does, with its fonts).
        if not self._is_frozen:
            self._files = forking.positions(control)
        self._is_frozen = bool(request.get("frozen"))
        forking.settle(stdout, stderr, self._is_frozen)
        if not self._is_frozen:
            forking.reopen(self._files)
        self._channel.close()
        self._channel.attach(control)
        try:
            os.chdir(request.get("cwd") or ".")
        except OSError:
            pass  # the folder is gone, and the code will find out
        forking.revive(self._shell.loop)
        worker_pools.fail(running)
        if not self._is_frozen:
            worker_pools.renew()
        self._channel.send_json(frames.STARTED, {"pid": os.getpid(), "lost": lost}, 0)

    def _answer(self, request: dict[str, Any]) -> None:
        """Describe the variables, or change the working directory.

        Describing runs the variables' own methods, so it can be interrupted.
        """
        try:
            if request.get("what") == "move":
                os.chdir(request["cwd"])
                self._channel.send_json(frames.REPLY, {})
                return
            signals.signal(signals.SIGINT, self._interrupt)
            try:
                described = variables.describe(self._shell, bool(request.get("digest")))
            finally:
                signals.signal(signals.SIGINT, signals.SIG_IGN)
            self._channel.send_json(frames.REPLY, {"variables": described})
        except BaseException as problem:  # the agent waits for an answer, whatever the error
            self._channel.send_json(frames.FAIL, {"errno": 5, "message": type(problem).__name__})

    def _leave_channel(self) -> None:
        """Let a process that a cell forked print like any other, and not talk to the agent."""
        if forking.is_copying:
            return
        self._is_child = True
        for output in self._outputs:
            output.leave_channel()
        self._channel.close()
        self._shell.send = self._shell.display_pub.send = None


def _report_own_error(problem: BaseException) -> None:
    """Report an error of the kernel itself on the cell's standard error."""
    try:
        print(f"The kernel failed: {type(problem).__name__}: {problem}", file=sys.stderr)
    except BaseException:
        pass  # the cell has broken standard error


def _change_environment(wanted: dict[str, str] | None) -> dict[str, tuple[str, str | None]]:
    """Set variables for a cell; returns the new and the former values."""
    changed = {}
    for name, value in (wanted or {}).items():
        changed[name] = (value, os.environ.get(name))
        os.environ[name] = value
    return changed


def _restore_environment(changed: dict[str, tuple[str, str | None]]) -> None:
    for name, (given, before) in changed.items():
        if os.environ.get(name) != given:
            continue  # the cell has set it to another value, which stays
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _cpu_time() -> float:
    """Return the CPU seconds of the process and of its ended children."""
    return sum(used.ru_utime + used.ru_stime for used in (getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)))


def _exit_code(problem: SystemExit) -> int:
    if problem.code is None:
        return 0
    if isinstance(problem.code, int):
        return problem.code & 0xFF
    print(problem.code, file=sys.stderr)
    output_streams.flush()
    return 1


def _finish() -> NoReturn:
    import atexit

    try:
        atexit._run_exitfuncs()
        output_streams.flush()
    finally:
        os._exit(0)
