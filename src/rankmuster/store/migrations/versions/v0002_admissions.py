"""Admission records, and where the runs that a dismissed change point keeps out end.

Revision: 0002, after 0001.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Two tables and a column; what is stored stays as it is."""
    op.add_column("rankmuster_change", sa.Column("kept_out_until", sa.Double))
    op.create_table(
        "rankmuster_admission",
        sa.Column("id", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("hash", sa.Text, nullable=False, unique=True),
        sa.Column("decision", sa.Text, nullable=False),
        sa.Column("nodes", sa.Text, nullable=False),
        sa.Column("class_hash", sa.Text),
        sa.Column("profile", sa.Text, nullable=False),
        sa.Column("started_at", sa.Double, nullable=False),
        sa.Column("ended_at", sa.Double, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )
    op.create_index("rankmuster_admission_by_time", "rankmuster_admission", ["started_at"])
    admission = sa.ForeignKey("rankmuster_admission.id", ondelete="CASCADE")
    op.create_table(
        "rankmuster_admitted_node",
        sa.Column("admission_id", _NUMBER, admission, primary_key=True),
        sa.Column("node", sa.Text, primary_key=True),
    )
    op.create_index("rankmuster_admitted_by_node", "rankmuster_admitted_node", ["node"])
