"""Contexts of a sandbox on a server."""

from __future__ import annotations

from cloche import languages
from cloche.client import shapes
from cloche.client.cells import AsyncServerCell
from cloche.sandbox.facts import ContextFacts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _collections_abc import Sequence
    from typing import Any

    from cloche.client.sandbox import AsyncServerSandbox
    from cloche.model.history import Moment, VariableList
    from cloche.sandbox.backend import AsyncCell
    from cloche.sandbox.requests import CellRequest


class AsyncServerSessions:
    """The contexts of one sandbox."""

    def __init__(self, box: AsyncServerSandbox) -> None:
        self._box = box

    def cell(self, request: CellRequest) -> AsyncServerCell:
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
        return AsyncServerCell(self._box, fields)

    async def create(self, language: str, cwd: str | None, env: dict[str, str]) -> ContextFacts:
        """Create a context."""
        return context_facts(await self._box.call("POST", "/contexts", {"language": language, "cwd": cwd, "env": env}))

    async def ensure(self, context: ContextFacts) -> None:
        """Do nothing: the server makes default contexts when it needs them."""

    async def remove(self, context: ContextFacts) -> None:
        """Remove a context."""
        if context.is_known:
            await self._box.call("DELETE", f"/contexts/{shapes.quoted(context.id)}", safe=False)

    async def restart(self, context: str) -> None:
        """End a context's kernel."""
        await self._box.call("POST", "/restart", {"context": context}, safe=True)

    async def interrupt(self, context: str | None, _cells: Sequence[AsyncCell]) -> None:
        """Stop the running code in one context, or in all, no matter which client started it."""
        if self._box.id is not None:
            body = {} if context is None else {"context": context}
            await self._box.call("POST", "/interrupt", body, safe=True)

    async def list_variables(self, context: str, search: str, name: str) -> VariableList:
        """List the variables of a context."""
        query = f"?search={shapes.quoted(search)}&name={shapes.quoted(name)}"
        return shapes.variable_list(await self._box.call("GET", f"/contexts/{shapes.quoted(context)}/variables{query}"))

    async def history(self) -> list[Moment] | None:
        """Return the history, including the actions of other clients."""
        return [shapes.moment(item) for item in await self._box.items("/history")]

    async def list(self) -> list[ContextFacts]:
        """List all contexts that the server knows."""
        return [context_facts(item) for item in await self._box.items("/contexts")]


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
