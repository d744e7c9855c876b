"""A job that is well under watch: whatever it does, nothing may be told."""

from __future__ import annotations

import random
import signal
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from rankmuster.drill.controls import PAUSE_SECONDS, Disturbance, Quiet
from rankmuster.drill.faults import fault_named
from rankmuster.drill.job import JobFailed
from rankmuster.drill.plan import JobPlan
from rankmuster.drill.watch_result import WatchResult
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
from rankmuster.watch.progress.model import Event

GONE_SECONDS = 3.0
"""Between the end of a job and its next start."""
LAST_SECONDS = 2.0
"""At least, for a last look: one that comes late on a busy machine is one all the same."""


def run_control(order: WatchOrder, quiet: Quiet, run: int, folder: Path) -> WatchResult:
    """`folder` (new) keeps the job's files and what the watch said. Never raises for what can go wrong."""
    job_order, plan = order.planned(fault_named("none"), quiet.serving, run)
    blank = blank_of(quiet.name, plan, run, folder, control=True)
    seconds = quiet.seconds if order.longest is None else min(quiet.seconds, order.longest)
    moment = random.Random(order.seed * 1000 + run).uniform(0.4, 0.6) * seconds  # noqa: S311  # no secret
    try:
        with ExitStack() as ends:
            job = ends.enter_context(job_of(job_order, plan, folder / "job"))
            watcher = ends.enter_context(watcher_of(order, job, folder))
            begun = time.monotonic()
            job.wait_serving(job_order.start_seconds + _load_seconds(plan))
            served = time.monotonic()
            # A disturbance before the watch has seen any work would be none.
            sees_work(watcher, served, order.warm_seconds)
            _rest(served + moment)
            once: frozenset[str] = frozenset()
            if quiet.disturbance is Disturbance.RESTART:
                port = job.front.port
                job.stop()
                once = frozenset({Event.GONE.value, Event.LOST_SIGHT.value})  # nothing is there to be seen
                time.sleep(GONE_SECONDS)
                job = ends.enter_context(job_of(job_order, plan, folder / "job-again", port))
                job.wait_serving(job_order.start_seconds)
                served = time.monotonic() - moment
            elif quiet.disturbance is Disturbance.PAUSED_SERVER:
                job.front.signal(signal.SIGSTOP)
                time.sleep(PAUSE_SECONDS)
                job.front.signal(signal.SIGCONT)
            elif quiet.disturbance is Disturbance.COUNTERS:
                job.front.renew()
            _rest(served + seconds)
            patience = max(2 * order.period, LAST_SECONDS)
            watcher.until(lambda look: look.state in quiet.states, patience, since=time.monotonic())
            end = time.monotonic()
            ended = watcher.ended
            watcher.stop()
            looks = watcher.looks
            found = replace(
                blank,
                states=states_of(looks),
                alarms=alarms_of(looks, begun, once=once),
                watched_seconds=end - begun,
                cpu_share=watcher.cpu_share(served, end),
                rss=watcher.rss(served, end) or None,
                collects=collects_in(watcher.bundles),
                reason=str(looks[-1].view.get("reason")) if looks else None,
            )
    except (JobFailed, OSError) as error:
        return replace(blank, wrongs=(f"the job: {error}",))
    wrongs = [ended] if ended else []
    wrongs += list(found.alarms)
    wanted = [state.value for state in quiet.states]
    last = looks[-1].state if looks and looks[-1].at > end - 2 * patience else "nothing"
    if last not in wanted:
        wrongs.append(f"it said {last} in the end, not {' or '.join(wanted)} ({found.reason})")
    if found.collects:
        wrongs.append(f"{found.collects} bundle(s) were made of a job that was well")
    return replace(found, wrongs=tuple(wrongs))


def _load_seconds(plan: JobPlan) -> float:
    """Seconds that a plan's weights take."""
    return plan.serving.load_seconds if plan.serving is not None else 0.0


def _rest(until: float) -> None:
    time.sleep(max(until - time.monotonic(), 0.0))
