"""The audit log: each action with its key, its target and its time."""

from __future__ import annotations

from collections.abc import Sequence
from time import time
from typing import Any

from cloche.model.records import AuditRecord
from cloche.policy.caller import Caller
from cloche.service.identity import new_id
from cloche.service.verbs import verb
from cloche.store.journal import Journal
from cloche.store.store import Store


class Audit:
    """Writes and reads the audit log."""

    def __init__(self, store: Store, journal: Journal) -> None:
        self._store, self._journal = store, journal

    def note(self, caller: Caller, action: str, target: str, details: dict[str, Any] | None = None) -> None:
        """Record an action; raises when it cannot be recorded."""
        identity = new_id("audit")
        self._journal.note(AuditRecord(identity, time(), caller.owner, caller.key_id, action, target, details or {}))

    @verb("admin")
    async def list(
        self,
        caller: Caller,  # noqa: ARG002
        *,
        owner: str | None,
        limit: int,
        after: str | None,
    ) -> tuple[Sequence[AuditRecord], str | None]:
        """A page of the log, newest first, and where the next page begins."""
        await self._journal.flush()
        return await self._store.audit(owner=owner, limit=limit, after=after)
