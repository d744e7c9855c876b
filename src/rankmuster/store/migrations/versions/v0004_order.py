"""The index of a baseline's runs has their records: runs that started at one moment are in the order of these.

Revision: 0004, after 0003. Their numbers say in which order they were stored, which differs between two histories of
the same runs.
"""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """The index anew; no row changes."""
    op.drop_index("rankmuster_run_baseline", "rankmuster_run")
    baseline = ["class_id", "profile_id", "state", "started_at", "record", "id", "node_id"]
    op.create_index("rankmuster_run_baseline", "rankmuster_run", baseline)
