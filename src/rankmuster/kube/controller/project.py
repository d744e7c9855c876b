"""An incident of the journal as a CommunicationIncident: what `kubectl get` and `kubectl describe` show. Pure.

The journal is the truth. What is here is told from it again and again, and can be lost without harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankmuster.adapters.kube.fields import stamp
from rankmuster.kube.controller.conditions import Wanted, conditions
from rankmuster.kube.crd.incident import MOST_NOTE, MOST_TIMELINE
from rankmuster.model.incident import SERVED, Ending, EventKind, Step
from rankmuster.model.kube import API_VERSION
from rankmuster.report.incident_account import Account
from rankmuster.report.incident_json import incident_plain
from rankmuster.report.incident_nodes import NodeState, node_accounts
from rankmuster.report.incident_rows import rows
from rankmuster.report.inert import plain

HEAD_ROWS = 40
"""Of a timeline that is too long: its beginning says what was done first, its end how it stands."""

MOST_NAMES = 64


def name_of(incident: str) -> str:
    """Of the resource: the journal's id, which is unique, as a name that Kubernetes takes."""
    return f"incident-{incident}".lower()


def resource(incident: str, namespace: str, spec: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    """The object as it is created. Its spec never changes but by people."""
    return {
        "apiVersion": API_VERSION,
        "kind": "CommunicationIncident",
        "metadata": {"name": name_of(incident), "namespace": namespace, "labels": dict(labels)},
        "spec": dict(spec),
    }


def status_of(
    account: Account, *, now: float, before: Mapping[str, Any], generation: int | None, uploaded: str | None = None
) -> dict[str, Any]:
    """Its status. `before`: the one that it has, for the times of transitions. `uploaded`: where a copy went."""
    told = incident_plain(account, now=now, lease="")
    timeline, left_out = _timeline(account, now)
    decision = account.decision
    status: dict[str, Any] = {
        "sequence": account.events[-1].sequence if account.events else 0,
        "phase": "Closed" if account.closed is not None else "Open",
        "openedAt": stamp(account.opened_at),
        "timeline": timeline,
        "leftOut": left_out,
        "conditions": conditions(_conditions(account, told), before.get("conditions"), now, generation),
    }
    if generation is not None:
        status["observedGeneration"] = generation
    if account.opening is not None:
        status["openedBy"] = account.opening.by.value
    if account.closed is not None:
        status["closedAt"] = stamp(account.closed.at)
        status["outcome"] = account.outcome.value if account.outcome else "unknown"
    if decision is not None:
        status |= {
            "class": decision.class_.value,
            "boundary": decision.boundary.value,
            "course": decision.course.value,
            "suspects": [fit(one, 253) for one in decision.suspects[:MOST_NAMES]],
        }
        if decision.subclass is not None:
            status["subclass"] = decision.subclass.value
        if decision.confidence is not None:
            status["confidence"] = decision.confidence.value
    kept = (NodeState.FENCED, NodeState.QUARANTINED)
    fenced = [one.node for one in node_accounts(account) if one.state in kept]
    if fenced:
        status["fenced"] = fenced[:MOST_NAMES]
    bundle = _data(account, Step.EVIDENCE, "bundle")
    if bundle:
        status["bundle"] = fit(bundle, 1024)
    if uploaded:
        status["uploaded"] = fit(uploaded, 1024)
    started = _data(account, Step.START, "incarnation")
    if started:
        status["newIncarnation"] = fit(started, 128)
    return status


def fit(text: object, most: int) -> str:
    """On one line and inert, at most so many characters with what says that it was cut."""
    return plain(text, most)[:most]


def _timeline(account: Account, now: float) -> tuple[list[dict[str, Any]], int]:
    found = []
    for row in rows(account, now):
        if row.at is None:
            continue
        note = "; ".join((row.words, *row.lines)) if row.lines else row.words
        one: dict[str, Any] = {"at": stamp(row.at), "what": fit(row.name, 64), "note": fit(note, MOST_NOTE)}
        if row.state:
            one["ending"] = fit(row.state, 32)
        if row.level:
            one["action"] = fit(row.name, 128)
        found.append(one)
    if len(found) <= MOST_TIMELINE:
        return found, 0
    tail = MOST_TIMELINE - HEAD_ROWS
    return found[:HEAD_ROWS] + found[-tail:], len(found) - MOST_TIMELINE


def _conditions(account: Account, told: Mapping[str, Any]) -> list[Wanted]:
    opened = account.closed is None
    waits = account.of(Step.APPROVE)
    waiting = opened and waits is not None and waits.begun_at is not None and waits.ending is None
    evidence = account.of(Step.EVIDENCE)
    saved: bool | None = None
    if evidence is not None and evidence.ending is not None:
        saved = evidence.ending in (Ending.DONE, Ending.PARTIAL)
    found = [
        Wanted("Open", opened, "Running" if opened else _camel(account.outcome), _todo(told)),
        Wanted(
            "EvidenceSaved",
            saved,
            _camel(evidence.ending) if evidence is not None and evidence.ending is not None else "NotYet",
            fit(evidence.note, MOST_NOTE) if evidence is not None else "",
        ),
        Wanted(
            "WaitsForApproval",
            waiting,
            "Waiting" if waiting else "NotWaiting",
            "write spec.approve {boundary, by, reason}, or spec.abort {by, reason}" if waiting else "",
        ),
    ]
    if not opened:
        good = account.outcome in SERVED
        note = account.closed.note if account.closed is not None else ""
        found.append(Wanted("Recovered", good, _camel(account.outcome), fit(note, MOST_NOTE)))
    return found


def _todo(told: Mapping[str, Any]) -> str:
    todo = told.get("todo")
    return fit("; ".join(str(one) for one in todo), 1_000) if isinstance(todo, list) else ""


def _camel(value: Any) -> str:
    word = str(value.value) if value is not None else "unknown"
    return "".join(part.capitalize() for part in word.split("_"))


def _data(account: Account, step: Step, key: str) -> str | None:
    """What the newest result of a step has under a key."""
    for event in reversed(account.events):
        if event.step is step and event.kind in (EventKind.RESULT, EventKind.STEP_ENDED):
            value = event.data.get(key)
            if isinstance(value, str) and value:
                return value
    return None
