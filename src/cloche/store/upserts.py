"""Turns facts into rows.  Each statement can be repeated, in any order, without changing an outcome."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

from sqlalchemy import Insert, Table, or_
from sqlalchemy.dialects import postgresql, sqlite

from cloche.model.records import AuditRecord, KeyRecord, RunRecord, SandboxRecord
from cloche.store import tables

HOUR_S = 3600
RUNNING = "running"
ALIVE = "alive"


class Upserts:
    """The statements in the dialect of one database."""

    def __init__(self, is_sqlite: bool) -> None:
        self.insert: Callable[[Table], Any] = sqlite.insert if is_sqlite else postgresql.insert
        self.key = self._put(tables.keys)
        self.run_started: Insert = self.insert(tables.runs).on_conflict_do_nothing(index_elements=["id"])
        # Only the first outcome counts.
        self.run_ended = self._put(tables.runs, where=lambda _: tables.runs.c.state == RUNNING)
        # A fact that arrives late does not bring an ended sandbox back to life.
        self.sandbox = self._put(
            tables.sandboxes, where=lambda new: or_(tables.sandboxes.c.state == ALIVE, new.state != ALIVE)
        )
        self.label: Insert = self.insert(tables.labels).on_conflict_do_nothing(index_elements=["sandbox", "label"])
        self.audit: Insert = self.insert(tables.audit).on_conflict_do_nothing(index_elements=["id"])

    def _put(self, table: Table, where: Callable[[Any], Any] | None = None) -> Insert:
        statement = self.insert(table)
        new = statement.excluded
        changes = {column.name: new[column.name] for column in table.c if column.name != "id"}
        put: Insert = statement.on_conflict_do_update(
            index_elements=["id"], set_=changes, where=where(new) if where else None
        )
        return put


def settled(runs: Iterable[RunRecord]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of runs that have only begun, and of runs with an outcome; the first fact of each run counts."""
    begun: dict[str, RunRecord] = {}
    ended: dict[str, RunRecord] = {}
    for run in runs:
        (begun if run.state == RUNNING else ended).setdefault(run.id, run)
    # Sorted by id, so that two transactions that lock the same rows cannot deadlock.
    return (
        [_run_row(begun[name]) for name in sorted(begun.keys() - ended.keys())],
        [_run_row(ended[name]) for name in sorted(ended)],
    )


def row(record: KeyRecord | SandboxRecord | RunRecord | AuditRecord) -> dict[str, Any]:
    """Return a record as a row."""
    return {name: getattr(record, name) for name in NAMES[type(record)]}


def label(key: str, value: str) -> str:
    """Return the digest by which an entry of a sandbox's metadata is found."""
    return hashlib.sha256(f"{len(key)}:{key}{value}".encode("utf-8", "surrogatepass")).hexdigest()


def _run_row(run: RunRecord) -> dict[str, Any]:
    return {**row(run), "hour": int(run.started // HOUR_S)}


NAMES: dict[type, tuple[str, ...]] = {
    kind: tuple(field.name for field in fields(kind)) for kind in (KeyRecord, SandboxRecord, RunRecord, AuditRecord)
}
