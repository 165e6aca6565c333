"""The Python kernel: runs cells one after another in one process, so that their variables stay.

`prepare` runs in the nursery, where IPython is imported and warmed up; `main` runs in a process forked from it.
"""

from __future__ import annotations

import os
import sys
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

from cloche.agent import compute_threads, own_packages, signals
from cloche.agent.sealing import sealed
from cloche.kernels import (
    cell_loop,
    class_sources,
    forking,
    imported_modules,
    installed_packages,
    ipython_shell,
    kept_tables,
    library_patches,
    output_streams,
    stdin,
    tables,
    tools,
    variable_list,
    variables,
    warm_up,
    worker_pools,
)
from cloche.kernels.channel import Channel
from cloche.wire import frames
from cloche.wire.light_json import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any, NoReturn

_prepared: list[Any] = []  # the shell that the nursery built
_loops: list[Callable[[PythonKernel], NoReturn]] = []  # the sealed loop, until it runs


def seal() -> None:
    """Prepare the loop that cells cannot reach."""
    _loops[:] = [sealed(vars(cell_loop))["serve"]]


def prepare() -> None:
    """Build the shell and use it a little, so that the first cell of every kernel is fast."""
    seal()
    _prepared[:] = [ipython_shell.build()]
    warm_up.warm_up(_prepared[0])


def build_shell() -> None:
    """Build the shell if there is none: with the sandbox's own packages, or without them if they prevent it."""
    if _prepared:
        return
    before = set(sys.modules)
    try:
        _prepared[:] = [ipython_shell.build()]
    except Exception:  # somebody has installed an IPython, or a package that it uses, which does not fit
        for name in sys.modules.keys() - before:
            del sys.modules[name]
        own_packages.leave_out()
        _prepared[:] = [ipython_shell.build()]
        own_packages.put_back()


def main(control: int, order: dict[str, Any]) -> NoReturn:
    """Serve as the kernel until the agent is gone."""
    kernel = PythonKernel(Channel(control), order)
    if not _loops:
        seal()
    _loops.pop()(kernel)  # in no variable: nothing that a cell can find refers to it


class PythonKernel:
    """The kernel's loop, and the path of a cell through it."""

    def __init__(self, channel: Channel, order: dict[str, Any]) -> None:
        self._channel = channel
        signals.signal(signals.SIGINT, signals.SIG_IGN)
        self._imported = imported_modules.ImportedModules(
            all_are_new=bool(order.get("fresh") or own_packages.imports_ahead)
        )
        build_shell()
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
        self._cpu_before, self._count = 0.0, 1  # of the current cell, as the next two
        self._result: Any = None
        self._changed: dict[str, tuple[str, str | None]] = {}
        os.register_at_fork(before=output_streams.flush, after_in_child=self._leave_channel)
        started = {"pid": os.getpid(), "lost": {}, "imported": self._imported.take()}
        channel.send_json(frames.STARTED, started, 0)

    def next_cell(self) -> dict[str, Any] | None:
        """Wait for the next request; returns a cell, and answers any other request itself."""
        self._run_tasks()
        frame = self._channel.receive()
        if frame is None:
            _finish()
        operation, kind, payload = frame
        self._channel.operation = operation
        # The agent has handled the previous cell's frames before it sends this one.
        self._channel.needs_sync = False
        request: dict[str, Any] = loads(payload.decode())
        if kind == frames.CELL:
            return request
        if kind == frames.FORK:
            self._fork(operation, request)
        elif kind == frames.ASK:
            self._answer(request)
        return None

    def start_cell(self, cell: dict[str, Any]) -> None:
        """Set the environment in which a cell runs."""
        self._cpu_before = _cpu_time()
        shell = self._shell
        if type(cell.get("number")) is int and cell["number"] > 0:
            shell.execution_count = cell["number"]
        self._count, self._result, self._changed = shell.execution_count, None, {}
        self._changed = _change_environment(cell.get("env"))
        shows = cell.get("shows") or {}
        tables.allow(shows.get("rows"))
        library_patches.SavedPictures.displayed = bool(shows.get("saved"))
        if cell.get("input"):
            stdin.give(*self._channel.take(1))
        shell.has_failed = shell.was_interrupted = False
        shell.display_pub.begin()
        sys.displayhook = shell.displayhook
        installed_packages.read_new_paths()  # here, not when the kernel starts: these files are a user's code, too

    def compile_cell(self, cell: dict[str, Any]) -> tuple[list[CodeType] | None, dict[str, Any]]:
        """Return the code of a cell and the names that it uses."""
        self._result, codes = self._shell.begin_cell(cell["code"], store_history=True)
        return codes, self._shell.user_ns

    def execute_in_loop(self, codes: list[CodeType]) -> None:
        """Run code that awaits something."""
        self._shell.execute_in_loop(codes)

    def finish_code(self, problem: BaseException | None) -> None:
        """Report how the code ended."""
        self._shell.end_cell(self._result, problem)

    def report(self, problem: BaseException) -> None:
        """Report an exception that did not end the code."""
        self._shell.report(problem)

    def end_cell(self) -> tuple[str, int]:
        """Undo `start_cell`; returns how the cell ended."""
        status, code = self._status(self._result)
        output_streams.flush()
        if not self._is_child:
            stdin.end()
            _restore_environment(self._changed)
        return status, code

    def send_exit(self, status: str, code: int) -> None:
        """Tell the agent how a cell ended."""
        if self._is_child:  # the code forked, and the child has come here, too
            os._exit(code)
        self._channel.send_json(
            frames.EXIT,
            {
                "status": status,
                "code": code,
                "count": self._count,
                "cpu": round(_cpu_time() - self._cpu_before, 6),
                "peak": getrusage(RUSAGE_SELF).ru_maxrss * 1024,
                "imported": self._imported.take(),
            },
        )

    def _status(self, result: Any) -> tuple[str, int]:
        problem = result and (result.error_before_exec or result.error_in_exec)
        if issubclass(type(problem), SystemExit):
            code = _exit_code(problem)
            return ("exit" if code else "ok"), code
        failed = self._shell.has_failed or problem is not None
        return ("error", 1) if failed else ("ok", 0)

    def interrupt(self, _signal: int, _frame: Any) -> None:
        """Handle SIGINT while a cell runs."""
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
        """List or describe the variables, return rows of a table, or change the working directory.

        Describing and comparing run the values' own methods, so they can be interrupted.
        """
        try:
            if request.get("what") == "move":
                os.chdir(request["cwd"])
                self._channel.send_json(frames.REPLY, {})
                return
            if request.get("what") == "list":
                found = variable_list.list_variables(self._shell, request["search"], request["name"])
                self._channel.send_json(frames.REPLY, found)
                return
            signals.signal(signals.SIGINT, self.interrupt)
            try:
                if request.get("what") == "rows":
                    reply = kept_tables.answer(request)
                else:
                    reply = {"variables": variables.describe(self._shell, bool(request.get("digest")))}
            finally:
                signals.signal(signals.SIGINT, signals.SIG_IGN)
            self._channel.send_json(frames.REPLY, reply)
        except BaseException as problem:  # the agent waits for an answer, whatever the error
            self._channel.send_json(frames.FAIL, {"errno": 5, "message": type(problem).__name__})

    def report_own_error(self, problem: BaseException) -> None:
        """Report an error of the kernel itself on the cell's standard error."""
        try:
            print(f"The kernel failed: {type(problem).__name__}: {problem}", file=sys.stderr)
        except BaseException:
            pass  # the cell has broken standard error

    def _leave_channel(self) -> None:
        """Let a process that a cell forked print like any other, and not talk to the agent."""
        if forking.is_copying:
            return
        self._is_child = True
        for output in self._outputs:
            output.leave_channel()
        self._channel.close()
        self._shell.send = self._shell.display_pub.send = None


def _change_environment(wanted: dict[str, str] | None) -> dict[str, tuple[str, str | None]]:
    """Set variables for a cell; returns the new and the former values."""
    changed = {}
    for name, value in (wanted or {}).items():
        changed[name] = (value, os.environ.get(name))
        os.environ[name] = value
    _adapt_threads(changed)
    return changed


def _adapt_threads(changed: dict[str, tuple[str, str | None]]) -> None:
    """Let the libraries for computing follow a cell's variables, as they follow those of a program."""
    if not compute_threads.VARIABLES.isdisjoint(changed):
        try:
            compute_threads.adapt_again(os.environ)
        except Exception:
            pass  # the code has put something else in the place of a library


def _restore_environment(changed: dict[str, tuple[str, str | None]]) -> None:
    for name, (given, before) in changed.items():
        if os.environ.get(name) != given:
            continue  # the cell has set it to another value, which stays
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
    _adapt_threads(changed)


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
