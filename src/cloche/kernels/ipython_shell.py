"""The shell in which cells run: IPython's, with its own way through a cell.

IPython's `run_cell` transforms, tokenizes and parses a cell several times over, keeps records that nobody reads here,
and prints tracebacks.  Ours does what can be seen of that, once, and hands errors to `report`.
"""

from __future__ import annotations

import _ast as ast  # without its Python part, which takes milliseconds to import
import builtins
import keyword
import os
import sys

from cloche.kernels import output_streams, shell_commands, tracebacks
from cloche.kernels.displays import DisplayHookMixin, FormatterMixin, PublisherMixin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

_CO_COROUTINE = 0x80  # inspect.CO_COROUTINE
# codeop.PyCF_ALLOW_INCOMPLETE_INPUT is for prompts, where more may follow; a cell is told what it lacks.
_INCOMPLETE = 0x4000
_WINDOWS = (
    "auto",
    "notebook",
    "nbagg",
    "widget",
    "ipympl",
    "webagg",
    "qt",
    "qt5",
    "qt6",
    "tk",
    "gtk3",
    "gtk4",
    "wx",
    "osx",
)


class CellRunnerMixin:
    """What is ours of the shell."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    send: Any = None  # a message to the agent; None in a process forked from the kernel
    # Not traits, as they are in IPython: those check and tell each time they are set.
    execution_count = 1
    last_execution_succeeded = True
    last_execution_result: Any = None
    _inputs: tuple[str, ...] = ("", "", "")  # the last three
    _db: Any = None
    was_interrupted = False  # the cell under way
    has_failed = False  # in the cell under way an error was reported
    loop: Any = None  # of cells that await

    def run_cell(
        self,
        raw_cell: str,
        store_history: bool = False,
        silent: bool = False,
        shell_futures: bool = True,
        cell_id: Any = None,
        cell_meta: Any = None,
    ) -> Any:
        """Run a cell; magics such as %%capture call this, too."""
        from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult

        info = ExecutionInfo(raw_cell, store_history, silent, shell_futures, cell_id, cell_meta)
        result = ExecutionResult(info)
        if not raw_cell or raw_cell.isspace():
            return result
        count = result.execution_count = self.execution_count
        if store_history and not silent:
            self.execution_count = count + 1
        try:
            self.events.trigger("pre_execute")
            if not silent:
                self.events.trigger("pre_run_cell", info)
            try:
                compiler = self.compile if shell_futures else self.compiler_class()
                before, last = self._compiled(raw_cell, info, compiler, count, silent)
            except BaseException as problem:
                result.error_before_exec = problem
                self.report(problem)
            else:
                try:
                    self.displayhook.exec_result = result
                    self._execute([code for code in (before, last) if code is not None])
                except BaseException as problem:
                    result.error_in_exec = problem
                    if isinstance(problem, self.custom_exceptions):  # the code wants to see these itself
                        self.CustomTB(type(problem), problem, problem.__traceback__)
                    self.report(problem)
                finally:
                    self.displayhook.exec_result = None
        finally:
            self.last_execution_succeeded = result.success
            self.last_execution_result = result
            self.events.trigger("post_execute")
            if not silent:
                self.events.trigger("post_run_cell", result)
        return result

    def report(self, problem: BaseException) -> None:
        """Tell the agent of an exception that ended a cell; one that asks to end is not an error."""
        if isinstance(problem, SystemExit):
            return
        if self.was_interrupted and getattr(problem, "returncode", None) == -2:
            problem = KeyboardInterrupt()  # %%bash tells of its process instead
        sys.last_type, sys.last_value = type(problem), problem
        self.has_failed = True
        message = tracebacks.describe(self, problem)
        sys.last_traceback = problem.__traceback__
        output_streams.flush()
        if self.send is None:
            print(message["traceback"], file=sys.stderr)
        else:
            self.send(message)
        if self.call_pdb:
            self.debugger(force=True)

    # The way from text to code

    def _compiled(
        self, raw_cell: str, info: Any, compiler: Any, count: int, silent: bool
    ) -> tuple[CodeType | None, CodeType | None]:
        """All but the last expression, and that."""
        tree = self._parsed_as_it_is(raw_cell, compiler)
        source = raw_cell if tree is not None else None
        problem: BaseException | None = None
        if source is None:
            try:
                source = self.transform_cell(raw_cell)
            except SyntaxError as caught:
                source, problem = raw_cell, caught
        info.transformed_cell = source
        if info.store_history:
            self._remember(count, source, raw_cell)
        if problem is not None:
            raise problem
        name = compiler.cache(source, count, raw_code=raw_cell)
        if tree is None or compiler.flags & ast.PyCF_ONLY_AST:
            tree = compile(source, name, "exec", compiler.flags & ~_INCOMPLETE | ast.PyCF_ONLY_AST, dont_inherit=True)
        if self.ast_transformers:
            tree = self.transform_ast(tree)
        statements, shown = self._split(tree.body, "none" if silent else self.ast_node_interactivity)
        with compiler.extra_flags(ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if self.autoawait else 0):
            return (
                compiler(ast.Module(statements, []), name, "exec") if statements else None,
                compiler(ast.Interactive(shown), name, "single") if shown else None,
            )

    def _parsed_as_it_is(self, cell: str, compiler: Any) -> ast.Module | None:
        """The cell's tree when it is Python and IPython would not take it for anything else."""
        if self.input_transformers_post or cell[:1] in " \t\n%!?>" or cell.startswith("In ["):
            return None
        text = cell.strip()
        if "\n" not in text:  # perhaps the name of a magic, or of something that is called by being named
            name = _first_name(text)
            if name and not self._is_a_plain_name(name):
                return None
        try:
            tree = compile(cell, "<cell>", "exec", compiler.flags | ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except (SyntaxError, ValueError):
            return None  # IPython knows what to do, or what to say
        assert isinstance(tree, ast.Module)
        return tree

    def _is_a_plain_name(self, name: str) -> bool:
        if keyword.iskeyword(name):
            return True
        if name in self.user_ns:
            from IPython.core.autocall import IPyAutocall
            from IPython.core.macro import Macro

            return not isinstance(self.user_ns[name], (IPyAutocall, Macro)) and not self.autocall
        return hasattr(builtins, name) and name not in ("exit", "quit") and not self.autocall

    def _split(self, nodes: list[ast.stmt], interactivity: str) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """What is run, and what is run and shown."""
        if not nodes or interactivity == "none":
            return nodes, []
        if interactivity == "all":
            return [], nodes
        last = nodes[-1]
        if interactivity == "last_expr_or_assign" and isinstance(last, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            target = last.targets[0] if isinstance(last, ast.Assign) else last.target
            if isinstance(target, ast.Name):
                from ast import copy_location, fix_missing_locations

                value = copy_location(ast.Expr(ast.Name(target.id, ast.Load())), last)
                return nodes, [fix_missing_locations(value)]
        if interactivity == "last" or isinstance(last, ast.Expr):
            return nodes[:-1], [last]
        return nodes, []

    def _remember(self, count: int, source: str, raw_cell: str) -> None:
        """Set `In`, `_i` and their like."""
        raw_cell = raw_cell.rstrip("\n")
        history = self.history_manager
        for inputs, text in (
            (history.input_hist_parsed, source.rstrip("\n")),
            (history.input_hist_raw, raw_cell),
        ):
            if len(inputs) < count:  # numbers that were never run here
                inputs += [""] * (count - len(inputs))
            inputs.append(text)
        one, two, three = self._inputs
        self._inputs = (raw_cell, one, two)
        new = {"_i": one, "_ii": two, "_iii": three, f"_i{count}": raw_cell}
        self.user_ns.update(new)
        self.user_ns_hidden.update(new)

    # The way from code to what it does

    def _execute(self, codes: list[CodeType]) -> None:
        if any(code.co_flags & _CO_COROUTINE for code in codes):
            self._await(self._execute_in_loop(codes))
        else:
            for code in codes:
                exec(code, self.user_ns)

    async def _execute_in_loop(self, codes: list[CodeType]) -> None:
        """All of a cell that awaits anything: what comes before that may want the running loop (create_task)."""
        for code in codes:
            if code.co_flags & _CO_COROUTINE:
                await eval(code, self.user_ns)
            else:
                exec(code, self.user_ns)

    def own_loop(self) -> Any:
        """The loop of cells that await, and of tasks that go on between cells."""
        import asyncio

        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        return self.loop

    def _await(self, cell: Any) -> None:
        import asyncio

        asyncio.set_event_loop(self.own_loop())
        task = self.loop.create_task(cell)
        try:
            self.loop.run_until_complete(task)
        except KeyboardInterrupt as interrupt:
            if task.done():
                raise
            # It came while the loop waited, and nobody's code has seen it.  The cell ends where it waits.
            task.cancel()
            try:
                self.loop.run_until_complete(task)
            except asyncio.CancelledError as cancelled:
                raise interrupt.with_traceback(cancelled.__traceback__) from None
            raise

    # What IPython would print, or keep on a disk

    def showtraceback(self, exc_tuple: Any = None, *_: Any, **__: Any) -> None:
        """Called by IPython where something went wrong: in `%run`, in an object's `_repr_html_`, in an event."""
        problem = exc_tuple[1] if exc_tuple else sys.exception() if sys.version_info >= (3, 11) else None
        if problem is None:
            problem = getattr(sys, "last_value", None)
        if problem is None:
            print("No traceback available to show.", file=sys.stderr)
        elif sys._getframe(1).f_code.co_filename.endswith("formatters.py"):
            self.display_formatter.problems.append(problem)
        else:
            self.report(problem)

    def showsyntaxerror(self, *_: Any, **__: Any) -> None:
        """As `showtraceback`."""
        self.showtraceback()

    def _showtraceback(self, _etype: Any, _evalue: Any, lines: list[str]) -> None:
        print(self.InteractiveTB.stb2text(lines), file=sys.stderr)  # of %tb

    def system(self, command: str) -> None:
        """Run a line that began with `!`."""
        output_streams.flush()
        code = shell_commands.run(self.var_expand(command, depth=1))
        self.user_ns["_exit_code"] = code
        if self.system_raise_on_error and code:
            from subprocess import CalledProcessError

            raise CalledProcessError(code, command)

    system_piped = system_raw = system

    def enable_gui(self, gui: Any = None) -> None:
        """There are no windows here."""

    def enable_matplotlib(self, gui: str | None = None) -> Any:
        """`%matplotlib`: a figure that would have a window, or a widget, is displayed."""
        return super().enable_matplotlib("inline" if gui is None or gui in _WINDOWS else gui)  # type: ignore[misc]

    def init_ipython_dir(self, _folder: Any) -> None:
        """None: a kernel leaves no files behind."""

    def init_profile_dir(self, _folder: Any) -> None:
        """None, as above."""

    def init_virtualenv(self) -> None:
        """The environment is as it should be."""

    @property
    def db(self) -> Any:
        """Where `%store` and `%bookmark` keep things; made when they are used."""
        if self._db is None:
            from IPython.external.pickleshare import PickleShareDB

            self._db = PickleShareDB(os.path.join(os.path.expanduser("~"), ".ipython", "db"))
        return self._db


def _first_name(text: str) -> str:
    end = 0
    while end < len(text) and text[: end + 1].isidentifier():
        end += 1
    return text[:end]


def build() -> Any:
    """A shell; whatever making it changes for the rest of the process is undone until `enter`.

    Its class has the name of Jupyter's, by which libraries (rich, pandas) and code ask if this is a notebook.
    """
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.formatters import DisplayFormatter
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config  # type: ignore[import-not-found]

    class KernelPublisher(PublisherMixin, DisplayPublisher):  # type: ignore[misc]
        flush_streams = staticmethod(output_streams.flush)

    class KernelHook(DisplayHookMixin, DisplayHook):  # type: ignore[misc]
        pass

    class KernelFormatter(FormatterMixin, DisplayFormatter):  # type: ignore[misc]
        pass

    class ZMQInteractiveShell(CellRunnerMixin, InteractiveShell):  # type: ignore[misc]
        def init_display_formatter(self) -> None:
            self.display_formatter = KernelFormatter(parent=self)
            self.configurables.append(self.display_formatter)

    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    config.MagicsManager.lazy_magics = {"store": "storemagic"}
    config.InteractiveShell.display_pub_class = KernelPublisher
    config.InteractiveShell.displayhook_class = KernelHook
    config.InteractiveShell.xmode = "Context"
    before = dict(builtins.__dict__), {name: getattr(sys, name, None) for name in _TOUCHED}, sys.modules["__main__"]
    shell = ZMQInteractiveShell(config=config, display_pub_class=KernelPublisher, displayhook_class=KernelHook)
    _leave(*before)
    shell.display_pub.begin()
    return shell


_TOUCHED = ("ps1", "ps2", "ps3", "displayhook", "excepthook")


def _leave(names: dict[str, Any], hooks: dict[str, Any], main: Any) -> None:
    """Programs are forked from the same nursery, and must not find an interactive Python."""
    for name in [name for name in builtins.__dict__ if name not in names]:
        delattr(builtins, name)
    builtins.__dict__.update(names)
    for name, value in hooks.items():
        if value is not None:
            setattr(sys, name, value)
        elif hasattr(sys, name):
            delattr(sys, name)
    sys.modules["__main__"] = main


def enter(shell: Any, send: Any) -> None:
    """Become an interactive Python: called in the kernel's own process."""
    import atexit

    from IPython.core.autocall import ExitAutocall
    from IPython.core.display_functions import display

    class Exit(ExitAutocall):  # type: ignore[misc]
        """Ends the cell, as `sys.exit` does; what was computed stays."""

        rewrite = False

        def __call__(self, code: Any = None) -> None:
            raise SystemExit(code)

        def __repr__(self) -> str:
            return "exit(code): end this cell"

    atexit.unregister(shell.atexit_operations)  # it would empty the namespace while threads still use it
    for kind in type(shell)._walk_mro():
        kind._instance = shell
    leave = shell.exiter = Exit(shell)  # `%reset` takes it from there
    builtins.__dict__.update(__IPYTHON__=True, display=display, get_ipython=shell.get_ipython, exit=leave, quit=leave)
    for names in (shell.user_ns, shell.user_ns_hidden):
        names.update(exit=leave, quit=leave)
    sys.ps1, sys.ps2 = "In : ", "...: "
    sys.modules["__main__"] = shell.user_module
    shell.starting_dir = os.getcwd()
    shell.history_manager.dir_hist[:] = [os.getcwd()]
    shell.send = shell.display_pub.send = send
