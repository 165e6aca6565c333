"""Contexts of a sandbox on a server: what this client knows of them, kept in step with what it does."""

from __future__ import annotations

from _collections_abc import Mapping

from cloche import languages
from cloche.client import shapes
from cloche.engine.contexts import AsyncContext, AsyncContexts
from cloche.errors import InvalidRun
from cloche.sandbox.checks import checked_cwd, checked_env

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.client.sandbox import AsyncRemoteSandbox


class AsyncRemoteContext(AsyncContext):
    """A place for cells to run in, one after the other, with variables of their own."""

    _box: AsyncRemoteSandbox

    async def interrupt(self) -> None:
        """Have the cell stop that runs in it, if one does; its variables stay."""
        await self._box.call("POST", "/interrupt", {"context": self.id}, safe=True)

    async def restart(self) -> None:
        """End its kernel: the next cell starts with no variables.  A cell that runs is ended."""
        await self._box.call("POST", "/restart", {"context": self.id}, safe=True)


class AsyncRemoteContexts(AsyncContexts):
    """`box.contexts`, over HTTP."""

    _box: AsyncRemoteSandbox
    _by_id: dict[str, AsyncContext]

    def __init__(self, box: AsyncRemoteSandbox) -> None:
        super().__init__(box)
        self._ever: dict[str, AsyncContext] = {}  # also those that are gone: a restore may bring them back

    async def create(
        self, *, language: str = "python", cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> AsyncContext:
        """A new context, with no variables; its kernel starts with its first cell."""
        spoken = languages.find(language)
        if spoken.kernel is None:
            raise InvalidRun(f"{spoken.name} has no sessions.", hint="Run it as a program: box.run_program.")
        request = {"language": spoken.name, "cwd": checked_cwd(cwd), "env": checked_env(env)}
        return self.learn(await self._box.call("POST", "/contexts", request))

    async def remove(self, context: str | AsyncContext) -> None:
        """End a context for good; a cell that runs in it is ended."""
        found = self.get(context)
        self.forget(found.id)
        if found.known:
            await self._box.call("DELETE", f"/contexts/{shapes.quoted(found.id)}", safe=False)

    def default(self, language: str) -> AsyncContext:
        """The context that cells of a language run in unless they name one."""
        context = super().default(language)
        if context.how is not None:
            self._ever[context.id] = context
        return context

    def usual(self, name: str) -> AsyncContext:
        """A language's default context, new."""
        return AsyncRemoteContext(self._box, name, languages.find(name), None, {})

    async def ensure(self, context: AsyncContext) -> None:
        """The server sees to it."""
        context.known = True

    def learn(self, told: dict[str, Any]) -> AsyncContext:
        """What the server tells of one."""
        name = told["id"]
        context = self._ever.get(name)
        if context is None:
            context = AsyncRemoteContext(self._box, name, languages.find(told["language"]), told["cwd"], {})
            self._ever[name] = context
        self._by_id[name], context.removed = context, False
        context.cwd, context.is_branch, context.known = told["cwd"], told["is_branch"], True
        return context

    async def refresh(self) -> None:
        """Learn which there are: something has happened that may have changed that."""
        told = await self._box.items("/contexts")
        names = [one["id"] for one in told]
        for name in [name for name in self._by_id if name not in names]:
            self.forget(name)
        for one in told:
            self.learn(one)
