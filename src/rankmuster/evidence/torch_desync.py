"""torch's desync report: a block of lines that names the ranks it believes to lag, within one group."""

from __future__ import annotations

import re

from rankmuster.evidence.log_lines import Origins
from rankmuster.evidence.log_prefix import whole
from rankmuster.model.frameworklog import DesyncReport

DESYNC_MARK = "To our best knowledge, "
MAX_REPORT = 400
"""Lines of one report: its snapshot has a line for each state and op, far fewer than ranks."""
MAX_TEXT = 4000
"""Characters kept of the report's text; what it names stands at its beginning."""
MAX_NAMED = 4096
"""Ranks taken from one report."""

_BELONGS = re.compile(r"\s+(?:- |\[|#)")
_FINISHED = re.compile(r"\[([\d, ]{1,20000})\] finished collective #(\d+), but didn't join")
_JOINED = re.compile(r"\[([\d, ]{1,20000})\] joined but didn't finish collective #(\d+)")
_MISSING = re.compile(r"ranks \[([\d, ]{1,20000})\] are the lagging ranks that caused this timeout")


def _ranks(listed: str) -> list[int]:
    found = [whole(part.strip()) for part in listed.split(",")[:MAX_NAMED]]
    return [rank for rank in found if rank is not None]


def read_desync(lines: list[tuple[int, str]], index: int, origins: Origins) -> DesyncReport | None:
    """The report around line `index` (the one with `DESYNC_MARK`); None where it names nobody."""
    start = index
    while start > 0 and index - start < 4 and _BELONGS.match(lines[start][1]):
        start -= 1
    end = index + 1
    while end < len(lines) and end - index < MAX_REPORT and _BELONGS.match(lines[end][1]):
        end += 1
    laggards: list[tuple[int, int | None]] = []
    unfinished: list[int] = []
    for _, line in lines[index:end]:
        missing, finished, joined = _MISSING.search(line), _FINISHED.search(line), _JOINED.search(line)
        if missing:
            laggards.extend((rank, None) for rank in _ranks(missing.group(1)))
        elif finished:
            seq = whole(finished.group(2))
            laggards.extend((rank, seq) for rank in _ranks(finished.group(1)))
        elif joined:
            unfinished.extend(_ranks(joined.group(1)))
    if not laggards and not unfinished:
        return None
    number, first = lines[start]
    origin, _ = origins.of(number, first)
    said = "\n".join(line.strip() for _, line in lines[start:end])[:MAX_TEXT]
    return DesyncReport(origin, tuple(laggards), said, tuple(unfinished))
