"""The timeline as rows, the same for terminal, Markdown and HTML: steps with their actions under them, and who came.

A step stands where it began, its actions directly under it, even where two steps run beside each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.model.incident import Ending, Event, EventKind, Step
from rankmuster.report.incident_account import Account, Did, Stage, number
from rankmuster.report.incident_standing import opened_words
from rankmuster.report.incident_words import (
    COURSES,
    ENDINGS,
    MEANINGS,
    MOST_NOTE,
    OUTCOMES,
    STEPS,
    did_words,
    look_of,
    took_words,
)
from rankmuster.report.inert import plain
from rankmuster.report.theme import Look
from rankmuster.report.words import span

MOST_ROWS = 2_000
"""Rows of one timeline: a runbook has some dozens, and one that was resumed without end is cut here."""

_TOLD = Look("victim", "·", "", "dim", " ")
_OPERATOR = Look("suspect", "☞", "operator", "bold", "!")
_CRASH = Look("unsure", "↻", "resumed", "bold magenta", "&")
_WARN = Look("culprit", "■", "deadline", "bold red", "#")


@dataclass(frozen=True, slots=True)
class Row:
    """`at`: None for what never began. `level`: 1 stands under the step above. `lines`: what it would have done."""

    at: float | None
    name: str
    look: Look
    state: str = ""
    took: str = ""
    words: str = ""
    level: int = 0
    lines: tuple[str, ...] = ()


def rows(incident: Account, now: float) -> tuple[Row, ...]:
    """In order of time; what still waits stands at the end, as long as the incident is open."""
    placed: list[tuple[float, int, list[Row]]] = []
    for place, event in enumerate(incident.events):
        made = _of_event(incident, event, place)
        if made is not None:
            placed.append((event.at, place, [made]))
    for number_, stage in enumerate(incident.stages):
        if stage.begun_at is None and stage.ending is None and incident.closed is not None:
            continue
        at = stage.begun_at if stage.begun_at is not None else stage.ended_at
        order = at if at is not None else float("inf")
        placed.append((order, number_, [_of_stage(stage, now), *(_of_action(did, now) for did in stage.actions)]))
    placed.sort(key=lambda one: (one[0], one[1]))
    return tuple(row for _, _, some in placed for row in some)[:MOST_ROWS]


def _of_stage(stage: Stage, now: float) -> Row:
    look = look_of(stage)
    words = plain(stage.note, MOST_NOTE) if stage.note else ""
    if stage.ending is Ending.OBSERVED:
        words = words.partition("; it would: ")[0]  # each action says it, line by line
    if words == _told_by_actions(stage):
        words = ""
    if stage.late is not None and stage.late > 1:
        words = f"{span(stage.late)} after its deadline{': ' if words else ''}{words}"
    at = stage.begun_at if stage.begun_at is not None else stage.ended_at
    return Row(at, stage.step.value, look, look.word, took_words(stage, now), words or STEPS[stage.step])


def _told_by_actions(stage: Stage) -> str:
    """What its actions' own rows say already."""
    told = tuple(dict.fromkeys(did_words(did) for did in stage.actions if did.note))
    return "; ".join(told)


def _of_action(did: Did, now: float) -> Row:
    look = ENDINGS[did.ending]
    took = did.took if did.took is not None else max(0.0, now - did.begun_at)
    lines = did.would if did.ending is Ending.OBSERVED else ()
    return Row(did.begun_at, plain(did.name, 80), look, look.word, span(took), did_words(did), 1, lines)


def _of_event(incident: Account, event: Event, place: int) -> Row | None:
    by = plain(event.by, 100)
    note = plain(event.note, MOST_NOTE) if event.note else ""
    kind = event.kind
    if kind is EventKind.OPENED:
        return Row(event.at, "opened", _TOLD, words=f"{opened_words(incident)}{f' (by {by})' if by else ''}")
    if kind is EventKind.RUNNER:
        return _runner(incident, event, place)
    if kind is EventKind.DECIDED:
        return Row(event.at, "decided", _TOLD, words=_decided(incident, event) or note)
    if kind is EventKind.PLANNED and note:
        return Row(event.at, "planned", _TOLD, words=note)
    if kind is EventKind.SEEN:
        progress = plain(event.data.get("progress", "?"), 40)
        return Row(event.at, "seen", _TOLD, words=f"the watch says {progress}{f': {note}' if note else ''}")
    if kind in (EventKind.APPROVED, EventKind.ABORTED, EventKind.REOPENED):
        boundary = event.data.get("boundary")
        what = f" boundary {plain(boundary, 40)}" if boundary else ""
        who = f"by {by or 'somebody'}" if event.data.get("by_limits") is not True else "limits allow it by now"
        return Row(event.at, kind.value, _OPERATOR, words=f"{who}{what}{f': {note}' if note else ''}")
    if kind is EventKind.DEADLINE:
        return Row(event.at, "deadline", _WARN, words=f"the total deadline passed{f': {note}' if note else ''}")
    if kind is EventKind.NOTED:
        return Row(event.at, "note", _TOLD, words=f"{note}{f' (by {by})' if by else ''}")
    if kind is EventKind.CLOSED:
        look = OUTCOMES[incident.outcome if event is incident.closed else None]
        outcome = plain(event.data.get("outcome", ""), 40).replace("_", " ")
        meaning = MEANINGS[incident.outcome] if incident.outcome else ""
        return Row(event.at, "closed", look, outcome or look.word, words=note or meaning)
    return None


def _runner(incident: Account, event: Event, place: int) -> Row:
    pid = number(event.data, "pid")
    who = plain(event.data.get("host") or event.by or "a runner", 100)
    who += f", pid {int(pid)}" if pid is not None and abs(pid) < 1e12 else ""
    if event.data.get("resumed") is not True:
        return Row(event.at, "runner", _TOLD, words=f"{who} works on it")
    before = incident.events[place - 1].at if place else event.at
    silent = max(0.0, event.at - before)
    words = f"{who} goes on with it, {span(silent)} after the last sign of the one before"
    return Row(event.at, "runner", _CRASH, "resumed", words=words)


def _decided(incident: Account, event: Event) -> str:
    """What was decided; an older decision of the same incident in the words of its event alone."""
    decision = incident.decision
    if decision is None or event is not incident.all_of(EventKind.DECIDED)[-1]:
        return ""
    sub = f"/{decision.subclass.value}" if decision.subclass else ""
    sure = f" ({decision.confidence.value})" if decision.confidence else ""
    words = f"{decision.class_.value}{sub}{sure}: {COURSES[decision.course]}; boundary {decision.boundary.value}"
    if decision.boundary is not decision.table:
        words += f" (the table says {decision.table.value})"
    if decision.fence:
        words += f"; fence {plain(', '.join(decision.fence), 200)}"
    stage = incident.of(Step.DECIDE)
    if decision.why and not (stage is not None and decision.why[-1] in stage.note):  # the step says it already
        words += f"; since {plain('; '.join(decision.why), MOST_NOTE)}"
    return words
