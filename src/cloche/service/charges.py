"""Charges keys for the CPU time of sandboxes, and keeps the amounts of each hour in the journal."""

from __future__ import annotations

import logging
from dataclasses import replace

from cloche.clock import steady
from cloche.errors import ClocheError
from cloche.model.records import ChargeRecord
from cloche.policy.caller import Caller
from cloche.policy.keys import Keyring
from cloche.policy.meter import Meter
from cloche.service.identity import new_id
from cloche.store.journal import Journal

log = logging.getLogger("cloche.charges")

_HOUR_S = 3600


class Account:
    """One key, as the payer of the work in sandboxes.  There is one account for each key."""

    def __init__(self, charges: Charges, owner: str, key: str, meter: Meter) -> None:
        self._charges, self.owner, self.key, self.meter = charges, owner, key, meter

    def charge(self, cpu_s: float) -> None:
        """Count CPU time against the key's day."""
        self.meter.use(cpu_s)
        self._charges.add(self.owner, self.key, cpu_s)


class Charges:
    """The accounts, and the amounts that this server has charged to each in each hour."""

    def __init__(self, journal: Journal, keyring: Keyring) -> None:
        self._journal, self._keyring = journal, keyring
        self._accounts: dict[str, Account] = {}
        self._amounts: dict[tuple[str, int], ChargeRecord] = {}  # by key and hour
        self._unrecorded: set[tuple[str, int]] = set()

    def account(self, caller: Caller) -> Account:
        found = self._accounts.get(caller.key_id)
        if found is None:
            found = Account(self, caller.owner, caller.key_id, self._keyring.meter(caller))
            self._accounts[caller.key_id] = found
        return found

    def account_of(self, key: str) -> Account:
        """The account of a key that has one: it has started work."""
        return self._accounts[key]

    def add(self, owner: str, key: str, cpu_s: float) -> None:
        """Add to the amount of this hour.  `record` makes it durable."""
        place = key, _hour()
        known = self._amounts.get(place) or ChargeRecord(new_id("chg"), owner, *place, 0.0)
        self._amounts[place] = replace(known, cpu_time=known.cpu_time + cpu_s)
        self._unrecorded.add(place)

    def record(self) -> None:
        """Write the amounts that have changed to the journal.  A full disk delays that, and takes nothing back."""
        try:
            for place in sorted(self._unrecorded):
                self._journal.note(self._amounts[place])
                self._unrecorded.discard(place)
        except ClocheError as problem:
            log.error("CPU time could not be recorded yet: %s", problem.message)
        hour = _hour()
        for place in [place for place in self._amounts if place[1] != hour and place not in self._unrecorded]:
            del self._amounts[place]


def _hour() -> int:
    return int(steady() // _HOUR_S)
