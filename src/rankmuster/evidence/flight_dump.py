"""What pickle and JSON dumps share: the top level, turned into one FlightDump."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankmuster.evidence import names
from rankmuster.evidence.blob import Reading
from rankmuster.evidence.flight_table import ColumnBuilder, group_table, status_table, text, version_of
from rankmuster.model.flight import FlightDump, State
from rankmuster.model.problem import Problem, ProblemKind

KNOWN_MINORS = range(1, 11)
"""Schema 2.1 (torch 2.4) to 2.10 (2.9 and later); a newer minor is read the same way and said."""

MARKERS = ("pg_config", "entries", "pg_status")
"""Keys of which a dump has at least one besides its version."""


def looks_like_dump(top: Any) -> bool:
    """Whether a decoded top level is a Flight Recorder dump."""
    return isinstance(top, Mapping) and "version" in top and any(key in top for key in MARKERS)


def reading(path: str, form: str, top: Mapping[str, Any], builder: ColumnBuilder, damage: str | None) -> Reading:
    """The observation for a decoded dump whose entries `builder` holds."""
    columns = builder.build(group_table(top.get("pg_config")))
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
    finished = bool((columns.state == State.COMPLETED).any()) or bool(columns.retired.any())
    only_active = len(columns) > 0 and not finished and int(columns.record_id[0]) > 0
    dump = FlightDump(
        source=path,
        rank=names.rank_of(path),
        host=names.host_of(path),
        form=form,
        version=version,
        comm_lib_version=text(top.get("comm_lib_version") or top.get("nccl_version")) or None,
        columns=columns,
        status=status_table(top.get("pg_status")),
        only_active=only_active,
    )
    return Reading((dump,), tuple(problems), 1)
