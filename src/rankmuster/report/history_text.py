"""The history as tables for a terminal: classes, cells, runs and change points."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from rankmuster.model.benchmark import Cell, HistoryRun, RunState
from rankmuster.model.history import ChangePoint, ClassCount, ClassHistory
from rankmuster.model.sizes_text import size_text
from rankmuster.report.history_figures import CellFigures
from rankmuster.report.history_words import short, when
from rankmuster.report.inert import plain


def classes_text(classes: Sequence[ClassCount], name: str, width: int) -> str:
    """Every class and profile, a line each."""
    if not classes:
        return f"{plain(name)} holds no runs yet; `rankmuster history add` and `rankmuster admit` store them\n"
    table = _table(
        "class", "kin", "profile", ">nodes", ">complete", "kept apart", "first", "last", "to decide", "settings"
    )
    for one in classes:
        kept = {state: count for state, count in one.states.items() if state != RunState.COMPLETE.value}
        table.add_row(
            short(one.class_hash),
            short(one.kin_hash),
            plain(one.profile),
            str(one.nodes),
            str(one.states.get(RunState.COMPLETE.value, 0)),
            _counts(kept),
            when(one.first),
            when(one.last),
            str(one.open_changes or "-"),
            _settings(one.settings),
        )
    return _printed(table, width)


def class_text(count: ClassCount, history: ClassHistory, found: Sequence[CellFigures], width: int) -> str:
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
    return "\n".join(lines) + "\n\n" + (_printed(table, width) if found else "no complete run is in the baseline\n")


def runs_text(runs: Sequence[HistoryRun], width: int) -> str:
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
    return _printed(table, width)


def changes_text(points: Sequence[ChangePoint], width: int) -> str:
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
    return _printed(table, width)


def _change_line(point: ChangePoint) -> str:
    of = "all" if point.cell is None else " ".join(_cell(point.cell))
    levels = f"{_number(point.before)} to {_number(point.after)} GB/s"
    facts = f"{_state(point)}, {when(point.at)}, {of}, {levels}, {point.nodes} nodes"
    return f"change point {point.id}: {facts} {plain(point.note)}".rstrip()


def _state(point: ChangePoint) -> str:
    return point.state.value + (f" until {when(point.until)}" if point.until is not None else "")


def _cell(cell: Cell) -> tuple[str, str, str, str]:
    launch = " ".join(word for word, said in (("graph", cell.graph), ("in-place", cell.in_place)) if said)
    return cell.operation.value, size_text(cell.size_bytes), plain(cell.dtype), launch or "-"


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


def _printed(table: Table, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None, markup=False, highlight=False, emoji=False)
    console.print(table)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "".join(line.rstrip() + "\n" for line in text.splitlines())
