"""An admission as one HTML file: the answer, why, and the node's points over its class's distribution per size."""

from __future__ import annotations

from collections.abc import Sequence

from rankmuster.model.admission import AdmissionRecord, Check
from rankmuster.model.history import ClassHistory
from rankmuster.report.admission_figure import figure, figure_keys
from rankmuster.report.admission_words import (
    DECISIONS,
    GROUPS,
    MEANINGS,
    STANDINGS,
    STATES,
    class_words,
    compared_words,
    level_words,
    nodes_name,
    of_group,
    plural,
    regime_words,
    value_words,
)
from rankmuster.report.page import Markup, items, join, link, mark, page, prose, scroll, text
from rankmuster.report.size_words import size_words
from rankmuster.report.words import clock, span

MOST_FIGURES = 24
"""Pictures on one page: operations times ways of launching of one profile."""

WIDE = ' style="min-width:46rem"'
"""Tables of sentences scroll sideways on a narrow screen, rather than stand in columns of one word."""

LEGEND = (
    ('<rect class="area" fill-opacity="0.55" width="22" height="10"/>', "the class, 5th to 95th percentile"),
    ('<rect class="area" width="22" height="10"/>', "its middle half"),
    ('<line class="curve" x1="0" y1="5" x2="22" y2="5"/>', "its median"),
    ('<line class="fault" x1="0" y1="5" x2="22" y2="5"/>', "refused below, size by size"),
    ('<circle class="head" cx="11" cy="5" r="3"/>', "this node, each run"),
    ('<path class="cross" d="M7 1l8 8m0 -8l-8 8"/>', "below"),
)


def render(record: AdmissionRecord, history: ClassHistory | None = None) -> str:
    """The whole page: self-contained, script-free, every foreign text escaped. `history`: what was compared with."""
    sections = [
        ("regimes", "Regimes", _regimes(record)),
        ("sizes", "Sizes", _figures(record, history)),
        ("checks", "Checks", _checks(record)),
        ("record", "Record", _record(record)),
    ]
    shown = [(key, name, body) for key, name, body in sections if body]
    top = Markup(
        '<a class="skip" href="#verdict">To the answer</a>'
        f'<div class="top"><span>rankmuster admission · {text(nodes_name(record), 160)}</span>'
        f'<nav aria-label="Sections">{"".join(link(key, words) for key, words, _ in shown)}</nav></div>'
    )
    foot = Markup("<footer>Schema rankmuster.admission/1. Times are UTC.</footer>")
    body = join([top, Markup("<main>"), _head(record), *(part for _, _, part in shown), Markup("</main>"), foot])
    return page(f"{DECISIONS[record.decision].word} - admission of {nodes_name(record)}", body)


def _head(record: AdmissionRecord) -> Markup:
    look = DECISIONS[record.decision]
    first = record.reasons[0] if record.reasons else MEANINGS[record.decision]
    rest = [prose(reason) for reason in record.reasons[1:]]
    runs = f"{len(record.runs)}" + (f", {record.retests} of them re-tests" if record.retests else "")
    facts = [
        ("Compared with", compared_words(record), ""),
        ("Profile", record.profile, ""),
        ("Class", class_words(record), ""),
        ("Runs", runs, ""),
        ("Began", clock(record.started_at, date=True), span(max(record.ended_at - record.started_at, 0.0))),
    ]
    told = "".join(
        f"<div><dt>{text(term)}</dt><dd>{text(words)}{f'<small>{text(note)}</small>' if note else ''}</dd></div>"
        for term, words, note in facts
    )
    return Markup(
        f'<header class="verdict tone-{look.tone}" id="verdict">'
        f'<div class="class"><span>{text(look.sign)} {text(look.word)}</span>'
        f"<span>{text(MEANINGS[record.decision])}</span></div>"
        f"<h1>{text(nodes_name(record), 160)}</h1>"
        f'<p class="summary">{prose(first)}</p>{items(rest)}'
        f'<dl class="facts">{told}</dl></header>'
    )


def _regimes(record: AdmissionRecord) -> Markup:
    if not record.judgements:
        return Markup("")
    rows = []
    for judged in record.judgements:
        tone = (
            f' class="tone-{STANDINGS[judged.standing].tone}"' if STANDINGS[judged.standing].tone == "culprit" else ""
        )
        alarm = "" if judged.false_alarm is None else f"{100 * judged.false_alarm:.2g} %"
        basis = (
            judged.floor or f"{judged.samples} run{plural(judged.samples)}, {judged.nodes} node{plural(judged.nodes)}"
        )
        why = prose(judged.reason or level_words(judged))
        rows.append(
            f'<tr{tone}><th scope="row">{text(regime_words(judged))}</th>'
            f'<td class="keep">{mark(STANDINGS[judged.standing])}</td>'
            f'<td>{text(basis)}</td><td class="num">{text(alarm)}</td><td>{why}</td></tr>'
        )
    head = "".join(
        f'<th scope="col"{style}>{words}</th>'
        for words, style in (
            ("Operation and regime", ""),
            ("Standing", ""),
            ("Judged by", ""),
            ("False alarms", ' class="num"'),
            ("Why", ""),
        )
    )
    table = Markup(
        f"<table{WIDE}><caption>Sizes that one mechanism rules are judged together: latency up to 64 KiB, which "
        "refuses nobody alone, the plateau from 16 MiB on, and what lies between. False alarms: how often a healthy "
        f"node is refused by this line.</caption><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )
    return _section("regimes", "Regimes", scroll("Regimes, scrolls sideways", table))


def _figures(record: AdmissionRecord, history: ClassHistory | None) -> Markup:
    keys = figure_keys(record.runs)
    if not keys:
        return Markup("")
    parts = []
    signs = "".join(f'<li><svg viewBox="0 0 22 10" aria-hidden="true">{sign}</svg>{text(w)}</li>' for sign, w in LEGEND)
    for number, key in enumerate(keys[:MOST_FIGURES]):
        drawn = figure(key, record.runs, record.judgements, history, f"figure-{number}")
        parts.append(
            f"<figure><figcaption><b>{text(key.title)}</b></figcaption>"
            f"{scroll(f'{key.title}, scrolls sideways', drawn)}"
            f'<ul class="legend">{signs}</ul></figure>'
        )
    if len(keys) > MOST_FIGURES:
        parts.append(f'<p class="soft">{len(keys) - MOST_FIGURES} more are in the JSON form only.</p>')
    return _section("sizes", "Sizes", Markup("".join(parts) + _sizes(record)))


def _sizes(record: AdmissionRecord) -> str:
    rows = [
        f'<tr><th scope="row">{text(cell.cell.operation.value)}{" graph" if cell.cell.graph else ""}'
        f"{' in place' if cell.cell.in_place else ''}</th>"
        f'<td class="num">{text(size_words(cell.cell.size_bytes))}</td>'
        f'<td class="num">{text(value_words(cell, cell.value))}</td>'
        f'<td class="num">{text(value_words(cell, cell.center))}</td>'
        f'<td class="num">{text(value_words(cell, cell.limit))}</td>'
        f'<td class="num">{"-" if cell.ratio is None else f"{100 * cell.ratio:.1f} %"}</td>'
        f'<td class="num">{cell.samples}</td></tr>'
        for judged in record.judgements
        for cell in judged.cells
    ]
    if not rows:
        return ""
    names = ("Operation", "Size", "This node", "Class", "Refused at", "Of the class", "Runs")
    head = "".join(
        f'<th scope="col"{"" if number == 0 else " class=num"}>{name}</th>' for number, name in enumerate(names)
    )
    table = Markup(f"<table{WIDE}><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>")
    return f"<details><summary>All sizes as a table</summary>{scroll('All sizes, scrolls sideways', table)}</details>"


def _checks(record: AdmissionRecord) -> Markup:
    parts = []
    for group, title in GROUPS.items():
        checks = [check for check in of_group(record.checks, group) if check.name != "regime"]
        if checks:
            body = scroll(f"{title}, scrolls sideways", _table(checks))
            parts.append(f"<h3>{text(title)}</h3>{body}")
    return _section("checks", "Checks", Markup("".join(parts))) if parts else Markup("")


def _table(checks: Sequence[Check]) -> Markup:
    rows = []
    for check in checks:
        look = STATES[check.state]
        tone = f' class="tone-{look.tone}"' if look.tone in ("culprit", "suspect") else ""
        advice = f"<br><small>{prose(check.advice)}</small>" if check.advice else ""
        refs = f'<br><small class="refs">{text(", ".join(check.evidence))}</small>' if check.evidence else ""
        rows.append(
            f'<tr{tone}><td class="keep">{mark(look)}</td><th scope="row" class="keep">{text(check.name)}</th>'
            f"<td>{text(check.subject)}</td><td>{prose(check.statement)}{advice}{refs}</td></tr>"
        )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("State", "Check", "Of", "What was found"))
    return Markup(f"<table{WIDE}><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>")


def _record(record: AdmissionRecord) -> Markup:
    facts = [("Record", record.hash), *record.fingerprint.items()]
    facts += [("Compared with", record.compared_with or "nothing"), *record.settings.items()]
    rows = "".join(
        f'<tr><th scope="row">{text(name)}</th><td><code>{text(value)}</code></td></tr>' for name, value in facts
    )
    table = Markup(f"<table><tbody>{rows}</tbody></table>")
    notes = items([prose(note) for note in record.notes])
    return _section("record", "Record", Markup(f"{notes}{scroll('Record, scrolls sideways', table)}"))


def _section(key: str, title: str, body: Markup) -> Markup:
    return Markup(f'<section aria-labelledby="{key}"><h2 id="{key}">{text(title)}</h2>{body}</section>')
