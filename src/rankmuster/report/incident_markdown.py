"""The post-mortem as Markdown, for a ticket or a wiki: the state now and what is to do, then all that the page has.

Foreign text is escaped, so that nothing in a host name or a note becomes a link, a picture, HTML or a table's edge.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rankmuster.report.incident_account import Account
from rankmuster.report.incident_chapters import Chapter, chapters, title_of
from rankmuster.report.incident_rows import Row, rows
from rankmuster.report.incident_standing import standing
from rankmuster.report.incident_words import since
from rankmuster.report.inert import plain
from rankmuster.report.words import clock

_ACTING = re.compile(r"([\\`*_{}\[\]<>|#&!~$@^])")
_START = re.compile(r"^([-+=]|\d+[.)])(?=\s|$)")
_ADDRESS = re.compile(r"(?i)(:)(?=//)|(?<=\bwww)(\.)")
_CODE = re.compile(r"`([^`]+)`")


def render(incident: Account, *, now: float, lease: str | None = "") -> str:
    """The whole document, ending with \\n. `lease`: as in `standing`."""
    told = standing(incident, now, lease)
    parts = [f"# {escaped(title_of(incident))}", f"**{escaped(told.state)}**"]
    if told.todo:
        parts.append("To do:\n\n" + "\n".join(f"{n}. {prose(line)}" for n, line in enumerate(told.todo, start=1)))
    else:
        parts.append("Nothing falls to an operator.")
    parts.append(f"Incident {_code(incident.id)}; times are UTC.")
    timeline = _timeline(incident, now)
    for chapter in chapters(incident, now):
        parts.append(_chapter(chapter))
        if chapter.key == "impact":
            parts.append(timeline)
    return "\n\n".join(parts) + "\n"


def escaped(words: object, limit: int = 2_000) -> str:
    """Foreign or own words as inert Markdown on one line, fit for a cell too."""
    text = _ACTING.sub(r"\\\1", plain(words, limit))
    text = _ADDRESS.sub(lambda found: f"\\{found.group()}", text)
    return _START.sub(lambda found: f"{found.group()[:-1]}\\{found.group()[-1]}", text)


def prose(words: object) -> str:
    """Like `escaped`, with `back quotes` kept as code."""
    pieces = _CODE.split(plain(words))
    return "".join(_code(piece) if place % 2 else escaped_part(piece) for place, piece in enumerate(pieces))


def escaped_part(words: str) -> str:
    """A piece of a line, its spaces kept."""
    inner = words.strip()
    if not inner:
        return words and " "
    start, end = words[: len(words) - len(words.lstrip())], words[len(words.rstrip()) :]
    return f"{start}{escaped(inner)}{end}"


def _code(words: str) -> str:
    inner = plain(words).replace("`", "'").replace("|", "\\|")
    return f"`{inner}`"


def _chapter(chapter: Chapter) -> str:
    parts = [f"## {chapter.title}", *(escaped(line) for line in chapter.lines)]
    listed = [f"- **{escaped(term)}**: {prose(words)}" for term, words in chapter.facts]
    listed += [f"- {prose(item)}" for item in chapter.items]
    if listed:
        parts.append("\n".join(listed))
    if chapter.grid:
        parts.append(_grid(chapter.grid[0], [[prose(cell) for cell in row] for row in chapter.grid[1:]]))
    return "\n\n".join(parts)


def _grid(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(cell or ' ' for cell in row)} |" for row in body]
    return "\n".join(lines)


def _timeline(incident: Account, now: float) -> str:
    told = [_cells(row, incident.opened_at) for row in rows(incident, now)]
    head = ("From opening", "What", "State", "Took", "Words")
    return f"## Timeline\n\nThe opening is {clock(incident.opened_at, date=True)}.\n\n{_grid(head, told)}"


def _cells(row: Row, start: float) -> list[str]:
    name = f"- {_code(row.name)}" if row.level else escaped(row.name)
    words = prose(row.words)
    if row.lines:
        words += f"{'; ' if words else ''}would: {'; '.join(_code(line) for line in row.lines)}"
    at = since(start, row.at) if row.at is not None else ""
    return [at, name, escaped(row.state), row.took, words]
