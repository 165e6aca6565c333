"""The tables as the newest migration leaves them.  A test compares the two."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Double,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    TypeDecorator,
    case,
    text,
)


class Words(TypeDecorator[str]):
    """Text of any origin.  Characters that PostgreSQL cannot store (NUL, lone surrogates) become question marks."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        if value is None or (value.isascii() and "\0" not in value):
            return value
        return value.encode("utf-8", "replace").decode().replace("\0", "?")


class JsonText(TypeDecorator[Any]):
    """A value as JSON in a text column.  It is pure ASCII and no query looks inside, so both databases accept it."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:  # noqa: ARG002
        return json.dumps(value, separators=(",", ":"))

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ARG002
        return None if value is None else json.loads(value)


metadata = MetaData()

keys = Table(
    "keys",
    metadata,
    Column("id", Words, nullable=False),
    Column("owner", Words, nullable=False),
    Column("name", Words, nullable=False),
    Column("digest", Words, nullable=False),
    Column("scopes", JsonText, nullable=False),
    Column("policy", JsonText, nullable=False),
    Column("created", Double, nullable=False),
    Column("revoked", Double),
    Column("used", Double),
    PrimaryKeyConstraint("id", name="keys_pk"),
    Index("keys_created", "created", "id"),
)

# The id is the digest of the token in a browser's cookie.
browser_sessions = Table(
    "browser_sessions",
    metadata,
    Column("id", Words, nullable=False),
    Column("key", Words, nullable=False),
    Column("until", Double, nullable=False),
    PrimaryKeyConstraint("id", name="browser_sessions_pk"),
)

secrets = Table(
    "secrets",
    metadata,
    Column("id", Words, nullable=False),
    Column("owner", Words, nullable=False),
    Column("name", Words, nullable=False),
    Column("encrypted", Words, nullable=False),
    Column("version", Integer, nullable=False),
    Column("metadata", JsonText, nullable=False),
    Column("created", Double, nullable=False),
    Column("updated", Double, nullable=False),
    PrimaryKeyConstraint("id", name="secrets_pk"),
    Index("secrets_of_owner", "owner", "name", unique=True),
)

sandboxes = Table(
    "sandboxes",
    metadata,
    Column("id", Words, nullable=False),
    Column("owner", Words, nullable=False),
    Column("key", Words, nullable=False),
    Column("state", Words, nullable=False),
    Column("created", Double, nullable=False),
    Column("wall", Words, nullable=False),
    Column("limits", JsonText, nullable=False),
    Column("metadata", JsonText, nullable=False),
    Column("expires", Double),
    Column("persistent", Boolean, nullable=False),
    Column("workspace", Words),
    Column("ended", Double),
    Column("reason", Words, nullable=False),
    PrimaryKeyConstraint("id", name="sandboxes_pk"),
    Index("sandboxes_of_owner", "owner", "created", "id"),
    Index("sandboxes_by_state", "owner", "state", "created", "id"),
    Index("sandboxes_by_age", "created", "id"),
    Index("sandboxes_alive", "id", sqlite_where=text("state = 'alive'"), postgresql_where=text("state = 'alive'")),
)

# One row for each entry of a sandbox's metadata.  It stores a digest, because PostgreSQL indexes only short texts.
labels = Table(
    "labels",
    metadata,
    Column("sandbox", Words, nullable=False),
    Column("label", Words, nullable=False),
    Column("owner", Words, nullable=False),
    PrimaryKeyConstraint("sandbox", "label", name="labels_pk"),
    Index("labels_of_owner", "owner", "label", "sandbox"),
)

runs = Table(
    "runs",
    metadata,
    Column("id", Words, nullable=False),
    Column("owner", Words, nullable=False),
    Column("key", Words, nullable=False),
    Column("sandbox", Words),
    Column("context", Words, nullable=False),
    Column("language", Words, nullable=False),
    Column("code_sha256", Words, nullable=False),
    Column("state", Words, nullable=False),
    Column("started", Double, nullable=False),
    Column("hour", Integer, nullable=False),  # the hour of `started` since the epoch; usage is summed by it
    Column("limits", JsonText, nullable=False),
    Column("ended", Double),
    Column("exit_code", Integer),
    Column("error_kind", Words),
    Column("duration", Double, nullable=False),
    Column("cpu_time", Double, nullable=False),
    Column("memory_peak", BigInteger, nullable=False),
    Column("bytes_moved", BigInteger, nullable=False),
    Column("result", Words),  # last, so that SQLite reads the other columns without walking over it
    PrimaryKeyConstraint("id", name="runs_pk"),
    Index("runs_of_owner", "owner", "started", "id"),
    Index("runs_by_state", "owner", "state", "started", "id"),
    Index("runs_of_sandbox", "owner", "sandbox", "started", "id"),
    Index("runs_by_age", "started", "id"),
    Index("runs_running", "id", sqlite_where=text("state = 'running'"), postgresql_where=text("state = 'running'")),
)

# The CPU time to sum: a run in a sandbox that lives on is charged with the sandbox.
own_cpu_time = case((runs.c.sandbox.is_(None), runs.c.cpu_time), else_=0.0)

# The usage of runs that `trim` has removed, so that the usage of a past day does not shrink.
past_usage = Table(
    "past_usage",
    metadata,
    Column("owner", Words, nullable=False),
    Column("key", Words, nullable=False),
    Column("hour", Integer, nullable=False),
    Column("runs", BigInteger, nullable=False),
    Column("cpu_time", Double, nullable=False),
    Column("bytes_moved", BigInteger, nullable=False),
    PrimaryKeyConstraint("owner", "key", "hour", name="past_usage_pk"),
    Index("past_usage_by_age", "hour"),
)

# The CPU time of sandboxes that live on between runs.  Of their runs, only the number and the bytes are summed.
charges = Table(
    "charges",
    metadata,
    Column("id", Words, nullable=False),
    Column("owner", Words, nullable=False),
    Column("key", Words, nullable=False),
    Column("hour", Integer, nullable=False),
    Column("cpu_time", Double, nullable=False),
    PrimaryKeyConstraint("id", name="charges_pk"),
    Index("charges_of_owner", "owner", "hour"),
    Index("charges_by_age", "hour"),
)

audit = Table(
    "audit",
    metadata,
    Column("id", Words, nullable=False),
    Column("time", Double, nullable=False),
    Column("owner", Words, nullable=False),
    Column("key", Words, nullable=False),
    Column("action", Words, nullable=False),
    Column("target", Words, nullable=False),
    Column("details", JsonText, nullable=False),
    PrimaryKeyConstraint("id", name="audit_pk"),
    Index("audit_by_time", "time", "id"),
    Index("audit_of_owner", "owner", "time", "id"),
)
