"""What pickle and JSON dumps share: the top level, turned into one FlightDump."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from rankmuster.evidence import names
from rankmuster.evidence.blob import Reading
from rankmuster.evidence.flight_table import group_table, status_table, text, version_of
from rankmuster.model.flight import FlightColumns, FlightDump, PgStatus, State
from rankmuster.model.problem import Problem, ProblemKind

KNOWN_MINORS = range(1, 11)
"""Schema 2.1 (torch 2.4) to 2.10 (2.9 and later); a newer minor is read the same way and said."""

LEAST_BUFFER = 100
"""Entries of the smallest ring buffer anybody sets (torch's default is 2000): fewer records did not overwrite any."""

MARKERS = ("pg_config", "entries", "pg_status")
"""Keys of which a dump has at least one besides its version."""


class Entries(Protocol):
    """All entries of a dump, however they were read."""

    def build(self, config: Mapping[tuple[str, str], tuple[int, ...] | None]) -> FlightColumns:
        """The columns; `config` gives the members per (name, desc) as the dump's table has them."""


def looks_like_dump(top: Any) -> bool:
    """Whether a decoded top level is a Flight Recorder dump."""
    return isinstance(top, Mapping) and "version" in top and any(key in top for key in MARKERS)


def _only_active(columns: FlightColumns, status: Mapping[str, PgStatus]) -> bool:
    """Whether finished entries were left out by request, and not overwritten by a host far ahead of its GPU.

    Backends without events list everything in either case.
    """
    if not len(columns) or bool((columns.state == State.COMPLETED).any()) or bool(columns.retired.any()):
        return False
    if any(op.startswith(("gloo:", "nccl2:")) for op in columns.ops):
        return False
    if len(columns) > 1 and int((columns.record_id[1:] - columns.record_id[:-1]).max()) > 1:
        return True  # a buffer keeps every record up to the last
    if int(columns.record_id[0]) <= 0:
        return False
    if len(columns) < LEAST_BUFFER:
        return True
    consistent = None
    mixed = set(columns.pg_id[columns.is_p2p].tolist())
    for pg_id in set(columns.pg_id.tolist()) - mixed:
        counters = status.get(str(pg_id))
        lowest = int(columns.seq[columns.pg_id == pg_id].min())
        if counters is not None and counters.last_completed < lowest - 1:
            return False
        consistent = counters is not None or consistent
    return bool(consistent)


def reading(path: str, form: str, top: Mapping[str, Any], entries: Entries, damage: str | None) -> Reading:
    """The observation for a decoded dump and its `entries`."""
    columns = entries.build(group_table(top.get("pg_config")))
    version = version_of(top.get("version"))
    problems = []
    if damage:
        problems.append(
            Problem(
                ProblemKind.DAMAGED, path, f"Flight Recorder dump: {damage}; {len(columns)} entries before that used"
            )
        )
    if version[0] != 2 or version[1] not in KNOWN_MINORS:
        said = text(top.get("version")) or "none"
        problems.append(
            Problem(ProblemKind.DAMAGED, path, f"Flight Recorder schema {said} is not known; read like 2.10")
        )
    status = status_table(top.get("pg_status"))
    dump = FlightDump(
        source=path,
        rank=names.rank_of(path),
        host=names.host_of(path),
        form=form,
        version=version,
        comm_lib_version=text(top.get("comm_lib_version") or top.get("nccl_version")) or None,
        columns=columns,
        status=status,
        only_active=_only_active(columns, status),
        cut=damage is not None,
    )
    return Reading((dump,), tuple(problems), 1)
