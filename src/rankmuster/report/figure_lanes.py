"""Pictures of a group: its last collectives around the first divergence, and the same ranks over the whole window."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from rankmuster.model.fault import Role
from rankmuster.model.ranks_text import rank_ranges
from rankmuster.report import theme
from rankmuster.report.lanes import Cell, Lanes
from rankmuster.report.operations import OUTSTANDING, ROW_MARKS, Mark, Operations
from rankmuster.report.page import Markup, text
from rankmuster.report.svg import LEFT, RIGHT, WIDTH, Axis, bar, label, svg
from rankmuster.report.words import span

LANE = 7
"""Height of one collective's lane, with a gap of two below its bar."""

OP_ROOM = 15
"""Characters of an operation's name that the right margin holds."""

ROW_GAP = 9
HEAD = 20
"""Room above the first row for the head of the drawn numbers."""

TAIL_SHARE = 0.14
"""Share of the picture's span kept on the right for operations that had not ended."""

STRIP = 18
"""Height of one rank's row over the whole window."""

STYLE: dict[Mark, str] = {
    Mark.FINISHED: "m-finished",
    Mark.FAILED: "m-failed",
    Mark.STARTED: "m-started",
    Mark.ENTERED: "m-entered",
    Mark.MISSING: "m-missing",
    Mark.OVERWRITTEN: "m-overwritten",
}


def legend(marks: set[Mark]) -> Markup:
    """What the drawn states look like, those that occur."""
    entries = [
        '<li><svg viewBox="0 0 22 10" aria-hidden="true">'
        f'<rect class="{style}" x="1" y="1" width="20" height="8"/></svg>{text(mark.value)}</li>'
        for mark, style in STYLE.items()
        if mark in marks
    ]
    return Markup(f'<ul class="legend">{"".join(entries)}</ul>')


def row_style(role: Role | None) -> tuple[str, str]:
    """CSS classes of a row's ground and of its name."""
    if role in (Role.CULPRIT, Role.SUSPECT):
        return f"row row-{role.value}", f"name strong t-{role.value}"
    return "row", "name"


def row_name(rank: int, role: Role | None) -> str:
    """`◆ rank 2`: the role's sign stands where its colour does."""
    return f"{theme.ROLES[role].sign} rank {rank}" if role is not None and role is not Role.VICTIM else f"rank {rank}"


def _axis(picture: Lanes) -> Axis | None:
    created = [cell.created for cell in picture.cells.values() if not math.isnan(cell.created)]
    ended = [cell.ended for cell in picture.cells.values() if not math.isnan(cell.ended)]
    if not created:
        return None
    start, end = min(created), max([*created, *ended])
    width = max(end - start, 1e-4)
    waits = any(cell.mark in OUTSTANDING for cell in picture.cells.values())
    return Axis(start - 0.02 * width, end + (TAIL_SHARE if waits else 0.03) * width, start)


def _hover(cell: Cell, number: str, look: float | None) -> str:
    words = f"rank {cell.rank}, {number}{cell.seq} {cell.op}: {cell.mark.value}"
    if not math.isnan(cell.created):
        if not math.isnan(cell.ended):
            words += f", {span(cell.ended - cell.created)} from enqueued to found complete"
        elif look is not None and look > cell.created:
            words += f", {span(look - cell.created)} old at the look"
    return words


def _rank_row(
    picture: Lanes, rank: int, top: float, axis: Axis, role: Role | None, number: str, link: str | None
) -> list[str]:
    height = len(picture.numbers) * LANE + 2
    ground, name = row_style(role)
    parts = [
        f'<rect class="{ground}" x="{LEFT}" y="{top}" width="{WIDTH - LEFT - RIGHT}" height="{height}"/>',
        label(0, top + 12, row_name(rank, role), name),
    ]
    look = picture.looks[rank]
    cells = [picture.cells[rank, seq] for seq in picture.numbers]
    waiting = [cell for cell in cells if cell.mark in OUTSTANDING]
    unknown = {cell.mark for cell in cells} & {Mark.NO_DUMP, Mark.OVERWRITTEN}
    for index, cell in enumerate(cells):
        y = top + 2 + index * LANE
        hover = _hover(cell, number, look)
        if cell.mark is Mark.MISSING:
            x = _missing_from(picture, cell.seq, axis)
            box = bar(x, WIDTH - RIGHT, y - 1, LANE, "m-missing", hover)
            body = box + label(WIDTH - RIGHT + 12, top + 12, "missing", "t-culprit strong")
            body += label(WIDTH - RIGHT + 12, top + 25, f"{number}{cell.seq}", "t-culprit strong")
            parts.append(f'<a href="#{link}">{body}</a>' if link else body)
        elif math.isnan(cell.created):
            if cell.mark is Mark.OVERWRITTEN:
                parts.append(bar(LEFT, WIDTH - RIGHT, y, LANE - 2, "m-overwritten", hover))
        else:
            end = axis.end if math.isnan(cell.ended) else cell.ended
            style = f"{STYLE[cell.mark]} odd" if (rank, cell.seq) in picture.odd else STYLE[cell.mark]
            body = bar(axis.x(cell.created), axis.x(end), y, LANE - 2, style, hover)
            parts.append(f'<a href="#{link}">{body}</a>' if link and (rank, cell.seq) in picture.odd else body)
            if cell.mark in OUTSTANDING:
                x, head = axis.x(axis.end), "h-started" if cell.mark is Mark.STARTED else "h-entered"
                parts.append(f'<path class="{head}" d="M{x} {y - 1}l6 3.5l-6 3.5z"/>')
    side = WIDTH - RIGHT + 12
    odd = [cell for cell in cells if (rank, cell.seq) in picture.odd]
    if odd:
        shown = next((cell for cell in odd if cell.seq == picture.focus), odd[0])
        parts.append(label(side, top + 12, "differs", "t-culprit strong"))
        parts.append(label(side, top + 25, f"{number}{shown.seq}", "t-culprit strong"))
        parts.append(label(side, top + 38, shown.op[:OP_ROOM], "t-culprit"))
    elif waiting:
        created = min(cell.created for cell in waiting)
        if look is not None and look > created:
            parts.append(label(side, top + 12, f"{span(look - created)} old", "strong"))
            parts.append(label(side, top + 25, "at the look"))
        else:
            parts.append(label(side, top + 12, "still waiting", "strong"))
    elif Mark.NO_DUMP in unknown:
        parts.append(label(side, top + 12, "no dump"))
    return parts


def _missing_from(picture: Lanes, seq: int, axis: Axis) -> float:
    """A missing cell begins where its peers' bars do."""
    peers = [picture.cells[rank, seq].created for rank in picture.ranks]
    known = [created for created in peers if not math.isnan(created)]
    return axis.x(min(known)) if known else LEFT


def around(picture: Lanes, roles: Mapping[int, Role], key: str, link: str | None) -> Markup | None:
    """A row per rank, in it a lane per collective, a bar from enqueued to found complete or on past the edge.

    None where no row carries a time. `link`: the anchor of the finding that the missing cell rests on.
    """
    axis = _axis(picture)
    if axis is None:
        return None
    number = "p2p #" if picture.p2p else "#"
    parts: list[str] = []
    ops = {cell.seq: cell.op for cell in picture.cells.values() if cell.op}
    top = float(HEAD)
    row = len(picture.numbers) * LANE + 2 + ROW_GAP
    for rank in picture.ranks:
        parts += _rank_row(picture, rank, top, axis, roles.get(rank), number, link)
        top += row
    first, last = picture.numbers[0], picture.numbers[-1]
    parts.append(label(LEFT, 12, f"in each row, from top to bottom: {number}{first} to {number}{last}"))
    op = "" if picture.p2p else ops.get(picture.focus, "")  # each rank counts its own sends and receives
    parts.append(label(WIDTH - RIGHT, 12, f"in focus: {number}{picture.focus} {op}", "name", "end"))
    height = top - ROW_GAP + 2
    described = [f"{number}{seq}: {_told(picture, seq)}" for seq in picture.numbers]
    return svg(
        height + AXIS_ROOM,
        f"{number}{first} to {number}{last} of {picture.group.label} on {len(picture.ranks)} ranks over time",
        "; ".join(described),
        [*parts, *axis.draw(height, HEAD)],
        key,
    )


AXIS_ROOM = 36


def _told(picture: Lanes, seq: int) -> str:
    """What a picture shows of one number, in words."""
    by_mark: dict[Mark, list[int]] = {}
    for rank in picture.ranks:
        by_mark.setdefault(picture.cells[rank, seq].mark, []).append(rank)
    words = [f"{mark.value} on {rank_ranges(ranks)}" for mark, ranks in by_mark.items()]
    words += [
        f"{picture.cells[rank, seq].op} differs on {rank}" for rank in picture.ranks if (rank, seq) in picture.odd
    ]
    return ", ".join(words)


def _busy(table: Operations, group: int, axis: Axis) -> list[tuple[float, float]]:
    """Stretches in which the rank had operations of the group that finished, merged where nobody could see a gap."""
    rows = np.flatnonzero((table.group == group) & (table.mark == ROW_MARKS.index(Mark.FINISHED)))
    rows = rows[~np.isnan(table.created[rows])]
    rows = rows[(table.ended[rows] >= axis.start) & (table.created[rows] <= axis.end)]
    if not len(rows):
        return []
    rows = rows[np.argsort(table.created[rows], kind="stable")]
    starts, ends = table.created[rows], np.maximum.accumulate(table.ended[rows])
    pixel = (axis.end - axis.start) / (WIDTH - LEFT - RIGHT)
    cuts = np.flatnonzero(starts[1:] > ends[:-1] + pixel) + 1
    firsts = np.concatenate([[0], cuts])
    lasts = np.concatenate([cuts - 1, [len(rows) - 1]])
    return [(float(starts[a]), float(ends[b])) for a, b in zip(firsts, lasts, strict=True)]


def strip(
    picture: Lanes, tables: Mapping[int, Operations], roles: Mapping[int, Role], axis: Axis, key: str
) -> tuple[Markup, set[Mark]]:
    """The same ranks on the common axis: when they had operations of the group in flight, and since when they wait."""
    parts: list[str] = []
    marks: set[Mark] = set()
    told = []
    for index, rank in enumerate(picture.ranks):
        top = index * STRIP
        role, table = roles.get(rank), tables.get(rank)
        ground, name = row_style(role)
        parts.append(
            f'<rect class="{ground}" x="{LEFT}" y="{top + 1}" width="{WIDTH - LEFT - RIGHT}" height="{STRIP - 3}"/>'
        )
        parts.append(label(0, top + 12, row_name(rank, role), name))
        side = WIDTH - RIGHT + 12
        if table is None:
            parts.append(label(side, top + 12, "no dump"))
            told.append(f"rank {rank} left no dump")
            continue
        for start, end in _busy(table, picture.group.key, axis):
            parts.append(bar(axis.x(start), axis.x(end), top + 3, STRIP - 7, "m-finished"))
            marks.add(Mark.FINISHED)
        rows = np.flatnonzero((table.group == picture.group.key) & np.isin(table.mark, _WAITING))
        rows = rows[~np.isnan(table.created[rows])]
        if not len(rows):
            parts.append(label(side, top + 12, "none waiting"))
            told.append(f"rank {rank} has nothing outstanding")
            continue
        oldest = float(table.created[rows].min())
        mark = Mark.STARTED if np.any(table.mark[rows] == ROW_MARKS.index(Mark.STARTED)) else Mark.ENTERED
        until = table.look if table.look is not None and table.look > oldest else oldest
        marks.add(mark)
        words = f"{len(rows)} outstanding for {span(until - oldest)}"
        parts.append(bar(axis.x(oldest), axis.x(until), top + 3, STRIP - 7, STYLE[mark], f"rank {rank}: {words}"))
        parts.append(label(side, top + 12, f"{len(rows)} waiting"))
        told.append(f"rank {rank} has {words}")
    height = len(picture.ranks) * STRIP
    drawn = svg(
        height + AXIS_ROOM,
        f"Operations of {picture.group.label} in flight over the window",
        "; ".join(told),
        [*parts, *axis.draw(height)],
        key,
    )
    return drawn, marks


_WAITING = [ROW_MARKS.index(mark) for mark in OUTSTANDING]
