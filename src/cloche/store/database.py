"""Connects to SQLite or PostgreSQL, and translates their failures into our errors."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy import URL, Connection, event, make_url
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from cloche.errors import ClocheError, Misconfigured, Unavailable
from cloche.json_text import json_to_keep

_CONNECT_S = 10.0
_STATEMENT_S = 60.0  # longer than any statement of ours takes, so it only catches a server that vanished silently
REQUEST_S = 10.0  # how long a request waits for a database that has stopped answering
_BUSY_S = 10.0  # how long SQLite waits for another writer
_FORMS = "Use sqlite:///path/to/file, or postgresql://user:password@host/database."
_DRIVERS = {
    "sqlite": "sqlite+aiosqlite",
    "sqlite+aiosqlite": "sqlite+aiosqlite",
    "postgres": "postgresql+asyncpg",
    "postgresql": "postgresql+asyncpg",
    "postgresql+asyncpg": "postgresql+asyncpg",
}
_FAILURES = (
    SQLAlchemyError,
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    sqlite3.Error,
)
_UNFIT = (ValueError, TypeError, OverflowError, asyncpg.DataError, asyncpg.IntegrityConstraintViolationError)


class DatabaseAway(Unavailable):
    """The database does not answer at the moment."""


class Unstorable(ClocheError):
    """The database answers, but rejects the data."""

    code = "unstorable"


class Database:
    """One database; `reading` and `writing` hand out connections and turn driver exceptions into our errors."""

    def __init__(self, url: str) -> None:
        self.url = _parsed(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.engine = _sqlite(self.url) if self.is_sqlite else _postgresql(self.url)
        self._reader = self.engine.execution_options(reading=True)

    @property
    def name(self) -> str:
        """The name to use in messages; it contains no secrets."""
        if self.is_sqlite:
            return f"the SQLite database {self.url.database}"
        place = self.url.host or self.url.query.get("host") or "localhost"
        return f"the PostgreSQL database {self.url.database or ''} at {place}"

    @asynccontextmanager
    async def reading(self, within_s: float = REQUEST_S) -> AsyncIterator[AsyncConnection]:
        """Open a connection for queries, which have to be answered in time."""
        try:
            async with asyncio.timeout(within_s), self._reader.connect() as connection:
                yield connection
        except _FAILURES as problem:
            raise self._translated(problem) from problem

    @asynccontextmanager
    async def writing(self, within_s: float | None = None) -> AsyncIterator[AsyncConnection]:
        """Open a transaction, which is committed at the end of the block and rolled back by an exception."""
        try:
            async with asyncio.timeout(within_s), self.engine.begin() as connection:
                yield connection
        except (*_FAILURES, *_UNFIT) as problem:
            raise self._translated(problem) from problem

    async def close(self) -> None:
        await self.engine.dispose()

    def _translated(self, problem: BaseException) -> ClocheError:
        if _is_unfit(problem):
            found: ClocheError = Unstorable("The database rejected the data.")
        else:
            hint = "The server keeps trying. Wait a moment, then try again."
            found = DatabaseAway("The database does not answer.", hint)
        found.details = f"{self.name}: {self.reason(problem)}."
        return found

    def reason(self, problem: BaseException) -> str:
        """Return the message of an exception, on one line and without our password."""
        if isinstance(problem, DBAPIError) and problem.orig is not None:
            problem = problem.orig
        text = " ".join(str(problem).split()).rstrip(".") or type(problem).__name__
        for secret in (self.url.password, self.url.query.get("password")):
            if secret:
                text = text.replace(str(secret), "***")
        return text[:500]


def _is_unfit(problem: BaseException | None) -> bool:
    """Say whether the data is at fault, rather than the database."""
    while problem is not None:
        if isinstance(problem, (IntegrityError, *_UNFIT)):
            return not isinstance(problem, OSError)  # an untrusted certificate is an OSError and a ValueError
        # Classes 22 and 23 of SQLSTATE: data exceptions and violated constraints.
        if str(getattr(problem, "sqlstate", None) or "")[:2] in ("22", "23"):
            return True
        problem = problem.orig if isinstance(problem, DBAPIError) else problem.__cause__
    return False


def _parsed(text: str) -> URL:
    try:
        url = make_url(text)
    except Exception:  # its message may hold a part of the password
        raise Misconfigured("The database URL is not valid.", hint=_FORMS) from None
    driver = _DRIVERS.get(url.drivername)
    if driver is None:
        raise Misconfigured(f"Databases of the kind {url.drivername!r:.50} are not supported.", hint=_FORMS)
    url = url.set(drivername=driver)
    if driver == "sqlite+aiosqlite":
        if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
            raise Misconfigured("SQLite needs a file to keep its data in.", hint=_FORMS)
        return url
    mode = url.query.get("sslmode")  # libpq's name for it; asyncpg's is `ssl`
    if mode is not None:
        url = url.difference_update_query(["sslmode"]).update_query_dict({"ssl": str(mode)})
    return url


def _sqlite(url: URL) -> AsyncEngine:
    assert url.database is not None
    _make_private(Path(url.database))
    engine = create_async_engine(
        url, hide_parameters=True, json_serializer=json_to_keep, connect_args={"timeout": _BUSY_S}
    )

    @event.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, record: Any) -> None:  # noqa: ARG001
        connection.isolation_level = None  # transactions begin where `begin` says, not where the driver guesses
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = FULL")  # in WAL the default could lose the last commits to a power cut
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begin(connection: Connection) -> None:
        # Writers queue here.  A transaction that begins with a read would be refused at its first write, whatever
        # the time-out.
        if not connection.get_execution_options().get("reading"):
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _make_private(path: Path) -> None:
    """Make the file readable by its owner alone; SQLite gives its other files the same mode."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as problem:
        raise Misconfigured(
            f"The SQLite database {path} cannot be opened: {problem.strerror}.",
            hint="Check that its folder exists, or can be created, and that this user may write there.",
        ) from problem


def _postgresql(url: URL) -> AsyncEngine:
    try:
        return create_async_engine(
            url,
            hide_parameters=True,
            json_serializer=json_to_keep,
            pool_pre_ping=True,  # so that the first query after an outage does not get a dead connection
            pool_timeout=_CONNECT_S,
            connect_args={"timeout": _CONNECT_S, "command_timeout": _STATEMENT_S},
        )
    except SQLAlchemyError:
        raise Misconfigured("The database URL is not valid.", hint=_FORMS) from None
