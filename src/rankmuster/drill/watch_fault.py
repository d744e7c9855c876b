"""A fault under watch: how long until it is told, of whom, and what its evidence says."""

from __future__ import annotations

import json
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from rankmuster.drill.faults import Fault
from rankmuster.drill.job import JobFailed
from rankmuster.drill.plan import JobPlan, Serving
from rankmuster.drill.run import INJECT_SECONDS
from rankmuster.drill.truth import Naming, differences
from rankmuster.drill.watch_result import WANTED_SECONDS, WatchResult
from rankmuster.drill.watched import (
    WatchOrder,
    alarms_of,
    blank_of,
    collects_in,
    job_of,
    sees_work,
    states_of,
    watcher_of,
)
from rankmuster.drill.watcher import Look, Watcher
from rankmuster.model.fault import Progress
from rankmuster.watch.progress.model import Event

VERDICT_SECONDS = 75.0
"""For collect (20 s and what it takes to begin and to close) and diagnose."""


def run_fault(order: WatchOrder, fault: Fault, run: int, folder: Path) -> WatchResult:
    """`folder` (new) keeps the job's files, what the watch said and its bundles. Never raises for what can go wrong."""
    job_order, plan = order.planned(fault, Serving(), run)
    truth = fault.truth(plan.backend)
    blank = blank_of(fault.name, plan, run, folder, control=False)
    blank = replace(blank, culprit=None if truth.naming is Naming.NOBODY else plan.culprit)
    wrongs: list[str] = []
    try:
        with (
            job_of(job_order, plan, folder / "job") as job,
            watcher_of(order, job, folder) as watcher,
        ):
            job.wait_serving(job_order.start_seconds)
            begun = time.monotonic()
            if not sees_work(watcher, begun, order.warm_seconds):
                wrongs.append(watcher.ended or f"the watch saw no work within {order.warm_seconds:.0f} s")
            time.sleep(random.Random(order.seed * 1000 + run).uniform(0, order.period))  # noqa: S311  # no secret
            job.inject(INJECT_SECONDS)
            made = _monotonic(job.fault_at or time.time())
            look = watcher.until(_tells, order.told_seconds, since=made)
            effect = max(_last_step(job.steps_file), begun)
            # Of an instance that is gone nothing is collected.
            if look is not None and order.verdicts and look.state == Progress.STOPPED.value:
                watcher.until(_answered, VERDICT_SECONDS, since=made)
            found = replace(
                blank,
                states=states_of(watcher.looks),
                alarms=alarms_of(watcher.looks, begun, until=made),
                watched_seconds=time.monotonic() - begun,
                cpu_share=watcher.cpu_share(begun, made),
                rss=watcher.rss(begun, made) or None,
            )
            if watcher.ended is not None:
                wrongs.append(watcher.ended)
            watcher.stop()
            if look is None:
                last = watcher.looks[-1:]
                said = f"it said {last[0].state}: {last[0].view.get('reason')}" if last else "it said nothing"
                wrongs.append(f"not told within {order.told_seconds:.0f} s; {said}")
            else:
                found = _told(found, look, effect, made, plan)
                found = _evidence(found, watcher, order, fault, plan)
    except (JobFailed, OSError) as error:
        return replace(blank, wrongs=(*wrongs, f"the job: {error}"))
    return replace(found, wrongs=(*wrongs, *_wrongs(found, order)))


def _monotonic(unix: float) -> float:
    """A moment of the wall clock, by the clock of steps and looks."""
    return unix - (time.time() - time.monotonic())


def _last_step(path: Path) -> float:
    """When the last step was finished on every rank, monotonic seconds; 0 without one."""
    try:
        words = path.read_text().rpartition("\n")[0].rpartition("\n")[2].split()
        return float(words[0])
    except (OSError, ValueError, IndexError):
        return 0.0


def _tells(look: Look) -> bool:
    return look.state == Progress.STOPPED.value or look.event == Event.GONE.value


def _answered(look: Look) -> bool:
    """Whether nothing of the answer to the stop is still to come."""
    steps = [str(look.last_stop.get(step, "")) for step in ("collect", "diagnose")]
    return bool(look.last_stop) and not any(
        step.startswith(("running", "not done: its turn")) or not step for step in steps
    )


def _told(found: WatchResult, look: Look, effect: float, made: float, plan: JobPlan) -> WatchResult:
    named, suspects = look.ranks("culprit"), look.ranks("suspect")
    naming = "none"
    if named or suspects:
        right = named == (plan.culprit,) or (not named and plan.culprit in suspects)
        naming = "right" if right else "wrong"
    return replace(
        found,
        told="stopped" if look.state == Progress.STOPPED.value else "gone",
        seconds=look.at - effect,
        from_fault=look.at - made,
        named=named,
        suspects=suspects,
        naming=naming,
        reason=str(look.view.get("reason")),
    )


def _evidence(found: WatchResult, watcher: Watcher, order: WatchOrder, fault: Fault, plan: JobPlan) -> WatchResult:
    """What was collected, and what the first verdict is."""
    found = replace(found, collects=collects_in(watcher.bundles))
    if not order.verdicts:
        return found
    for path in sorted(watcher.bundles.glob("*/verdict.json")):
        try:
            verdict: dict[str, Any] = json.loads(path.read_bytes())
        except (OSError, ValueError):
            continue
        said = ": ".join(str(verdict[key]) for key in ("class", "subclass") if verdict.get(key))
        wrongs = differences(verdict, fault.truth(plan.backend), plan.culprit, plan.ranks)
        return replace(found, verdict=said, verdict_wrongs=wrongs)
    return found


def _wrongs(found: WatchResult, order: WatchOrder) -> list[str]:
    wrongs = [f"told before the fault: {alarm}" for alarm in found.alarms]
    if found.seconds is not None and found.seconds > WANTED_SECONDS:
        wrongs.append(f"told after {found.seconds:.1f} s, not within {WANTED_SECONDS:.0f} s")
    if found.naming == "wrong":
        wrongs.append(f"culprits {list(found.named)} and suspects {list(found.suspects)}, not {found.culprit}")
    if order.verdicts and found.told == "stopped":
        if found.collects != 1:
            wrongs.append(f"{found.collects} bundles, not 1")
        if found.verdict is None:
            wrongs.append("no verdict")
        wrongs += [f"verdict: {wrong}" for wrong in found.verdict_wrongs]
    return wrongs
