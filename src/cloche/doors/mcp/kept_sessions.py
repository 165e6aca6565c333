"""Keeps sessions whose connection has ended, so that a later connection of the same owner can name them.

Some clients open a connection for every call.  For them, and for protocol 2026-07-28, which has no connections, the id
of a session is the only way back to its variables and files.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import replace

from cloche.errors import ClocheError
from cloche.policy.caller import Caller
from cloche.policy.limits import reduced
from cloche.policy.refusals import Busy, TooMany
from cloche.service.sandboxes import NewSandbox
from cloche.service.service import Service

log = logging.getLogger("cloche.mcp")

USUAL_TIMEOUT_S = 60.0  # default for one execution; clients wait about that long for a tool
MOST = 4  # sessions of one owner that wait to be named


class KeptSessions:
    """The sessions that no connection has.  Of each owner's, the newest few wait until a request names them."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._waiting: dict[str, OrderedDict[str, None]] = {}  # by owner, oldest first
        self._named: set[str] = set()  # by a request that was not on the session's own connection
        service.sandboxes.when_ended(self._forget)

    async def create(self, caller: Caller, request: NewSandbox, client: str, name: str = "") -> str:
        """Create a sandbox for a model and return its id.  Waiting sessions of the owner end if they are in the way."""
        metadata = {"made_by": "mcp", "client": client[:1000], **({"name": name} if name else {})}
        defaults = reduced({"timeout": USUAL_TIMEOUT_S}, self._service.configuration)
        wanted = replace(request, limits={**defaults, **request.limits}, metadata=metadata)
        while True:
            try:
                made = await self._service.sandboxes.create(caller, wanted)
                return made.record.id
            except (Busy, TooMany) as problem:
                is_for_want_of_place = isinstance(problem, Busy) or problem.limit == "sandboxes"
                if not is_for_want_of_place or not await self._end_oldest(caller):
                    raise

    async def keep(self, caller: Caller, session: str) -> None:
        """Let a session wait, because its connection is over; one that another connection uses simply goes on."""
        if session in self._named:
            return
        waiting = self._waiting.setdefault(caller.owner, OrderedDict())
        waiting[session] = None
        while len(waiting) > MOST:
            await self._end_oldest(caller)

    def name(self, caller: Caller, session: str) -> None:
        """Keep a living session of the caller's until it is idle for too long, because a request has named it."""
        self._named.add(session)
        self._stop_waiting(caller.owner, session)

    async def _end_oldest(self, caller: Caller) -> bool:
        waiting = self._waiting.get(caller.owner)
        if not waiting:
            return False
        session = next(iter(waiting))
        self._stop_waiting(caller.owner, session)
        try:
            await self._service.sandboxes.kill(caller, session)
        except ClocheError as problem:
            log.debug("a session that nobody named could not be ended: %s", problem.message)
        return True

    def _stop_waiting(self, owner: str, session: str) -> None:
        waiting = self._waiting.get(owner, OrderedDict())
        waiting.pop(session, None)
        if not waiting:
            self._waiting.pop(owner, None)

    def _forget(self, session: str) -> None:
        self._named.discard(session)
        for owner in [owner for owner, waiting in self._waiting.items() if session in waiting]:
            self._stop_waiting(owner, session)
