"""`box.contexts`: the contexts in which cells keep their variables.  Each language has a default context."""

from __future__ import annotations

from _collections_abc import Mapping
from weakref import WeakValueDictionary

from cloche import languages
from cloche.errors import ClocheError, Gone, InvalidRun, Refused
from cloche.io.tasks import AsyncCondition
from cloche.sandbox.checks import checked_cwd, checked_env
from cloche.sandbox.facts import ContextFacts
from cloche.sandbox.tools import calling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.model.history import VariableList
    from cloche.model.result import Result
    from cloche.sandbox.backend import AsyncCell
    from cloche.sandbox.sandbox import AsyncSandbox

_OTHERS = "box.contexts.list() has all contexts."
MAX_SEARCHED = 100
_LOOK_S = 0.5  # how often a task that waits for a context checks whether the cell in it is neglected


class AsyncContext:
    """A place for cells to run in, one after the other, with variables of their own."""

    def __init__(self, box: AsyncSandbox, facts: ContextFacts) -> None:
        self._box, self.facts = box, facts
        self.removed = False
        self._turn = AsyncCondition()
        self._taken = False
        self._lost = False  # its kernel ended with a cell that no task waited for
        self.cell: AsyncCell | None = None  # the cell that runs now

    def __repr__(self) -> str:
        return f"<{self.language} context {self.id}>"

    @property
    def id(self) -> str:
        """The context's name, unique in its sandbox."""
        return self.facts.id

    @property
    def language(self) -> str:
        """The language of the context's cells."""
        return self.facts.language

    @property
    def cwd(self) -> str | None:
        """The folder in which the kernel starts; None: the sandbox's usual one."""
        return self.facts.cwd

    @cwd.setter
    def cwd(self, cwd: str | None) -> None:
        self.facts.cwd = cwd

    @property
    def lost(self) -> dict[str, Any]:
        """The things that a branch could not take along: threads, sockets and child processes."""
        return self.facts.lost

    @property
    def note(self) -> str:
        """What a branch could not take along, in a sentence; empty if it has everything."""
        from cloche.model.losses import losses_text

        return losses_text(self.facts.lost)

    @property
    def is_branch(self) -> bool:
        """Whether the context was branched from another one."""
        return self.facts.is_branch

    @property
    def known(self) -> bool:
        """Whether the context exists in the sandbox already: it was created, or a cell has run in it."""
        return self.facts.is_known

    async def run(
        self,
        code: str,
        *,
        stdin: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Run a cell in this context."""
        return await self._box.run(code, context=self, stdin=stdin, env=env, timeout=timeout)

    async def variables(self, *, search: str = "", name: str = "") -> VariableList:
        """List the variables whose names contain `search`, or only the one called `name`, with more of its value.

        No code of the context runs for that.
        """
        for text in (search, name):
            if not isinstance(text, str) or len(text) > MAX_SEARCHED:
                raise InvalidRun(f"A variable is searched for by at most {MAX_SEARCHED} characters of its name.")
        await self._box.open()
        return await self._box.backend.sessions.list_variables(self.id, search, name)

    async def interrupt(self) -> None:
        """Stop the running cell, if there is one; variables stay."""
        cell = self.cell
        await self._box.backend.sessions.interrupt(self.id, () if cell is None else (cell,))

    async def restart(self) -> None:
        """End the kernel, and a running cell with it: the next cell starts with no variables."""
        await self._box.backend.sessions.restart(self.id)

    async def remove(self) -> None:
        """Remove this context."""
        await self._box.contexts.remove(self)

    # --- turns: one cell at a time

    async def take(self) -> None:
        """Wait until nothing runs in the context, and reserve it until `free`."""
        if self.cell is not None and self.cell in calling.get():
            raise Refused(
                f"The context {self.id} runs the code that has called this tool.",
                hint="A tool may use other contexts: box.contexts.create().",
            )
        async with self._turn:
            while self._taken:
                if self.cell is not None and self.cell.is_neglected():
                    await _end(self.cell)
                    self._lost = self.cell.result is not None and self.cell.result.restarted
                    break
                try:
                    await self._turn.wait_for_change(_LOOK_S)
                except TimeoutError:
                    continue
            if self.removed:
                raise Gone(f"The context {self.id} was removed.", hint=_OTHERS)
            self._taken = True
            self.cell = None

    def occupy(self, cell: AsyncCell) -> None:
        """Note that this cell runs in the context from now on."""
        self.cell = cell
        self.facts.is_known = True
        cell.lost_before, self._lost = self._lost, False

    async def free(self, cell: AsyncCell | None) -> None:
        """Let the next task have the context."""
        async with self._turn:
            if cell is self.cell and (cell is None or cell.over):
                self._taken, self.cell = False, None
            self._turn.notify_all()  # also for a cell that was abandoned: the next one ends it


async def _end(cell: AsyncCell) -> None:
    try:
        await cell.interrupt()
        while not cell.over:
            await cell.next_event()
    except ClocheError:
        pass  # the sandbox is gone, and the task that waits for the context will find out


class AsyncQuiet:
    """Reserves all contexts, with nothing running in any of them; the end of the `with` block frees them."""

    def __init__(self, contexts: list[AsyncContext]) -> None:
        # Always in the same order, so that two tasks cannot deadlock.
        self._contexts = sorted(contexts, key=lambda context: context.id)
        self._taken: list[AsyncContext] = []

    async def __aenter__(self) -> None:
        try:
            for context in self._contexts:
                try:
                    await context.take()
                except Gone:
                    continue  # removed meanwhile
                self._taken.append(context)
        except BaseException:
            await self.__aexit__()
            raise

    async def __aexit__(self, *_: object) -> None:
        while self._taken:
            await self._taken.pop().free(None)


class AsyncContexts:
    """`box.contexts`: the contexts of a sandbox."""

    def __init__(self, box: AsyncSandbox) -> None:
        self._box = box
        self._by_id: dict[str, AsyncContext] = {}
        self._stateless: dict[str, AsyncContext] = {}  # where programs of languages without sessions take turns
        # Includes removed contexts while a checkpoint or a caller refers to them: a restore may bring them back.
        self._ever: WeakValueDictionary[str, AsyncContext] = WeakValueDictionary()

    async def create(
        self, *, language: str = "python", cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> AsyncContext:
        """Create a context with no variables; its kernel starts with its first cell."""
        chosen = languages.find(language)
        if chosen.kernel is None:
            raise InvalidRun(f"{chosen.name} has no sessions.", hint="Run it as a program: box.run_program.")
        return self.learn(await self._box.backend.sessions.create(chosen.name, checked_cwd(cwd), checked_env(env)))

    def list(self) -> list[AsyncContext]:
        """List all contexts, in the order in which they were created."""
        return list(self._by_id.values())

    def get(self, name: str | AsyncContext) -> AsyncContext:
        """Find a context by its id."""
        if isinstance(name, AsyncContext):
            if name._box is not self._box:
                raise InvalidRun(f"{name!r} belongs to another sandbox.", hint=_OTHERS)
            name = name.id
        if not isinstance(name, str):
            raise InvalidRun(f"A context is named by its id, not {name!r:.100}.")
        if name not in self._by_id:
            raise Gone(f"There is no context {name!r:.100}.", hint=_OTHERS)
        return self._by_id[name]

    async def to_branch(self, context: str | AsyncContext | None) -> AsyncContext:
        """Return a context to branch from, which the backend knows."""
        where = self.choose(None, context)
        if where.language != "python":
            raise InvalidRun(f"Only Python contexts can be branched, and {where.id} is for {where.language}.")
        await self._box.open()
        await self.ensure(where)
        return where

    async def idle_to_branch(self, context: str | AsyncContext | None) -> AsyncContext:
        """Return one in which nothing runs, not even code that called the tool that calls this."""
        where = await self.to_branch(context)
        await where.take()
        await where.free(None)
        return where

    def choose(self, language: str | None, context: str | AsyncContext | None) -> AsyncContext:
        """Return the named context, or the default one of a language (Python) if none is named."""
        if context is None:
            return self.default(language or "python")
        where = self.get(context)
        if language is not None:
            chosen = languages.find(language)
            if languages.find(where.language).kernel != chosen.kernel:
                raise InvalidRun(f"The context {where.id} is for {where.language}, not for {chosen.name}.")
        return where

    async def remove(self, context: str | AsyncContext) -> None:
        """Remove a context, and end the cell that runs in it."""
        found = self.get(context)
        self.forget(found.id)
        await self._box.backend.sessions.remove(found.facts)

    def default(self, language: str) -> AsyncContext:
        """The context for cells of a language that name no context."""
        chosen = languages.find(language)
        known = self._by_id if chosen.kernel is not None else self._stateless
        name = chosen.context or chosen.name
        if name not in known:
            known[name] = AsyncContext(self._box, ContextFacts(name, languages.find(name).name))
            if chosen.kernel is not None:
                self._ever[name] = known[name]
        return known[name]

    async def ensure(self, context: AsyncContext) -> None:
        """Create a context in the sandbox if no cell has run in it yet."""
        if not context.known:
            await self._box.backend.sessions.ensure(context.facts)
            context.facts.is_known = True

    # --- called by the sandbox, to stay in step with its backend

    def running(self) -> tuple[AsyncCell, ...]:
        """The cells that may run now."""
        contexts = (*self._by_id.values(), *self._stateless.values())
        return tuple(context.cell for context in contexts if context.cell is not None)

    def learn(self, facts: ContextFacts) -> AsyncContext:
        """Add the context of these facts, or bring it back if it was removed."""
        context = self._ever.get(facts.id)
        if context is None:
            context = self._ever[facts.id] = AsyncContext(self._box, facts)
        self._by_id[facts.id], context.facts, context.removed = context, facts, False
        return context

    def forget(self, name: str) -> None:
        """Note that a context is gone."""
        context = self._by_id.pop(name, None)
        if context is not None:
            context.removed = True

    async def refresh(self) -> None:
        """Update the list of contexts, after an operation that may have changed it."""
        found = await self._box.backend.sessions.list()
        names = {facts.id for facts in found}
        for name in [name for name, context in self._by_id.items() if name not in names and context.known]:
            self.forget(name)
        for facts in found:
            self.learn(facts)
