"""Which sandbox is meant: a conversation has one of its own, and may name any other of its owner's."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from cloche.errors import ClocheError, Gone, InvalidRun
from cloche.policy.caller import Caller
from cloche.policy.limits import reduced
from cloche.service.held import Held
from cloche.service.service import Service

log = logging.getLogger("cloche.mcp")

USUAL_TIMEOUT_S = 60.0  # of one execution; clients wait about that long for a tool
MAX_UNNAMED = 4  # sandboxes of an owner that were made unasked and never named again

Progress = Callable[[float, str], Awaitable[None]]


class Conversation:
    """One client's connection, with a sandbox that is made when it is first wanted and ends with it."""

    def __init__(self, service: Service, caller: Caller, client: str) -> None:
        self._service, self._caller, self._client = service, caller, client
        self._making = asyncio.Lock()
        self.session = ""

    async def sandbox(self) -> tuple[Held, str]:
        """Its sandbox, and what there is to say of it: that it is a new one in place of another."""
        async with self._making:
            note = ""
            if self.session:
                try:
                    return self._service.sandboxes.find(self._caller, self.session), ""
                except Gone:
                    note = f"{await ending(self._service, self._caller, self.session)} This is a new, empty session."
            held = await create(self._service, self._caller, {}, self._client)
            self.session = held.id
            return held, note

    async def end(self) -> None:
        """The client has gone."""
        try:
            async with self._making:
                if self.session:
                    await self._service.sandboxes.kill(self._caller, self.session)
        except ClocheError as problem:
            log.warning("the sandbox of a conversation could not be ended: %s", problem.message)


class Unnamed:
    """Sandboxes made for requests that belong to no conversation; of those that nobody names again, few are kept."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._kept: dict[str, OrderedDict[str, None]] = {}  # by owner, oldest first

    def name(self, caller: Caller, session: str) -> None:
        """Somebody goes on with it: it stays."""
        self._kept.get(caller.owner, OrderedDict()).pop(session, None)

    async def create(self, caller: Caller, client: str) -> Held:
        """Another one."""
        held = await create(self._service, caller, {}, client)
        kept = self._kept.setdefault(caller.owner, OrderedDict())
        kept[held.id] = None
        while len(kept) > MAX_UNNAMED:
            oldest, _ = kept.popitem(last=False)
            try:
                await self._service.sandboxes.kill(caller, oldest)
            except ClocheError:
                log.debug("a sandbox that nobody named was gone already")
        return held


@dataclass(frozen=True)
class Visit:
    """One request: who asks, in which conversation, and how to tell them what happens meanwhile."""

    service: Service
    caller: Caller
    client: str
    conversation: Conversation | None  # None: the request stands alone, as all of protocol 2026-07-28 over HTTP do
    unnamed: Unnamed
    progress: Progress | None

    async def sandbox(self, session: str | None, *, makes: bool = False) -> tuple[Held, str]:
        """The sandbox that is meant, and a note about it; `makes`: where there is none, a new one will do."""
        if session:
            self.unnamed.name(self.caller, session)
            try:
                return self.service.sandboxes.find(self.caller, session), ""
            except Gone:
                raise Gone(
                    await ending(self.service, self.caller, session),
                    hint="session_list shows the sessions that there are; session_create makes a new one.",
                ) from None
        if self.conversation is not None:
            return await self.conversation.sandbox()
        if not makes:
            raise InvalidRun(
                "Which session?",
                hint="Pass `session`: the id that code_execution or session_create returned. session_list shows them.",
            )
        held = await self.unnamed.create(self.caller, self.client)
        return held, f'This is a new session. To go on with its variables and files, pass session="{held.id}".'


async def create(service: Service, caller: Caller, wish: dict[str, Any], client: str, name: str = "") -> Held:
    """A new sandbox for a model."""
    metadata = {"made_by": "mcp", "client": client[:1000]}
    if name:
        metadata["name"] = name
    usual = reduced({"timeout": USUAL_TIMEOUT_S}, service.configuration)
    record = await service.sandboxes.create(caller, {**usual, "metadata": metadata, **wish})
    return service.sandboxes.find(caller, record.id)


async def ending(service: Service, caller: Caller, session: str) -> str:
    """Why a session is not there."""
    try:
        record = await service.sandboxes.record(caller, session)
    except Gone:
        return f"There is no session {session[:100]!r}."
    return f"The session {session} has ended: {record.reason or record.state}. Its variables and files are gone."
