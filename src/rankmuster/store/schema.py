"""The tables, as queries speak of them. They are made and changed by the migrations alone; a test holds both together.

One row per measurement (`result`), so that a class, a node or a size can be asked for; what repeats (classes, profiles,
nodes, cells, what NCCL chose) stands once, by number. Every name begins with `rankmuster_`: a fleet's PostgreSQL
database may hold other things.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

VERSIONS = ("0001", "0002", "0003", "0004", "0005")
"""Every version of the tables, oldest first; the last is the one that this program reads and writes."""

VERSION_TABLE = "rankmuster_version"

metadata = MetaData()

# SQLite numbers rows by itself only where the type is called INTEGER
_NUMBER = BigInteger().with_variant(Integer, "sqlite")


def _id() -> Column[int]:
    return Column("id", _NUMBER, primary_key=True, autoincrement=True)


class_table = Table(
    "rankmuster_class",
    metadata,
    _id(),
    Column("class_hash", Text, nullable=False, unique=True),
    Column("kin_hash", Text, nullable=False),
    Column("settings", Text, nullable=False),  # JSON, keys sorted
    Column("definition", Text),  # JSON of what the class hash is over, from the first fingerprint that has it
    Index("rankmuster_class_kin", "kin_hash"),
)

profile_table = Table("rankmuster_profile", metadata, _id(), Column("key", Text, nullable=False, unique=True))

node_table = Table("rankmuster_node", metadata, _id(), Column("node_hash", Text, nullable=False, unique=True))

cell_table = Table(
    "rankmuster_cell",
    metadata,
    _id(),
    Column("operation", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("dtype", Text, nullable=False),
    Column("in_place", Boolean, nullable=False),
    Column("graph", Boolean, nullable=False),
    UniqueConstraint("operation", "size_bytes", "dtype", "in_place", "graph", name="rankmuster_cell_key"),
)

choices_table = Table(
    "rankmuster_choices",
    metadata,
    _id(),
    Column("digest", Text, nullable=False, unique=True),
    Column("choices", Text, nullable=False),  # JSON
)

run_table = Table(
    "rankmuster_run",
    metadata,
    _id(),
    Column("record", Text, nullable=False, unique=True),
    Column("class_id", _NUMBER, ForeignKey("rankmuster_class.id"), nullable=False),
    Column("profile_id", _NUMBER, ForeignKey("rankmuster_profile.id"), nullable=False),
    Column("node_id", _NUMBER, ForeignKey("rankmuster_node.id"), nullable=False),
    Column("choices_id", _NUMBER, ForeignKey("rankmuster_choices.id"), nullable=False),
    Column("host", Text),
    Column("tool", Text, nullable=False),
    Column("started_at", Double, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("digest", LargeBinary),  # since version 0003: store/run_digest.py
    # the newest runs of a class and whose they are, from the index alone
    Index("rankmuster_run_baseline", "class_id", "profile_id", "state", "started_at", "record", "id", "node_id"),
    Index("rankmuster_run_of_node", "node_id", "started_at"),
    Index("rankmuster_run_by_time", "started_at"),
    Index("rankmuster_run_of_host", "host"),
)

result_table = Table(
    "rankmuster_result",
    metadata,
    Column("run_id", _NUMBER, ForeignKey("rankmuster_run.id", ondelete="CASCADE"), primary_key=True),
    # a tool may measure one cell more than once
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("cell_id", _NUMBER, ForeignKey("rankmuster_cell.id"), nullable=False),
    Column("time_us", Double, nullable=False),
    Column("busbw", Double, nullable=False),
    Column("min_us", Double),
    Column("p50_us", Double),
    Column("p99_us", Double),
    Column("cv_percent", Double),
    Column("rank_spread_percent", Double),
    sqlite_with_rowid=False,  # a run's results lie side by side
)

change_table = Table(
    "rankmuster_change",
    metadata,
    _id(),
    Column("class_hash", Text, nullable=False),
    Column("profile", Text, nullable=False),
    Column("cell_id", _NUMBER, ForeignKey("rankmuster_cell.id")),
    Column("at", Double, nullable=False),
    Column("level_before", Double),
    Column("level_after", Double),
    Column("nodes", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("note", Text, nullable=False),
    Column("kept_out_until", Double),  # since version 0002
    Index("rankmuster_change_of_class", "class_hash", "profile"),
)

fingerprint_table = Table(
    "rankmuster_fingerprint",
    metadata,
    _id(),
    Column("identity", Text, nullable=False, unique=True),  # the node and the time
    Column("host", Text),
    Column("taken_at", Double, nullable=False),
    Column("node_hash", Text),
    Column("class_hash", Text),
    Column("kin_hash", Text),
    Column("topology_hash", Text),
    Column("gpu_model", Text),
    Column("gpu_count", Integer),
    Column("document", LargeBinary, nullable=False),
    Index("rankmuster_fingerprint_of_node", "node_hash", "taken_at"),
    Index("rankmuster_fingerprint_of_host", "host", "taken_at"),
    Index("rankmuster_fingerprint_by_gpu", "gpu_model", "gpu_count"),
)

admission_table = Table(  # since version 0002
    "rankmuster_admission",
    metadata,
    _id(),
    Column("hash", Text, nullable=False, unique=True),
    Column("decision", Text, nullable=False),
    Column("nodes", Text, nullable=False),  # JSON
    Column("class_hash", Text),
    Column("profile", Text, nullable=False),
    Column("started_at", Double, nullable=False),
    Column("ended_at", Double, nullable=False),
    Column("document", LargeBinary, nullable=False),
    Index("rankmuster_admission_by_time", "started_at"),
)

admitted_table = Table(  # since version 0002
    "rankmuster_admitted_node",
    metadata,
    Column("admission_id", _NUMBER, ForeignKey("rankmuster_admission.id", ondelete="CASCADE"), primary_key=True),
    Column("node", Text, primary_key=True),
    Index("rankmuster_admitted_by_node", "node"),
)
