"""What alembic runs to apply the versions, over the connection and within the transaction that `migrate` gives it."""

from __future__ import annotations

from alembic import context

from rankmuster.store.schema import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
with context.begin_transaction():
    context.run_migrations()
