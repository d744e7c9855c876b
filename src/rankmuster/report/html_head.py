"""The top of the page: the answer in one glance, and what to do about it."""

from __future__ import annotations

from rankmuster.model.fault import FaultClass, Role
from rankmuster.model.job import Job
from rankmuster.model.ranks_text import rank_ranges
from rankmuster.model.verdict import Suspect, Verdict
from rankmuster.report import theme
from rankmuster.report.advice import advice
from rankmuster.report.page import Markup, items, mark, prose, text
from rankmuster.report.words import (
    MAX_NAMED,
    class_name,
    clock,
    named,
    of_role,
    place,
    span,
    story,
)

MAX_WHYS = 8
"""Suspects whose reason is told under the verdict."""


def _headline(verdict: Verdict) -> tuple[str, str]:
    """(big line, line under it)."""
    for role in (Role.CULPRIT, Role.SUSPECT):
        found = of_role(verdict, role)
        if len(found) == 1:
            who = f"rank {found[0].rank}" if found[0].rank is not None else found[0].kind.value
            return f"{role.value.capitalize()}: {who}", place(found[0])
        if found:
            ranks = [suspect.rank for suspect in found if suspect.rank is not None]
            who = f"ranks {rank_ranges(ranks)}" if ranks else f"{len(found)} {found[0].kind.value}s"
            return f"{role.value.capitalize()}s: {who}", named(found)
    if verdict.class_ is FaultClass.HEALTHY:
        return "Nothing is wrong", ""
    return "No culprit can be named", ""


def _fact(term: str, words: str, note: str = "", wide: bool = False) -> str:
    extra = f"<small>{text(note)}</small>" if note else ""
    style = ' class="wide"' if wide else ""
    return f"<div{style}><dt>{term}</dt><dd>{text(words)}{extra}</dd></div>"


def _facts(verdict: Verdict) -> Markup:
    facts = [
        _fact("Confidence", verdict.confidence.value if verdict.confidence is not None else "not given"),
        _fact("Progress", verdict.progress.value),
        _fact("Rebuild", verdict.recovery.boundary.value.replace("_", " ")),
    ]
    if verdict.phase is not None:
        facts.append(_fact("Phase", verdict.phase.value))
    if verdict.scope is not None:
        facts.append(_fact("Scope", verdict.scope.value))
    first = verdict.first_divergence
    if first is not None:
        number = "" if first.sequence is None else f" #{first.sequence}"
        note = f"missing {rank_ranges(first.missing)}" if first.missing else ""
        if first.entered:
            note += f"{'; ' if note else ''}entered {rank_ranges(first.entered)}"
        facts.append(
            _fact("First divergence", f"{first.group or 'unnamed group'}{number} {first.op or ''}", note, True)
        )
    window = verdict.window
    if window.fault_at is not None:
        facts.append(_fact("Fault at", clock(window.fault_at), clock(window.fault_at, date=True)[:10]))
    if window.start is not None and window.end is not None:
        facts.append(
            _fact(
                "Evidence covers",
                span(window.end - window.start),
                f"{clock(window.start)} to {clock(window.end)}",
                True,
            )
        )
    return Markup(f'<dl class="facts">{"".join(facts)}</dl>')


def _why(suspect: Suspect) -> Markup:
    who = f"rank {suspect.rank}" if suspect.rank is not None else place(suspect) or suspect.kind.value
    return Markup(f"{mark(theme.ROLES[suspect.role])} {text(who)}: {prose(suspect.why)}")


def head_section(verdict: Verdict) -> Markup:
    """Class, culprit, confidence, progress, summary, and why each named one is named."""
    look = theme.TONES[verdict.class_]
    big, under = _headline(verdict)
    accused = [suspect for suspect in verdict.suspects if suspect.role is not Role.VICTIM]
    whys = [_why(suspect) for suspect in accused[:MAX_WHYS] if suspect.why]
    victims = of_role(verdict, Role.VICTIM)
    if victims:
        ranks = rank_ranges([suspect.rank for suspect in victims if suspect.rank is not None])
        whys.append(Markup(f"{mark(theme.ROLES[Role.VICTIM])} {text(f'ranks {ranks}' if ranks else named(victims))}"))
    more = len(accused) - MAX_WHYS
    if more > 0:
        whys.append(Markup(f"and {more} more, in the roll call"))
    hosts = verdict.suspect_hosts
    suspects = (
        f"<p>Suspect hosts: {text(', '.join(hosts[:MAX_NAMED]))}{text(', ...') if len(hosts) > MAX_NAMED else ''}</p>"
        if hosts
        else ""
    )
    return Markup(
        f'<header class="verdict tone-{look.tone}" id="verdict">'
        f'<div class="class"><span>{text(look.sign)} {text(look.word)}</span>'
        f"<code>{text(class_name(verdict))}</code></div>"
        f"<h1>{text(big)}</h1>"
        + (f'<p class="where">{text(under)}</p>' if under else "")
        + (f'<p class="summary">{prose(story(verdict))}</p>' if verdict.summary else "")
        + items(whys)
        + suspects
        + _facts(verdict)
        + "</header>"
    )


def todo_section(verdict: Verdict, job: Job) -> Markup:
    """Save now, rebuild, do not: side by side where there is room; what would decide where nothing is decided."""
    todo = advice(verdict, job)
    columns = []
    if verdict.would_decide:
        columns.append(("What would decide", items([prose(line) for line in verdict.would_decide])))
    if todo.save:
        columns.append(("Save now, before anything is ended", items([prose(line) for line in todo.save])))
    if todo.rebuild or verdict.class_ is not FaultClass.HEALTHY:
        steps = items([prose(line) for line in todo.rebuild], ordered=True)
        columns.append(("Rebuild", Markup(f"<p>{text(todo.rebuild_what)}</p>{steps}")))
    if todo.do_not:
        columns.append(("Do not", items([prose(line) for line in todo.do_not])))
    if not columns:
        return Markup("")
    body = "".join(f"<section><h2>{text(heading)}</h2>{content}</section>" for heading, content in columns)
    return Markup(f'<div class="todo" id="todo">{body}</div>')
