"""Who may do what: API keys, kept as digests, found in microseconds, revoked at once."""

from __future__ import annotations

import hmac
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from secrets import token_urlsafe
from typing import Any, Protocol

from cloche.errors import Gone, InvalidRun, Misconfigured
from cloche.service import key_file
from cloche.service.meter import LIMITS, Meter
from cloche.store.records import KeyRecord

__all__ = ["ANYBODY", "SCOPES", "Caller", "KeyStore", "Keyring", "Meter"]

SCOPES = ("run", "read", "admin")
_IMPLIED = {"run": {"run", "admin"}, "read": {"read", "run", "admin"}, "admin": {"admin"}}
_OWNER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_LONGEST_NAME = 100
_WHOLE = ("runs_at_once", "sandboxes")
_E2B = "e2b_"  # how keys of that service begin, and a key of ours in hexadecimal digits that is to look like one


class KeyStore(Protocol):
    """Where keys outlive the server."""

    async def keys(self) -> Sequence[KeyRecord]:
        """Every key that was ever made."""

    async def put_key(self, record: KeyRecord) -> None:
        """Keep a key, in place of the one with the same id if there is one."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the key, whose it is, and what it may do."""

    key_id: str
    owner: str
    scopes: frozenset[str]
    limits: Mapping[str, float] = field(default_factory=dict, hash=False)

    def may(self, scope: str) -> bool:
        """Does the key allow this?  `admin` includes `run`, and `run` includes `read`."""
        return not self.scopes.isdisjoint(_IMPLIED[scope])


ANYBODY = Caller("no-auth", "admin", frozenset({"admin"}))
"""Who asks where no key is needed (`--no-auth`)."""


class Keyring:
    """All keys, in memory; the store has them as well."""

    def __init__(self, store: KeyStore, *, now: Callable[[], float] = time.time) -> None:
        self._store, self._now = store, now
        self._records: dict[str, KeyRecord] = {}
        self._callers: dict[str, tuple[str, Caller]] = {}  # by digest; of those that are not revoked
        self._meters: dict[str, Meter] = {}
        self.when_revoked: Callable[[str], None] | None = None  # told the id of each key that ends

    async def load(self) -> None:
        """Read the keys from the store; before anything else."""
        records = await self._store.keys()
        self._records, self._callers = {}, {}
        for record in records:
            self._know(record)

    def find(self, secret: str) -> Caller | None:
        """Whose key this is, if it is one that holds; also as E2B's clients write it."""
        digest = _digest(_plain(secret))
        known, caller = self._callers.get(digest, ("", None))
        return caller if hmac.compare_digest(known, digest) else None

    def holder(self, key_id: str) -> Caller | None:
        """Who a key of this id speaks for, as long as it holds."""
        record = self._records.get(key_id)
        return None if record is None or record.revoked is not None else _caller(record)

    def meter(self, caller: Caller) -> Meter:
        """What the caller's key has used."""
        found = self._meters.get(caller.key_id)
        if found is None:
            found = self._meters[caller.key_id] = Meter(caller.limits, now=self._now)
        return found

    def load_usage(self, key_id: str, cpu_s: float, byte_count: int) -> None:
        """Take over what a key had used today when the server was started; a key that is not known has none."""
        record = self._records.get(key_id)
        if record is not None:
            self.meter(_caller(record)).load_usage(cpu_s, byte_count)

    def list(self) -> tuple[KeyRecord, ...]:
        """Every key, oldest first, those that were revoked as well."""
        return tuple(sorted(self._records.values(), key=lambda record: (record.created, record.id)))

    async def create(
        self, owner: str, name: str, scopes: Iterable[str] = ("run",), limits: Mapping[str, Any] | None = None
    ) -> tuple[KeyRecord, str]:
        """A new key and its secret, which is shown here and never again."""
        secret = key_file.new_secret()
        return await self._add(secret, owner, name, scopes, limits), secret

    async def revoke(self, key_id: str) -> KeyRecord:
        """End a key: from now on it opens nothing, also when the store fails to write that down."""
        record = self._records.get(key_id)
        if record is None:
            raise Gone(f"There is no key {key_id}.", hint="GET /v1/keys lists those that there are.")
        self._callers.pop(record.digest, None)
        if record.revoked is None:
            record = replace(record, revoked=self._now())
            self._records[key_id] = record
            if self.when_revoked is not None:
                self.when_revoked(key_id)
            await self._store.put_key(record)
        return record

    async def ensure_admin(self, path: Path) -> str:
        """The admin's key in this file, made at the first start; a revoked one is replaced."""
        secret = key_file.read(path)
        known = self._record_of(secret) if secret is not None else None
        if secret is None or (known is not None and known.revoked is not None):
            fresh = key_file.new_secret()
            made = key_file.make(path, fresh, replace=secret is not None)
            return await self._ensure_known(fresh) if made else await self.ensure_admin(path)
        if known is not None and "admin" not in known.scopes:
            raise Misconfigured(
                f"The key in {path} is no admin's.", hint="Remove the file: the next start makes a new key."
            )
        return await self._ensure_known(secret)

    async def _ensure_known(self, secret: str) -> str:
        if self._record_of(secret) is None:
            await self._add(secret, "admin", "admin", ("admin",), None)
        return secret

    async def _add(
        self, secret: str, owner: str, name: str, scopes: Iterable[str], limits: Mapping[str, Any] | None
    ) -> KeyRecord:
        record = KeyRecord(
            id=f"key_{token_urlsafe(12)}",
            owner=_checked_owner(owner),
            name=_checked_name(name),
            digest=_digest(secret),
            scopes=_checked_scopes(scopes),
            limits=_checked_limits(limits or {}),
            created=self._now(),
        )
        await self._store.put_key(record)
        self._know(record)
        return record

    def _know(self, record: KeyRecord) -> None:
        self._records[record.id] = record
        if record.revoked is None:
            self._callers[record.digest] = (record.digest, _caller(record))

    def _record_of(self, secret: str) -> KeyRecord | None:
        digest = _digest(secret)
        return next((record for record in self._records.values() if record.digest == digest), None)


def _plain(secret: str) -> str:
    """A key of ours, also one that was written in the form of E2B's for clients that take no other."""
    if not secret.startswith(_E2B):
        return secret
    try:
        return bytes.fromhex(secret.removeprefix(_E2B)).decode()
    except ValueError:
        return secret


def _digest(secret: str) -> str:
    # A key has 256 random bits: a slow hash would protect it no better.
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _caller(record: KeyRecord) -> Caller:
    return Caller(record.id, record.owner, frozenset(record.scopes), dict(record.limits))


def _checked_owner(owner: object) -> str:
    if not isinstance(owner, str) or not _OWNER.fullmatch(owner):
        raise InvalidRun(
            f"owner={_short(owner)} cannot be the owner of a key.",
            hint="Write up to 64 letters, digits and . _ @ + -, a letter or digit first: 'ada' or 'ada@example.org'.",
        )
    return owner


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        raise InvalidRun(
            f"name={_short(name)} cannot be the name of a key.",
            hint=f"Write what the key is for in 1 to {_LONGEST_NAME} printable characters.",
        )
    return name


def _checked_scopes(scopes: object) -> tuple[str, ...]:
    hint = "A key has one or more of: run (run code; includes read), read (look at what there is), admin (everything)."
    if isinstance(scopes, str) or not isinstance(scopes, Iterable):
        raise InvalidRun(f"scopes={_short(scopes)} is not a list.", hint=hint)
    given = list(scopes)
    for scope in given:
        if scope not in SCOPES:
            raise InvalidRun(f"{_short(scope)} is not a scope.", hint=hint)
    if not given:
        raise InvalidRun("A key without scopes could do nothing.", hint=hint)
    return tuple(scope for scope in SCOPES if scope in given)


def _checked_limits(limits: object) -> dict[str, float]:
    if not isinstance(limits, Mapping):
        raise InvalidRun(f"limits={_short(limits)} are not limits by name.", hint=f"There are: {', '.join(LIMITS)}.")
    for name in limits:
        if name not in LIMITS:
            near = get_close_matches(str(name), LIMITS, 1)
            raise InvalidRun(
                f"{_short(name)} is not a limit of a key.",
                hint=f"Did you mean {near[0]}?" if near else f"There are: {', '.join(LIMITS)}.",
            )
    return {name: _checked_limit(name, value) for name, value in limits.items() if value is not None}


def _checked_limit(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise InvalidRun(
            f"The limit {name}={_short(value)} is not a number above 0.",
            hint="Leave it out for no limit; to forbid runs, leave out the scope.",
        )
    if name in _WHOLE and value != int(value):
        raise InvalidRun(f"The limit {name}={value!r} is not a whole number.", hint="Round it.")
    return value


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
