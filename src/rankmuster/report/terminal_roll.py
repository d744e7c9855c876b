"""The roll call on a terminal: a table with as many of its columns as are legible."""

from __future__ import annotations

from rich.table import Table

from rankmuster.model.ranks_text import rank_ranges
from rankmuster.report import theme
from rankmuster.report.collapse import collapse
from rankmuster.report.paper import Paper
from rankmuster.report.rollcall import RollCall, Row

MAX_ROWS = 24
"""Rows of the roll call: with the verdict above them they fit a terminal of 40 lines."""

HOST_WIDTH = 15
"""A numeric IPv4 address; longer names fold."""

LEGIBLE = 11
"""Columns of a longer cell that are enough to read it, folded: `all_reduce` and a number's beginning."""

MISSED_BEST = ("links", "dump", "pid", "util", "host", "RAS", "done")
"""Columns that a narrow terminal does without, in this order: what they tell stands among the reasons as well."""

RIGHT = frozenset({"rank", "pid", "gpu", "done", "RAS", "util"})
WHOLE = frozenset({"", "pid", "gpu"})
"""Columns whose cells are never folded."""


def _rank_cell(row: Row) -> str:
    shown = rank_ranges(row.ranks).replace(", ", ",")
    if len(row.ranks) == 1:
        return shown
    parts = shown.split(",")
    return f"{','.join(parts[:3])}{',..' if len(parts) > 3 else ''} ({len(row.ranks)})"


def _hosts_cell(row: Row) -> str:
    if len(row.hosts) > 1:
        return f"{len(row.hosts)} hosts"
    return row.hosts[0] if row.hosts else "-"


def _done_cell(row: Row, home: str | None) -> str:
    done = row.finished
    if done is None:
        return "-"
    return done.text(home).rsplit(" ", 1)[0] if done.op else done.text(home)


def _fit(columns: dict[str, list[str]], width: int) -> list[str]:
    """Takes out what can be missed best, until the others are legible in `width` columns; returns the names."""

    def needed() -> int:
        return sum(min(max(map(len, (name, *cells))), LEGIBLE) + 1 for name, cells in columns.items())

    dropped = []
    for name in MISSED_BEST:
        if needed() <= width:
            break
        if name in columns:
            del columns[name]
            dropped.append(name)
    return dropped


def print_roll(paper: Paper, call: RollCall) -> None:
    """Prints the table, its legend, and the rows' notes."""
    rows, left = collapse(call.rows, MAX_ROWS)
    hosts = {host for row in rows for host in row.hosts}
    notes = [f"{len(call.rows)} ranks" if len(call.rows) != 1 else "1 rank"]
    if len(hosts) == 1:
        notes.append(
            f"all on host {next(iter(hosts))}" if all(row.hosts for row in rows) else f"host {next(iter(hosts))}"
        )
    if call.home is not None:
        notes.append(f"# in {call.home}")
    paper.heading("Roll call", "; ".join(notes))
    if not rows:
        paper.line(paper.text("no rank is known: no dump, no RAS reply, no list of processes"), indent=1)
        return
    looks = [theme.ROLES.get(row.role) if row.role is not None else None for row in rows]
    columns = {
        "": [look.terminal_sign if look is not None else "" for look in looks],
        "rank": [_rank_cell(row) for row in rows],
        "host": [_hosts_cell(row) for row in rows],
        "pid": ["-" if row.pid is None else str(row.pid) for row in rows],
        "gpu": ["-" if row.gpu is None else row.gpu for row in rows],
        "state": [row.state for row in rows],
        "entered": ["-" if row.entered is None else row.entered.text(call.home) for row in rows],
        "done": [_done_cell(row, call.home) for row in rows],
        "RAS": [row.ras for row in rows],
        "util": ["-" if row.util is None else f"{row.util:.0f}%" for row in rows],
        "links": ["-" if row.rate is None else row.link.value for row in rows],
        "dump": [row.dump.value for row in rows],
    }
    if len(hosts) < 2:
        del columns["host"]
    dropped = _fit(columns, paper.width)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim", show_edge=False)
    for name in columns:
        table.add_column(
            name,
            justify="right" if name in RIGHT else "left",
            overflow="fold",
            no_wrap=name in WHOLE,
            max_width=HOST_WIDTH if name == "host" else None,
        )
    for number, look in enumerate(looks):
        style = look.terminal if look is not None else ""
        table.add_row(*(paper.text(cells[number], style) for cells in columns.values()))
    paper.table(table)
    roles = {row.role for row in rows if row.role is not None}
    legend = [f"{look.terminal_sign} {look.word}" for role, look in theme.ROLES.items() if role in roles]
    if left:
        legend.append(f"{left} more ranks are not shown; JSON and HTML have them")
    if dropped:
        legend.append(f"too narrow for {', '.join(dropped)}")
    if legend:
        paper.line(paper.text("; ".join(legend), "dim"))
    for row in rows:
        for note in row.notes:
            paper.line(paper.text(f"rank {_rank_cell(row)}: {note}", "dim"), indent=1)
