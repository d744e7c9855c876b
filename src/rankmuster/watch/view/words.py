"""How the live view says things: short, on one line, inert, and never by colour alone."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from rankmuster.model.fault import Progress
from rankmuster.report.inert import plain

NONE = "-"
"""What is not known."""


@dataclass(frozen=True, slots=True)
class StateLook:
    """`word`: in capitals where somebody should look. `sign`: for a column of one character. `style`: rich's."""

    word: str
    sign: str
    style: str


STATES: dict[Progress, StateLook] = {
    Progress.ADVANCING: StateLook("advancing", "+", "green"),
    Progress.IDLE: StateLook("idle", "o", "cyan"),
    Progress.STARTING: StateLook("starting", ">", "blue"),
    Progress.DRAINING: StateLook("draining", "<", "blue"),
    Progress.SLOW: StateLook("SLOW", "~", "bold yellow"),
    Progress.STOPPED: StateLook("STOPPED", "*", "bold white on red"),
    Progress.UNKNOWN: StateLook("UNKNOWN", "?", "bold magenta"),
}

URGENCY = (
    Progress.STOPPED,
    Progress.SLOW,
    Progress.UNKNOWN,
    Progress.STARTING,
    Progress.DRAINING,
    Progress.ADVANCING,
    Progress.IDLE,
)
"""Who comes first."""


def cut(words: object, columns: int, style: str = "") -> Text:
    """Foreign text, inert, in at most so many columns; what is cut ends in `..`."""
    shown = plain(words)
    columns = max(columns, 1)
    if cell_len(shown) > columns:
        shown = set_cell_size(shown, columns - 2) + ".." if columns > 4 else set_cell_size(shown, columns)
    return Text(shown, style=style, no_wrap=True)


def cut_left(words: object, columns: int, style: str = "") -> Text:
    """The same for paths, whose end tells them apart."""
    shown = plain(words)
    if cell_len(shown) > columns and columns > 4:
        while cell_len(shown) > columns - 2:
            shown = shown[max(1, (cell_len(shown) - columns + 2) // 2) :]
        shown = f"..{shown}"
    return Text(shown, style=style, no_wrap=True)


def packed(items: Iterable[Text], columns: int, gap: int = 3) -> Text:
    """Items side by side, as many on a line as fit; one that alone is too long is wrapped by whoever prints it."""
    found, used = Text(), 0
    for item in items:
        if used and used + gap + item.cell_len > columns:
            found.append("\n")
            used = 0
        found.append(" " * gap if used else "")
        found.append_text(item)
        used += (gap if used else 0) + item.cell_len
    return found


def length(seconds: float | None) -> str:
    """`13 s`, `4 min`, `2 h 5 min`, `3 d`; a length below 0 is none."""
    if seconds is None or not math.isfinite(seconds):
        return NONE
    seconds = max(seconds, 0.0)
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"
    return f"{min(seconds / 86_400, 99_999):.0f} d"


def number(value: float | None, digits: int = 0, unit: str = "") -> str:
    """`12`, `3.5`, `12k`; `-` where it is not known."""
    if value is None or not math.isfinite(value):
        return NONE
    size = abs(value)
    if size >= 1e15:
        return f"{value:.0e}{unit}"
    for least, sign in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e5, "k")):
        if size >= least:
            return f"{value / (1e3 if sign == 'k' else least):.0f}{sign}{unit}"
    return f"{value:.{digits}f}{unit}"
