"""A key has one policy with sections, instead of limits alone."""

from __future__ import annotations

from alembic import op
from sqlalchemy import text

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the limits of each key the section `limits` of its policy."""
    op.execute(text("ALTER TABLE keys RENAME COLUMN limits TO policy"))
    op.execute(text("""UPDATE keys SET policy = '{"limits":' || policy || '}'"""))


def downgrade() -> None:
    """Keep the limits alone."""
    op.execute(text("""UPDATE keys SET policy = substr(policy, 11, length(policy) - 11) WHERE policy <> '{}'"""))
    op.execute(text("ALTER TABLE keys RENAME COLUMN policy TO limits"))
