"""The post-mortem as one HTML file: opens anywhere, without a network, and looks like the verdict's own page."""

from __future__ import annotations

from rankmuster.report.incident_account import Account
from rankmuster.report.incident_chapters import Chapter, chapters, title_of
from rankmuster.report.incident_figure import figures, legend
from rankmuster.report.incident_rows import Row, rows
from rankmuster.report.incident_standing import Standing, standing
from rankmuster.report.incident_words import OUTCOMES, since
from rankmuster.report.page import Markup, items, join, link, mark, page, prose, scroll, text
from rankmuster.report.words import clock

WIDE = ' style="min-width:46rem"'
"""Tables of sentences scroll sideways on a narrow screen, rather than stand in columns of one word."""


def render(incident: Account, *, now: float, lease: str | None = "") -> str:
    """The whole page: self-contained, script-free, every foreign text escaped, of bounded size."""
    told = standing(incident, now, lease)
    sections: list[tuple[str, str, Markup]] = []
    for chapter in chapters(incident, now):
        sections.append((chapter.key, chapter.title, _section(chapter)))
        if chapter.key == "impact":
            sections.append(("timeline", "Timeline", _timeline(incident, now)))
    top = Markup(
        '<a class="skip" href="#verdict">To what is to do</a>'
        f'<div class="top"><span>rankmuster incident · {text(incident.instance, 160)}</span>'
        f'<nav aria-label="Sections">{"".join(link(key, words) for key, words, _ in sections)}</nav></div>'
    )
    foot = Markup(f"<footer>Incident <code>{text(incident.id)}</code>, from the journal alone. Times are UTC.</footer>")
    body = join([top, Markup("<main>"), _head(incident, told), *(part for _, _, part in sections)])
    return page(title_of(incident), join([body, Markup("</main>"), foot]))


def _head(incident: Account, told: Standing) -> Markup:
    look = OUTCOMES[incident.outcome]
    word, _, rest = told.state.partition(": ")
    todo = items([prose(line) for line in told.todo], ordered=True)
    what = f"<h2>What is to do</h2>{todo}" if told.todo else '<p class="summary">Nothing falls to an operator.</p>'
    return Markup(
        f'<header class="verdict tone-{look.tone}" id="verdict">'
        f'<div class="class"><span>{text(look.sign)} {text(look.word)}</span><span>{text(word)}</span></div>'
        f'<h1>{text(rest or told.state, 600)}</h1><p class="where">{text(incident.instance, 160)}, traffic '
        f"{text(told.traffic.value)}, opened {text(clock(incident.opened_at, date=True))}</p>{what}</header>"
    )


def _section(chapter: Chapter) -> Markup:
    body = "".join(f"<p>{prose(line)}</p>" for line in chapter.lines)
    if chapter.facts:
        told = "".join(f"<div><dt>{text(term)}</dt><dd>{prose(words)}</dd></div>" for term, words in chapter.facts)
        body += f'<dl class="facts">{told}</dl>'
    body += items([prose(item) for item in chapter.items])
    if chapter.grid:
        head = "".join(f'<th scope="col">{text(name)}</th>' for name in chapter.grid[0])
        lines = "".join(f"<tr>{''.join(f'<td>{prose(cell)}</td>' for cell in row)}</tr>" for row in chapter.grid[1:])
        table = Markup(f"<table{WIDE}><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>")
        body += scroll(f"{chapter.title}, scrolls sideways", table)
    return _titled(chapter.key, chapter.title, Markup(body))


def _timeline(incident: Account, now: float) -> Markup:
    drawn = "".join(
        f"<figure><figcaption><b>{text(caption)}</b>. A bar is what a step took, the frame what it may take."
        f"</figcaption>{scroll('Picture, scrolls sideways', picture)}{legend()}</figure>"
        for caption, picture in figures(incident, now)
    )
    lines = "".join(_line(row, incident.opened_at) for row in rows(incident, now))
    names = ("From opening", "What", "State", "Took", "Words")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    table = Markup(f"<table{WIDE}><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>")
    return _titled("timeline", "Timeline", Markup(f"{drawn}{scroll('Timeline, scrolls sideways', table)}"))


def _line(row: Row, start: float) -> str:
    name = f'<td class="keep">&nbsp;&nbsp;<code>{text(row.name)}</code></td>' if row.level else ""
    name = name or f'<th scope="row" class="keep">{text(row.name)}</th>'
    tone = f' class="tone-{row.look.tone}"' if row.look.tone in ("culprit", "suspect") else ""
    would = items([Markup(f"<code>{text(line)}</code>") for line in row.lines])
    state = mark(row.look) if row.state else ""
    at = text(since(start, row.at)) if row.at is not None else ""
    return (
        f'<tr{tone}><td class="num keep">{at}</td>{name}<td class="keep">{state}</td>'
        f'<td class="keep">{text(row.took)}</td><td>{prose(row.words)}{would}</td></tr>'
    )


def _titled(key: str, title: str, body: Markup) -> Markup:
    return Markup(f'<section aria-labelledby="{key}"><h2 id="{key}">{text(title)}</h2>{body}</section>')
