"""A digest beside every run, over what a decision reads of it.

Revision: 0003, after 0002. Runs that are there get that of what they hold now: whether it is what was stored once, only
their records can say (`rankmuster history verify`).
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from rankmuster.store.write_digests import write_digests

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """A column, and its values."""
    op.add_column("rankmuster_run", sa.Column("digest", sa.LargeBinary))
    write_digests(op.get_bind())
