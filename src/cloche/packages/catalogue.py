"""The local catalogue of malicious packages and of known weaknesses: one file, made from entries in OSV's format.

An operator brings the entries (`update`); nothing here uses the network.  A few facts that are widely known come with
Cloche (`known.jsonl`), so that a server without a catalogue still refuses the best-known traps.  The catalogue is an
SQLite file because a list of a quarter of a million packages is too long to read for each request.
"""

from __future__ import annotations

import json
import os
import sqlite3
from functools import cache
from pathlib import Path
from threading import Lock as ThreadLock

from cloche.errors import Misconfigured
from cloche.model.plain import Plain
from cloche.packages.advisory import Advisory, advisories_of
from cloche.packages.osv_files import entries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from cloche.model.packages import Lock, LockedPackage

FILE = "catalogue.sqlite"
_KNOWN = Path(__file__).with_name("known.jsonl")
_DAY = 86_400
_BATCH = 1000
_FORMAT = 1
_TABLES = """
    CREATE TABLE advisory (
        ecosystem TEXT, name TEXT, id TEXT, summary TEXT, versions TEXT, ranges TEXT,
        PRIMARY KEY (ecosystem, name, id)
    ) WITHOUT ROWID;
    CREATE TABLE about (made REAL, malicious INTEGER, others INTEGER);
"""


class CatalogueState(Plain):
    """What a catalogue has, and since when."""

    malicious: int  # packages
    others: int  # packages with a known weakness
    made: float | None = None  # seconds since 1970; None if only what comes with Cloche is there

    def age_days(self, now: float) -> float | None:
        """How old it is."""
        return None if self.made is None else max(0.0, now - self.made) / _DAY


class Finding(Plain):
    """One package of a lock that a catalogue knows something about."""

    package: LockedPackage
    advisory: Advisory


class Catalogue:
    """Answers questions from the catalogue in a data folder, and from what comes with Cloche."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._path = None if folder is None else Path(folder, FILE)
        self._lock = ThreadLock()
        self._opened: tuple[tuple[int, int], sqlite3.Connection] | None = None

    def close(self) -> None:
        """Close the file; the next question opens it again."""
        with self._lock:
            self._close()

    def advisories(self, ecosystem: str, name: str, version: str) -> tuple[Advisory, ...]:
        """Everything that is known about a version of a package."""
        return tuple(each for each in self._of(ecosystem, name) if each.is_about(version))

    def malicious(self, ecosystem: str, name: str, version: str | None) -> Advisory | None:
        """The entry that calls a version of a package malicious, or all versions if none is given."""
        found = self._of(ecosystem, name)
        about = (each for each in found if (each.is_about_all if version is None else each.is_about(version)))
        return next((each for each in about if each.is_malicious), None)

    def state(self) -> CatalogueState:
        """What the catalogue has, and since when."""
        ours = sum(map(len, _known().values()))
        with self._lock:
            connection = self._connection()
            if connection is None:
                return CatalogueState(ours, 0)
            made, malicious, others = self._asked(connection, "SELECT made, malicious, others FROM about")[0]
        return CatalogueState(ours + malicious, others, made)

    def _of(self, ecosystem: str, name: str) -> list[Advisory]:
        return [*_known().get((ecosystem, name), ()), *self._stored(ecosystem, name)]

    def _stored(self, ecosystem: str, name: str) -> list[Advisory]:
        question = "SELECT id, summary, versions, ranges FROM advisory WHERE ecosystem = ? AND name = ?"
        with self._lock:
            connection = self._connection()
            rows = [] if connection is None else self._asked(connection, question, ecosystem, name)
        return [
            Advisory(ecosystem, name, each[0], each[1], tuple(json.loads(each[2])), _ranges(json.loads(each[3])))
            for each in rows
        ]

    def _asked(self, connection: sqlite3.Connection, question: str, *values: str) -> list[tuple[Any, ...]]:
        try:
            return connection.execute(question, values).fetchall()
        except sqlite3.Error as problem:
            raise self._broken(problem) from problem

    def _connection(self) -> sqlite3.Connection | None:
        """The open file, which is opened again when another has taken its place."""
        if self._path is None:
            return None
        try:
            state = self._path.stat()
        except FileNotFoundError:
            self._close()
            return None
        identity = (state.st_ino, state.st_mtime_ns)
        if self._opened is not None and self._opened[0] == identity:
            return self._opened[1]
        self._close()
        try:
            connection = sqlite3.connect(f"{self._path.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)
            version = connection.execute("PRAGMA user_version").fetchone()[0]
        except sqlite3.Error as problem:
            raise self._broken(problem) from problem
        if version != _FORMAT:
            connection.close()
            raise self._broken(f"it has the format {version}")
        self._opened = (identity, connection)
        return connection

    def _broken(self, problem: object) -> Misconfigured:
        # Without its catalogue nothing can be called harmless, so nothing is installed.
        return Misconfigured(
            f"The catalogue of malicious packages cannot be read: {problem}.",
            hint="Make it again with `cloche env catalogue update FILE`, or remove it.",
        )

    def _close(self) -> None:
        if self._opened is not None:
            self._opened[1].close()
            self._opened = None


def update(source: str | os.PathLike[str], folder: str | os.PathLike[str], now: float) -> CatalogueState:
    """Make the catalogue in a data folder from a file or a folder of entries: as a whole, or not at all."""
    target = Path(folder, FILE)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{FILE}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    try:
        state = _write(temporary, Path(source), now)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return state


def audit(lock: Lock, catalogue: Catalogue) -> tuple[Finding, ...]:
    """Everything that the catalogue knows about the packages of a lock, the malicious ones first."""
    found = [
        Finding(package, advisory)
        for package in lock.packages
        for advisory in catalogue.advisories(package.ecosystem, package.name, package.version)
    ]
    return tuple(sorted(found, key=lambda each: (not each.advisory.is_malicious, each.package.name, each.advisory.id)))


def _write(path: Path, source: Path, now: float) -> CatalogueState:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        # A half-written file is removed, so nothing has to survive a crash.
        connection.executescript(f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; {_TABLES} BEGIN")
        rows: list[tuple[str, ...]] = []
        for row in _rows(source):
            rows.append(row)
            if len(rows) >= _BATCH:
                _insert(connection, rows)
        _insert(connection, rows)
        counted = "SELECT count(*) FROM advisory WHERE id {} 'MAL-%'"
        malicious, others = (connection.execute(counted.format(how)).fetchone()[0] for how in ("LIKE", "NOT LIKE"))
        connection.execute("INSERT INTO about VALUES (?, ?, ?)", (now, malicious, others))
        connection.execute(f"PRAGMA user_version = {_FORMAT}")
        connection.execute("COMMIT")
    finally:
        connection.close()
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return CatalogueState(malicious, others, now)


def _rows(source: Path) -> Iterator[tuple[str, ...]]:
    for where, entry in entries(source):
        for each in advisories_of(entry, where):
            yield each.ecosystem, each.name, each.id, each.summary, json.dumps(each.versions), json.dumps(each.ranges)


def _insert(connection: sqlite3.Connection, rows: list[tuple[str, ...]]) -> None:
    connection.executemany("INSERT OR REPLACE INTO advisory VALUES (?, ?, ?, ?, ?, ?)", rows)
    rows.clear()


def _ranges(found: list[list[list[str]]]) -> tuple[tuple[tuple[str, str], ...], ...]:
    return tuple(tuple((kind, text) for kind, text in events) for events in found)


@cache
def _known() -> dict[tuple[str, str], list[Advisory]]:
    """What comes with Cloche, by ecosystem and name."""
    found: dict[tuple[str, str], list[Advisory]] = {}
    for where, entry in entries(_KNOWN):
        for each in advisories_of(entry, where):
            found.setdefault((each.ecosystem, each.name), []).append(each)
    return found
