"""Alembic runs this to migrate, on the connection of `cloche.store.migrate` and in its transaction."""

from __future__ import annotations

from alembic import context

from cloche.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
