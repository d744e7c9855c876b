"""What writer and reader of a flight summary agree on: `rankmuster.flight-summary/1`."""

from __future__ import annotations

from rankmuster.evidence.flight_table import ColumnBuilder
from rankmuster.model.flight import FlightColumns

SCHEMA = "rankmuster.flight-summary/1"

SUFFIX = ".rfs"
"""Of a summary's name; what it is, its content says."""

MAX_PATH = 4_096
"""Characters of a path or a message kept; Linux opens no longer path."""

COLUMNS = (
    "record_id",
    "call",
    "seq",
    "p2p_seq",
    "op_id",
    "created_ns",
    "started_ns",
    "completed_ns",
    "duration_ms",
    "state",
    "retired",
)
"""In this order, each column of all dumps before the next: what ranks do alike stands side by side."""


def nothing() -> FlightColumns:
    """Columns without an entry."""
    return ColumnBuilder().build({})
