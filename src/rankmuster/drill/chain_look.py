"""The chain for a fault that torch's own watchdog is to write down: a job that nobody rebuilds before its time-out."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from rankmuster.drill import rank_settings
from rankmuster.drill.card import Shape, blank_fault, said_of, with_bars, with_verdict
from rankmuster.drill.chain_served import relative
from rankmuster.drill.faults import Fault
from rankmuster.drill.incident_once import IncidentOrder
from rankmuster.drill.job import DrillJob, JobFailed
from rankmuster.drill.run import INJECT_SECONDS, WARM_BLOCKS, Order, StepFailed, collected, diagnose_by_command
from rankmuster.model.drill_run import DrillRun

POLL_SECONDS = 0.1


def run_look(order: IncidentOrder, fault: Fault, number: int, folder: Path, root: Path) -> DrillRun:
    """`folder` (new) keeps everything, `root` is the card's. Never raises for what can go wrong in it.

    Told is when the first rank's dump lies there by itself; then `collect` and `diagnose` are asked.
    """
    folder.mkdir(parents=True)
    folder = folder.resolve()
    stand = order.stand
    run = blank_fault(fault, fault.truth(stand.backend), Shape(stand.backend, stand.ranks, order.culprit, stand.graph))
    wanted = Order(
        fault,
        stand.backend,
        stand.ranks,
        culprit=order.culprit,
        graph=stand.graph,
        ras_port=stand.ras_port + number,
        start_seconds=order.start_seconds,
        extra=stand.extra,
    )
    plan = wanted.job_plan()
    plan = replace(plan, instance=f"{stand.instance}-{fault.name.replace('_', '-')}-{number}")
    own = folder / "job"
    own.mkdir()
    try:
        with DrillJob(plan, wanted.environment(own, plan.instance), own) as job:
            job.wait_serving(order.start_seconds, steps=WARM_BLOCKS * plan.sync_every)
            rank_settings.keep(job.pids[0], folder)
            made_at = job.inject(INJECT_SECONDS) or time.time()
            run = replace(run, made=True)
            dumped = _dumped(own / "flight", plan.ranks - 1, fault.settle_seconds)
            bundle = collected(plan.instance, job.metrics_url, folder / "bundle")
            verdict = diagnose_by_command(bundle)
            run = with_verdict(run, verdict)
            run = replace(
                run,
                detected=dumped is not None,
                detected_by="recorder" if dumped is not None else None,
                detected_seconds=None if dumped is None else dumped - made_at,
                named_by="verdict",
                named_seconds=time.time() - made_at,
                evidence_saved=True,
                bundle=relative(str(bundle), root),
                bundle_said=said_of(verdict),
            )
    except (JobFailed, StepFailed, OSError) as error:
        run = replace(run, wrongs=(f"the job: {error}",))
    return with_bars(run)


def _dumped(folder: Path, ranks: int, seconds: float) -> float | None:
    """When the first dump was there, unix seconds, after waiting for those of `ranks` ranks; None: there is none."""
    end = time.monotonic() + seconds
    while True:
        times = sorted(path.stat().st_mtime for path in folder.iterdir() if path.is_file() and path.stat().st_size)
        if len(times) >= ranks or time.monotonic() >= end:
            return times[0] if times else None
        time.sleep(POLL_SECONDS)
