"""One drilled incident: a fault in a served engine under load, until a client has a good token again."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rankmuster.drill.engine_folder import FaultOrder
from rankmuster.drill.faults import Fault
from rankmuster.drill.incident_journal import (
    data_of,
    events_of,
    incidents_in,
    newest_file,
    plain_file,
    step_endings,
    story,
    text_or_none,
)
from rankmuster.drill.incident_load import Load
from rankmuster.drill.incident_result import IncidentResult, bars
from rankmuster.drill.incident_stand import Stand, StandFailed, StandOrder
from rankmuster.drill.incident_times import hit, timeline
from rankmuster.drill.run import INJECT_SECONDS
from rankmuster.drill.truth import Naming, culprits_of, differences
from rankmuster.drill.watched import WARM_SECONDS, alarms_of, sees_work
from rankmuster.drill.watcher import Look
from rankmuster.model.fault import FaultClass
from rankmuster.model.incident import Course, Event, EventKind, Outcome, Step
from rankmuster.store.errors import HistoryError

MOST_SECONDS = 150.0
"""From the fault to the end of its incident: detection, evidence and a start, several times over."""
AFTER_SECONDS = 2.0
"""For which clients go on once the incident is closed: what is served is seen to stay served."""
FIRST, SECOND = 1, 2
"""Incarnations: that with the fault, and the one that follows."""
UNDECIDED = (FaultClass.INCONCLUSIVE.value, FaultClass.BLIND.value)
"""What names nobody and nothing, as a verdict has it."""


@dataclass(frozen=True, slots=True)
class IncidentOrder:
    """`culprit`: the rank that has the fault. `clients`: how many ask at a time. `seed`: of requests and moments."""

    stand: StandOrder
    culprit: int
    clients: int = 6
    seed: int = 1
    start_seconds: float = 120.0
    most_seconds: float = MOST_SECONDS


def run_incident(order: IncidentOrder, fault: Fault, run: int, folder: Path) -> IncidentResult:
    """`folder` (new) keeps everything. Never raises for what can go wrong: that is a result which is not right."""
    folder = folder.resolve()
    wanted = named_stand(order.stand, fault, run)
    result = result_of(wanted, fault, run, folder)
    wrongs: list[str] = []
    fault_at: float | None = None
    load: Load | None = None
    stand = Stand(wanted, folder, FaultOrder(fault.name, order.culprit, FIRST))
    try:
        with stand:
            stand.until(lambda: stand.serves(FIRST), order.start_seconds, "serving")
            stand.keep_settings()
            load = Load(stand.address, order.clients, folder / "attempts.jsonl", order.seed + run)
            load.start()
            begun = time.monotonic()
            if not sees_work(stand.watcher, time.monotonic(), WARM_SECONDS):
                wrongs.append(f"the watch saw no work within {WARM_SECONDS:.0f} s")
            time.sleep(random.Random(order.seed * 1000 + run).uniform(0, wanted.period))  # noqa: S311  # no secret
            result = replace(result, alarms=alarms_of(stand.watcher.looks, begun))
            fault_at = stand.inject(fault, order.culprit, INJECT_SECONDS)
            until_over(stand, order.most_seconds)
            time.sleep(AFTER_SECONDS)
            if waiting := load.stop():
                wrongs.append(f"{waiting} client(s) wait for an answer and have no error")
    except (StandFailed, OSError, HistoryError) as error:
        wrongs.append(str(error))
    finally:
        if load is not None:
            load.stop(0.0)
    return measured(result, order, fault, stand, load, fault_at, wrongs)


def named_stand(stand: StandOrder, fault: Fault, run: int) -> StandOrder:
    """The stand of one run: with names and ports of its own, and a graph where the fault needs one."""
    return replace(
        stand,
        instance=f"{stand.instance}-{fault.name.replace('_', '-')}-{run}",
        ras_port=stand.ras_port + run,
        graph=stand.graph or fault.graph,
    )


def result_of(wanted: StandOrder, fault: Fault, run: int, folder: Path) -> IncidentResult:
    """A result of which nothing is known yet."""
    return IncidentResult(
        fault=fault.name,
        backend=wanted.backend.value,
        ranks=wanted.ranks,
        graph=wanted.graph,
        run=run,
        expected=fault.truth(wanted.backend).in_words,
        folder=str(folder),
    )


def until_over(stand: Stand, seconds: float) -> None:
    """Waits for the end of the first incident. Raises StandFailed."""

    def over() -> bool:
        with suppress(HistoryError):  # the runner may be making it at this moment
            return events_of(stand.places.journal)[1] is not None
        return False

    stand.until(over, seconds, "at the end of the incident")


def measured(
    result: IncidentResult,
    order: IncidentOrder,
    fault: Fault,
    stand: Stand,
    load: Load | None,
    fault_at: float | None,
    wrongs: list[str],
) -> IncidentResult:
    """The result with all that is known once the stand has ended. `fault_at`: unix seconds, None: it was not made."""
    attempts = load.attempts if load is not None else ()
    if fault_at is None:
        return replace(result, trouble=tuple(wrongs), wrongs=tuple(wrongs))
    try:
        incident, outcome, events = events_of(stand.places.journal)
        result = replace(result, incidents=incidents_in(stand.places.journal))
    except HistoryError as error:
        return replace(result, trouble=(*wrongs, str(error)), wrongs=(*wrongs, str(error)))
    renewed = stand.about(SECOND)
    verdict_file, bundle = data_of(events, Step.DIAGNOSE, "verdict"), data_of(events, Step.EVIDENCE, "bundle")
    verdict = plain_file(verdict_file)
    evidence_at = newest_file(bundle)
    named_by, named_at = _first_named(verdict, events, stand.watcher.looks, fault_at)
    found = timeline(
        events,
        fault_at=fault_at,
        evidence_at=evidence_at,
        engine_from=renewed.started_at if renewed is not None else None,
        renewed=stand.record(SECOND),
        attempts=attempts,
        incarnation=SECOND,
    )
    clients = hit(found, attempts, stand.record(FIRST))
    decided = next((event.data for event in events if event.kind is EventKind.DECIDED), {})
    opened = next((event.data for event in events if event.kind is EventKind.OPENED), {})
    result = replace(
        result,
        incident=incident,
        outcome=outcome,
        opened_by=text_or_none(opened.get("by")),
        course=text_or_none(decided.get("course")),
        said=": ".join(str(verdict[key]) for key in ("class", "subclass") if verdict.get(key)) or None,
        named=culprits_of(verdict),
        named_by=named_by,
        named_at=named_at,
        verdict=verdict_file if verdict else None,
        bundle=bundle if evidence_at is not None else None,
        moments=found.plain(),
        seconds=found.seconds,
        steps=step_endings(events),
        evidence_first=found.evidence_first,
        requests=len({one.name.rpartition("-")[0] for one in attempts}),
        hit=clients.by,
        lost=clients.lost,
        after_stop=clients.after_stop,
    )
    trouble = list(wrongs)
    if not events:
        trouble.append("no incident was opened")
        return replace(result, trouble=tuple(trouble), wrongs=tuple(trouble))
    if outcome != Outcome.RECOVERED.value:
        trouble.append(f"the incident ended as {outcome}, not {Outcome.RECOVERED.value}: {story(events)}")
    if result.course != Course.REBUILD.value:
        trouble.append(f"decided was {result.course}, not {Course.REBUILD.value}")
    if result.incidents > 1:
        trouble.append(f"{result.incidents} incidents were opened for one fault")
    wrongs = [*trouble, *(f"told before the fault: {alarm}" for alarm in result.alarms), *bars(result)]
    if verdict:
        wrongs += [
            f"verdict: {one}"
            for one in differences(verdict, fault.truth(order.stand.backend), order.culprit, result.ranks)
        ]
    elif fault.truth(order.stand.backend).naming is not Naming.NOBODY:
        wrongs.append("no verdict")
    return replace(result, trouble=tuple(trouble), wrongs=tuple(wrongs))


def _first_named(
    verdict: Mapping[str, Any], events: Sequence[Event], looks: Sequence[Look], fault_at: float
) -> tuple[str | None, float | None]:
    """(who said class and culprits of the verdict first, when in unix seconds); Nones without a verdict."""
    ended = [event.at for event in events if event.kind is EventKind.STEP_ENDED and event.step is Step.DIAGNOSE]
    if not verdict or not ended:
        return None, None
    if verdict.get("class") in UNDECIDED:  # of which the watch says as much before it knows anything
        return "verdict", ended[-1]
    to_unix = time.time() - time.monotonic()
    same = [
        look.at + to_unix
        for look in looks
        if look.view.get("class") == verdict.get("class") and look.ranks("culprit") == culprits_of(verdict)
    ]
    seen = next((at for at in same if at >= fault_at), None)
    return ("watch", seen) if seen is not None and seen < ended[-1] else ("verdict", ended[-1])
