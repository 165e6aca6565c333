# Generated from src/cloche/engine/sessions.py by scripts/blocking.py: edit that file instead.
"""Contexts of a sandbox of this host: the agent keeps a kernel for each, and cells run in the kernels."""

from __future__ import annotations

from cloche import languages
from cloche.blocking.engine.cells import HostCell
from cloche.engine.inside_variables import listed
from cloche.errors import FileMissing, FileProblem
from cloche.model.history import VariableList
from cloche.sandbox.facts import ContextFacts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _collections_abc import Sequence
    from typing import Any

    from cloche.blocking.engine.program_cells import ProgramCell
    from cloche.blocking.engine.sandbox import HostSandbox
    from cloche.blocking.sandbox.backend import Cell
    from cloche.blocking.sandbox.tools import Tools
    from cloche.model.history import Moment
    from cloche.sandbox.requests import CellRequest

_ENOSYS = 38


class HostSessions:
    """The contexts of one sandbox."""

    def __init__(self, box: HostSandbox, tools: Tools) -> None:
        self._box, self._tools = box, tools
        self._contexts: dict[str, ContextFacts] = {}
        self._made = 0

    def cell(self, request: CellRequest) -> HostCell | ProgramCell:
        """Return a cell, or a program in its place where the language has no sessions."""
        if languages.find(request.context.language).kernel is None:
            from cloche.blocking.engine.program_cells import ProgramCell

            return ProgramCell(self._box, request)
        self._contexts[request.context.id] = request.context
        limits = self._box.limits_with(request.timeout)
        fields: dict[str, Any] = {
            "code": request.code,
            "input": "interactive" if request.takes_input == "interactive" else bool(request.takes_input),
            "env": request.env or None,
            "timeout": limits.timeout_s,
            "language": request.language,
            "context": request.context.id,
            "create": self._description(request.context),  # in case the agent does not know the context
        }
        if request.shows is not None:
            fields["shows"] = request.shows
        return HostCell(self._box, fields, limits, self._tools, request.keep)

    def create(self, language: str, cwd: str | None, env: dict[str, str]) -> ContextFacts:
        """Create a context; its kernel starts with its first cell."""
        context = self.new(language, cwd, env)
        request = {"method": "create context", "context": context.id, "create": self._description(context)}
        context.cwd = str((self.call(request)).get("cwd"))[:4096]
        self.keep(context)
        return context

    def ensure(self, context: ContextFacts) -> None:
        """Create a context in the agent if no cell has run in it yet."""
        request = {"method": "create context", "context": context.id, "create": self._description(context)}
        try:
            self.call(request)
        except FileProblem:
            pass  # the context exists already
        self.keep(context)

    def remove(self, context: ContextFacts) -> None:
        """Remove a context."""
        self.forget(context.id)
        self.call({"method": "remove context", "context": context.id}, missing_is_fine=True)

    def restart(self, context: str) -> None:
        """End a context's kernel."""
        self.call({"method": "restart context", "context": context}, missing_is_fine=True)

    def interrupt(self, _context: str | None, cells: Sequence[Cell]) -> None:
        """Stop these cells: there are no others in a sandbox of this process."""
        for cell in cells:
            cell.interrupt()

    def history(self) -> list[Moment] | None:
        """Return None: the front's own notes are complete."""
        return None

    def variables(self, context: str) -> dict[str, dict[str, Any]]:
        """Return the variables of a Python context: type, size, beginning, and a digest of each."""
        found = (self.call({"method": "variables", "context": context, "digest": True})).get("variables")
        if not isinstance(found, dict):
            return {}
        return {str(name): facts for name, facts in found.items() if isinstance(facts, dict)}

    def list_variables(self, context: str, search: str, name: str) -> VariableList:
        """List the variables of a context, without running any of its code."""
        request = {"method": "list variables", "context": context, "search": search, "name": name}
        try:
            return listed(self.call(request, missing_is_fine=True))
        except FileProblem as problem:
            if problem.errno == _ENOSYS:
                return VariableList((), 0, "unsupported")
            raise

    # For checkpoints, which create contexts and restore old ones

    def new(self, language: str, cwd: str | None, env: dict[str, str]) -> ContextFacts:
        """Return a context with a new, unused name."""
        self._made += 1
        return ContextFacts(f"{language}-{self._made}", language, cwd, env)

    def keep(self, context: ContextFacts) -> None:
        """Note that the agent knows a context."""
        context.is_known = True
        self._contexts[context.id] = context

    def forget(self, context: str) -> None:
        """Note that a context is gone."""
        self._contexts.pop(context, None)

    def known(self) -> tuple[ContextFacts, ...]:
        """Return all contexts that the agent knows."""
        return tuple(self._contexts.values())

    def set(self, contexts: tuple[ContextFacts, ...]) -> None:
        """Replace the list after a restore: newer contexts are gone, and contexts removed since are back."""
        self._contexts = {context.id: context for context in contexts}

    def call(self, request: dict[str, Any], missing_is_fine: bool = False) -> dict[str, Any]:
        """Send the agent a request about a context."""
        try:
            return self._box.files.call(request, str(request["context"]))
        except FileMissing:
            if not missing_is_fine:
                raise
            return {}  # no cell has run in the context yet

    def _description(self, context: ContextFacts) -> dict[str, Any]:
        """Describe a context for the agent, which creates it from this."""
        return {
            "language": context.language,
            "how": languages.find(context.language).kernel,
            "cwd": context.cwd,
            "env": {**self._box.whole_env, **context.env},
            "tools": self._tools.names(),
        }

    def list(self) -> list[ContextFacts]:
        """List all contexts that the agent knows."""
        return list(self._contexts.values())
