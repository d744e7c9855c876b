"""The history on a terminal and as JSON (schema `rankmuster.history/1`): classes, cells, runs and change points."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from rankmuster.cli.history_words import short, when
from rankmuster.model.benchmark import Cell, HistoryRun
from rankmuster.model.history import CellHistory, ChangePoint, ClassHistory
from rankmuster.report.inert import plain
from rankmuster.store.stored import ClassCount

SCHEMA = "rankmuster.history/1"

QUANTILES = (0.01, 0.5, 0.99)
"""Of bus bandwidth and time per cell: what the slowest and fastest of a hundred runs have, and the middle."""

WIDEST = 160
"""Columns; in a wider terminal eyes lose the row."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True, slots=True)
class CellFigures:
    """One cell of a class: quantiles (`QUANTILES`) of busbw in GB/s and time in microseconds, over `runs`."""

    cell: Cell
    runs: int
    busbw: tuple[float, ...]
    time_us: tuple[float, ...]


def figures(history: ClassHistory) -> tuple[CellFigures, ...]:
    """Per cell, in the order of cells."""
    return tuple(_figures(one) for one in history.cells.values())


def _figures(one: CellHistory) -> CellFigures:
    quantiles = (tuple(float(value) for value in np.quantile(values, QUANTILES)) for values in (one.busbw, one.time_us))
    return CellFigures(one.cell, len(one.run), *quantiles)


def classes_text(classes: Sequence[ClassCount], name: str) -> str:
    """Every class and profile, a line each."""
    if not classes:
        return f"{plain(name)} holds no runs yet; `rankmuster history add` and `rankmuster admit` store them\n"
    table = _table(
        "class", "kin", "profile", ">nodes", ">complete", "kept apart", "first", "last", "to decide", "settings"
    )
    for one in classes:
        kept = {state: count for state, count in one.states.items() if state != "complete"}
        table.add_row(
            short(one.class_hash),
            short(one.kin_hash),
            plain(one.profile),
            str(one.nodes),
            str(one.states.get("complete", 0)),
            _counts(kept),
            when(one.first),
            when(one.last),
            str(one.open_changes or "-"),
            _settings(one.settings),
        )
    return _printed(table)


def class_text(count: ClassCount, history: ClassHistory, found: Sequence[CellFigures]) -> str:
    """One class and profile: what its baseline is made of, and its cells."""
    runs = len(history.records)
    lines = [
        f"class {count.class_hash}",
        f"kin {count.kin_hash}",
        f"profile {plain(count.profile)}; settings {_settings(count.settings)}",
        f"baseline: {runs} of {history.total} complete runs, of {len(set(history.nodes))} nodes; not in it: "
        f"{_counts(history.kept_out)}",
        *(_change_line(point) for point in history.change_points),
    ]
    table = _table(
        "operation", ">size", "dtype", "launch", ">runs", ">GB/s p1", ">p50", ">p99", ">us p1", ">p50", ">p99"
    )
    for one in found:
        table.add_row(*_cell(one.cell), str(one.runs), *(_number(value) for value in one.busbw + one.time_us))
    return "\n".join(lines) + "\n\n" + (_printed(table) if found else "no complete run is in the baseline\n")


def runs_text(runs: Sequence[HistoryRun]) -> str:
    """Runs, a line each."""
    if not runs:
        return "no run\n"
    table = _table("record", "started", "node", "class", "profile", "tool", "state", ">results", "reason")
    for run in runs:
        node = plain(run.host or short(run.node_hash))
        table.add_row(
            *(
                short(run.record),
                when(run.started_at),
                node,
                short(run.class_hash),
                plain(run.profile),
                plain(run.tool),
            ),
            *(run.state.value, str(len(run.values)), plain(run.reason, 80)),
        )
    return _printed(table)


def changes_text(points: Sequence[ChangePoint]) -> str:
    """Change points, a line each."""
    if not points:
        return "no change point\n"
    table = _table(">id", "state", "at", "class", "profile", "of", ">GB/s before", ">after", ">nodes", "note")
    for point in points:
        table.add_row(
            *(str(point.id), _state(point), when(point.at), short(point.class_hash), plain(point.profile)),
            "all" if point.cell is None else " ".join(_cell(point.cell)),
            *(_number(point.before), _number(point.after), str(point.nodes), plain(point.note, 120)),
        )
    return _printed(table)


def as_json(**parts: Any) -> str:
    """One document; dataclasses as objects."""
    return json.dumps({"schema": SCHEMA, **parts}, default=_plain, ensure_ascii=False) + "\n"


def figures_json(found: Iterable[CellFigures]) -> list[dict[str, Any]]:
    """Cells with their quantiles by name."""
    names = [f"p{quantile * 100:g}" for quantile in QUANTILES]
    return [
        {
            **asdict(one.cell),
            "runs": one.runs,
            "busbw": dict(zip(names, one.busbw, strict=True)),
            "time_us": dict(zip(names, one.time_us, strict=True)),
        }
        for one in found
    ]


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else asdict(value)


def _change_line(point: ChangePoint) -> str:
    of = "all" if point.cell is None else " ".join(_cell(point.cell))
    levels = f"{_number(point.before)} to {_number(point.after)} GB/s"
    facts = f"{_state(point)}, {when(point.at)}, {of}, {levels}, {point.nodes} nodes"
    return f"change point {point.id}: {facts} {plain(point.note)}".rstrip()


def _state(point: ChangePoint) -> str:
    return point.state.value + (f" until {when(point.until)}" if point.until is not None else "")


def _cell(cell: Cell) -> tuple[str, str, str, str]:
    launch = " ".join(word for word, said in (("graph", cell.graph), ("in-place", cell.in_place)) if said)
    return cell.operation.value, _size(cell.size_bytes), plain(cell.dtype), launch or "-"


def _size(count: int) -> str:
    power = 0
    while count and count % 1024 == 0 and power < len(_UNITS) - 1:
        count, power = count // 1024, power + 1
    return f"{count} {_UNITS[power]}"


def _number(value: float | None) -> str:
    return "-" if value is None or np.isnan(value) else f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {plain(state)}" for state, count in sorted(counts.items())) or "-"


def _settings(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{plain(name)}={plain(value, 40)}" for name, value in settings.items()) or "-"


def _table(*columns: str) -> Table:
    """`>` before a column's name: numbers, to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(name.removeprefix(">"), justify="right" if name[0] == ">" else "left", overflow="fold")
    return table


def _printed(table: Table) -> str:
    width = min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)
    console = Console(file=io.StringIO(), width=width, color_system=None, markup=False, highlight=False, emoji=False)
    console.print(table)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "".join(line.rstrip() + "\n" for line in text.splitlines())
