"""Finds the sandbox for a request: the conversation's own, or any other sandbox of its owner that it names."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cloche.doors.mcp.kept_sessions import KeptSessions
from cloche.errors import ClocheError, Gone, InvalidRun
from cloche.policy.caller import Caller
from cloche.service.live import SandboxView
from cloche.service.sandboxes import NewSandbox
from cloche.service.service import Service

log = logging.getLogger("cloche.mcp")

Progress = Callable[[float, str], Awaitable[None]]

_NO_SESSION = "Leave `session` out to start a new session; the result has its id. session_list shows the living ones."
_HAS_ENVIRONMENT = "The session exists already, with the environment that it was started from."
_OTHER_ENVIRONMENT = "Leave `environment` out to go on with it, or start another session: session_create."
_NOT_KEPT = "Sessions of `cloche mcp` end when its client disconnects; those of a server (`cloche serve`) do not."


@dataclass(frozen=True)
class MadeSession:
    """A session that a request has made without being asked for one, which its answer has to announce."""

    view: SandboxView
    lasts: bool  # whether it stays when the connection ends
    has_connection: bool  # whether later calls on the connection use it by themselves
    ended: str = ""  # why there is no earlier session to go on with

    @property
    def message(self) -> str:
        """Say how to go on with the session, and how long that is possible."""
        session, record = self.view.id, self.view.record
        told = [self.ended] if self.ended else []
        told.append(f"This is a new, empty session: {session}.")
        if self.has_connection:
            told.append("Later calls on this connection use it.")
        if self.lasts:
            where = "On another connection, pass" if self.has_connection else "To keep its variables and files, pass"
            told.append(f'{where} session="{session}".')
        told.append(f"It ends after {duration(self.view.idle_timeout)} without work")
        if record.expires is not None:
            told[-1] += f", at {time_text(record.expires)} at the latest"
        told[-1] += "." if self.lasts else ", and when the client disconnects."
        return " ".join(told)


class Conversation:
    """One client's connection.  The first use creates its sandbox, which the connection's end leaves to be named."""

    def __init__(self, service: Service, caller: Caller, client: str, kept: KeptSessions, *, lasts: bool) -> None:
        self._service, self._caller, self._client, self._kept = service, caller, client, kept
        self._making = asyncio.Lock()
        self.lasts = lasts  # whether sessions stay when the connection ends
        self.session = ""
        self._environment: str | None = None  # that the session was started from

    async def sandbox(self, environment: str | None = None) -> tuple[str, MadeSession | None]:
        """Return the id of the sandbox, and the announcement of a new one, which starts from the environment."""
        async with self._making:
            ended = ""
            if self.session:
                try:
                    await self._service.sandboxes.view(self._caller, self.session, paused=False)
                    if environment is not None and environment != self._environment:
                        raise InvalidRun(_HAS_ENVIRONMENT, hint=_OTHER_ENVIRONMENT)
                    return self.session, None
                except Gone:
                    ended = await ending(self._service, self._caller, self.session)
            wanted = NewSandbox(environment=environment)
            self.session = await self._kept.create(self._caller, wanted, self._client)
            self._environment = environment
            view = await self._service.sandboxes.view(self._caller, self.session)
            return self.session, MadeSession(view, self.lasts, has_connection=True, ended=ended)

    async def end(self) -> None:
        """Leave the sandbox to a later connection, or end it, because the client has left."""
        try:
            async with self._making:
                if self.session and self.lasts:
                    await self._kept.keep(self._caller, self.session)
                elif self.session:
                    await self._service.sandboxes.kill(self._caller, self.session)
        except ClocheError as problem:
            log.warning("the sandbox of a conversation could not be ended: %s", problem.message)


@dataclass(frozen=True)
class Visit:
    """One request, with its caller, its conversation, and the way to report progress."""

    service: Service
    caller: Caller
    client: str
    conversation: Conversation | None  # None for a single request, as in protocol 2026-07-28 over HTTP
    kept: KeptSessions
    progress: Progress | None
    made: list[MadeSession] = field(default_factory=list)  # by this request; the answer announces them

    async def sandbox(self, session: str | None, *, makes: bool = False, environment: str | None = None) -> str:
        """Return the id of the requested sandbox; `makes` creates one even if there is no conversation.

        A new sandbox starts from the environment.
        """
        if session and environment is not None:
            raise InvalidRun(_HAS_ENVIRONMENT, hint=_OTHER_ENVIRONMENT)
        if session:
            return await self._named(session)
        if self.conversation is not None:
            found, made = await self.conversation.sandbox(environment)
            self.made.extend([made] if made is not None else [])
            return found
        if not makes:
            raise InvalidRun(
                "Which session?",
                hint="Pass `session`: the id that code_execution or session_create returned. session_list shows them.",
            )
        found = await self.kept.create(self.caller, NewSandbox(environment=environment), self.client)
        view = await self.service.sandboxes.view(self.caller, found)
        self.made.append(MadeSession(view, lasts=True, has_connection=False))
        return found

    async def over(self) -> None:
        """Leave a sandbox that was made for this request alone to a later request."""
        for made in self.made:
            if not made.has_connection:
                await self.kept.keep(self.caller, made.view.id)

    async def _named(self, session: str) -> str:
        try:
            await self.service.sandboxes.view(self.caller, session, paused=False)
        except Gone:
            lasts = self.conversation is None or self.conversation.lasts
            raise Gone(
                await ending(self.service, self.caller, session),
                hint=_NO_SESSION if lasts else f"{_NO_SESSION} {_NOT_KEPT}",
            ) from None
        if self.conversation is None or self.conversation.session != session:
            self.kept.name(self.caller, session)
        return session


async def ending(service: Service, caller: Caller, session: str) -> str:
    """Return a sentence that explains why a session is not available."""
    try:
        record = (await service.sandboxes.info(caller, session)).record
    except Gone:
        return f"There is no session {session[:100]!r}."
    return f"The session {session} has ended: {record.reason or record.state}. Its variables and files are gone."


def duration(seconds: float) -> str:
    """Return a time span in the largest unit that needs no fraction."""
    for unit, length in (("hour", 3600), ("minute", 60)):
        if seconds >= length and seconds % length == 0:
            number = int(seconds // length)
            return f"{number} {unit}" if number == 1 else f"{number} {unit}s"
    return f"{seconds:g} second" + ("" if seconds == 1 else "s")


def time_text(seconds: float) -> str:
    """Return a moment as ISO 8601, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
