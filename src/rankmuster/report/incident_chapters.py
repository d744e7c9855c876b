"""The post-mortem as chapters of plain sentences, facts and tables: one wording for Markdown and HTML.

All of it comes from the journal and the verdict kept in it: months later, on another machine, it reads the same. Texts
are foreign or own words, not escaped yet; `back quotes` are code.
"""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.model.fault import Role
from rankmuster.model.incident import Ending, EventKind
from rankmuster.model.plane import PlaneState
from rankmuster.report.incident_account import Account, Did, Stage
from rankmuster.report.incident_impact import Impact, impact, saved
from rankmuster.report.incident_nodes import NodeState, node_accounts
from rankmuster.report.incident_standing import (
    TrafficNow,
    deadline_words,
    opened_words,
    skipped,
    standing,
)
from rankmuster.report.incident_words import COURSES, MEANINGS, MOST_NOTE, RETESTS, STEPS, did_words, plural
from rankmuster.report.inert import plain
from rankmuster.report.words import BOUNDARY_WORDS, accused, class_name, clock, span, story, who

MOST_LINES = 300
"""Lines of one list of a chapter; JSON has all."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """`lines`: sentences; `facts`: term and words; `items`: a list; `grid`: rows of cells, the first their heads."""

    key: str
    title: str
    lines: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    items: tuple[str, ...] = ()
    grid: tuple[tuple[str, ...], ...] = ()

    @property
    def empty(self) -> bool:
        """Whether it says nothing."""
        return not (self.lines or self.facts or self.items or self.grid)


def chapters(incident: Account, now: float) -> tuple[Chapter, ...]:
    """In order, without empty ones. The timeline is drawn by whoever writes the page, after `impact`."""
    made = (
        _summary(incident),
        _impact(incident, now),
        _cause(incident),
        _done(incident),
        _observed(incident),
        _nodes(incident),
        _skipped(incident),
        _evidence(incident),
    )
    return tuple(chapter for chapter in made if not chapter.empty)


def title_of(incident: Account) -> str:
    """The page's own name."""
    look = incident.outcome.value.replace("_", " ") if incident.outcome else "open"
    return f"Incident of {plain(incident.instance, 100)}, {clock(incident.opened_at, date=True)[:16]} UTC: {look}"


def _summary(incident: Account) -> Chapter:
    told = impact(incident)
    name = plain(incident.instance, 100)
    lines = [
        f"{name} was taken care of from {clock(incident.opened_at, date=True)}: {opened_words(incident)}. "
        f"{_dated(told)}."
    ]
    if incident.verdict is not None:
        sure = f" ({incident.verdict.confidence.value})" if incident.verdict.confidence else ""
        lines.append(f"The verdict is {class_name(incident.verdict)}{sure}: {accused(incident.verdict)}.")
    else:
        lines.append("No verdict was reached, or the journal does not hold it.")
    if incident.decision is not None:
        decision = incident.decision
        lines.append(f"It was decided that {COURSES[decision.course]} (boundary {decision.boundary.value}).")
        if decision.held:
            lines.append(f"An operator was waited for, since {plain(decision.held, 400)}.")
    passed = deadline_words(incident)
    if passed:
        lines.append(f"{passed[0].upper()}{passed[1:]}.".replace("..", "."))
    if incident.outcome is not None:
        word = incident.outcome.value.replace("_", " ")
        lines.append(f"It was closed as {word}: {MEANINGS[incident.outcome]}.")
    return Chapter("summary", "Summary", tuple(lines))


def _impact(incident: Account, now: float) -> Chapter:
    told = impact(incident)
    facts = [
        (
            "Fault",
            "before it was detected, nobody saw when" if told.fault_at is None else clock(told.fault_at, date=True),
        ),
        (
            "Detected",
            _after(told.detected_at, told) if told.fault_at is not None else clock(told.detected_at, date=True),
        ),
        ("Served again", _served(told, standing(incident, now).traffic)),
        ("Requests hit", "not known: no gateway says" if told.requests is None else str(told.requests)),
        ("Drain", "there was none" if told.drain_seconds is None else span(told.drain_seconds)),
        ("Evidence took", "none was taken" if told.evidence_seconds is None else span(told.evidence_seconds)),
        ("GPUs free", _after(told.terminated_at, told)),
    ]
    if incident.total_seconds is not None:
        facts.append(("Total deadline", f"{span(incident.total_seconds)} from the opening, without waiting for people"))
    return Chapter("impact", "Impact", facts=tuple(facts))


def _served(told: Impact, traffic: TrafficNow) -> str:
    if told.served_at is not None:
        return _after(told.served_at, told)
    return f"not by this runbook; traffic is {traffic.value}"


def _dated(told: Impact) -> str:
    if told.fault_at is None:
        return "The fault came before that, and nobody saw when"
    before = span(max(0.0, told.detected_at - told.fault_at))
    return f"The fault is dated {clock(told.fault_at, date=True)}, {before} before"


def _after(at: float | None, told: Impact) -> str:
    return (
        "not by this runbook" if at is None else f"{clock(at)}, {span(max(0.0, at - told.counted_from))} {told.after}"
    )


def _cause(incident: Account) -> Chapter:
    verdict = incident.verdict
    if verdict is None:
        return Chapter("cause", "Root cause", ("The journal holds no verdict. The evidence below can be diagnosed.",))
    sure = verdict.confidence.value if verdict.confidence else "not given"
    facts = [("Class", class_name(verdict)), ("Confidence", sure), ("Progress", verdict.progress.value)]
    if incident.decision is not None:
        decision = incident.decision
        facts.append(("Boundary", f"{decision.boundary.value}: {BOUNDARY_WORDS[decision.boundary]}"))
        if decision.table is not decision.boundary:
            facts.append(("By the recovery table", decision.table.value))
        if decision.why:
            facts.append(("Why", plain("; ".join(decision.why), MOST_NOTE)))
    lines = [story(verdict)] if verdict.summary else []
    named = [one for one in verdict.suspects if one.role is not Role.VICTIM]
    items = [f"{one.role.value}: {who(one)}{f' {one.why}' if one.why else ''}" for one in named]
    for state in (PlaneState.BLIND, PlaneState.SILENT):
        items += [
            f"{state.value} plane: {one.plane.value} - {plain(one.note, MOST_NOTE)}"
            for one in verdict.planes
            if one.state is state
        ]
    items += [f"would decide: {plain(line, MOST_NOTE)}" for line in verdict.would_decide]
    return Chapter("cause", "Root cause", tuple(lines), tuple(facts), tuple(items[:MOST_LINES]))


def _done(incident: Account) -> Chapter:
    rows: list[tuple[str, ...]] = []
    for event in incident.events:
        if event.kind in (EventKind.APPROVED, EventKind.ABORTED, EventKind.REOPENED):
            boundary = event.data.get("boundary")
            what = f"{event.kind.value}{f', boundary {plain(boundary, 40)}' if boundary else ''}"
            rows.append((clock(event.at), "operator", what, plain(event.by, 100), plain(event.note, MOST_NOTE)))
    runners = {(event.step, event.action): event.by for event in incident.events if event.kind is EventKind.RESULT}
    for stage, did in incident.acted:
        if did.ending is not Ending.OBSERVED:
            by = plain(runners.get((stage.step, did.name), ""), 100)
            rows.append((clock(did.begun_at), stage.step.value, plain(did.name, 80), by, _came(did)))
    if not rows:
        return Chapter("done", "What was done, and by whom", ("Nothing was done.",))
    rows.sort(key=lambda row: row[0])
    head = ("At", "Step", "What", "By", "What came of it")
    return Chapter("done", "What was done, and by whom", grid=(head, *rows[:MOST_LINES]))


def _came(did: Did) -> str:
    ending = did.ending.value.replace("_", " ") if did.ending else "no result"
    took = f", {span(did.took)}" if did.took is not None else ""
    words = did_words(did)
    return f"{ending}{took}{f': {words}' if words else ''}"


def _observed(incident: Account) -> Chapter:
    items = []
    for stage, did in incident.acted:
        if did.ending is Ending.OBSERVED:
            would = "; ".join(plain(line, 200) for line in did.would)
            said = would or did_words(did)
            items.append(f"{stage.step.value}, {plain(did.name, 80)}{f': {said}' if said else ''}")
    lines = ("These actuators are not enabled. This is what they would have done.",) if items else ()
    return Chapter("observed", "Only observed", lines, items=tuple(items[:MOST_LINES]))


def _nodes(incident: Account) -> Chapter:
    rows = []
    for node in node_accounts(incident):
        tested = RETESTS[node.retest].word if node.retest else "not tested"
        state = node.state.value if node.state is not NodeState.QUARANTINED else "quarantined (fenced, failed)"
        rows.append((plain(node.node, 80), state, tested, plain(node.note, MOST_NOTE), plain(node.record or "", 100)))
    head = ("Node", "State", "Re-test", "Note", "Record")
    return Chapter("nodes", "Nodes", grid=(head, *rows[:MOST_LINES]) if rows else ())


def _skipped(incident: Account) -> Chapter:
    return Chapter("skipped", "Skipped", items=tuple(_why(stage) for stage in skipped(incident))[:MOST_LINES])


def _why(stage: Stage) -> str:
    why = plain(stage.note, MOST_NOTE) or "the incident was closed before it came to this"
    return f"{stage.step.value} ({STEPS[stage.step]}): {why}"


def _evidence(incident: Account) -> Chapter:
    found = saved(incident)
    rows = [(plain(one.path, 400), one.digest or "not recorded") for one in found]
    lines = () if rows else ("No evidence is recorded.",)
    more = len(rows) - MOST_LINES
    if more > 0:
        lines = (f"{more} more path{plural(more)} in the JSON form.",)
    return Chapter("evidence", "Evidence", lines, grid=(("Path", "Digest"), *rows[:MOST_LINES]) if rows else ())
