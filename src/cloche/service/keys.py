"""The verbs about API keys.  Only an admin key may use them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cloche.model.records import KeyRecord
from cloche.policy.caller import Caller
from cloche.policy.keys import Keyring
from cloche.service.audit import Audit
from cloche.service.verbs import verb


@dataclass(frozen=True, slots=True)
class CurrentKey:
    """The key of a request; it has no record on a server that requires no keys."""

    caller: Caller
    record: KeyRecord | None
    in_use: Mapping[str, float]


class Keys:
    """Makes, lists and revokes keys."""

    def __init__(self, keyring: Keyring, audit: Audit) -> None:
        self._keyring, self._audit = keyring, audit

    @verb("admin")
    async def create(
        self, caller: Caller, owner: str, name: str, scopes: Iterable[str], policy: Mapping[str, Any] | None
    ) -> tuple[KeyRecord, str]:
        """Make a key.  Its secret is returned here and nowhere else."""
        record, secret = await self._keyring.create(owner, name, scopes, policy)
        self._audit.note(caller, "key.create", record.id, {"owner": record.owner, "scopes": list(record.scopes)})
        return record, secret

    @verb("read")
    def current(self, caller: Caller) -> CurrentKey:
        """The caller's own key, and what it uses."""
        return CurrentKey(caller, self._keyring.record(caller.key_id), self._keyring.meter(caller).in_use())

    @verb("admin")
    def list(self, caller: Caller) -> Sequence[KeyRecord]:  # noqa: ARG002
        """Every key, oldest first, without secrets."""
        return self._keyring.list()

    @verb("admin")
    async def revoke(self, caller: Caller, key_id: str) -> None:
        """End a key at once."""
        await self._keyring.revoke(key_id)
        self._audit.note(caller, "key.revoke", key_id)
