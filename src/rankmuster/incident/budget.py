"""How long each step may take, and all of them together: written down once, and adding up.

The longest way through the runbook is: stop traffic, evidence (the drain runs beside it and is no longer), diagnose,
decide, fence, cut, terminate, a short re-test, start, verify, restore. The total is its sum, unless it is set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rankmuster.model.incident import Step

DEFAULT_SECONDS: Mapping[Step, float] = {
    # a gateway answers in milliseconds; two attempts of 2 s and a look
    Step.SHED: 5.0,
    Step.STOP_TRAFFIC: 5.0,
    # the longest answers of a chat; it ends at once where nothing can end any more
    Step.DRAIN: 20.0,
    # what is not in a bundle by then is gone, or was never there: `collect` ends before it, and closes what it has
    Step.EVIDENCE: 20.0,
    # a bundle of 512 ranks takes 8 s on an idle processor
    Step.DIAGNOSE: 10.0,
    Step.DECIDE: 2.0,
    # people are waited for; this clock is not part of the total
    Step.APPROVE: 900.0,
    Step.FENCE: 5.0,
    Step.CUT: 3.0,
    # SIGTERM, 5 s of grace, SIGKILL; what sleeps in a driver after an Xid takes seconds to be gone (drill.launch)
    Step.TERMINATE: 30.0,
    # the short profile of the built-in benchmark on one node, with the start of its processes
    Step.SHORT_RETEST: 60.0,
    # the scheduler's or supervisor's answer, not the engine's loading
    Step.START: 30.0,
    # weights, compilation, graphs: the watch's own patience with a start (watch.progress.starts)
    Step.VERIFY: 600.0,
    # of a slow group, until its weight stays lowered and an operator is told
    Step.RECOVER: 1800.0,
    Step.RESTORE: 5.0,
    # admission with its re-tests, alone and in pairs; nobody waits for it
    Step.RETEST: 1200.0,
    Step.SETTLE: 10.0,
}
"""Seconds of each step by default, with where the number comes from."""

CRITICAL = (
    Step.STOP_TRAFFIC,
    Step.EVIDENCE,
    Step.DIAGNOSE,
    Step.DECIDE,
    Step.FENCE,
    Step.CUT,
    Step.TERMINATE,
    Step.SHORT_RETEST,
    Step.START,
    Step.VERIFY,
    Step.RESTORE,
)
"""What comes one after the other until traffic is back. DRAIN runs beside EVIDENCE."""

FREE_GPUS = (Step.CUT, Step.TERMINATE)
"""What is done once the total deadline has passed, within their own seconds."""


@dataclass(frozen=True, slots=True)
class Budget:
    """`seconds`: of steps, where they differ from the default. `total_seconds`: None for the sum."""

    seconds: Mapping[Step, float] = field(default_factory=dict)
    total_seconds: float | None = None

    def of(self, step: Step) -> float:
        """Seconds that a step may take."""
        return self.seconds.get(step, DEFAULT_SECONDS[step])

    @property
    def longest_way(self) -> float:
        """Seconds until traffic is back if every step takes all that it may. The drain counts where it is longer."""
        beside = max(self.of(Step.EVIDENCE), self.of(Step.DRAIN))
        return sum(self.of(step) for step in CRITICAL if step is not Step.EVIDENCE) + beside

    @property
    def total(self) -> float:
        """Seconds from the opening until the runbook stops trying, without the time that people were waited for."""
        return self.longest_way if self.total_seconds is None else self.total_seconds

    @property
    def until_terminated(self) -> float:
        """Seconds until the GPUs are free, if every step takes all that it may."""
        before = (Step.STOP_TRAFFIC, Step.DIAGNOSE, Step.DECIDE, Step.FENCE, Step.CUT, Step.TERMINATE)
        return sum(self.of(step) for step in before) + max(self.of(Step.EVIDENCE), self.of(Step.DRAIN))
