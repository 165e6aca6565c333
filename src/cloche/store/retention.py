"""Removes the oldest rows, a few at a time, so that no writer waits long."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Table, and_, delete, func, not_, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from cloche.store import tables
from cloche.store.database import Database
from cloche.store.upserts import ALIVE, HOUR_S, RUNNING, Upserts

_AT_ONCE = 500
_USAGE_S = 400 * 24 * HOUR_S  # how long usage is kept after its runs are removed


async def trim(database: Database, upserts: Upserts, max_runs: int, max_audit: int, before: float) -> None:
    """Remove rows older than `before` or beyond the numbers, except running runs and live or persistent sandboxes."""
    runs, sandboxes, audit, past = tables.runs, tables.sandboxes, tables.audit, tables.past_usage
    ended = runs.c.state != RUNNING
    gone = and_(sandboxes.c.state != ALIVE, or_(not_(sandboxes.c.persistent), sandboxes.c.workspace.is_(None)))
    for table, time, may_go, most in (
        (runs, runs.c.started, ended, max_runs),
        (sandboxes, sandboxes.c.created, gone, max_runs),
        (audit, audit.c.time, audit.c.id.is_not(None), max_audit),
    ):
        old = await _old(database, table, time, most, before)
        while await _remove_some(database, upserts, table, time, and_(old, may_go)):
            pass
    async with database.writing() as connection:
        for table in (past, tables.charges):
            await connection.execute(delete(table).where(table.c.hour < int((before - _USAGE_S) // HOUR_S)))


async def _old(database: Database, table: Table, time: Any, most: int, before: float) -> ColumnElement[bool]:
    """Return the condition for rows older than `before` or than the newest `most`."""
    newest = select(time, table.c.id).order_by(time.desc(), table.c.id.desc())
    async with database.reading() as connection:
        first_past = (await connection.execute(newest.offset(max(0, most)).limit(1))).first()
    # A row that either bound removes is followed by older rows only, so the later bound is enough; an index finds it.
    if first_past is None or first_past[0] < before:
        older: ColumnElement[bool] = time < before
        return older
    return tuple_(time, table.c.id) <= tuple_(*first_past)


async def _remove_some(
    database: Database, upserts: Upserts, table: Table, time: Any, chosen: ColumnElement[bool]
) -> bool:
    """Remove a few of the chosen rows, and say whether there are more."""
    oldest = select(table.c.id).where(chosen).order_by(time, table.c.id).limit(_AT_ONCE)
    async with database.writing() as connection:
        names = (await connection.execute(oldest)).scalars().all()
        if table is tables.runs and names:
            await _remember_usage(connection, upserts, names)
        if table is tables.sandboxes:
            await connection.execute(delete(tables.labels).where(tables.labels.c.sandbox.in_(names)))
        await connection.execute(delete(table).where(table.c.id.in_(names)))
    return len(names) == _AT_ONCE


async def _remember_usage(connection: AsyncConnection, upserts: Upserts, names: Any) -> None:
    runs, past = tables.runs, tables.past_usage
    used = (
        select(
            runs.c.owner,
            runs.c.key,
            runs.c.hour,
            func.count(),
            func.sum(tables.own_cpu_time),
            func.sum(runs.c.bytes_moved),
        )
        .where(runs.c.id.in_(names))
        .group_by(runs.c.owner, runs.c.key, runs.c.hour)
    )
    statement = upserts.insert(past).from_select(["owner", "key", "hour", "runs", "cpu_time", "bytes_moved"], used)
    amounts = {name: past.c[name] + statement.excluded[name] for name in ("runs", "cpu_time", "bytes_moved")}
    await connection.execute(statement.on_conflict_do_update(index_elements=["owner", "key", "hour"], set_=amounts))
