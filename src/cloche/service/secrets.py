"""Stored secrets: values that the server keeps for their owner, for network policies.  No verb returns a value."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cloche.clock import steady
from cloche.errors import Gone, InvalidRun, Refused, SandboxFailed
from cloche.model.network import Network
from cloche.model.network_headers import named_secrets
from cloche.model.records import StoredSecret
from cloche.model.secret import MAX_STORED_NAME, Secret, check_value, is_stored_name
from cloche.policy.caller import Caller
from cloche.service.audit import Audit
from cloche.service.encryption import Encryption, Unreadable
from cloche.service.identity import new_id
from cloche.service.verbs import verb
from cloche.store.store import Store

MOST = 500  # of one owner
_MAX_ENTRIES, _MAX_KEY, _MAX_VALUE, _MAX_METADATA = 32, 128, 1024, 8192  # of metadata, in bytes


class Secrets:
    """The stored secrets of all owners.  They are read from the database each time: servers may share it."""

    def __init__(self, store: Store, key: Path, audit: Audit) -> None:
        self._store, self._encryption, self._audit = store, Encryption(key), audit
        self._changing = asyncio.Lock()
        self.when_changed: list[Callable[[str, str], Awaitable[None]]] = []  # called with the owner and the name

    @verb("run")
    async def create(
        self, caller: Caller, name: str, value: str, metadata: Mapping[str, str] | None = None
    ) -> StoredSecret:
        """Store a secret under a new name."""
        check_value(value)
        now, identity = steady(), new_id("sec")
        record = StoredSecret(
            id=identity,
            owner=caller.owner,
            name=_checked_name(name),
            encrypted=self._encrypted(value, caller.owner, identity),
            version=1,
            metadata=_checked_metadata(metadata or {}),
            created=now,
            updated=now,
        )
        async with self._changing:
            if len(await self._store.secrets(caller.owner)) >= MOST:
                raise Refused(f"You have {MOST} secrets already.", hint="Remove those that are no longer needed.")
            if not await self._store.add_secret(record):
                raise Refused(f"There is a secret {record.name} already.", hint="Update it, or choose another name.")
        await self._changed(caller, "create", record)
        return record

    @verb("run")
    async def update(
        self, caller: Caller, which: str, value: str, metadata: Mapping[str, str] | None = None
    ) -> StoredSecret:
        """Replace the value, also for sandboxes that use it now; metadata that is not given stays."""
        check_value(value)
        async with self._changing:
            known = await self._find(caller.owner, which)
            record = replace(
                known,
                encrypted=self._encrypted(value, known.owner, known.id),
                version=known.version + 1,
                metadata=known.metadata if metadata is None else _checked_metadata(metadata),
                updated=steady(),
            )
            await self._store.change_secret(record)
        await self._changed(caller, "update", record)
        return record

    @verb("run")
    async def remove(self, caller: Caller, which: str) -> None:
        """Remove a secret, also from sandboxes that use it now."""
        async with self._changing:
            known = await self._find(caller.owner, which)
            await self._store.remove_secret(known.id)
        await self._changed(caller, "remove", known)

    @verb("read")
    async def find(self, caller: Caller, which: str) -> StoredSecret:
        """Find a secret by its id or name."""
        return await self._find(caller.owner, which)

    @verb("read")
    async def list(self, caller: Caller) -> Sequence[StoredSecret]:
        """The caller's secrets, oldest first."""
        return await self._store.secrets(caller.owner)

    async def filled(self, owner: str, network: Network, *, drops_missing: bool = False) -> Network:
        """A policy with the values of the stored secrets that it names.

        A secret that does not exist is refused, or with `drops_missing` left out, with the headers that use it.
        """
        if not any(each.stored for each in network.secrets.values()):
            return network
        known = {record.name: record for record in await self._store.secrets(owner)}
        found: dict[str, Secret] = {}
        for name, secret in network.secrets.items():
            record = known.get(secret.stored.lower())
            if not secret.stored:
                found[name] = secret
            elif record is not None:
                found[name] = Secret(self._value(record), secret.hosts, secret.variable, secret.stored)
            elif not drops_missing:
                raise InvalidRun(f"There is no secret {secret.stored}.", hint="Store it first, or correct its name.")
        headers = {
            host: {name: text for name, text in texts.items() if named_secrets([text]) <= found.keys()}
            for host, texts in network.headers.items()
        }
        return network.replace(secrets=found, headers=headers)

    async def _find(self, owner: str, which: str) -> StoredSecret:
        records = await self._store.secrets(owner)
        for record in records:
            if which == record.id or which.lower() == record.name:
                return record
        raise Gone(f"Secret {which} not found." if is_stored_name(which) else "Secret not found.")

    async def _changed(self, caller: Caller, action: str, record: StoredSecret) -> None:
        details = {"name": record.name, "version": record.version}
        self._audit.note(caller, f"secret.{action}", record.id, details)
        for tell in self.when_changed:
            await tell(record.owner, record.name)

    def _encrypted(self, value: str, owner: str, identity: str) -> str:
        return self._encryption.encrypt(value, _place(owner, identity))

    def _value(self, record: StoredSecret) -> str:
        try:
            return self._encryption.decrypt(record.encrypted, _place(record.owner, record.id))
        except Unreadable:
            raise SandboxFailed(
                f"The value of the secret {record.name} cannot be read: the server has another key than the one that "
                "encrypted it.",
                hint="Store the value again, or let the operator put the old key file back.",
            ) from None


def _place(owner: str, identity: str) -> str:
    return f"{owner}\0{identity}"


def _checked_name(name: object) -> str:
    if not is_stored_name(name):
        raise InvalidRun(
            f"The name of a secret is a text of at most {MAX_STORED_NAME} printable characters without $, {{ and }}."
        )
    return str(name).lower()  # names are compared without regard to capitals


def _checked_metadata(given: Mapping[str, str]) -> dict[str, str]:
    sizes = [(len(key.encode()), len(value.encode())) for key, value in given.items()]
    fits = all(key <= _MAX_KEY and value <= _MAX_VALUE for key, value in sizes)
    if len(sizes) > _MAX_ENTRIES or not fits or sum(map(sum, sizes)) > _MAX_METADATA:
        raise InvalidRun(
            f"The metadata of a secret has at most {_MAX_ENTRIES} entries, with keys of {_MAX_KEY} and values of "
            f"{_MAX_VALUE} bytes, and {_MAX_METADATA} bytes in all."
        )
    return dict(given)
