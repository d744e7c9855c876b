"""One fault in a user's own job: one signal to one rank, and what the user's own watch and runbook make of it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from rankmuster.drill.card import Shape, blank, blank_fault, said_of, with_bars, with_verdict
from rankmuster.drill.chain_served import TOLD_BY, relative
from rankmuster.drill.faults import Fault
from rankmuster.drill.incident_journal import data_of, newest_file, plain_file, text_or_none
from rankmuster.drill.own_hold import Held
from rankmuster.drill.own_job import Victim
from rankmuster.drill.own_watch import TELLING, TELLS, WELL, NoWatch, OwnWatch, Told, incident_since
from rankmuster.drill.plan import Backend
from rankmuster.model.drill_run import DrillRun
from rankmuster.model.incident import Ending, EventKind, Outcome, Step
from rankmuster.store.errors import HistoryError
from rankmuster.watch.snapshot import InstanceView

QUIET_SECONDS = 30.0
"""For which the job is looked at before anything is done to it: three looks of the watch, twice."""
TOLD_SECONDS = 60.0
"""For the watch to tell it: four times as long as it may take."""
POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class OwnOrder:
    """`state`: of the user's watch. `journal`: place of the user's incidents; None: nobody runs the runbook there.

    `most_seconds`: for the incident to come to its end.
    """

    state: Path
    journal: str | None
    most_seconds: float
    quiet_seconds: float = QUIET_SECONDS
    told_seconds: float = TOLD_SECONDS


def shape_of(victim: Victim) -> Shape:
    """For the rows of the card."""
    return Shape(None, victim.ranks, victim.rank)


def run_quiet(order: OwnOrder, victim: Victim) -> DrillRun:
    """The control of a job that is left alone: quiet only where it was seen all the time. Raises NoWatch where
    nobody watches it at the beginning."""
    row = blank("healthy", "control", shape_of(victim))
    watch, begun = OwnWatch(order.state, victim.instance), time.time()
    watch.must_be_well()
    odd: dict[str, str] = {}

    def look(view: InstanceView | None) -> bool:
        if view is None:
            odd.setdefault("", "the watch no longer said anything of the job")
        elif view.state not in WELL:
            state = view.state.value
            odd.setdefault(state, f"the watch said of a job that is well: {state}: {view.reason}")
        return False

    count = 0
    try:
        watch.until(look, order.quiet_seconds)
    except NoWatch as error:
        odd["watch"] = str(error)
    try:
        told = incident_since(order.journal, victim.instance, begun) if order.journal is not None else None
        count = told.count if told is not None else 0
    except HistoryError as error:
        odd["journal"] = f"the journal cannot be read: {error}"
    if count:
        odd["incidents"] = f"incidents that were opened of a job that is well: {count}"
    alarms = tuple(alarm.words for alarm in watch.alarms)
    wrongs = (*(f"told of a job that is well: {words}" for words in alarms), *odd.values())
    return replace(row, alarms=alarms, incidents=count, wrongs=wrongs)


def run_own(
    order: OwnOrder, fault: Fault, victim: Victim, folder: Path, root: Path, keep: Callable[[DrillRun], None]
) -> None:
    """`folder` (new) keeps a copy of the bundle. `keep`: is given the row, once the rank goes on; also when what
    comes after the signal is broken off, which is raised then. Raises NotAllowedHere, NoWatch: nothing was done."""
    folder.mkdir(parents=True)
    assert fault.signal is not None
    run = blank_fault(fault, fault.truths[Backend.GLOO], shape_of(victim))
    watch = OwnWatch(order.state, victim.instance)
    watch.must_be_well()
    holding = Held(victim)
    try:
        with holding as held:
            fault_at = held.send(fault.signal)
            row = _answered(replace(run, made=True), order, watch, victim, fault_at, folder, root)
    except BaseException as error:
        if holding.sent:
            keep(_broken_off(replace(run, made=True), error))
        raise
    try:
        keep(row)
    except BaseException as error:
        if row.bundle is not None:  # broken off while that was diagnosed again, which takes a while
            keep(_broken_off(replace(row, bundle=None), error))
        raise


def _broken_off(run: DrillRun, error: BaseException) -> DrillRun:
    why = str(error) or type(error).__name__
    return with_bars(run, (f"broken off after the signal was sent: {why}",))


def _answered(
    run: DrillRun, order: OwnOrder, watch: OwnWatch, victim: Victim, fault_at: float, folder: Path, root: Path
) -> DrillRun:
    """The row of a fault that was made, once the user's watch and runbook have had their time."""
    told, seen_at = None, None
    wrongs: list[str] = []
    try:
        seen_at = _seen(watch, order, fault_at)
        told = _over(order, victim, fault_at)
    except (NoWatch, HistoryError) as error:
        wrongs.append(str(error))
    return _scored(run, order, told, seen_at, fault_at, folder, root, tuple(wrongs))


def _seen(watch: OwnWatch, order: OwnOrder, fault_at: float) -> float | None:
    """When the watch told it, unix seconds: at a look after it, stopped, or that every process has ended."""

    def first() -> float | None:
        return next((one.at for one in watch.alarms if one.event in TELLING and one.at >= fault_at), None)

    view = watch.until(
        lambda now: first() is not None or (now is not None and now.state in TELLS and watch.at >= fault_at),
        order.told_seconds,
    )
    at = first()
    return at if at is not None else (time.time() if view is not None else None)


def _over(order: OwnOrder, victim: Victim, fault_at: float) -> Told | None:
    """The incident at its end, or as it is when the time is over. Raises HistoryError."""
    if order.journal is None:
        return None
    end, opened_by = time.monotonic() + order.most_seconds, time.monotonic() + order.told_seconds
    while True:
        told = incident_since(order.journal, victim.instance, fault_at)
        if told is not None and told.outcome is not None:
            return told
        if time.monotonic() >= (end if told is not None else opened_by):
            return told
        time.sleep(POLL_SECONDS)


def _scored(
    run: DrillRun,
    order: OwnOrder,
    told: Told | None,
    seen_at: float | None,
    fault_at: float,
    folder: Path,
    root: Path,
    wrongs: tuple[str, ...],
) -> DrillRun:
    """The row by what the watch and the journal say."""
    events = told.events if told is not None else ()
    opened = next((event for event in events if event.kind is EventKind.OPENED), None)
    moments = [at for at in (seen_at, opened.at if opened is not None else None) if at is not None]
    by = "watch" if seen_at is not None and seen_at == min(moments) else None
    if by is None and opened is not None:
        by = TOLD_BY.get(text_or_none(opened.data.get("by")) or "")
    run = replace(
        run,
        detected=bool(moments),
        detected_by=by,
        detected_seconds=min(moments) - fault_at if moments else None,
        incidents=told.count if told is not None else 0,
    )
    if order.journal is None:
        return with_bars(run, wrongs)
    bundle = data_of(events, Step.EVIDENCE, "bundle")
    newest = newest_file(bundle)
    kill = next((one.at for one in events if one.kind is EventKind.INTENT and one.step is Step.TERMINATE), None)
    back = next((one.at for one in events if one.step is Step.RESTORE and one.ending is Ending.DONE), None)
    back = back or next((one.at for one in events if one.step is Step.VERIFY and one.ending is Ending.DONE), None)
    budget = next((one.data.get("total_seconds") for one in events if one.kind is EventKind.PLANNED), None)
    run = replace(
        run,
        evidence_saved=newest is not None,
        evidence_first=None if newest is None or kill is None else newest <= kill,
        service_back=told is not None and told.outcome == Outcome.RECOVERED.value,
        back_seconds=None if back is None else back - fault_at,
        budget_seconds=float(budget) if isinstance(budget, (int, float)) else None,
    )
    verdict = plain_file(data_of(events, Step.DIAGNOSE, "verdict"))
    if verdict:
        ended = [one.at for one in events if one.kind is EventKind.STEP_ENDED and one.step is Step.DIAGNOSE]
        run = with_verdict(run, verdict)
        named = ended[-1] - fault_at if ended else None
        run = replace(run, named_by="verdict", named_seconds=named, bundle_said=said_of(verdict))
        if bundle is not None and newest is not None:
            try:
                run = replace(run, bundle=relative(_kept(bundle, folder), root))
            except OSError as error:
                wrongs = (*wrongs, f"the bundle {bundle} could not be copied: {error}")
    return with_bars(run, wrongs)


def _kept(bundle: str, folder: Path) -> str:
    """A copy beside the card, so that it can be diagnosed again wherever the card is."""
    copy = folder / "bundle"
    shutil.copytree(bundle, copy, symlinks=True)
    return str(copy)
