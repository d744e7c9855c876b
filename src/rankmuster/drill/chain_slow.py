"""The chain for a fault that stops nothing: the watch says that the instance is slow, and nothing is rebuilt.

Slow is slow against the instance's own past, so that the watch has to know some of it first. It is the watch that tells
the class: one look of `collect` sees that work advances, and knows no earlier rate.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from rankmuster.drill.able import classes_of
from rankmuster.drill.card import Shape, blank_fault, said_of, with_bars, with_said, with_verdict
from rankmuster.drill.chain_served import relative
from rankmuster.drill.engine_folder import FaultOrder
from rankmuster.drill.faults import Fault
from rankmuster.drill.incident_journal import data_of, events_of, incidents_in, newest_file, plain_file
from rankmuster.drill.incident_load import Load
from rankmuster.drill.incident_once import FIRST, SECOND, IncidentOrder, named_stand
from rankmuster.drill.incident_stand import Stand, StandFailed
from rankmuster.drill.run import INJECT_SECONDS
from rankmuster.drill.truth import culprits_of
from rankmuster.drill.watched import alarms_of
from rankmuster.drill.watcher import Look
from rankmuster.model.drill_run import DrillRun
from rankmuster.model.fault import FaultClass, Progress
from rankmuster.model.incident import EventKind, Step
from rankmuster.store.errors import HistoryError
from rankmuster.watch.progress.speed import DEFAULTS, SpeedKind

PERIOD = 1.0
"""Of the watch's looks, seconds: it counts its past in looks, and a drill has minutes for it, not half an hour."""
HISTORY_SECONDS = 4 * PERIOD * (DEFAULTS.least + 2 * DEFAULTS.recent)
"""For the watch to know what is usual: the intervals that it compares with, those of now, and as many to judge by; four
times, since a busy host scrapes late and some intervals are left out."""
DECIDED_SECONDS = 60.0
"""For the runbook to save evidence and to decide, once it is told: the budgets of these steps, and some."""
SLOW = FaultClass.PERFORMANCE_DEGRADATION.value


def run_slow(order: IncidentOrder, fault: Fault, number: int, folder: Path, root: Path) -> DrillRun:
    """`folder` (new) keeps everything, `root` is the card's. Never raises for what can go wrong in it."""
    folder.mkdir(parents=True)
    folder = folder.resolve()
    wanted = replace(named_stand(order.stand, fault, number), period=PERIOD)
    truth = fault.truth(wanted.backend)
    shape = Shape(wanted.backend, wanted.ranks, order.culprit, wanted.graph)
    run = blank_fault(fault, replace(truth, classes=classes_of(fault, truth)), shape)
    stand = Stand(wanted, folder, FaultOrder(fault.name, order.culprit, FIRST))
    load: Load | None = None
    try:
        with stand:
            stand.until(lambda: stand.serves(FIRST), order.start_seconds, "serving")
            stand.keep_settings()
            load = Load(stand.address, order.clients, folder / "attempts.jsonl", order.seed + number)
            load.start()
            begun = time.monotonic()
            if stand.watcher.until(_knows_usual, HISTORY_SECONDS, begun) is None:
                stand.check()
                why = f"not judged: within {HISTORY_SECONDS:.0f} s the watch did not learn what is usual here"
                return replace(run, kind="left_out", why=why)
            run = replace(run, alarms=alarms_of(stand.watcher.looks, begun))
            fault_at = stand.inject(fault, order.culprit, INJECT_SECONDS)
            run = replace(run, made=True)
            made = time.monotonic() - (time.time() - fault_at)
            look = stand.watcher.until(_slow, 2 * fault.most_seconds, since=made)
            if look is not None:
                seconds = look.at - made
                run = replace(run, detected=True, detected_by="watch", detected_seconds=seconds, named_seconds=seconds)
                run = replace(with_said(run, SLOW, _kind(look), ()), named_by="watch")
                with suppress(StandFailed):  # what was not decided is said by what is missing
                    stand.until(lambda: _decided(stand), DECIDED_SECONDS, "decided")
            run = _after(run, stand, root)
    except (StandFailed, OSError, HistoryError) as error:
        run = replace(run, wrongs=(*run.wrongs, str(error)))
    finally:
        if load is not None:
            load.stop(0.0)
    return with_bars(run)


def _knows_usual(look: Look) -> bool:
    return look.view.get("speed_kind") == SpeedKind.USUAL.value


def _slow(look: Look) -> bool:
    return look.state == Progress.SLOW.value


def _kind(look: Look) -> str | None:
    kind = look.view.get("speed_kind")
    return kind if kind in (SpeedKind.PERSISTENT.value, SpeedKind.TAIL.value) else None


def _decided(stand: Stand) -> bool:
    with suppress(HistoryError):  # the runner may be writing it at this moment
        return any(event.kind is EventKind.DECIDED for event in events_of(stand.places.journal)[2])
    return False


def _after(run: DrillRun, stand: Stand, root: Path) -> DrillRun:
    """The row with what the runbook did: it saves evidence, and rebuilds nothing. Raises HistoryError."""
    _, _, events = events_of(stand.places.journal)
    bundle, verdict = data_of(events, Step.EVIDENCE, "bundle"), plain_file(data_of(events, Step.DIAGNOSE, "verdict"))
    whole = newest_file(bundle) is not None
    run = replace(
        run,
        incidents=incidents_in(stand.places.journal),
        evidence_saved=whole if events else None,
        bundle=relative(bundle, root) if whole and verdict else None,
        bundle_said=said_of(verdict) if verdict else None,
    )
    if verdict:
        planes = with_verdict(run, verdict).planes
        run = with_said(replace(run, planes=planes), run.said_class or SLOW, run.said_subclass, culprits_of(verdict))
    if stand.about(SECOND) is not None:
        return replace(run, wrongs=(*run.wrongs, "it was slow and served, and the group was rebuilt all the same"))
    return run
