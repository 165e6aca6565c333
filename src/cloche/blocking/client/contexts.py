# Generated from src/cloche/client/contexts.py by scripts/blocking.py: edit that file instead.
"""Contexts of a sandbox on a server: what this client knows of them, kept in step with what it does."""

from __future__ import annotations

from _collections_abc import Mapping

from cloche import languages
from cloche.blocking.engine.contexts import Context, Contexts
from cloche.client import shapes
from cloche.errors import InvalidRun
from cloche.sandbox.checks import checked_cwd, checked_env

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.blocking.client.sandbox import RemoteSandbox


class RemoteContext(Context):
    """A place for cells to run in, one after the other, with variables of their own."""

    _box: RemoteSandbox

    def interrupt(self) -> None:
        """Have the cell stop that runs in it, if one does; its variables stay."""
        self._box.call("POST", "/interrupt", {"context": self.id}, safe=True)

    def restart(self) -> None:
        """End its kernel: the next cell starts with no variables.  A cell that runs is ended."""
        self._box.call("POST", "/restart", {"context": self.id}, safe=True)


class RemoteContexts(Contexts):
    """`box.contexts`, over HTTP."""

    _box: RemoteSandbox
    _by_id: dict[str, Context]

    def __init__(self, box: RemoteSandbox) -> None:
        super().__init__(box)
        self._ever: dict[str, Context] = {}  # also those that are gone: a restore may bring them back

    def create(
        self, *, language: str = "python", cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> Context:
        """A new context, with no variables; its kernel starts with its first cell."""
        spoken = languages.find(language)
        if spoken.kernel is None:
            raise InvalidRun(f"{spoken.name} has no sessions.", hint="Run it as a program: box.run_program.")
        request = {"language": spoken.name, "cwd": checked_cwd(cwd), "env": checked_env(env)}
        return self.learn(self._box.call("POST", "/contexts", request))

    def remove(self, context: str | Context) -> None:
        """End a context for good; a cell that runs in it is ended."""
        found = self.get(context)
        self.forget(found.id)
        if found.known:
            self._box.call("DELETE", f"/contexts/{shapes.quoted(found.id)}", safe=False)

    def default(self, language: str) -> Context:
        """The context that cells of a language run in unless they name one."""
        context = super().default(language)
        if context.how is not None:
            self._ever[context.id] = context
        return context

    def usual(self, name: str) -> Context:
        """A language's default context, new."""
        return RemoteContext(self._box, name, languages.find(name), None, {})

    def ensure(self, context: Context) -> None:
        """The server sees to it."""
        context.known = True

    def learn(self, told: dict[str, Any]) -> Context:
        """What the server tells of one."""
        name = told["id"]
        context = self._ever.get(name)
        if context is None:
            context = RemoteContext(self._box, name, languages.find(told["language"]), told["cwd"], {})
            self._ever[name] = context
        self._by_id[name], context.removed = context, False
        context.cwd, context.is_branch, context.known = told["cwd"], told["is_branch"], True
        return context

    def refresh(self) -> None:
        """Learn which there are: something has happened that may have changed that."""
        told = self._box.items("/contexts")
        names = [one["id"] for one in told]
        for name in [name for name in self._by_id if name not in names]:
            self.forget(name)
        for one in told:
            self.learn(one)
