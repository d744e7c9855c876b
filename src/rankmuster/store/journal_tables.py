"""The tables of a journal, beside those of a history: since version 0005, in every database of this program.

A journal and a history have the same tables, so that a fleet may name one PostgreSQL database for both. Values that an
older program has to understand (kinds, steps, endings) are texts: what it does not know it says, and does not act on.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Double, ForeignKey, Index, Integer, LargeBinary, Table, Text

from rankmuster.store.schema import metadata

_NUMBER = BigInteger().with_variant(Integer, "sqlite")


def _id() -> Column[int]:
    return Column("id", _NUMBER, primary_key=True, autoincrement=True)


incident_table = Table(
    "rankmuster_incident",
    metadata,
    _id(),
    Column("incident", Text, nullable=False, unique=True),
    Column("instance", Text, nullable=False),
    Column("incarnation", Text),
    Column("opened_at", Double, nullable=False),
    Column("opened_by", Text, nullable=False),
    Column("class", Text),
    Column("boundary", Text),
    Column("closed_at", Double),
    Column("outcome", Text),
    Column("events", Integer, nullable=False),  # how many there are: the last one's sequence
    Index("rankmuster_incident_by_time", "opened_at"),
    Index("rankmuster_incident_of_instance", "instance", "opened_at"),
)
Index(
    # one open incident an instance, whoever opens it
    "rankmuster_incident_open",
    incident_table.c.instance,
    unique=True,
    sqlite_where=incident_table.c.closed_at.is_(None),
    postgresql_where=incident_table.c.closed_at.is_(None),
)

event_table = Table(
    "rankmuster_incident_event",
    metadata,
    Column("incident_id", _NUMBER, ForeignKey("rankmuster_incident.id", ondelete="CASCADE"), primary_key=True),
    Column("sequence", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("step", Text),
    Column("action", Text),
    Column("ending", Text),
    Column("note", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("data", Text, nullable=False),  # JSON
    Column("digest", LargeBinary, nullable=False),  # store/journal_events.py
    sqlite_with_rowid=False,  # an incident's events lie side by side
)

lease_table = Table(
    "rankmuster_lease",
    metadata,
    Column("instance", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("token", BigInteger, nullable=False),
    # store/lease_clock.py
    Column("era", Text, nullable=False),
    Column("until", Double, nullable=False),
    Column("wall_until", Double, nullable=False),
    Column("seconds", Double, nullable=False),
)

use_table = Table(
    "rankmuster_use",
    metadata,
    _id(),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("incident", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("ended_at", Double),
    Index("rankmuster_use_of_incident", "incident"),
    Index("rankmuster_use_by_time", "at"),
)

breaker_table = Table(
    "rankmuster_breaker",
    metadata,
    _id(),
    Column("opened_at", Double, nullable=False),
    Column("why", Text, nullable=False),
    Column("closed_at", Double),
    Column("closed_by", Text, nullable=False),
)

ALL_TABLES = tuple(metadata.tables)
"""Names of every table, a history's too."""
