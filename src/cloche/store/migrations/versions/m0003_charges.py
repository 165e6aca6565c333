"""The CPU time of a sandbox is charged to its key, whatever used it, instead of the time that its runs report."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Double, Integer, PrimaryKeyConstraint, Text, text

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the table, and keep the usage of past days: the runs in sandboxes are not summed any more."""
    op.create_table(
        "charges",
        *(Column(name, Text, nullable=False) for name in ("id", "owner", "key")),
        Column("hour", Integer, nullable=False),
        Column("cpu_time", Double, nullable=False),
        PrimaryKeyConstraint("id", name="charges_pk"),
    )
    op.create_index("charges_of_owner", "charges", ["owner", "hour"])
    op.create_index("charges_by_age", "charges", ["hour"])
    op.execute(
        text(
            "INSERT INTO charges (id, owner, key, hour, cpu_time) "
            "SELECT 'runs ' || owner || ' ' || key || ' ' || hour, owner, key, hour, sum(cpu_time) FROM runs "
            "WHERE sandbox IS NOT NULL GROUP BY owner, key, hour"
        )
    )


def downgrade() -> None:
    """Sum the runs alone again."""
    op.drop_table("charges")
