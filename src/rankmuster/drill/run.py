"""One drill: start a job, make its fault, collect and diagnose as an operator would, and compare with what was done."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rankmuster.drill.apart import SAFE_FOLDER
from rankmuster.drill.faults import Fault
from rankmuster.drill.job import WORKER, DrillJob, JobFailed
from rankmuster.drill.plan import Backend, JobPlan
from rankmuster.drill.result import DrillResult
from rankmuster.drill.surroundings import surroundings
from rankmuster.drill.truth import Naming, Truth, culprits_of, differences

PROGRAM = (sys.executable, "-m", "rankmuster.cli.main")
COLLECT_DEADLINE = 20
"""Seconds that `collect` is given (its own default)."""
COLLECT_GRACE = 15.0
"""Seconds beyond its deadline after which a collect is ended as broken: its start and the closing of the bundle."""
DIAGNOSE_SECONDS = 60.0
"""After which a diagnosis is ended as broken; a real one takes about one."""
START_SECONDS = 120.0
"""For a job to serve: four torch processes on a cold disk, CUDA contexts and NCCL's init."""
RAS_PORT = 28128
"""The first job's; each one has its own, so that no other job of this user answers for it."""
INJECT_SECONDS = 30.0
"""For the rank to make its fault once it is told: a step, or one wait for the GPU."""
WARM_BLOCKS = 5
"""Timed blocks of steps before the fault, so that there is something to compare with."""

Collect = Callable[[DrillJob, Path], Path]
"""Takes the evidence of a job into a folder that does not exist yet; returns what to diagnose. Raises StepFailed."""
Diagnose = Callable[[Path], dict[str, Any]]
"""The verdict on a bundle as JSON (DESIGN, "The verdict"). Raises StepFailed."""
Surroundings = Callable[[Path, str], Mapping[str, str]]
"""The environment of the ranks of an instance (by name), with everything they write below a folder."""


class StepFailed(Exception):
    """A command of the drill gave no result; says which, with its last words."""


@dataclass(frozen=True, slots=True)
class Order:
    """What to run. `surroundings`: None for the drill's own; `extra`: variables added in any case.

    `culprit`: None for the last rank but one, which leads nothing. `settle_seconds`: None for the fault's own.
    """

    fault: Fault
    backend: Backend
    ranks: int
    culprit: int | None = None
    graph: bool = False
    ras_port: int = RAS_PORT
    settle_seconds: float | None = None
    start_seconds: float = START_SECONDS
    surroundings: Surroundings | None = None
    extra: Mapping[str, str] = field(default_factory=dict)
    worker: Sequence[str] = WORKER
    plan: Mapping[str, Any] = field(default_factory=dict)

    def job_plan(self) -> JobPlan:
        """Raises ValueError for what cannot be run."""
        self.fault.truth(self.backend)
        culprit = max(self.ranks - 2, 0) if self.culprit is None else self.culprit
        graph = self.graph or self.fault.graph
        more = {"fault": self.fault.name, "culprit": culprit, "graph": graph, **self.plan}
        name = f"drill-{self.fault.name}-{self.backend.value}".replace("_", "-")
        if self.backend is Backend.GLOO:
            return JobPlan.small(name, self.ranks, **more)
        return JobPlan(name, self.ranks, self.backend, **more)

    def environment(self, folder: Path, instance: str) -> dict[str, str]:
        """What the ranks are given."""
        own = self.surroundings or (lambda where, name: surroundings(where, name, self.backend, self.ras_port))
        return {**own(folder, instance), **self.extra}


def run(
    order: Order, collects: Mapping[str, Collect], folder: Path, *, diagnose: Diagnose | None = None
) -> tuple[DrillResult, ...]:
    """Runs one job with one fault, and on it every collect of `collects` (by setting) one after the other.

    `folder` (new) keeps the job's own files and each bundle. Never raises for what can go wrong in a drill: a job that
    does not start or a command that breaks is a result that is not right.
    """
    plan = order.job_plan()
    # Two drills of one fault at a time on one machine are two instances, and must be found as two.
    plan = replace(plan, instance=f"{plan.instance}-{os.getpid()}")
    truth = order.fault.truth(order.backend)
    blank = DrillResult(
        fault=order.fault.name,
        backend=order.backend.value,
        ranks=order.ranks,
        setting="",
        expected=truth.in_words,
        culprit=None if truth.naming is Naming.NOBODY else plan.culprit,
    )
    own = folder / "job"
    own.mkdir(parents=True)
    results = []
    try:
        with DrillJob(plan, order.environment(own, plan.instance), own, worker=order.worker) as job:
            start = job.wait_serving(order.start_seconds, steps=WARM_BLOCKS * plan.sync_every)
            begun = time.monotonic()
            job.inject(INJECT_SECONDS)
            blank = replace(blank, seconds={"start": start, "inject": time.monotonic() - begun})
            time.sleep(order.fault.settle_seconds if order.settle_seconds is None else order.settle_seconds)
            for setting, collect in collects.items():
                place = folder / re.sub(r"[^A-Za-z0-9._=-]", "-", setting or "bundle")
                results.append(_look(replace(blank, setting=setting), job, collect, place, diagnose, truth))
            (own / "instance.json").write_text(json.dumps(job.facts(), indent=1))
    except (JobFailed, OSError) as error:
        done = {result.setting for result in results}
        broken = [setting for setting in collects if setting not in done]
        wrong = f"the job: {error}"
        if not broken:
            results[-1] = replace(results[-1], wrongs=(*results[-1].wrongs, wrong))
        results += [replace(blank, setting=setting, wrongs=(wrong,)) for setting in broken]
    return tuple(results)


def _look(
    blank: DrillResult, job: DrillJob, collect: Collect, place: Path, diagnose: Diagnose | None, truth: Truth
) -> DrillResult:
    """One collect and its diagnosis."""
    seconds = dict(blank.seconds)
    begun = time.monotonic()
    try:
        bundle = collect(job, place)
        seconds["collect"] = time.monotonic() - begun
        begun = time.monotonic()
        verdict = (diagnose or diagnose_by_command)(bundle)
        seconds["diagnose"] = time.monotonic() - begun
    except (StepFailed, OSError) as error:
        step = "diagnose" if "collect" in seconds else "collect"
        return replace(blank, seconds=seconds | {step: time.monotonic() - begun}, wrongs=(f"{step}: {error}",))
    said = ": ".join(str(verdict[key]) for key in ("class", "subclass") if verdict.get(key))
    return replace(
        blank,
        said=said,
        named=culprits_of(verdict),
        wrongs=differences(verdict, truth, job.plan.culprit, job.plan.ranks),
        seconds=seconds,
        bundle=str(bundle),
    )


def collect_by_command(*options: str, deadline: int = COLLECT_DEADLINE) -> Collect:
    """`rankmuster collect` of the job's instance, in a process of its own, with these options added.

    It is told the metrics page: that it finds an engine's by itself is no matter of this job, which is no engine's.
    """

    def collect(job: DrillJob, output: Path) -> Path:
        return collected(job.plan.instance, job.metrics_url, output, *options, deadline=deadline)

    return collect


def collected(
    instance: str, metrics_url: str | None, output: Path, *options: str, deadline: int = COLLECT_DEADLINE
) -> Path:
    """The bundle that `rankmuster collect` makes of an instance. Raises StepFailed."""
    output = output.absolute()
    command = ["collect", "--instance", instance, "--output", str(output), "--deadline", str(deadline)]
    page = ["--metrics-url", metrics_url] if metrics_url else []
    status, _, said = _command([*command, *page, *options], deadline + COLLECT_GRACE)
    output.with_name(output.name + ".collect.log").write_text(said)
    if not output.exists():
        raise StepFailed(f"`{' '.join(command)}` left nothing (exit status {status}); it said: {said[-800:]}")
    return output


def diagnose_by_command(bundle: Path) -> dict[str, Any]:
    """`rankmuster diagnose --format json`, in a process of its own."""
    status, out, said = _command(["diagnose", str(bundle.absolute()), "--format", "json"], DIAGNOSE_SECONDS)
    try:
        verdict: dict[str, Any] = json.loads(out)
    except ValueError as error:
        raise StepFailed(f"no verdict on {bundle} (exit status {status}); it said: {said[-800:]}") from error
    return verdict


def _command(arguments: list[str], seconds: float) -> tuple[int, str, str]:
    """(exit status, standard output, standard error) of this program; StepFailed when it does not end."""
    try:
        done = subprocess.run(  # noqa: S603  # our own program
            [*PROGRAM, *arguments],
            capture_output=True,
            timeout=seconds,
            check=False,
            stdin=subprocess.DEVNULL,
            cwd=SAFE_FOLDER,
        )
    except subprocess.TimeoutExpired as error:
        raise StepFailed(f"`{' '.join(arguments)}` did not end within {seconds:.0f} s and was killed") from error
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
