"""Secrets that the server keeps for their owners, encrypted."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Double, Integer, PrimaryKeyConstraint, Text

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "secrets",
        *(Column(name, Text, nullable=False) for name in ("id", "owner", "name", "encrypted")),
        Column("version", Integer, nullable=False),
        Column("metadata", Text, nullable=False),
        *(Column(name, Double, nullable=False) for name in ("created", "updated")),
        PrimaryKeyConstraint("id", name="secrets_pk"),
    )
    op.create_index("secrets_of_owner", "secrets", ["owner", "name"], unique=True)


def downgrade() -> None:
    """Forget all secrets."""
    op.drop_table("secrets")
