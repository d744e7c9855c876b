"""One drilled incident: a fault in a served engine under load, until a client has a good token again."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rankmuster.drill.engine_folder import FaultOrder
from rankmuster.drill.faults import Fault
from rankmuster.drill.incident_load import Load
from rankmuster.drill.incident_result import IncidentResult, bars
from rankmuster.drill.incident_stand import Stand, StandFailed, StandOrder
from rankmuster.drill.incident_times import hit, timeline
from rankmuster.drill.run import INJECT_SECONDS
from rankmuster.drill.truth import Naming, culprits_of, differences
from rankmuster.drill.watched import WARM_SECONDS, sees_work
from rankmuster.model.incident import Course, Event, EventKind, Outcome, Step
from rankmuster.store.errors import HistoryError

MOST_SECONDS = 150.0
"""From the fault to the end of its incident: detection, evidence and a start, several times over."""
AFTER_SECONDS = 2.0
"""For which clients go on once the incident is closed: what is served is seen to stay served."""
FIRST, SECOND = 1, 2
"""Incarnations: that with the fault, and the one that follows."""


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
    wanted = replace(
        order.stand,
        instance=f"{order.stand.instance}-{fault.name.replace('_', '-')}-{run}",
        ras_port=order.stand.ras_port + run,
        graph=order.stand.graph or fault.graph,
    )
    truth = fault.truth(wanted.backend)
    result = IncidentResult(
        fault=fault.name,
        backend=wanted.backend.value,
        ranks=wanted.ranks,
        graph=wanted.graph,
        run=run,
        expected=truth.in_words,
        folder=str(folder),
    )
    wrongs: list[str] = []
    fault_at: float | None = None
    load: Load | None = None
    stand = Stand(wanted, folder, FaultOrder(fault.name, order.culprit, FIRST))
    try:
        with stand:
            stand.until(lambda: stand.serves(FIRST), order.start_seconds, "serving")
            load = Load(stand.gateway.address, order.clients, folder / "attempts.jsonl", order.seed + run)
            load.start()
            if not sees_work(stand.watcher, time.monotonic(), WARM_SECONDS):
                wrongs.append(f"the watch saw no work within {WARM_SECONDS:.0f} s")
            time.sleep(random.Random(order.seed * 1000 + run).uniform(0, wanted.period))  # noqa: S311  # no secret
            fault_at = stand.inject(fault, order.culprit, INJECT_SECONDS)
            _until_over(stand, order.most_seconds)
            time.sleep(AFTER_SECONDS)
            if waiting := load.stop():
                wrongs.append(f"{waiting} client(s) wait for an answer and have no error")
    except (StandFailed, OSError, HistoryError) as error:
        wrongs.append(str(error))
    finally:
        if load is not None:
            load.stop(0.0)
    return _measured(result, order, fault, stand, load, fault_at, wrongs)


def events_of(journal: Path) -> tuple[str | None, str | None, tuple[Event, ...]]:
    """(id, outcome, events) of the first incident; Nones where there is none. Raises HistoryError."""
    from rankmuster.store.journal import Journal  # needs SQLAlchemy, which other drills do without

    if not journal.exists():
        return None, None, ()
    with Journal.open(str(journal), create=False) as opened:
        heads = opened.incidents()
        if not heads:
            return None, None, ()
        first = heads[-1]
        return first.id, first.outcome.value if first.outcome else None, opened.events(first.id)


def _until_over(stand: Stand, seconds: float) -> None:
    def over() -> bool:
        with suppress(HistoryError):  # the runner may be making it at this moment
            return events_of(stand.places.journal)[1] is not None
        return False

    stand.until(over, seconds, "at the end of the incident")


def _measured(
    result: IncidentResult,
    order: IncidentOrder,
    fault: Fault,
    stand: Stand,
    load: Load | None,
    fault_at: float | None,
    wrongs: list[str],
) -> IncidentResult:
    attempts = load.attempts if load is not None else ()
    try:
        incident, outcome, events = events_of(stand.places.journal) if fault_at is not None else (None, None, ())
    except HistoryError as error:
        return replace(result, wrongs=(*wrongs, str(error)))
    renewed = stand.about(SECOND)
    verdict = _file(_data(events, Step.DIAGNOSE, "verdict"))
    found = timeline(
        events,
        fault_at=fault_at,
        evidence_at=_newest(_data(events, Step.EVIDENCE, "bundle")),
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
        opened_by=_text(opened.get("by")),
        course=_text(decided.get("course")),
        said=": ".join(str(verdict[key]) for key in ("class", "subclass") if verdict.get(key)) or None,
        named=culprits_of(verdict),
        moments=found.plain(),
        seconds=found.seconds,
        steps=_steps(events),
        evidence_first=found.evidence_first,
        requests=len({one.name.rpartition("-")[0] for one in attempts}),
        hit=clients.by,
        lost=clients.lost,
        after_stop=clients.after_stop,
    )
    if not events:
        return replace(result, wrongs=(*wrongs, "no incident was opened"))
    wrongs += bars(result)
    if outcome != Outcome.RECOVERED.value:
        wrongs.append(f"the incident ended as {outcome}, not {Outcome.RECOVERED.value}: {_story(events)}")
    if result.course != Course.REBUILD.value:
        wrongs.append(f"decided was {result.course}, not {Course.REBUILD.value}")
    if verdict:
        wrongs += [
            f"verdict: {one}"
            for one in differences(verdict, fault.truth(order.stand.backend), order.culprit, result.ranks)
        ]
    elif fault.truth(order.stand.backend).naming is not Naming.NOBODY:
        wrongs.append("no verdict")
    return replace(result, wrongs=tuple(wrongs))


def _data(events: Sequence[Event], step: Step, key: str) -> str | None:
    """The last one that a result of that step has."""
    found = [event.data.get(key) for event in events if event.kind is EventKind.RESULT and event.step is step]
    return next((str(one) for one in reversed(found) if one), None)


def _file(path: str | None) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        plain = json.loads(Path(path).read_bytes()) if path is not None else {}
        return plain if isinstance(plain, dict) else {}
    return {}


def _newest(bundle: str | None) -> float | None:
    """When the last file of the bundle was written; None for one without a manifest, which is no bundle yet."""
    if bundle is None or not (Path(bundle) / "manifest.json").exists():
        return None
    return max(one.stat().st_mtime for one in Path(bundle).rglob("*") if one.is_file())


def _steps(events: Sequence[Event]) -> dict[str, str]:
    """How each step ended."""
    ends = (event for event in events if event.kind is EventKind.STEP_ENDED and event.step and event.ending)
    return {event.step.value: event.ending.value for event in ends if event.step and event.ending}


def _story(events: Sequence[Event]) -> str:
    """Steps that did not end well, with why."""
    bad = [
        f"{event.step.value} {event.ending.value}: {event.note}"
        for event in events
        if event.kind is EventKind.STEP_ENDED and event.step and event.ending and not event.ending.good
    ]
    return "; ".join(bad)[-800:] or "no step failed"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
