"""Opening a database: migrations, and the messages when it cannot be opened."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, text
from tests.store.facts import run
from tests.store.postgresql import PASSWORD, PostgreSQL

from cloche.errors import Misconfigured
from cloche.store.database import Database
from cloche.store.store import Store
from cloche.store.tables import metadata


async def test_migrations_and_tables_agree(url: str) -> None:
    await (await Store.open(url)).close()
    database = Database(url)

    def differences(connection: Connection) -> list[object]:
        return list(compare_metadata(MigrationContext.configure(connection), metadata))

    def without_an_index(connection: Connection) -> list[object]:
        connection.execute(text("DROP INDEX runs_by_age"))
        return differences(connection)

    try:
        async with database.writing() as connection:
            assert await connection.run_sync(differences) == []
            assert len(await connection.run_sync(without_an_index)) == 1
    finally:
        await database.close()


async def test_opening_again_changes_nothing(url: str) -> None:
    for _ in range(2):
        store = await Store.open(url)
        await store.write([run("r1", "done")])
        await store.close()
    store = await Store.open(url)
    assert len((await store.runs("ada", limit=9))[0]) == 1
    await store.close()


async def test_a_database_of_a_newer_version_is_left_alone(url: str) -> None:
    await (await Store.open(url)).close()
    database = Database(url)
    async with database.writing() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    await database.close()
    with pytest.raises(Misconfigured, match="newer version of Cloche"):
        await Store.open(url)


async def test_every_form_of_the_address_is_understood(tmp_path: Path, postgresql: PostgreSQL) -> None:
    name = await postgresql.create()
    plain = postgresql.url(name)
    for url in (
        f"sqlite:///{tmp_path}/a.db",
        f"sqlite+aiosqlite:///{tmp_path}/new/folder/a.db",
        plain,
        plain.replace("postgresql:", "postgresql+asyncpg:"),
        plain.replace("postgresql:", "postgres:"),
        f"{plain}?sslmode=disable",
        postgresql.socket_url(name),
    ):
        await (await Store.open(url)).close()
    await postgresql.drop(name)


async def test_the_file_is_its_owners_alone_and_in_wal(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "a.db"
    before = os.umask(0)
    try:
        store = await Store.open(f"sqlite:///{path}")
        await store.write([run("r1")])
        names = sorted(entry.name for entry in path.parent.iterdir())
        modes = {stat.S_IMODE(entry.stat().st_mode) for entry in path.parent.iterdir()}
        await store.close()
    finally:
        os.umask(before)
    assert names == ["a.db", "a.db-shm", "a.db-wal"]
    assert modes == {0o600}


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "mysql://u:sesame@h/d",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:////proc/nothing/a.db",
        "postgresql://u:sesame@h:sesame/d",
        "postgresql://u:sesame@127.0.0.1:1/d",
        "postgresql://u:sesame@127.0.0.1:1/d?nonsense=sesame",
        "postgresql://u@127.0.0.1:1/d?password=sesame",
    ],
)
async def test_what_cannot_be_opened_is_said_without_the_password(url: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        await Store.open(url)
    assert caught.value.hint
    assert "sesame" not in str(caught.value)


async def test_a_wrong_password_is_said_and_not_shown(postgresql: PostgreSQL) -> None:
    with pytest.raises(Misconfigured, match="password authentication failed") as caught:
        await Store.open(postgresql.url("postgres", password="sesame"))
    assert "sesame" not in str(caught.value)
    with pytest.raises(Misconfigured, match="does not exist") as caught:
        await Store.open(postgresql.url("no_such_database"))
    assert PASSWORD not in str(caught.value)


async def test_a_file_that_is_no_database_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"no database " * 1000)
    with pytest.raises(Misconfigured, match="not a database"):
        await Store.open(f"sqlite:///{path}")
    assert path.read_bytes() == b"no database " * 1000
