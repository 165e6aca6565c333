"""Turns facts into rows.  Each statement can be repeated, in any order, without changing an outcome."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

from sqlalchemy import Insert, Table, Text, and_, or_, type_coerce
from sqlalchemy.dialects import postgresql, sqlite

from cloche.model.records import (
    AuditRecord,
    BrowserSession,
    ChargeRecord,
    KeyRecord,
    RunRecord,
    SandboxRecord,
    StoredSecret,
)
from cloche.store import tables

HOUR_S = 3600
RUNNING = "running"
ALIVE = "alive"


class Upserts:
    """The statements in the dialect of one database."""

    def __init__(self, is_sqlite: bool) -> None:
        self.insert: Callable[[Table], Any] = sqlite.insert if is_sqlite else postgresql.insert
        self.key = self._put(tables.keys)
        self.browser_session = self._put(tables.browser_sessions)
        self.secret = self._put(tables.secrets)
        self.new_secret: Insert = self.insert(tables.secrets).on_conflict_do_nothing(index_elements=["owner", "name"])
        self.run_started = self._run_started()
        # Only the first outcome counts.
        self.run_ended = self._put(tables.runs, where=lambda _: tables.runs.c.state == RUNNING)
        # A fact that arrives late does not bring an ended sandbox back to life.
        self.sandbox = self._put(
            tables.sandboxes, where=lambda new: or_(tables.sandboxes.c.state == ALIVE, new.state != ALIVE)
        )
        self.label: Insert = self.insert(tables.labels).on_conflict_do_nothing(index_elements=["sandbox", "label"])
        # The amount of an hour only grows.
        self.charge = self._put(tables.charges, where=lambda new: new.cpu_time > tables.charges.c.cpu_time)
        # The entry of a run gets its outcome when the run ends.  No other entry changes.
        of_running = type_coerce(tables.audit.c.details, Text).contains(f'"outcome":"{RUNNING}"')
        self.audit = self._put(tables.audit, where=lambda new: and_(new.action == "run", of_running))

    def _run_started(self) -> Insert:
        """Of a run that is under way already, only the CPU time changes."""
        statement, runs = self.insert(tables.runs), tables.runs
        new = statement.excluded
        grows = and_(runs.c.state == RUNNING, new.cpu_time > runs.c.cpu_time)
        started: Insert = statement.on_conflict_do_update(
            index_elements=["id"], set_={"cpu_time": new.cpu_time}, where=grows
        )
        return started

    def _put(self, table: Table, where: Callable[[Any], Any] | None = None) -> Insert:
        statement = self.insert(table)
        new = statement.excluded
        changes = {column.name: new[column.name] for column in table.c if column.name != "id"}
        put: Insert = statement.on_conflict_do_update(
            index_elements=["id"], set_=changes, where=where(new) if where else None
        )
        return put


def settled(runs: Iterable[RunRecord]) -> tuple[dict[str, RunRecord], dict[str, RunRecord]]:
    """Return runs that have only begun, by their latest fact, and runs with an outcome, by their first."""
    begun: dict[str, RunRecord] = {}
    ended: dict[str, RunRecord] = {}
    for run in runs:
        if run.state != RUNNING:
            ended.setdefault(run.id, run)
        elif run.id not in begun or run.cpu_time > begun[run.id].cpu_time:
            begun[run.id] = run
    return {name: run for name, run in begun.items() if name not in ended}, ended


def run_rows(runs: dict[str, RunRecord]) -> list[dict[str, Any]]:
    """Return the rows, sorted by id, so that two transactions that lock the same rows cannot deadlock."""
    return [{**row(runs[name]), "hour": int(runs[name].started // HOUR_S)} for name in sorted(runs)]


def row(
    record: KeyRecord | BrowserSession | StoredSecret | SandboxRecord | RunRecord | ChargeRecord | AuditRecord,
) -> dict[str, Any]:
    """Return a record as a row."""
    return {name: getattr(record, name) for name in NAMES[type(record)]}


def label(key: str, value: str) -> str:
    """Return the digest by which an entry of a sandbox's metadata is found."""
    return hashlib.sha256(f"{len(key)}:{key}{value}".encode("utf-8", "surrogatepass")).hexdigest()


NAMES: dict[type, tuple[str, ...]] = {
    kind: tuple(field.name for field in fields(kind))
    for kind in (KeyRecord, BrowserSession, StoredSecret, SandboxRecord, RunRecord, ChargeRecord, AuditRecord)
}
