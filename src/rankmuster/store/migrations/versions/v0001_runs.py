"""Runs with their results, fingerprints, and change points.

Revision: 0001, the first.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _id() -> sa.Column[int]:
    return sa.Column("id", _NUMBER, primary_key=True, autoincrement=True)


def _number(name: str, of: str, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, _NUMBER, sa.ForeignKey(f"rankmuster_{of}.id"), nullable=nullable)


def upgrade() -> None:
    """Every table of the first version."""
    _what_repeats()
    _runs()
    _about_classes_and_nodes()


def _what_repeats() -> None:
    op.create_table(
        "rankmuster_class",
        _id(),
        sa.Column("class_hash", sa.Text, nullable=False, unique=True),
        sa.Column("kin_hash", sa.Text, nullable=False),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("definition", sa.Text),
    )
    op.create_index("rankmuster_class_kin", "rankmuster_class", ["kin_hash"])
    op.create_table("rankmuster_profile", _id(), sa.Column("key", sa.Text, nullable=False, unique=True))
    op.create_table("rankmuster_node", _id(), sa.Column("node_hash", sa.Text, nullable=False, unique=True))
    op.create_table(
        "rankmuster_cell",
        _id(),
        sa.Column("operation", sa.Text, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("dtype", sa.Text, nullable=False),
        sa.Column("in_place", sa.Boolean, nullable=False),
        sa.Column("graph", sa.Boolean, nullable=False),
        sa.UniqueConstraint("operation", "size_bytes", "dtype", "in_place", "graph", name="rankmuster_cell_key"),
    )
    op.create_table(
        "rankmuster_choices",
        _id(),
        sa.Column("digest", sa.Text, nullable=False, unique=True),
        sa.Column("choices", sa.Text, nullable=False),
    )


def _runs() -> None:
    op.create_table(
        "rankmuster_run",
        _id(),
        sa.Column("record", sa.Text, nullable=False, unique=True),
        _number("class_id", "class"),
        _number("profile_id", "profile"),
        _number("node_id", "node"),
        _number("choices_id", "choices"),
        sa.Column("host", sa.Text),
        sa.Column("tool", sa.Text, nullable=False),
        sa.Column("started_at", sa.Double, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
    )
    baseline = ["class_id", "profile_id", "state", "started_at", "id", "node_id"]
    op.create_index("rankmuster_run_baseline", "rankmuster_run", baseline)
    op.create_index("rankmuster_run_of_node", "rankmuster_run", ["node_id", "started_at"])
    op.create_index("rankmuster_run_by_time", "rankmuster_run", ["started_at"])
    op.create_index("rankmuster_run_of_host", "rankmuster_run", ["host"])
    op.create_table(
        "rankmuster_result",
        sa.Column("run_id", _NUMBER, sa.ForeignKey("rankmuster_run.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        _number("cell_id", "cell"),
        sa.Column("time_us", sa.Double, nullable=False),
        sa.Column("busbw", sa.Double, nullable=False),
        *(sa.Column(name, sa.Double) for name in ("min_us", "p50_us", "p99_us", "cv_percent", "rank_spread_percent")),
        sqlite_with_rowid=False,
    )


def _about_classes_and_nodes() -> None:
    op.create_table(
        "rankmuster_change",
        _id(),
        sa.Column("class_hash", sa.Text, nullable=False),
        sa.Column("profile", sa.Text, nullable=False),
        _number("cell_id", "cell", nullable=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("level_before", sa.Double),
        sa.Column("level_after", sa.Double),
        sa.Column("nodes", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
    )
    op.create_index("rankmuster_change_of_class", "rankmuster_change", ["class_hash", "profile"])
    op.create_table(
        "rankmuster_fingerprint",
        _id(),
        sa.Column("identity", sa.Text, nullable=False, unique=True),
        sa.Column("host", sa.Text),
        sa.Column("taken_at", sa.Double, nullable=False),
        *(sa.Column(name, sa.Text) for name in ("node_hash", "class_hash", "kin_hash", "topology_hash", "gpu_model")),
        sa.Column("gpu_count", sa.Integer),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )
    op.create_index("rankmuster_fingerprint_of_node", "rankmuster_fingerprint", ["node_hash", "taken_at"])
    op.create_index("rankmuster_fingerprint_of_host", "rankmuster_fingerprint", ["host", "taken_at"])
    op.create_index("rankmuster_fingerprint_by_gpu", "rankmuster_fingerprint", ["gpu_model", "gpu_count"])
