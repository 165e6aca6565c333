"""The verbs about what an owner has used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloche.model.records import UsageTotal
from cloche.policy.caller import Caller
from cloche.service.verbs import verb
from cloche.store.journal import Journal
from cloche.store.store import Store

if TYPE_CHECKING:
    from cloche.service.lifecycle import Lifecycle
    from cloche.service.metering import Metering


@dataclass(frozen=True, slots=True)
class OwnerUsage:
    """What an owner uses now, and has used on each day."""

    owner: str
    sandboxes: int
    days: Mapping[str, UsageTotal]


class UsageReports:
    """Reads what was used from the store."""

    def __init__(self, store: Store, journal: Journal, lifecycle: Lifecycle, metering: Metering) -> None:
        self._store, self._journal, self._lifecycle, self._metering = store, journal, lifecycle, metering

    @verb("read")
    async def of_owner(self, caller: Caller, days: int) -> OwnerUsage:
        """What the caller's owner has used on each of the last days."""
        await self._metering.charge_owner(caller.owner)
        await self._journal.flush()
        used = await self._store.usage_by_day(caller.owner, days)
        return OwnerUsage(caller.owner, len(self._lifecycle.owned_by(caller.owner)), used)

    @verb("admin")
    async def by_key(self, caller: Caller, days: int) -> Mapping[str, Mapping[str, UsageTotal]]:  # noqa: ARG002
        """What each key, of every owner, has used on each of the last days on which it used something."""
        await self._journal.flush()
        return await self._store.usage_by_key_and_day(days)
