"""The first lines of everything that tells of an incident: what is the state now, and what is to be done.

Written for somebody who was woken: the sentence first, then what falls to a person, most urgent first.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rankmuster.model.fault import Boundary
from rankmuster.model.incident import Course, Ending, EventKind, OpenedBy, Outcome, RetestEnding, Step
from rankmuster.report.incident_account import Account, Stage
from rankmuster.report.incident_impact import bundle_of, impact
from rankmuster.report.incident_nodes import NodeAccount, NodeState, node_accounts
from rankmuster.report.incident_words import COURSES, STEPS
from rankmuster.report.inert import plain
from rankmuster.report.words import span

MOST_NAMED = 6
"""Nodes named in one sentence."""


class TrafficNow(str, Enum):
    """What the journal says of the instance's traffic: of the gateways nobody is asked here."""

    UNTOUCHED = "untouched"
    LOWERED = "lowered"
    STOPPED = "stopped"
    BACK = "given back"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Standing:
    """`state`: one sentence. `todo`: what falls to an operator, most urgent first; empty where nothing does."""

    state: str
    todo: tuple[str, ...]
    traffic: TrafficNow


def standing(incident: Account, now: float, lease: str | None = "") -> Standing:
    """`lease`: who works on it now, None for nobody; empty where that is not known."""
    traffic = traffic_now(incident)
    name = plain(incident.instance, 100)
    if incident.outcome is None and incident.closed is None:
        state, todo = _open(incident, name, now, lease)
    else:
        state, todo = _closed(incident, name, traffic)
    todo += [line for node in node_accounts(incident) if (line := _node_todo(incident, node))]
    todo += _unclear(incident)
    return Standing(state, tuple(dict.fromkeys(todo)), traffic)


def traffic_now(incident: Account) -> TrafficNow:
    """By the last actions that did something."""
    found = TrafficNow.UNTOUCHED
    became = {
        Step.STOP_TRAFFIC: TrafficNow.STOPPED,
        Step.CUT: TrafficNow.STOPPED,
        Step.SHED: TrafficNow.LOWERED,
        Step.RESTORE: TrafficNow.BACK,
    }
    for stage in incident.stages:
        if stage.step not in became:
            continue
        endings = [did.ending for did in stage.actions]
        if any(ending in (Ending.DONE, Ending.PARTIAL) for ending in endings):
            whole = all(ending in (Ending.DONE, Ending.OBSERVED) for ending in endings)
            found = became[stage.step] if whole or stage.step is not Step.RESTORE else TrafficNow.UNCLEAR
        elif any(ending in (Ending.UNKNOWN, Ending.TIMED_OUT, None) for ending in endings):
            found = TrafficNow.UNCLEAR
    return found


def _running(incident: Account) -> list[Stage]:
    return [stage for stage in incident.stages if stage.begun_at is not None and stage.ending is None]


def _open(incident: Account, name: str, now: float, lease: str | None) -> tuple[str, list[str]]:
    running = _running(incident)
    waits = next((stage for stage in running if stage.step is Step.APPROVE), None)
    short = plain(incident.id, 80)
    runner = f"start a runner for it: rankmuster incident resume {short}"
    if lease is None and not incident.waits_for_people:
        return f"OPEN, and nobody works on it: {name} is left as the last step left it", [runner]
    if waits is not None and lease is None:
        why = plain(_why_it_waits(incident), 300)
        state = f"OPEN, and nobody works on it: {name} waits for an approval ({why}), and for a runner"
        return state, [*_to_approve(incident, short), runner]
    if waits is not None:
        left = f", for {span(max(0.0, waits.deadline_at - now))} more" if waits.deadline_at is not None else ""
        why = plain(_why_it_waits(incident), 300)
        state = f"WAITING FOR YOU{left}: nothing is done for {name} until somebody approves ({why})"
        return state, _to_approve(incident, short)
    if running:
        what = ", ".join(
            f"{STEPS[one.step]} ({span(max(0.0, now - (one.begun_at or now)))}"
            f"{f' of {span(one.deadline_at - one.begun_at)}' if one.deadline_at and one.begun_at else ''})"
            for one in running[:3]
        )
        return f"WORKING on {name}: {what}", []
    return f"OPEN: {name} is waited for, the next step has not begun", []


def _to_approve(incident: Account, short: str) -> list[str]:
    bundle = bundle_of(incident)
    look = [f"see what the evidence says: rankmuster diagnose {plain(bundle, 400)}"] if bundle else []
    boundary = _approvable(incident)
    return [
        *look,
        f"{'then ' if look else ''}rankmuster incident approve {short} --boundary {boundary}, or rankmuster incident "
        f"abort {short}",
    ]


def _why_it_waits(incident: Account) -> str:
    """Limits say so in the plan that they asked for, a decision in `held`; else the settings ask for it."""
    plans = incident.all_of(EventKind.PLANNED)
    held = incident.decision.held if incident.decision else None
    return (plans[-1].note if plans else "") or held or "the settings want an operator before this step"


def _approvable(incident: Account) -> str:
    """What an operator would most likely approve."""
    decision = incident.decision
    wanted = (decision.boundary, decision.table) if decision else ()
    sensible = (one for one in wanted if one in (Boundary.PROCESS_GROUP, Boundary.NODE))
    return str(next(sensible, Boundary.PROCESS_GROUP).value)


def _closed(incident: Account, name: str, traffic: TrafficNow) -> tuple[str, list[str]]:
    told = impact(incident)
    short = plain(incident.id, 80)
    after = f", {span(told.down_seconds)} {told.after}" if told.down_seconds is not None else ""
    why = plain(incident.closed.note, 300) if incident.closed else ""
    because = f": {why}" if why else ""
    course = incident.decision.course if incident.decision else None
    if incident.outcome is Outcome.RECOVERED:
        what = f"; {COURSES[course]}" if course in (Course.SHED, Course.CUT) else "; its process group was rebuilt"
        return f"RECOVERED: {name} is served again{after}{what}", []
    if incident.outcome is Outcome.RESTORED:
        return f"RESTORED: {name} has its traffic again{after}; nothing was rebuilt", []
    if incident.outcome is Outcome.OBSERVED:
        more = "what would have been done stands in the timeline; `enable` in the settings lets it be done"
        if traffic is TrafficNow.UNTOUCHED:
            return f"OBSERVED: nothing was done for {name}, which is as it was found ({_found(incident)})", [more]
        return f"OBSERVED in part: {name} was not rebuilt{because}", [*_left(name, traffic), more]
    left = _left(name, traffic)
    again = [f"{'then ' if left else ''}let the runbook go on: rankmuster incident resume {short}"]
    if incident.outcome is Outcome.HELD:
        return f"HELD: nobody approved in time, so {name} was not rebuilt{because}", [*left, *again]
    if incident.outcome is Outcome.ABORTED:
        return f"ABORTED by an operator: nothing more is done for {name}{because}", [
            *left,
            _yours(incident, name, short),
        ]
    if incident.outcome is Outcome.GAVE_UP:
        freed = told.terminated_at is not None or _stopped_again(incident)
        gpus = "the GPUs were freed first" if freed else "the GPUs may still be held"
        check = [] if freed else [f"see what still runs of {name} on its nodes, and end the whole group"]
        return f"GAVE UP at the total deadline: {name} does not serve; {gpus}{because}", [*check, *left, *again]
    return f"FAILED: {name} does not serve{because}", [*_failed(incident), *left, *again]


def _yours(incident: Account, name: str, short: str) -> str:
    """After an abort nobody else looks after it: the watch's stop counts as handled."""
    return (
        f"{name} is yours: it was {_found(incident)} when this began. To let the runbook go on after all: rankmuster "
        f"incident resume {short}"
    )


def _found(incident: Account) -> str:
    return incident.opening.progress.value if incident.opening else "unknown"


def _stopped_again(incident: Account) -> bool:
    stage = incident.of(Step.TERMINATE)
    return stage is not None and stage.ending is Ending.DONE and any(did.ending is Ending.DONE for did in stage.actions)


def _left(name: str, traffic: TrafficNow) -> list[str]:
    """What must be known before the next step, whoever does it."""
    if traffic is TrafficNow.STOPPED:
        return [f"the gateway sends {name} nothing: give traffic back once it serves"]
    if traffic is TrafficNow.LOWERED:
        return [f"the gateway gives {name} less: raise its weight once it is as fast as before"]
    if traffic is TrafficNow.UNCLEAR:
        return [f"nobody knows what the gateway sends {name}: look there"]
    return []


def _failed(incident: Account) -> list[str]:
    bad = (Ending.FAILED, Ending.TIMED_OUT, Ending.NODE, Ending.UNKNOWN, Ending.REFUSED)
    lines = []
    for stage in incident.stages:
        if stage.step in (Step.TERMINATE, Step.START, Step.VERIFY) and stage.ending in bad and stage.ending is not None:
            note = stage.note or next((did.note for did in stage.actions if did.ending in bad and did.note), "")
            lines.append(
                f"{STEPS[stage.step]}: {stage.ending.value.replace('_', ' ')}{f' - {plain(note, 300)}' if note else ''}"
            )
    return lines


def _node_todo(incident: Account, node: NodeAccount) -> str:
    name = plain(node.node, 80)
    if node.state is NodeState.QUARANTINED:
        return f"node {name} is quarantined, its re-test failed: repair it, `rankmuster admit` it, then lift the fence"
    if node.state is NodeState.FENCED and node.retest in (RetestEnding.PROVISIONAL, RetestEnding.ERROR):
        return f"node {name} stays fenced, its re-test gave no answer ({node.retest.value}): test it by hand"
    if node.state is NodeState.FENCED and incident.closed is not None:
        tested = (
            "passed its re-test and is not let in yet" if node.retest is RetestEnding.PASS else "was not tested again"
        )
        return f"node {name} is fenced and {tested}: `rankmuster admit` it, then lift the fence"
    if node.state is NodeState.OPEN:
        return f"nobody knows whether node {name} is fenced: look at the scheduler"
    if node.state is NodeState.NOT_FENCED and node.retest is RetestEnding.FAIL:
        return f"node {name} failed its re-test and is not fenced: keep it from work"
    return ""


def _unclear(incident: Account) -> list[str]:
    """Actions of which a crash left no result that a look could show."""
    return [
        f"nobody knows whether {plain(did.name, 100)} was done: {plain(did.note, 200) or 'a runner died meanwhile'}"
        for _, did in incident.acted
        if did.ending is Ending.UNKNOWN
    ]


def opened_words(incident: Account) -> str:
    """Why it was opened."""
    opening = incident.opening
    if opening is None:
        return "opened; why is not recorded"
    words = {
        OpenedBy.STOPPED: "it has stopped",
        OpenedBy.SLOW: "it is slow",
        OpenedBy.ENDED: "its processes have ended",
        OpenedBy.OPERATOR: "by an operator",
    }[opening.by]
    return f"{words}{f': {plain(opening.reason, 400)}' if opening.reason else ''}"


def skipped(incident: Account) -> tuple[Stage, ...]:
    """Steps that were not gone through; of a closed incident those too that nobody came to."""
    never = incident.closed is not None
    return tuple(
        stage
        for stage in incident.stages
        if stage.ending is Ending.SKIPPED or (never and stage.begun_at is None and stage.ending is None)
    )


def deadline_words(incident: Account) -> str:
    """That the total deadline passed; empty where it did not."""
    passed = incident.all_of(EventKind.DEADLINE)
    if not passed:
        return ""
    after = span(max(0.0, passed[-1].at - incident.opened_at))
    return f"the total deadline passed {after} after the opening: {plain(passed[-1].note, 400)}".rstrip(": ")
