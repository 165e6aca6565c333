"""Finds the sandbox for a request: the conversation's own, or any other sandbox of its owner that it names."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from cloche.errors import ClocheError, Gone, InvalidRun
from cloche.policy.caller import Caller
from cloche.policy.limits import reduced
from cloche.service.sandboxes import NewSandbox
from cloche.service.service import Service

log = logging.getLogger("cloche.mcp")

USUAL_TIMEOUT_S = 60.0  # default for one execution; clients wait about that long for a tool
MAX_UNNAMED = 4  # sandboxes kept for one owner although no later request has named them

Progress = Callable[[float, str], Awaitable[None]]


class Conversation:
    """One client's connection.  The first use creates its sandbox, which ends with the connection."""

    def __init__(self, service: Service, caller: Caller, client: str) -> None:
        self._service, self._caller, self._client = service, caller, client
        self._making = asyncio.Lock()
        self.session = ""

    async def sandbox(self) -> tuple[str, str]:
        """Return the id of the sandbox, and a note if it replaces one that has ended."""
        async with self._making:
            note = ""
            if self.session:
                try:
                    await self._service.sandboxes.view(self._caller, self.session, paused=False)
                    return self.session, ""
                except Gone:
                    note = f"{await ending(self._service, self._caller, self.session)} This is a new, empty session."
            self.session = await create(self._service, self._caller, NewSandbox(), self._client)
            return self.session, note

    async def end(self) -> None:
        """End the sandbox, because the client has left."""
        try:
            async with self._making:
                if self.session:
                    await self._service.sandboxes.kill(self._caller, self.session)
        except ClocheError as problem:
            log.warning("the sandbox of a conversation could not be ended: %s", problem.message)


class Unnamed:
    """Sandboxes for requests without a conversation.  Only the newest few are kept until a request names them."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._kept: dict[str, OrderedDict[str, None]] = {}  # by owner, oldest first

    def name(self, caller: Caller, session: str) -> None:
        """Keep this sandbox, because a request has named it."""
        self._kept.get(caller.owner, OrderedDict()).pop(session, None)

    async def create(self, caller: Caller, client: str) -> str:
        session = await create(self._service, caller, NewSandbox(), client)
        kept = self._kept.setdefault(caller.owner, OrderedDict())
        kept[session] = None
        while len(kept) > MAX_UNNAMED:
            oldest, _ = kept.popitem(last=False)
            try:
                await self._service.sandboxes.kill(caller, oldest)
            except ClocheError:
                log.debug("an unnamed sandbox had ended already")
        return session


@dataclass(frozen=True)
class Visit:
    """One request, with its caller, its conversation, and the way to report progress."""

    service: Service
    caller: Caller
    client: str
    conversation: Conversation | None  # None for a single request, as in protocol 2026-07-28 over HTTP
    unnamed: Unnamed
    progress: Progress | None

    async def sandbox(self, session: str | None, *, makes: bool = False) -> tuple[str, str]:
        """Return the id of the requested sandbox, and a note about it; `makes` creates one if none is named."""
        if session:
            self.unnamed.name(self.caller, session)
            try:
                await self.service.sandboxes.view(self.caller, session, paused=False)
                return session, ""
            except Gone:
                raise Gone(
                    await ending(self.service, self.caller, session),
                    hint="session_list shows your sessions; session_create makes a new one.",
                ) from None
        if self.conversation is not None:
            return await self.conversation.sandbox()
        if not makes:
            raise InvalidRun(
                "Which session?",
                hint="Pass `session`: the id that code_execution or session_create returned. session_list shows them.",
            )
        made = await self.unnamed.create(self.caller, self.client)
        return made, f'This is a new session. To keep using its variables and files, pass session="{made}".'


async def create(service: Service, caller: Caller, request: NewSandbox, client: str, name: str = "") -> str:
    """Create a sandbox for a model and return its id."""
    metadata = {"made_by": "mcp", "client": client[:1000], **({"name": name} if name else {})}
    defaults = reduced({"timeout": USUAL_TIMEOUT_S}, service.configuration)
    limits = {**defaults, **request.limits}
    made = await service.sandboxes.create(caller, replace(request, limits=limits, metadata=metadata))
    return made.record.id


async def ending(service: Service, caller: Caller, session: str) -> str:
    """Return a sentence that explains why a session is not available."""
    try:
        record = (await service.sandboxes.info(caller, session)).record
    except Gone:
        return f"There is no session {session[:100]!r}."
    return f"The session {session} has ended: {record.reason or record.state}. Its variables and files are gone."
