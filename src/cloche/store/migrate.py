"""Migrates a database to the tables of this version, with Alembic."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from cloche.errors import ClocheError, Misconfigured
from cloche.store.database import Database

_LOCK = 0x636C6F636865  # "cloche"; makes two servers that start at once migrate one after the other


async def migrate(database: Database) -> None:
    """Upgrade to the newest tables, all or nothing; refuse a database that a newer Cloche created."""
    try:
        async with database.writing() as connection:
            if not database.is_sqlite:
                await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            await connection.run_sync(_upgrade)
    except Misconfigured:
        raise
    except ClocheError as problem:
        raise Misconfigured(
            f"Cannot open {database.name}: {database.reason(problem.__cause__ or problem)}.",
            hint="Check that the database exists, that address, user and password are right, and that the user may "
            "write to it.",
        ) from problem


def config() -> Config:
    """Return Alembic's configuration, which usually lives in an alembic.ini."""
    settings = Config()
    settings.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return settings


def _upgrade(connection: Connection) -> None:
    settings = config()
    known = {script.revision for script in ScriptDirectory.from_config(settings).walk_revisions()}
    current = MigrationContext.configure(connection).get_current_heads()
    if not known.issuperset(current):
        raise Misconfigured(
            "The database was created by a newer version of Cloche.",
            hint="Run that version, or use another database.",
        )
    settings.attributes["connection"] = connection
    command.upgrade(settings, "head")
