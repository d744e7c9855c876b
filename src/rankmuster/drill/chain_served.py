"""The whole chain for a fault in a served engine: from the fault to a good token again, as a row of the score card."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rankmuster.drill.card import Shape, blank_fault, said_of, with_bars, with_verdict
from rankmuster.drill.faults import Fault
from rankmuster.drill.incident_journal import plain_file
from rankmuster.drill.incident_once import IncidentOrder, run_incident
from rankmuster.drill.incident_result import IncidentResult
from rankmuster.drill.incident_settings import BUDGET
from rankmuster.model.drill_run import DrillRun
from rankmuster.model.incident import OpenedBy, Outcome

TOLD_BY = {OpenedBy.STOPPED.value: "watch", OpenedBy.SLOW.value: "watch", OpenedBy.ENDED.value: "group"}
"""Who told it, by what opened the incident: the watch, or the supervisor of a group that has ended by itself."""


def run_served(order: IncidentOrder, fault: Fault, number: int, folder: Path, root: Path) -> DrillRun:
    """`folder` (new) keeps everything, `root` is the card's. Never raises for what can go wrong in it."""
    folder.mkdir(parents=True)
    stand = order.stand
    shape = Shape(stand.backend, stand.ranks, order.culprit, stand.graph or fault.graph)
    blank = blank_fault(fault, fault.truth(stand.backend), shape)
    return of_incident(blank, run_incident(order, fault, number, folder), root)


def of_incident(blank: DrillRun, result: IncidentResult, root: Path) -> DrillRun:
    """The row of one drilled incident."""
    moments = result.moments
    fault_at, detected_at = moments.get("fault_at"), moments.get("detected_at")
    if fault_at is None:
        return replace(blank, alarms=result.alarms, wrongs=result.trouble or ("the fault was not made",))
    verdict = plain_file(result.verdict)
    run = replace(
        blank,
        made=True,
        detected=detected_at is not None,
        detected_by=TOLD_BY.get(result.opened_by or "", result.opened_by),
        detected_seconds=None if detected_at is None else detected_at - fault_at,
        evidence_saved=result.bundle is not None,
        evidence_first=result.evidence_first,
        bundle=relative(result.bundle, root),
        service_back=result.outcome == Outcome.RECOVERED.value and moments.get("first_token_at") is not None,
        back_seconds=result.seconds.get("total"),
        budget_seconds=BUDGET.total,
        alarms=result.alarms,
        incidents=result.incidents,
    )
    if verdict:
        named = None if result.named_at is None else result.named_at - fault_at
        run = with_verdict(run, verdict)
        run = replace(run, bundle_said=said_of(verdict), named_by=result.named_by, named_seconds=named)
    return with_bars(run, (*result.trouble, *_clients(result)))


def _clients(result: IncidentResult) -> tuple[str, ...]:
    """What became of requests that must not."""
    found = []
    if result.outcome == Outcome.RECOVERED.value and result.moments.get("first_token_at") is None:
        found.append("the incident recovered, and no client had a good token from the new incarnation")
    if result.lost:
        found.append(f"{result.lost} request(s) had no answer and no error")
    if result.after_stop:
        found.append(f"{result.after_stop} request(s) reached the sick group after new ones were stopped")
    return tuple(found)


def relative(path: str | None, root: Path) -> str | None:
    """A path as the card has it: from its folder, which may be copied anywhere."""
    return None if path is None else str(Path(path).resolve().relative_to(root.resolve()))
