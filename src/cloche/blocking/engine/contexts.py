# Generated from src/cloche/engine/contexts.py by scripts/blocking.py: edit that file instead.
"""Contexts: where cells keep their variables; a default one per language, and as many others as are made."""

from __future__ import annotations

from _collections_abc import Mapping

from cloche import languages
from cloche.blocking.engine.tools import calling
from cloche.blocking.io.tasks import Condition
from cloche.errors import ClocheError, FileMissing, FileProblem, Gone, InvalidRun, Refused
from cloche.sandbox.checks import checked_cwd, checked_env

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.blocking.engine.cells import Cell
    from cloche.blocking.engine.sandbox import Sandbox
    from cloche.languages.language import Language
    from cloche.model.result import Result

_OTHERS = "`box.contexts.list()` has those that there are."
_LOOK_S = 0.5  # how often whoever waits for a context looks whether the cell in it is neglected


class Context:
    """A place for cells to run in, one after the other, with variables of their own."""

    def __init__(self, box: Sandbox, name: str, language: Language, cwd: str | None, env: dict[str, str]) -> None:
        self.id, self.language, self.cwd = name, language.name, cwd
        self.removed = False
        self._box, self.how, self._env = box, language.kernel, env
        self._turn = Condition()
        self._taken = False
        self._lost = False  # its kernel ended with a cell that nobody waited for
        self.cell: Cell | None = None  # what runs in it
        self.is_branch = False
        self.known = False  # the agent has heard of it

    def __repr__(self) -> str:
        return f"<{self.language} context {self.id}>"

    def run(
        self,
        code: str,
        *,
        stdin: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Run a cell in it."""
        return self._box.run(code, context=self, stdin=stdin, env=env, timeout=timeout)

    def interrupt(self) -> None:
        """Have the cell stop that runs in it, if one does; its variables stay."""
        cell = self.cell
        if cell is not None:
            cell.interrupt()

    def restart(self) -> None:
        """End its kernel: the next cell starts with no variables.  A cell that runs is ended."""
        self._box.contexts.call({"method": "restart context", "context": self.id}, missing_is_fine=True)

    def remove(self) -> None:
        """End it for good."""
        self._box.contexts.remove(self)

    # What cells and checkpoints build on

    def description(self, env: dict[str, str], tools: list[str]) -> dict[str, Any]:
        """How the agent makes it."""
        env = {**env, **self._env}
        return {"language": self.language, "how": self.how, "cwd": self.cwd, "env": env, "tools": tools}

    def take(self) -> None:
        """Wait until nothing runs in it; whatever wants it meanwhile waits for `free`."""
        if self.cell is not None and self.cell in calling.get():
            raise Refused(
                f"The context {self.id} runs the code that has called this tool.",
                hint="A tool may use other contexts: box.contexts.create().",
            )
        with self._turn:
            while self._taken:
                if self.cell is not None and self.cell.is_neglected():
                    _end(self.cell)
                    self._lost = self.cell.result is not None and self.cell.result.restarted
                    break
                try:
                    self._turn.wait_for_change(_LOOK_S)
                except TimeoutError:
                    continue
            if self.removed:
                raise Gone(f"The context {self.id} was removed.", hint=_OTHERS)
            self._taken = True
            self.cell = None

    def occupy(self, cell: Cell) -> None:
        """This runs in it now."""
        self.cell = cell
        self.known = True
        cell.lost_before, self._lost = self._lost, False

    def free(self, cell: Cell | None) -> None:
        """Let the next one have it."""
        with self._turn:
            if cell is self.cell and (cell is None or cell.over):
                self._taken, self.cell = False, None
            self._turn.notify_all()  # also of one that was abandoned, for the next one to end


def _end(cell: Cell) -> None:
    try:
        cell.interrupt()
        while not cell.over:
            cell.next_event()
    except ClocheError:
        pass  # the sandbox is gone, and whoever waits for it will find out


class Contexts:
    """`box.contexts`: the contexts of a sandbox."""

    def __init__(self, box: Sandbox) -> None:
        self._box = box
        self._by_id: dict[str, Context] = {}
        self._stateless: dict[str, Context] = {}  # where programs of languages without sessions take turns
        self._made = 0

    def create(
        self, *, language: str = "python", cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> Context:
        """A new context, with no variables; its kernel starts with its first cell."""
        context = self._new(language, checked_cwd(cwd), checked_env(env))
        description = context.description(self._box.env, self._box.tools.names())
        reply = self.call({"method": "create context", "context": context.id, "create": description})
        context.cwd = str(reply.get("cwd"))[:4096]
        context.known = True
        self._by_id[context.id] = context
        return context

    def busy(self) -> tuple[Context, ...]:
        """Wherever something may run."""
        return (*self._by_id.values(), *self._stateless.values())

    def list(self) -> list[Context]:
        """All contexts, in the order in which they were made."""
        return list(self._by_id.values())

    def get(self, name: str | Context) -> Context:
        """The context of this id."""
        if isinstance(name, Context):
            if name._box is not self._box:
                raise InvalidRun(f"{name!r} belongs to another sandbox.", hint=_OTHERS)
            name = name.id
        if not isinstance(name, str):
            raise InvalidRun(f"A context is named by its id, not {name!r:.100}.")
        if name not in self._by_id:
            raise Gone(f"There is no context {name!r:.100}.", hint=_OTHERS)
        return self._by_id[name]

    def remove(self, context: str | Context) -> None:
        """End a context for good; a cell that runs in it is ended."""
        found = self.get(context)
        self.forget(found.id)
        self.call({"method": "remove context", "context": found.id}, missing_is_fine=True)

    # What the sandbox builds on

    def default(self, language: str) -> Context:
        """The context that cells of a language run in unless they name one."""
        spoken = languages.find(language)
        known = self._by_id if spoken.kernel is not None else self._stateless
        name = spoken.context or spoken.name
        if name not in known:
            known[name] = self.usual(name)
        return known[name]

    def usual(self, name: str) -> Context:
        """A language's default context, new."""
        return Context(self._box, name, languages.find(name), None, {})

    def ensure(self, context: Context) -> None:
        """Have the agent know it, though no cell has run in it."""
        if not context.known:
            description = context.description(self._box.env, self._box.tools.names())
            try:
                self.call({"method": "create context", "context": context.id, "create": description})
            except FileProblem:
                pass  # it does
            context.known = True

    def add_branch(self, source: Context) -> Context:
        """A context that goes on from another, in the agent's hands already or soon."""
        branch = self._new(source.language, source.cwd, {})
        branch.is_branch = branch.known = True
        return branch

    def keep(self, context: Context) -> None:
        """It is there."""
        self._by_id[context.id] = context

    def forget(self, name: str) -> None:
        """It is not there any more."""
        context = self._by_id.pop(name, None)
        if context is not None:
            context.removed = True

    def set(self, contexts: tuple[Context, ...]) -> None:
        """After a restore: those made since are gone, those removed since are there again."""
        for name in [name for name, context in self._by_id.items() if context not in contexts]:
            self.forget(name)
        for context in contexts:
            context.removed = False
            self._by_id[context.id] = context

    def call(self, request: dict[str, Any], missing_is_fine: bool = False) -> dict[str, Any]:
        """Ask the agent."""
        try:
            return self._box.files.call(request, str(request["context"]))
        except FileMissing:
            if not missing_is_fine:
                raise
            return {}  # no cell has run in it yet

    def _new(self, language: str, cwd: str | None, env: dict[str, str]) -> Context:
        spoken = languages.find(language)
        if spoken.kernel is None:
            raise InvalidRun(f"{spoken.name} has no sessions.", hint="Run it as a program: box.run_program.")
        self._made += 1
        return Context(self._box, f"{spoken.name}-{self._made}", spoken, cwd, env)
