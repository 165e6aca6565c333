"""The server's database: its queries and its updates."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import Column, Select, Table, bindparam, delete, func, literal, literal_column, null, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from cloche.model.records import (
    AuditRecord,
    BrowserSession,
    ChargeRecord,
    Fact,
    KeyRecord,
    RunRecord,
    SandboxRecord,
    StoredSecret,
    UsageTotal,
    audit_of,
)
from cloche.store import tables
from cloche.store.database import REQUEST_S, Database
from cloche.store.migrate import migrate
from cloche.store.pagination import cursor, page
from cloche.store.retention import trim
from cloche.store.upserts import ALIVE, HOUR_S, NAMES, RUNNING, Upserts, label, row, run_rows, settled

_DAY_S = 24 * HOUR_S
_PING_S = 3.0
Record = TypeVar("Record", SandboxRecord, RunRecord, AuditRecord)


class Store:
    """Runs, sandboxes, keys, usage and the audit log, on SQLite or PostgreSQL.

    Every method raises `DatabaseAway` while the database does not answer, and works again when it does.  Methods that
    take an owner see only that owner's records, as if no others existed.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._upserts = Upserts(database.is_sqlite)

    @classmethod
    async def open(cls, url: str) -> Store:
        """Open the database at this URL, and migrate its tables to this version."""
        database = Database(url)
        try:
            await migrate(database)
        except BaseException:
            await database.close()
            raise
        return cls(database)

    async def close(self) -> None:
        await self._database.close()

    # Keys

    async def keys(self) -> list[KeyRecord]:
        """Return all keys, including revoked ones, oldest first."""
        query = select(*_columns(tables.keys, KeyRecord)).order_by(tables.keys.c.created, tables.keys.c.id)
        return [
            KeyRecord(**{**found, "scopes": tuple(found["scopes"])}) for found in map(dict, await self._rows(query))
        ]

    async def put_key(self, record: KeyRecord) -> None:
        """Add or change a key."""
        async with self._database.writing(REQUEST_S) as connection:
            await connection.execute(self._upserts.key, row(record))

    async def record_uses(self, uses: Mapping[str, float]) -> None:
        """Set when these keys were used last."""
        changed = update(tables.keys).where(tables.keys.c.id == bindparam("of_key")).values(used=bindparam("at"))
        async with self._database.writing(REQUEST_S) as connection:
            await connection.execute(changed, [{"of_key": name, "at": moment} for name, moment in uses.items()])

    async def browser_sessions(self) -> list[BrowserSession]:
        """Return the sessions of browsers, oldest first."""
        table = tables.browser_sessions
        query = select(*_columns(table, BrowserSession)).order_by(table.c.until, table.c.id)
        return [BrowserSession(**found) for found in await self._rows(query)]

    async def change_browser_sessions(self, new: Sequence[BrowserSession], removed: Sequence[str]) -> None:
        """Add sessions of browsers, and remove those with these ids."""
        async with self._database.writing(REQUEST_S) as connection:
            if removed:
                ids = tables.browser_sessions.c.id
                await connection.execute(delete(tables.browser_sessions).where(ids.in_(removed)))
            if new:
                await connection.execute(self._upserts.browser_session, [row(one) for one in new])

    async def secrets(self, owner: str) -> list[StoredSecret]:
        """Return the owner's secrets, oldest first."""
        table = tables.secrets
        query = _of(owner, table, StoredSecret).order_by(table.c.created, table.c.id)
        return [StoredSecret(**found) for found in await self._rows(query)]

    async def add_secret(self, record: StoredSecret) -> bool:
        """Add a secret; return whether its name was free."""
        async with self._database.writing(REQUEST_S) as connection:
            return bool((await connection.execute(self._upserts.new_secret, row(record))).rowcount)

    async def change_secret(self, record: StoredSecret) -> None:
        """Replace a secret that exists."""
        async with self._database.writing(REQUEST_S) as connection:
            await connection.execute(self._upserts.secret, row(record))

    async def remove_secret(self, identity: str) -> None:
        """Remove a secret."""
        async with self._database.writing(REQUEST_S) as connection:
            await connection.execute(delete(tables.secrets).where(tables.secrets.c.id == identity))

    # Sandboxes

    async def put_sandbox(self, record: SandboxRecord) -> None:
        """Add or change a sandbox; a sandbox that has ended stays ended."""
        await self.write([record])

    async def sandbox(self, owner: str, name: str) -> SandboxRecord | None:
        query = _of(owner, tables.sandboxes, SandboxRecord).where(tables.sandboxes.c.id == name)
        return next((SandboxRecord(**found) for found in await self._rows(query)), None)

    async def sandboxes(
        self,
        owner: str,
        *,
        state: str | None = None,
        metadata: Mapping[str, str] | None = None,
        limit: int,
        after: str | None = None,
    ) -> tuple[list[SandboxRecord], str | None]:
        """Return a page of the owner's sandboxes whose metadata has all these entries, newest first, and its cursor."""
        table = tables.sandboxes
        query = _of(owner, table, SandboxRecord)
        if state is not None:
            query = query.where(table.c.state == state)
        for key, value in (metadata or {}).items():
            labels = tables.labels.c
            labelled = select(labels.sandbox).where(labels.owner == owner, labels.label == label(key, value))
            query = query.where(table.c.id.in_(labelled))
        return await self._page(SandboxRecord, query, table.c.created, table.c.id, limit, after)

    # Runs

    async def run(self, owner: str, name: str) -> RunRecord | None:
        """Return the owner's run, with its result."""
        query = _of(owner, tables.runs, RunRecord).where(tables.runs.c.id == name)
        return next((RunRecord(**found) for found in await self._rows(query)), None)

    async def runs(
        self,
        owner: str,
        *,
        sandbox: str | None = None,
        state: str | None = None,
        limit: int,
        after: str | None = None,
    ) -> tuple[list[RunRecord], str | None]:
        """Return a page of the owner's runs, newest first, and its cursor.  Results are left out: they can be large."""
        table = tables.runs
        query = select(*_columns(table, RunRecord, without="result")).where(table.c.owner == owner)
        if sandbox is not None:
            query = query.where(table.c.sandbox == sandbox)
        if state is not None:
            query = query.where(table.c.state == state)
        return await self._page(RunRecord, query, table.c.started, table.c.id, limit, after)

    async def usage(self, owner: str, since: float) -> UsageTotal:
        """Return what the owner's runs used that began since then, and the owner's sandboxes."""
        runs = await self._used(owner, since)
        return _total(runs.values())

    async def usage_by_day(self, owner: str, days: int) -> dict[str, UsageTotal]:
        """Return what the owner's runs and sandboxes used on each of the last days (UTC, "2026-01-31"), up to today."""
        today = int(time.time() // _DAY_S)
        first = today - days + 1
        hours = await self._used(owner, first * _DAY_S)
        by_day = {day: list[UsageTotal]() for day in range(first, today + 1)} | _days(hours)
        return {_date(day): _total(used) for day, used in sorted(by_day.items())}

    async def usage_by_key(self, since: float) -> dict[str, tuple[float, int]]:
        """Return the CPU time and the bytes of each key: of its runs that began since then, and of its sandboxes."""
        used: dict[str, tuple[float, int]] = {}
        for key, hours in (await self._used_by_key(since)).items():
            total = _total(hours.values())
            used[key] = total.cpu_time, total.bytes_moved
        return used

    async def usage_by_key_and_day(self, days: int) -> dict[str, dict[str, UsageTotal]]:
        """Return what each key used on each of the last days on which it used something."""
        since = (int(time.time() // _DAY_S) - days + 1) * _DAY_S
        return {
            key: {_date(day): _total(parts) for day, parts in sorted(_days(hours).items())}
            for key, hours in (await self._used_by_key(since)).items()
        }

    async def ping(self) -> None:
        """Raise if the database does not answer."""
        async with self._database.reading(_PING_S) as connection:
            await connection.execute(select(1))

    # The audit log

    async def audit(
        self, *, owner: str | None = None, limit: int, after: str | None = None
    ) -> tuple[list[AuditRecord], str | None]:
        """Return a page of the audit log of one owner, or of all, newest first, and its cursor."""
        query = select(*_columns(tables.audit, AuditRecord))
        if owner is not None:
            query = query.where(tables.audit.c.owner == owner)
        return await self._page(AuditRecord, query, tables.audit.c.time, tables.audit.c.id, limit, after)

    # Called by the journal, at the server's start, and by its upkeep

    async def write(self, facts: Iterable[Fact]) -> None:
        """Store all these facts, or none.  Facts may be repeated; an outcome that is stored does not change."""
        runs: list[RunRecord] = []
        sandboxes: dict[str, list[SandboxRecord]] = {}
        charges: dict[str, ChargeRecord] = {}
        audit: list[dict[str, Any]] = []
        for fact in facts:
            if isinstance(fact, RunRecord):
                runs.append(fact)
            elif isinstance(fact, SandboxRecord):
                sandboxes.setdefault(fact.id, []).append(fact)
            elif isinstance(fact, ChargeRecord):
                charges[fact.id] = max(fact, charges.get(fact.id, fact), key=lambda charge: charge.cpu_time)
            else:
                audit.append(row(fact))
        begun, ended = settled(runs)
        audit += [row(audit_of(fact)) for fact in (*begun.values(), *ended.values())]
        changes = [row(fact) for name in sorted(sandboxes) for fact in sandboxes[name]]
        async with self._database.writing() as connection:
            for statement, rows in (
                (self._upserts.run_started, run_rows(begun)),
                (self._upserts.run_ended, run_rows(ended)),
                (self._upserts.sandbox, changes),
                (self._upserts.charge, [row(charges[name]) for name in sorted(charges)]),
                (self._upserts.audit, sorted(audit, key=lambda row: str(row["id"]))),
            ):
                if rows:
                    await connection.execute(statement, rows)
            if sandboxes:
                await self._label(connection, sorted(sandboxes))

    async def unsettled(self) -> list[RunRecord]:
        """Return runs without an outcome.  Before `recover`, these are the runs of a server that crashed."""
        runs = tables.runs
        is_running = runs.c.state == literal_column(f"'{RUNNING}'")
        return [RunRecord(**each) for each in await self._rows(select(*_columns(runs, RunRecord)).where(is_running))]

    async def recover(self, now: float) -> list[SandboxRecord]:
        """Mark the runs and sandboxes of a crashed server as interrupted and lost.  Replay the journal first."""
        sandboxes, runs = tables.sandboxes, tables.runs
        # Literals, not parameters: the partial indexes have the same literals in their conditions.
        is_running = runs.c.state == literal_column(f"'{RUNNING}'")
        is_alive = sandboxes.c.state == literal_column(f"'{ALIVE}'")
        async with self._database.writing() as connection:
            ends = {"state": "interrupted", "error_kind": "lost", "ended": now}
            await connection.execute(update(runs).where(is_running).values(ends))
            alive = (await connection.execute(select(*_columns(sandboxes, SandboxRecord)).where(is_alive))).mappings()
            lost = {"state": "lost", "reason": "the server stopped", "ended": now}
            found = [SandboxRecord(**{**each, **lost}) for each in alive]
            await connection.execute(update(sandboxes).where(is_alive).values(lost))
        return sorted(found, key=lambda record: (record.created, record.id))

    async def trim(self, max_runs: int, max_audit: int, before: float) -> None:
        """Remove rows older than `before`, and the oldest beyond these numbers.  Usage stays counted."""
        await trim(self._database, self._upserts, max_runs, max_audit, before)

    async def _label(self, connection: AsyncConnection, names: list[str]) -> None:
        """Index the sandboxes by their current metadata."""
        table, labels = tables.sandboxes, tables.labels
        query = select(table.c.id, table.c.owner, table.c.metadata).where(table.c.id.in_(names))
        there = (await connection.execute(query)).all()
        await connection.execute(delete(labels).where(labels.c.sandbox.in_(names)))
        rows = [
            {"sandbox": name, "owner": owner, "label": label(key, value)}
            for name, owner, metadata in there
            for key, value in metadata.items()
        ]
        if rows:
            await connection.execute(self._upserts.label, rows)

    async def _used(self, owner: str, since: float) -> dict[int, UsageTotal]:
        """Return usage by hour since the epoch."""
        runs, past, charges = tables.runs, tables.past_usage, tables.charges
        kept = (
            select(runs.c.hour, func.count(), func.sum(tables.own_cpu_time), func.sum(runs.c.bytes_moved))
            .where(runs.c.owner == owner, runs.c.started >= since)
            .group_by(runs.c.hour)
        )
        removed = select(past.c.hour, past.c.runs, past.c.cpu_time, past.c.bytes_moved).where(
            past.c.owner == owner, past.c.hour >= int(since // HOUR_S)
        )
        of_sandboxes = select(charges.c.hour, literal(0), charges.c.cpu_time, literal(0)).where(
            charges.c.owner == owner, charges.c.hour >= int(since // HOUR_S)
        )
        hours: dict[int, list[UsageTotal]] = {}
        async with self._database.reading() as connection:
            for query in (kept, removed, of_sandboxes):
                for hour, count, cpu_time, moved in await connection.execute(query):
                    hours.setdefault(hour, []).append(UsageTotal(int(count), float(cpu_time), int(moved)))
        return {hour: _total(used) for hour, used in hours.items()}

    async def _used_by_key(self, since: float) -> dict[str, dict[int, UsageTotal]]:
        """Return the usage of every key by hour since the epoch."""
        runs, past, charges = tables.runs, tables.past_usage, tables.charges
        kept = (
            select(runs.c.key, runs.c.hour, func.count(), func.sum(tables.own_cpu_time), func.sum(runs.c.bytes_moved))
            .where(runs.c.started >= since)
            .group_by(runs.c.key, runs.c.hour)
        )
        removed = select(past.c.key, past.c.hour, past.c.runs, past.c.cpu_time, past.c.bytes_moved).where(
            past.c.hour >= int(since // HOUR_S)
        )
        of_sandboxes = select(charges.c.key, charges.c.hour, literal(0), charges.c.cpu_time, literal(0)).where(
            charges.c.hour >= int(since // HOUR_S)
        )
        used: dict[str, dict[int, UsageTotal]] = {}
        async with self._database.reading() as connection:
            for query in (kept, removed, of_sandboxes):
                for key, hour, count, cpu_time, moved in await connection.execute(query):
                    hours = used.setdefault(key, {})
                    part = UsageTotal(int(count), float(cpu_time), int(moved))
                    hours[hour] = _total((hours.get(hour, UsageTotal()), part))
        return used

    async def _rows(self, query: Select[Any]) -> list[dict[str, Any]]:
        async with self._database.reading() as connection:
            return [dict(found) for found in (await connection.execute(query)).mappings()]

    async def _page(
        self,
        kind: type[Record],
        query: Select[Any],
        when: Column[float],
        name: Column[str],
        limit: int,
        after: str | None,
    ) -> tuple[list[Record], str | None]:
        found = await self._rows(page(query, when, name, limit, after))
        records = [kind(**each) for each in found[:limit]]
        if len(found) <= limit:
            return records, None
        last = found[limit - 1]
        return records, cursor(last[when.name], last[name.name])


def _columns(table: Table, kind: type, without: str = "") -> list[Any]:
    return [null().label(name) if name == without else table.c[name] for name in NAMES[kind]]


def _of(owner: str, table: Table, kind: type) -> Select[Any]:
    return select(*_columns(table, kind)).where(table.c.owner == owner)


def _days(hours: Mapping[int, UsageTotal]) -> dict[int, list[UsageTotal]]:
    """Usage by day since the epoch."""
    days: dict[int, list[UsageTotal]] = {}
    for hour, used in hours.items():
        days.setdefault(hour * HOUR_S // _DAY_S, []).append(used)
    return days


def _date(day: int) -> str:
    return datetime.fromtimestamp(day * _DAY_S, UTC).date().isoformat()


def _total(parts: Iterable[UsageTotal]) -> UsageTotal:
    parts = list(parts)
    return UsageTotal(
        sum(part.runs for part in parts), sum(part.cpu_time for part in parts), sum(part.bytes_moved for part in parts)
    )
