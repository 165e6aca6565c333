"""What Alembic runs to migrate: on the connection that `cloche.store.migrate` gives it, in its transaction."""

from __future__ import annotations

from alembic import context

from cloche.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
