"""The sessions of browsers survive a restart of the server."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Double, PrimaryKeyConstraint, Text

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "browser_sessions",
        *(Column(name, Text, nullable=False) for name in ("id", "key")),
        Column("until", Double, nullable=False),
        PrimaryKeyConstraint("id", name="browser_sessions_pk"),
    )


def downgrade() -> None:
    """Sign all browsers out."""
    op.drop_table("browser_sessions")
