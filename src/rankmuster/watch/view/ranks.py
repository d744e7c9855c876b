"""The ranks of one instance: a row each while they are few, the odd ones first once they are many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from rankmuster.model.fault import Role
from rankmuster.model.ranks_text import rank_ranges
from rankmuster.report import theme
from rankmuster.report.words import rate_kib
from rankmuster.watch.snapshot import RankView
from rankmuster.watch.view.words import NONE, cut, number

MOST_ROWS = 16
"""Rows of one instance: two nodes of eight GPUs, and a terminal of 40 lines has room for the rest."""

MOST_RATE = 1e12
"""KiB/s above which a rate is none: a thousand times all links of a GPU."""

FEWEST_ROWS = 4
"""Rows of many ranks of which none is odd: enough to see what they do."""

DOING_STYLE = {"moving": "green", "spinning": "yellow", "idle": "cyan", "gone": "bold red", "foreign": "magenta"}

_AT_WORK = frozenset({"R", "S", "D", None})
"""States of a process that are nothing to speak of: D is short unless it is seen again."""

STATE_WORDS = {"T": "stopped", "t": "traced", "Z": "zombie", "X": "gone", "D": "in a driver"}
_ROLES = {role.value: look for role, look in theme.ROLES.items()}
_ACCUSED: dict[str | None, int] = {Role.CULPRIT.value: 0, Role.SUSPECT.value: 1}
USUAL = 3


def split(ranks: Sequence[RankView], most: int = MOST_ROWS) -> tuple[list[RankView], list[RankView]]:
    """(rows to show, the others). All in the order of their ranks where they fit; else the odd ones and few more."""
    ordered = sorted(ranks, key=lambda one: (one.rank is None, one.rank or 0, one.pid))
    if len(ordered) <= most:
        return ordered, []
    usual = Counter(one.doing for one in ordered).most_common(1)[0][0]
    ordered.sort(key=lambda one: _oddness(one, usual))
    odd = sum(_oddness(one, usual) < USUAL for one in ordered)
    shown = min(max(odd, FEWEST_ROWS), most)
    return ordered[:shown], ordered[shown:]


def _oddness(one: RankView, usual: str | None) -> int:
    if one.role in _ACCUSED:
        return _ACCUSED[one.role]
    return 2 if one.doing != usual or one.state not in _AT_WORK else USUAL


def doing_words(ranks: Sequence[RankView]) -> str:
    """`spinning 0, 1, 3; idle 2`: who does what; ranks that are not known are counted."""
    by: dict[str, list[RankView]] = {}
    for one in ranks:
        if one.doing is not None:
            by.setdefault(one.doing, []).append(one)
    parts = []
    for doing in sorted(by, key=lambda word: len(by[word])):
        known = [one.rank for one in by[doing] if one.rank is not None]
        unknown = len(by[doing]) - len(known)
        more = f"{unknown} without a rank" if unknown else ""
        parts.append(f"{doing} {', '.join(part for part in (rank_ranges(known), more) if part)}")
    return "; ".join(parts)


NARROW: tuple[tuple[str, int], ...] = (("NVLink", 70), ("process", 58), ("pid", 50), ("W", 44))
"""Columns that are left out where fewer columns of the terminal than that are left."""


def table(ranks: Sequence[RankView], width: int) -> Table:
    """One row a rank."""
    rows = [_cells(one) for one in ranks]
    dropped = {name for name, least in NARROW if width < least}
    if not any(row["process"].plain for row in rows):
        dropped.add("process")
    found = Table(box=None, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    names = [name for name in _COLUMNS if name not in dropped]
    for name in names:
        found.add_column(name, justify="right" if name in _RIGHT else "left", no_wrap=True)
    for row in rows:
        found.add_row(*(row[name] for name in names))
    return found


_COLUMNS = ("", "rank", "gpu", "pid", "doing", "SM", "W", "NVLink", "process", "role")
_RIGHT = frozenset({"rank", "gpu", "pid", "SM", "W", "NVLink"})


def _cells(one: RankView) -> dict[str, Text]:
    look = _ROLES.get(one.role or "")
    style = look.terminal if look is not None else ""
    rate = one.nvlink_kib_per_s
    state = one.state if one.state not in ("R", "S") else None
    return {
        "": Text(look.terminal_sign if look is not None else " ", style=style),
        "rank": Text("?" if one.rank is None else str(one.rank), style=style),
        "gpu": Text(NONE if one.gpu is None else str(one.gpu)),
        "pid": Text(str(one.pid)),
        "doing": cut(one.doing or NONE, 10, DOING_STYLE.get(one.doing or "", "")),
        "SM": Text(number(one.sm_percent, 0, "%")),
        "W": Text(number(one.power_w)),
        "NVLink": cut(rate_kib(rate), 12) if rate is not None and rate < MOST_RATE else Text(NONE),
        "process": cut(STATE_WORDS.get(state, state) if state else "", 11, "bold red"),
        "role": cut(look.word if look is not None else one.role or "", 8, style),
    }
