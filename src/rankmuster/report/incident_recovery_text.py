"""The recovery table as it counts for incidents: the operator's own rows first, then the built-in one."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rankmuster.model.fault import Boundary, Confidence, FaultClass, Progress, Subkind
from rankmuster.model.incident import SCHEMA
from rankmuster.report.incident_words import plural
from rankmuster.report.inert import plain

ANY = "any"
"""A condition that an operator's row leaves open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRow:
    """One row of the operator. What is None fits everything."""

    class_: FaultClass | None
    subclass: Subkind | None
    confidence: Confidence | None
    progress: Progress | None
    boundary: Boundary
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One row of the built-in table. `boundary`: what holds in every case, None where that depends on confidence or
    progress. `own`: the operator's rows that may come before it, from 1."""

    class_: FaultClass
    subclass: Subkind | None
    table: Boundary
    boundary: Boundary | None
    own: tuple[int, ...] = ()


def recovery_text(own: Sequence[OwnRow], table: Sequence[TableRow], width: int) -> str:
    """Both, as tables."""
    parts = []
    if own:
        parts.append("Your own rows; the first that fits counts:\n")
        shown = _table("row", "class", "subclass", "confidence", "progress", "boundary", "reason")
        for number, row in enumerate(own, start=1):
            conditions = [row.class_, row.subclass, row.confidence, row.progress]
            cells = [one.value if one is not None else ANY for one in conditions]
            shown.add_row(str(number), *cells, row.boundary.value, Text(plain(row.reason, 200) or "-"))
        parts += [_printed(shown, width), "\nThe built-in table, where none of them fits:\n"]
    shown = _table("class", "subclass", "boundary", "by your rows")
    for line in table:
        rows = f" (row{plural(len(line.own))} {', '.join(str(number) for number in line.own)})" if line.own else ""
        holds = line.boundary.value if line.boundary else "it depends"
        instead = f"{holds}{rows}" if rows else "-"
        shown.add_row(line.class_.value, line.subclass.value if line.subclass else "-", line.table.value, instead)
    parts.append(_printed(shown, width))
    return "".join(parts)


def recovery_json(own: Sequence[OwnRow], table: Sequence[TableRow]) -> str:
    """The same for programs."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "own": [
            {
                "class": row.class_.value if row.class_ else None,
                "subclass": row.subclass.value if row.subclass else None,
                "confidence": row.confidence.value if row.confidence else None,
                "progress": row.progress.value if row.progress else None,
                "boundary": row.boundary.value,
                "reason": row.reason,
            }
            for row in own
        ],
        "table": [
            {
                "class": line.class_.value,
                "subclass": line.subclass.value if line.subclass else None,
                "table": line.table.value,
                "boundary": line.boundary.value if line.boundary else None,
                "own": list(line.own),
            }
            for line in table
        ],
    }
    return json.dumps(document, indent=1) + "\n"


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def _printed(table: Table, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None, markup=False, highlight=False, emoji=False)
    console.print(table)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "".join(line.rstrip() + "\n" for line in text.splitlines())
