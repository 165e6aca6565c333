"""The first tables.  Migrations use plain types only, so that changing `cloche.store.tables` cannot change them."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, Double, Integer, PrimaryKeyConstraint, Text, text

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make them."""
    _make_keys()
    _make_sandboxes()
    _make_runs()
    _make_audit()


def downgrade() -> None:
    """Remove them, and all that is in them."""
    for table in ("audit", "past_usage", "runs", "labels", "sandboxes", "keys"):
        op.drop_table(table)


def _words(*names: str) -> list[Column[str]]:
    return [Column(name, Text, nullable=False) for name in names]


def _make_keys() -> None:
    op.create_table(
        "keys",
        *_words("id", "owner", "name", "digest", "scopes", "limits"),
        Column("created", Double, nullable=False),
        Column("revoked", Double),
        PrimaryKeyConstraint("id", name="keys_pk"),
    )
    op.create_index("keys_created", "keys", ["created", "id"])


def _make_sandboxes() -> None:
    op.create_table(
        "sandboxes",
        *_words("id", "owner", "key", "state"),
        Column("created", Double, nullable=False),
        *_words("wall", "limits", "metadata"),
        Column("expires", Double),
        Column("persistent", Boolean, nullable=False),
        Column("workspace", Text),
        Column("ended", Double),
        *_words("reason"),
        PrimaryKeyConstraint("id", name="sandboxes_pk"),
    )
    op.create_index("sandboxes_of_owner", "sandboxes", ["owner", "created", "id"])
    op.create_index("sandboxes_by_state", "sandboxes", ["owner", "state", "created", "id"])
    op.create_index("sandboxes_by_age", "sandboxes", ["created", "id"])
    alive = text("state = 'alive'")
    op.create_index("sandboxes_alive", "sandboxes", ["id"], sqlite_where=alive, postgresql_where=alive)
    op.create_table(
        "labels", *_words("sandbox", "label", "owner"), PrimaryKeyConstraint("sandbox", "label", name="labels_pk")
    )
    op.create_index("labels_of_owner", "labels", ["owner", "label", "sandbox"])


def _make_runs() -> None:
    op.create_table(
        "runs",
        *_words("id", "owner", "key"),
        Column("sandbox", Text),
        *_words("context", "language", "code_sha256", "state"),
        Column("started", Double, nullable=False),
        Column("hour", Integer, nullable=False),
        *_words("limits"),
        Column("ended", Double),
        Column("exit_code", Integer),
        Column("error_kind", Text),
        Column("duration", Double, nullable=False),
        Column("cpu_time", Double, nullable=False),
        Column("memory_peak", BigInteger, nullable=False),
        Column("bytes_moved", BigInteger, nullable=False),
        Column("result", Text),
        PrimaryKeyConstraint("id", name="runs_pk"),
    )
    op.create_index("runs_of_owner", "runs", ["owner", "started", "id"])
    op.create_index("runs_by_state", "runs", ["owner", "state", "started", "id"])
    op.create_index("runs_of_sandbox", "runs", ["owner", "sandbox", "started", "id"])
    op.create_index("runs_by_age", "runs", ["started", "id"])
    running = text("state = 'running'")
    op.create_index("runs_running", "runs", ["id"], sqlite_where=running, postgresql_where=running)
    op.create_table(
        "past_usage",
        *_words("owner"),
        Column("hour", Integer, nullable=False),
        Column("runs", BigInteger, nullable=False),
        Column("cpu_time", Double, nullable=False),
        Column("bytes_moved", BigInteger, nullable=False),
        PrimaryKeyConstraint("owner", "hour", name="past_usage_pk"),
    )
    op.create_index("past_usage_by_age", "past_usage", ["hour"])


def _make_audit() -> None:
    op.create_table(
        "audit",
        *_words("id"),
        Column("time", Double, nullable=False),
        *_words("owner", "key", "action", "target", "details"),
        PrimaryKeyConstraint("id", name="audit_pk"),
    )
    op.create_index("audit_by_time", "audit", ["time", "id"])
    op.create_index("audit_of_owner", "audit", ["owner", "time", "id"])
