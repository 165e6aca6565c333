"""A key knows when it was used last, and the usage of removed runs stays with its key."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, Double, Integer, PrimaryKeyConstraint, Text, text

revision = "0005"
down_revision = "0004"

_AMOUNTS = "hour, runs, cpu_time, bytes_moved"


def upgrade() -> None:
    """Add the columns.  Nobody knows the keys of runs that were removed before: they get an empty name."""
    op.add_column("keys", Column("used", Double))
    op.execute(text("CREATE TABLE past_usage_before AS SELECT * FROM past_usage"))
    _make(Column("key", Text, nullable=False))
    op.execute(
        text(f"INSERT INTO past_usage (owner, key, {_AMOUNTS}) SELECT owner, '', {_AMOUNTS} FROM past_usage_before")
    )
    op.drop_table("past_usage_before")


def downgrade() -> None:
    """Sum the usage of all keys of an owner."""
    op.execute(text("CREATE TABLE past_usage_before AS SELECT * FROM past_usage"))
    _make()
    op.execute(
        text(
            f"INSERT INTO past_usage (owner, {_AMOUNTS}) "
            "SELECT owner, hour, sum(runs), sum(cpu_time), sum(bytes_moved) FROM past_usage_before GROUP BY owner, hour"
        )
    )
    op.drop_table("past_usage_before")
    op.drop_column("keys", "used")


def _make(*key: Column[str]) -> None:
    op.drop_table("past_usage")
    op.create_table(
        "past_usage",
        Column("owner", Text, nullable=False),
        *key,
        Column("hour", Integer, nullable=False),
        Column("runs", BigInteger, nullable=False),
        Column("cpu_time", Double, nullable=False),
        Column("bytes_moved", BigInteger, nullable=False),
        PrimaryKeyConstraint("owner", *(column.name for column in key), "hour", name="past_usage_pk"),
    )
    op.create_index("past_usage_by_age", "past_usage", ["hour"])
