"""The shell in which cells run: IPython's, with a shorter path through a cell.

IPython's `run_cell` transforms, tokenizes and parses a cell several times, keeps records that nobody reads here, and
prints tracebacks.  Ours does the visible part of that once, and passes errors to `report`.
"""

from __future__ import annotations

import _ast as ast  # without its Python part, which takes milliseconds to import
import builtins
import keyword
import os
import sys

from cloche.kernels import installed_packages, output_streams, shell_commands, tracebacks
from cloche.kernels.displays import DisplayHookMixin, FormatterMixin, PublisherMixin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

_CO_COROUTINE = 0x80  # inspect.CO_COROUTINE
# codeop.PyCF_ALLOW_INCOMPLETE_INPUT is for prompts, where more may follow.  A cell is complete, so its error should
# name the missing part.
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
    """Our changes to IPython's shell."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    send: Any = None  # sends a message to the agent; None in a process forked from the kernel
    # Plain attributes, not traits as in IPython: traits validate and notify on each assignment.
    execution_count = 1
    last_execution_succeeded = True
    last_execution_result: Any = None
    _inputs: tuple[str, ...] = ("", "", "")  # the last three
    _db: Any = None
    was_interrupted = False  # during the current cell
    has_failed = False  # the current cell reported an error
    loop: Any = None  # the event loop of cells that await

    def run_cell(
        self,
        raw_cell: str,
        store_history: bool = False,
        silent: bool = False,
        shell_futures: bool = True,
        cell_id: Any = None,
        cell_meta: Any = None,
    ) -> Any:
        """Run a cell within a cell, as magics such as %%capture do."""
        result, codes = self.begin_cell(raw_cell, store_history, silent, shell_futures, cell_id, cell_meta)
        if codes is not None:
            problem: BaseException | None = None
            try:
                self._execute(codes)
            except BaseException as caught:
                problem = caught
            self.end_cell(result, problem)
        return result

    def begin_cell(
        self,
        raw_cell: str,
        store_history: bool = False,
        silent: bool = False,
        shell_futures: bool = True,
        cell_id: Any = None,
        cell_meta: Any = None,
    ) -> tuple[Any, list[CodeType] | None]:
        """Prepare a cell; returns its result, and the code to run between this and `end_cell`, None if it is blank."""
        from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult

        info = ExecutionInfo(raw_cell, store_history, silent, shell_futures, cell_id, cell_meta)
        result = ExecutionResult(info)
        if not raw_cell or raw_cell.isspace():
            return result, None
        count = result.execution_count = self.execution_count
        if store_history and not silent:
            self.execution_count = count + 1
        try:
            self.events.trigger("pre_execute")
            if not silent:
                self.events.trigger("pre_run_cell", info)
            try:
                compiler = self.compile if shell_futures else self.compiler_class()
                before, last = self._compile(raw_cell, info, compiler, count, silent)
            except BaseException as problem:
                result.error_before_exec = problem
                self.report(problem)
                return result, []
        except BaseException:
            self.end_cell(result, None)
            raise
        self.displayhook.exec_result = result
        return result, [code for code in (before, last) if code is not None]

    def end_cell(self, result: Any, problem: BaseException | None) -> None:
        """Report the exception that ended the code, if one did, and finish the result."""
        self.displayhook.exec_result = None
        try:
            if problem is not None:
                result.error_in_exec = problem
                try:
                    raise problem  # handlers that the code has set look for it in `sys.exc_info`
                except BaseException:
                    if isinstance(problem, self.custom_exceptions):
                        self.CustomTB(type(problem), problem, problem.__traceback__)
                    self.report(problem)
        finally:
            self.last_execution_succeeded = result.success
            self.last_execution_result = result
            self.events.trigger("post_execute")
            if not result.info.silent:
                self.events.trigger("post_run_cell", result)

    def report(self, problem: BaseException) -> None:
        """Send the exception that ended a cell to the agent; SystemExit is not an error."""
        if issubclass(type(problem), SystemExit):  # `isinstance` would believe an exception that lies about its class
            return
        if self.was_interrupted and getattr(problem, "returncode", None) == -2:
            problem = KeyboardInterrupt()  # %%bash reports its process's end instead
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

    # From text to code

    def _compile(
        self, raw_cell: str, info: Any, compiler: Any, count: int, silent: bool
    ) -> tuple[CodeType | None, CodeType | None]:
        """Compile a cell: everything but the last expression, and the last expression."""
        tree = self._parse_plain(raw_cell, compiler)
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

    def _parse_plain(self, cell: str, compiler: Any) -> ast.Module | None:
        """Parse the cell as plain Python; None if IPython would read it differently."""
        if self.input_transformers_post or cell[:1] in " \t\n%!?>" or cell.startswith("In ["):
            return None
        text = cell.strip()
        if "\n" not in text:  # perhaps a magic's name, or an object that is called by being named
            name = _first_name(text)
            if name and not self._is_plain_name(name):
                return None
        try:
            tree = compile(cell, "<cell>", "exec", compiler.flags | ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except (SyntaxError, ValueError):
            return None  # IPython can transform it, or has a better message
        assert isinstance(tree, ast.Module)
        return tree

    def _is_plain_name(self, name: str) -> bool:
        if keyword.iskeyword(name):
            return True
        if name in self.user_ns:
            from IPython.core.autocall import IPyAutocall
            from IPython.core.macro import Macro

            return not isinstance(self.user_ns[name], (IPyAutocall, Macro)) and not self.autocall
        return hasattr(builtins, name) and name not in ("exit", "quit") and not self.autocall

    def _split(self, nodes: list[ast.stmt], interactivity: str) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """Split statements into those to run, and those to run and show."""
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
        """Set `In`, `_i` and the like."""
        raw_cell = raw_cell.rstrip("\n")
        history = self.history_manager
        for inputs, text in (
            (history.input_hist_parsed, source.rstrip("\n")),
            (history.input_hist_raw, raw_cell),
        ):
            if len(inputs) < count:  # numbers of cells that did not run here
                inputs += [""] * (count - len(inputs))
            inputs.append(text)
        one, two, three = self._inputs
        self._inputs = (raw_cell, one, two)
        new = {"_i": one, "_ii": two, "_iii": three, f"_i{count}": raw_cell}
        self.user_ns.update(new)
        self.user_ns_hidden.update(new)

    # From code to its effects

    def _execute(self, codes: list[CodeType]) -> None:
        # `cell_loop` does the same for cells that are not within another.
        if any(code.co_flags & _CO_COROUTINE for code in codes):
            self.execute_in_loop(codes)
        else:
            for code in codes:
                exec(code, self.user_ns)

    def execute_in_loop(self, codes: list[CodeType]) -> None:
        """Run a cell that awaits something."""
        self._await(self._execute_in_turn(codes))

    async def _execute_in_turn(self, codes: list[CodeType]) -> None:
        """Run the parts of a cell; even code before the `await` may need the loop (create_task)."""
        for code in codes:
            if code.co_flags & _CO_COROUTINE:
                await eval(code, self.user_ns)
            else:
                exec(code, self.user_ns)

    def own_loop(self) -> Any:
        """Return the loop of cells that await, and of tasks that continue between cells."""
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
            # The interrupt came while the loop was waiting, so the code has not seen it.  The cell ends where it waits.
            task.cancel()
            try:
                self.loop.run_until_complete(task)
            except asyncio.CancelledError as cancelled:
                raise interrupt.with_traceback(cancelled.__traceback__) from None
            raise

    # What IPython would print, or save to a disk

    def showtraceback(self, exc_tuple: Any = None, *_: Any, **__: Any) -> None:
        """Report an error on behalf of IPython: in `%run`, in an object's `_repr_html_`, in an event."""
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
        self.showtraceback()

    def _showtraceback(self, _etype: Any, _evalue: Any, lines: list[str]) -> None:
        print(self.InteractiveTB.stb2text(lines), file=sys.stderr)  # of %tb

    def system(self, command: str) -> None:
        """Run a line that starts with `!`."""
        output_streams.flush()
        code = shell_commands.run(self.var_expand(command, depth=1))
        self.user_ns["_exit_code"] = code
        installed_packages.notice()
        if self.system_raise_on_error and code:
            from subprocess import CalledProcessError

            raise CalledProcessError(code, command)

    system_piped = system_raw = system

    def enable_gui(self, gui: Any = None) -> None:
        """Do nothing: there are no windows."""

    def enable_matplotlib(self, gui: str | None = None) -> Any:
        """Let `%matplotlib` display figures that would otherwise get a window or a widget."""
        return super().enable_matplotlib("inline" if gui is None or gui in _WINDOWS else gui)  # type: ignore[misc]

    def init_ipython_dir(self, _folder: Any) -> None:
        """Do nothing: a kernel leaves no files behind."""

    def init_profile_dir(self, _folder: Any) -> None:
        """Do nothing: a kernel leaves no files behind."""

    def init_virtualenv(self) -> None:
        """Do nothing: the environment is already right."""

    @property
    def db(self) -> Any:
        """The storage of `%store` and `%bookmark`, created when it is used."""
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
    """Build a shell; its side effects on the process are undone until `enter`.

    Its class has the name of Jupyter's, by which libraries (rich, pandas) and users' code recognise a notebook.
    """
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.formatters import DisplayFormatter
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

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
    _undo_side_effects(*before)
    shell.display_pub.begin()
    return shell


_TOUCHED = ("ps1", "ps2", "ps3", "displayhook", "excepthook")


def _undo_side_effects(names: dict[str, Any], hooks: dict[str, Any], main: Any) -> None:
    """Undo the shell's side effects: programs, which are forked from the same nursery, must not see them."""
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
    """Make this process an interactive Python; called in the kernel's own process."""
    import atexit

    from IPython.core.autocall import ExitAutocall
    from IPython.core.display_functions import display

    class Exit(ExitAutocall):  # type: ignore[misc]
        """Ends the cell, as `sys.exit` does; variables stay."""

        rewrite = False

        def __call__(self, code: Any = None) -> None:
            raise SystemExit(code)

        def __repr__(self) -> str:
            return "exit(code): end this cell"

    atexit.unregister(shell.atexit_operations)  # it would clear the namespace while threads still use it
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
