"""API keys: kept as digests, found in microseconds, revoked at once."""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from secrets import token_urlsafe
from typing import Any, Protocol

from cloche.errors import Gone, InvalidRun, Misconfigured
from cloche.model.records import KeyRecord
from cloche.policy import key_file
from cloche.policy.caller import SCOPES, Caller
from cloche.policy.key_policy import checked_policy, shortened
from cloche.policy.meter import Meter

_OWNER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_LONGEST_NAME = 100
_E2B = "e2b_"  # the prefix of E2B's keys; after it, our key in hexadecimal digits


class KeyStore(Protocol):
    """Keeps keys across restarts of the server."""

    async def keys(self) -> Sequence[KeyRecord]:
        """Return every key that was ever made."""

    async def put_key(self, record: KeyRecord) -> None:
        """Insert a key, or replace the one with the same id."""

    async def record_uses(self, uses: Mapping[str, float]) -> None:
        """Set when these keys were used last, and nothing else: a key may be revoked at the same moment."""


class Keyring:
    """Holds all keys in memory; the store has them as well."""

    def __init__(self, store: KeyStore, *, now: Callable[[], float] = time.time) -> None:
        self._store, self._now = store, now
        self._records: dict[str, KeyRecord] = {}
        self._callers: dict[str, tuple[str, Caller]] = {}  # valid keys, by digest
        self._holders: dict[str, Caller] = {}  # valid keys, by id
        self._meters: dict[str, Meter] = {}
        self.when_revoked: Callable[[str], None] | None = None  # called with the id of each revoked key

    async def load(self) -> None:
        records = await self._store.keys()
        self._records, self._callers, self._holders = {}, {}, {}
        for record in records:
            self._know(record)

    def find(self, secret: str) -> Caller | None:
        """Return the caller that this secret belongs to.  E2B's form of a key works as well."""
        digest = _digest(_plain(secret))
        known, caller = self._callers.get(digest, ("", None))
        return caller if hmac.compare_digest(known, digest) else None

    def holder(self, key_id: str) -> Caller | None:
        """Return the caller of the key with this id, unless the key was revoked."""
        return self._holders.get(key_id)

    def count(self) -> int:
        """Return the number of valid keys."""
        return len(self._holders)

    def meter(self, caller: Caller) -> Meter:
        found = self._meters.get(caller.key_id)
        if found is None:
            found = self._meters[caller.key_id] = Meter(caller.policy.limits, now=self._now)
        return found

    def load_usage(self, key_id: str, cpu_s: float, byte_count: int) -> None:
        """Count what a key used today before this server started."""
        caller = self._holders.get(key_id)
        if caller is not None:
            self.meter(caller).load_usage(cpu_s, byte_count)

    def list(self) -> tuple[KeyRecord, ...]:
        """Return every key, oldest first, revoked ones included."""
        return tuple(sorted(map(self._used, self._records.values()), key=lambda record: (record.created, record.id)))

    def record(self, key_id: str) -> KeyRecord | None:
        """Return the key with this id; None for the caller of a server that requires no keys."""
        found = self._records.get(key_id)
        return found and self._used(found)

    async def record_uses(self) -> None:
        """Store when each key was used last.  Call it now and then: to write at each request would take too long."""
        uses = {
            key_id: used.used
            for key_id, known in self._records.items()
            if (used := self._used(known)) is not known and used.used is not None
        }
        if uses:
            await self._store.record_uses(uses)
            for key_id, moment in uses.items():
                self._records[key_id] = replace(self._records[key_id], used=moment)

    def _used(self, record: KeyRecord) -> KeyRecord:
        meter = self._meters.get(record.id)
        return record if meter is None or meter.used_at in (None, record.used) else replace(record, used=meter.used_at)

    async def create(
        self, owner: str, name: str, scopes: Iterable[str] = ("run",), policy: Mapping[str, Any] | None = None
    ) -> tuple[KeyRecord, str]:
        """Make a key.  Its secret is returned here and nowhere else."""
        secret = key_file.new_secret()
        return await self._add(secret, owner, name, scopes, policy), secret

    async def revoke(self, key_id: str) -> KeyRecord:
        """End a key at once, even if the store then fails to record it."""
        record = self._records.get(key_id)
        if record is None:
            raise Gone(f"There is no key {key_id}.", hint="GET /v1/keys lists all keys.")
        self._callers.pop(record.digest, None)
        self._holders.pop(key_id, None)
        if record.revoked is None:
            record = replace(record, revoked=self._now())
            self._records[key_id] = record
            if self.when_revoked is not None:
                self.when_revoked(key_id)
            await self._store.put_key(record)
        return record

    async def ensure_admin(self, path: Path) -> str:
        """Return the admin key in this file.  The first start makes it; a revoked key is replaced."""
        secret = key_file.read(path)
        known = self._record_of(secret) if secret is not None else None
        if secret is None or (known is not None and known.revoked is not None):
            fresh = key_file.new_secret()
            made = key_file.make(path, fresh, replace=secret is not None)
            return await self._ensure_known(fresh) if made else await self.ensure_admin(path)
        if known is not None and "admin" not in known.scopes:
            raise Misconfigured(
                f"The key in {path} is not an admin key.", hint="Delete the file; the next start makes a new key."
            )
        return await self._ensure_known(secret)

    async def _ensure_known(self, secret: str) -> str:
        if self._record_of(secret) is None:
            await self._add(secret, "admin", "admin", ("admin",), None)
        return secret

    async def _add(
        self, secret: str, owner: str, name: str, scopes: Iterable[str], policy: Mapping[str, Any] | None
    ) -> KeyRecord:
        record = KeyRecord(
            id=f"key_{token_urlsafe(12)}",
            owner=_checked_owner(owner),
            name=_checked_name(name),
            digest=_digest(secret),
            scopes=_checked_scopes(scopes),
            policy=checked_policy(policy or {}).as_dict(),
            created=self._now(),
        )
        await self._store.put_key(record)
        self._know(record)
        return record

    def _know(self, record: KeyRecord) -> None:
        self._records[record.id] = record
        if record.revoked is None:
            caller = Caller(record.id, record.owner, frozenset(record.scopes), checked_policy(record.policy))
            self._callers[record.digest] = (record.digest, caller)
            self._holders[record.id] = caller

    def _record_of(self, secret: str) -> KeyRecord | None:
        digest = _digest(secret)
        return next((record for record in self._records.values() if record.digest == digest), None)


def _plain(secret: str) -> str:
    """A key of ours that was written in E2B's form, for clients that accept no other."""
    if not secret.startswith(_E2B):
        return secret
    try:
        return bytes.fromhex(secret.removeprefix(_E2B)).decode()
    except ValueError:
        return secret


def _digest(secret: str) -> str:
    # A key has 256 random bits: a slow hash would protect it no better.
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _checked_owner(owner: object) -> str:
    if not isinstance(owner, str) or not _OWNER.fullmatch(owner):
        raise InvalidRun(
            f"owner={shortened(owner)} cannot be the owner of a key.",
            hint="Use up to 64 letters, digits and . _ @ + -, a letter or digit first: 'ada' or 'ada@example.org'.",
        )
    return owner


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        raise InvalidRun(
            f"name={shortened(name)} cannot be the name of a key.",
            hint=f"Say what the key is for, in 1 to {_LONGEST_NAME} printable characters.",
        )
    return name


def _checked_scopes(scopes: object) -> tuple[str, ...]:
    hint = "A key has one or more of: run (run code; includes read), read (list and look), admin (everything)."
    if isinstance(scopes, str) or not isinstance(scopes, Iterable):
        raise InvalidRun(f"scopes={shortened(scopes)} is not a list.", hint=hint)
    given = list(scopes)
    for scope in given:
        if scope not in SCOPES:
            raise InvalidRun(f"{shortened(scope)} is not a scope.", hint=hint)
    if not given:
        raise InvalidRun("A key without scopes could do nothing.", hint=hint)
    return tuple(scope for scope in SCOPES if scope in given)
