# Generated from src/cloche/client/sessions.py by scripts/blocking.py: edit that file instead.
"""Contexts of a sandbox on a server."""

from __future__ import annotations

from cloche import languages
from cloche.blocking.client.cells import ServerCell
from cloche.client import shapes
from cloche.sandbox.facts import ContextFacts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _collections_abc import Sequence
    from typing import Any

    from cloche.blocking.client.sandbox import ServerSandbox
    from cloche.blocking.sandbox.backend import Cell
    from cloche.model.history import Moment, VariableList
    from cloche.sandbox.requests import CellRequest


class ServerSessions:
    """The contexts of one sandbox."""

    def __init__(self, box: ServerSandbox) -> None:
        self._box = box

    def cell(self, request: CellRequest) -> ServerCell:
        """Return a cell, which has not begun."""
        fields: dict[str, Any] = {
            "code": request.code,
            "env": request.env or None,
            "keep": request.keep,
            "timeout": request.timeout,
            "language": request.language,
        }
        if not is_default(request.context):
            fields["context"] = request.context.id
        if request.takes_input == "interactive":
            fields["interactive"] = True
        return ServerCell(self._box, fields)

    def create(self, language: str, cwd: str | None, env: dict[str, str]) -> ContextFacts:
        """Create a context."""
        return context_facts(self._box.call("POST", "/contexts", {"language": language, "cwd": cwd, "env": env}))

    def ensure(self, context: ContextFacts) -> None:
        """Do nothing: the server makes default contexts when it needs them."""

    def remove(self, context: ContextFacts) -> None:
        """Remove a context."""
        if context.is_known:
            self._box.call("DELETE", f"/contexts/{shapes.quoted(context.id)}", safe=False)

    def restart(self, context: str) -> None:
        """End a context's kernel."""
        self._box.call("POST", "/restart", {"context": context}, safe=True)

    def interrupt(self, context: str | None, _cells: Sequence[Cell]) -> None:
        """Stop the running code in one context, or in all, no matter which client started it."""
        if self._box.id is not None:
            body = {} if context is None else {"context": context}
            self._box.call("POST", "/interrupt", body, safe=True)

    def list_variables(self, context: str, search: str, name: str) -> VariableList:
        """List the variables of a context."""
        query = f"?search={shapes.quoted(search)}&name={shapes.quoted(name)}"
        return shapes.variable_list(self._box.call("GET", f"/contexts/{shapes.quoted(context)}/variables{query}"))

    def history(self) -> list[Moment] | None:
        """Return the history, including the actions of other clients."""
        return [shapes.moment(item) for item in self._box.items("/history")]

    def list(self) -> list[ContextFacts]:
        """List all contexts that the server knows."""
        return [context_facts(item) for item in self._box.items("/contexts")]


def context_facts(fields: dict[str, Any]) -> ContextFacts:
    """Parse the server's description of a context."""
    facts = ContextFacts(fields["id"], languages.find(fields["language"]).name, fields["cwd"], known=True)
    facts.is_branch = fields["is_branch"]
    facts.lost = fields.get("lost") or {}
    return facts


def is_default(context: ContextFacts) -> bool:
    """Return whether the server makes this context at its first use."""
    chosen = languages.find(context.language)
    return context.id == (chosen.context or chosen.name)
