"""The roll call as an HTML table."""

from __future__ import annotations

from rankmuster.model.ranks_text import rank_ranges
from rankmuster.report import theme
from rankmuster.report.collapse import collapse
from rankmuster.report.page import Markup, mark, scroll, text
from rankmuster.report.rollcall import DumpState, Link, RollCall, Row
from rankmuster.report.words import rate_kib

MAX_ROWS = 64
"""Rows before like ranks are told as one: eight nodes of eight GPUs are still read one by one."""

NONE = Markup('<span class="soft">–</span>')

COLUMNS = (
    ("Rank", ""),
    ("Role", ""),
    ("Host", ""),
    ("pid", "num"),
    ("GPU", "num"),
    ("Process", ""),
    ("Last entered", ""),
    ("Last finished", ""),
    ("RAS count", "num"),
    ("GPU util", "num"),
    ("Link bytes", ""),
    ("Dump", ""),
    ("Note", ""),
)


def _cell(body: Markup, style: str = "") -> str:
    return f'<td class="{style}">{body}</td>' if style else f"<td>{body}</td>"


def _alarm(words: str, alarming: bool) -> Markup:
    return Markup(f'<span class="alarm">{text(words)}</span>') if alarming else text(words)


def _links(row: Row) -> Markup:
    if row.rate is None:
        return NONE
    return text(rate_kib(row.rate) if row.link is Link.MOVING else "still")


def _row(row: Row, home: str | None, dumps: bool) -> str:
    look = theme.ROLES.get(row.role) if row.role is not None else None
    one = len(row.ranks) == 1
    hosts = row.hosts[0] if row.hosts else ""
    if len(row.hosts) > 1:
        hosts += f" and {len(row.hosts) - 1} more"
    util = NONE if row.util is None else text(f"{row.util:.0f} %")
    ended = row.state not in ("running", "unknown")
    name = rank_ranges(row.ranks)
    many = "" if one else f" <small>({len(row.ranks)} ranks)</small>"
    anchor = f' id="rank-{row.ranks[0]}"' if one else ""
    tone = f' class="tone-{look.tone}"' if look is not None else ""
    cells = [
        f'<th scope="row" class="num">{text(name, 200)}{many}</th>',
        _cell(mark(look) if look is not None else NONE),
        _cell(text(hosts) if hosts else NONE, "mono"),
        _cell(NONE if row.pid is None else text(row.pid), "num"),
        _cell(NONE if row.gpu is None else text(row.gpu), "num"),
        _cell(_alarm(row.state, ended)),
        _cell(NONE if row.entered is None else text(row.entered.text(home)), "keep"),
        _cell(NONE if row.finished is None else text(row.finished.text(home)), "keep"),
        _cell(NONE if row.ras == "-" else _alarm(row.ras, row.ras in ("MISSING", "DEAD")), "num"),
        _cell(util, "num"),
        _cell(_links(row), "keep"),
        _cell(_alarm(row.dump.value, dumps and row.dump is DumpState.NO), "keep"),
        _cell(Markup("<br>".join(text(note) for note in row.notes)) if row.notes else NONE),
    ]
    return f"<tr{anchor}{tone}>{''.join(cells)}</tr>"


def rollcall_section(call: RollCall) -> Markup:
    """One row per rank, like ranks as one where there are many."""
    rows, left = collapse(call.rows, MAX_ROWS)
    opening = '<section aria-labelledby="roll-call"><h2 id="roll-call">Roll call</h2>'
    if not rows:
        return Markup(f"{opening}<p>No rank is known: no dump, no RAS reply, no list of processes.</p></section>")
    caption = f"{len(call.rows)} {'rank' if len(call.rows) == 1 else 'ranks'}"
    if len(rows) < len(call.rows):
        caption += ", like ranks in one row"
    if left:
        caption += f"; {left} ranks are left out here (cap of {MAX_ROWS} rows)"
    if call.home is not None:
        caption += f". Numbers are collectives of group {call.home} unless another is named"
    caption += ". RAS counts launched operations; GPU columns tell of the last seconds of the samples."
    head = "".join(
        f'<th scope="col" class="{style}">{name}</th>' if style else f'<th scope="col">{name}</th>'
        for name, style in COLUMNS
    )
    dumps = any(row.dump is not DumpState.NO for row in rows)  # where nobody left one, none is missing
    body = "\n".join(_row(row, call.home, dumps) for row in rows)
    table = Markup(
        f"<table><caption>{text(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )
    return Markup(f"{opening}{scroll('Roll call, scrolls sideways', table)}</section>")
