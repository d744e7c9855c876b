"""The journal of incidents: what happened, who works on what, what limits count.

Revision: 0005, after 0004. New tables; what is stored stays as it is.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _id() -> sa.Column[int]:
    return sa.Column("id", _NUMBER, primary_key=True, autoincrement=True)


def upgrade() -> None:
    """Five tables."""
    _incidents()
    _events()
    _shared()


def _incidents() -> None:
    op.create_table(
        "rankmuster_incident",
        _id(),
        sa.Column("incident", sa.Text, nullable=False, unique=True),
        sa.Column("instance", sa.Text, nullable=False),
        sa.Column("incarnation", sa.Text),
        sa.Column("opened_at", sa.Double, nullable=False),
        sa.Column("opened_by", sa.Text, nullable=False),
        sa.Column("class", sa.Text),
        sa.Column("boundary", sa.Text),
        sa.Column("closed_at", sa.Double),
        sa.Column("outcome", sa.Text),
        sa.Column("events", sa.Integer, nullable=False),
    )
    op.create_index("rankmuster_incident_by_time", "rankmuster_incident", ["opened_at"])
    op.create_index("rankmuster_incident_of_instance", "rankmuster_incident", ["instance", "opened_at"])
    still_open = sa.text("closed_at IS NULL")
    op.create_index(
        "rankmuster_incident_open",
        "rankmuster_incident",
        ["instance"],
        unique=True,
        sqlite_where=still_open,
        postgresql_where=still_open,
    )


def _events() -> None:
    incident = sa.ForeignKey("rankmuster_incident.id", ondelete="CASCADE")
    op.create_table(
        "rankmuster_incident_event",
        sa.Column("incident_id", _NUMBER, incident, primary_key=True),
        sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        *(sa.Column(name, sa.Text) for name in ("step", "action", "ending")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("note", "by", "data")),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )


def _shared() -> None:
    op.create_table(
        "rankmuster_lease",
        sa.Column("instance", sa.Text, primary_key=True),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("era", sa.Text, nullable=False),
        *(sa.Column(name, sa.Double, nullable=False) for name in ("until", "wall_until", "seconds")),
    )
    op.create_table(
        "rankmuster_use",
        _id(),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("kind", "subject", "incident")),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("ended_at", sa.Double),
    )
    op.create_index("rankmuster_use_of_incident", "rankmuster_use", ["incident"])
    op.create_index("rankmuster_use_by_time", "rankmuster_use", ["at"])
    op.create_table(
        "rankmuster_breaker",
        _id(),
        sa.Column("opened_at", sa.Double, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("closed_at", sa.Double),
        sa.Column("closed_by", sa.Text, nullable=False),
    )
