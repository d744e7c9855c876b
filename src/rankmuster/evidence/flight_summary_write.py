"""The dumps of one node -> the bytes of a summary: column tables, `rankmuster.flight-summary/1`.

Of the stacks, most of a dump, one is kept: the last recorded call's, which tells where a rank that stopped was last.
"""

from __future__ import annotations

import json
from typing import Any

from rankmuster.evidence.flight_summary_frame import join
from rankmuster.evidence.flight_summary_node import NodeDumps
from rankmuster.evidence.flight_summary_numbers import Form
from rankmuster.evidence.flight_summary_pack import pack, pack_floats, pack_times
from rankmuster.evidence.flight_summary_schema import COLUMNS, MAX_PATH, SCHEMA
from rankmuster.evidence.flight_summary_tables import TableWriter
from rankmuster.evidence.flight_table import MAX_FRAMES, MAX_NAME
from rankmuster.model.flight import FlightColumns, FlightDump


def encode(node: NodeDumps) -> bytes:
    """The file. Every column but `stack` comes back exactly."""
    pieces: list[bytes] = []
    tables = TableWriter()
    stacks: dict[tuple[str, ...], int] = {}
    dumps: list[dict[str, Any]] = [_described(dump, tables.add(dump.columns), stacks) for dump in node.dumps]
    header: dict[str, Any] = {
        "schema": SCHEMA,
        "node": node.node[:MAX_NAME],
        "host": node.host[:MAX_NAME] if node.host else None,
        "written": node.written,
        "clock_offsets": {host[:MAX_NAME]: offset for host, offset in (node.clock_offsets or {}).items()},
        "requests": [[one.source[:MAX_PATH], one.rank, one.asked, one.written] for one in node.requests],
        "problems": [[one.kind.value, one.source[:MAX_PATH], one.message[:MAX_PATH]] for one in node.problems],
        "tables": tables.header(pieces),
        "stacks": [list(frames) for frames in stacks],
        "dumps": dumps,
    }
    for name in COLUMNS:
        for dump, described in zip(node.dumps, dumps, strict=True):
            described["columns"].append(_column(name, dump.columns, pieces))
    text = json.dumps(header, separators=(",", ":")).encode()
    return join(text, b"".join(pieces), node.entries + tables.values + sum(map(len, stacks)))


def _described(dump: FlightDump, tables: list[int], stacks: dict[tuple[str, ...], int]) -> dict[str, Any]:
    columns = dump.columns
    last = int(columns.stack[-1]) if len(columns) else -1
    return {
        "path": dump.source[:MAX_PATH],
        "rank": dump.rank,
        "host": dump.host[:MAX_NAME] if dump.host else None,
        "form": dump.form,
        "version": list(dump.version),
        "lib": dump.comm_lib_version,
        "time": [dump.time.seconds, dump.time.kind.value] if dump.time is not None else None,
        "only_active": dump.only_active,
        "cut": dump.cut,
        "stacks": len(columns.stacks) > 0,
        "stack": stacks.setdefault(columns.stacks[last][:MAX_FRAMES], len(stacks)) if last >= 0 else -1,
        "status": {key: [row.last_enqueued, row.last_started, row.last_completed] for key, row in dump.status.items()},
        "entries": len(columns),
        "tables": tables,
        "columns": [],
    }


def _column(name: str, columns: FlightColumns, pieces: list[bytes]) -> Form:
    if name == "duration_ms":
        return pack_floats(columns.duration_ms, pieces)
    values = getattr(columns, name).astype("int64")
    if name in ("started_ns", "completed_ns"):
        return pack_times(values, columns.created_ns, pieces)
    return pack(values, pieces)
