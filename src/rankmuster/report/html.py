"""The verdict as one HTML file: opens anywhere, without a network, from a bundle that is read months later."""

from __future__ import annotations

from rankmuster.model.job import Job
from rankmuster.model.plane import PlaneState
from rankmuster.model.verdict import Verdict
from rankmuster.report import theme
from rankmuster.report.html_findings import anchors, evidence_section, findings_section
from rankmuster.report.html_head import head_section, todo_section
from rankmuster.report.html_pictures import pictures
from rankmuster.report.html_rollcall import rollcall_section
from rankmuster.report.operations import operations
from rankmuster.report.page import Markup, items, join, link, mark, page, prose, scroll, text
from rankmuster.report.rollcall import roll_call
from rankmuster.report.words import class_name

MAX_FILES = 200
"""Unread and damaged files listed."""


def _planes_section(verdict: Verdict) -> Markup:
    if not verdict.planes:
        return Markup("")
    order = list(PlaneState)
    rows = "".join(
        f'<tr><th scope="row">{text(record.plane.value)}</th><td class="keep">{mark(theme.PLANES[record.state])}</td>'
        f"<td>{prose(record.note)}</td></tr>"
        for record in sorted(verdict.planes, key=lambda record: order.index(record.state))
    )
    table = Markup(
        "<table><caption>Silent: should have spoken and did not. Blind: cannot see this kind of event or traffic. "
        'Neither is a sign of health.</caption><thead><tr><th scope="col">Plane</th><th scope="col">State</th>'
        f'<th scope="col">Why</th></tr></thead><tbody>{rows}</tbody></table>'
    )
    return Markup(
        '<section aria-labelledby="planes"><h2 id="planes">Planes of evidence</h2>'
        f"{scroll('Planes of evidence, scrolls sideways', table)}</section>"
    )


def _files_section(verdict: Verdict) -> Markup:
    parts = []
    for heading, lines in (("Damaged or refused", verdict.problems), ("Read by no reader", verdict.unread)):
        if lines:
            parts.append(f"<h3>{heading}</h3>{items([text(line) for line in lines[:MAX_FILES]])}")
            if len(lines) > MAX_FILES:
                parts.append(f'<p class="soft">{len(lines) - MAX_FILES} more are in the JSON form only.</p>')
    if not parts:
        return Markup("")
    return Markup(
        f'<section aria-labelledby="files"><h2 id="files">Files that were not fully used</h2>{"".join(parts)}</section>'
    )


def render(verdict: Verdict, job: Job) -> str:
    """The whole page as text: self-contained, script-free, every foreign text escaped, of bounded size."""
    tables = operations(job)
    call = roll_call(verdict, job, tables)
    roles = {row.ranks[0]: row.role for row in call.rows if row.role is not None}
    places = anchors(verdict)
    drawn = pictures(verdict, job, tables, roles, places)
    sections = [
        ("todo", "What to do", todo_section(verdict, job)),
        ("roll-call", "Roll call", rollcall_section(call)),
        ("divergence", "Collectives", drawn.around),
        ("why", "Why", findings_section(places)),
        ("timeline", "Time axis", drawn.axis),
        ("evidence", "Evidence", evidence_section(places, drawn.of_source)),
        ("planes", "Planes", _planes_section(verdict)),
        ("files", "Files", _files_section(verdict)),
    ]
    shown = [(key, name, body) for key, name, body in sections if body]
    name = " ".join(
        [verdict.instance or "unnamed instance"]
        + ([f"deployment {verdict.deployment}"] if verdict.deployment else [])
        + ([f"incarnation {verdict.incarnation}"] if verdict.incarnation else [])
    )
    top = Markup(
        '<a class="skip" href="#verdict">To the verdict</a>'
        f'<div class="top"><span>rankmuster · {text(name, 160)}</span>'
        f'<nav aria-label="Sections">{"".join(link(key, words) for key, words, _ in shown)}</nav></div>'
    )
    foot = Markup(
        f"<footer>Schema {text(verdict.schema_)}. Times are UTC on the bundle's reference clock. Bars and ages are the "
        "host's view, not kernel time.</footer>"
    )
    body = join(
        [top, Markup("<main>"), head_section(verdict), *(part for _, _, part in shown), Markup("</main>"), foot]
    )
    return page(f"{class_name(verdict)} - {verdict.instance or 'rankmuster'}", body)
