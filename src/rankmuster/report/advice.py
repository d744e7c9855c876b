"""What to save before anything is killed, what to rebuild, and what not to do: the verdict's recovery in order."""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.model.fault import FaultClass
from rankmuster.model.job import Job
from rankmuster.model.ranks_text import rank_ranges
from rankmuster.model.verdict import Verdict
from rankmuster.report.inert import plain
from rankmuster.report.words import BOUNDARY_WORDS

SAVING_WORDS = ("save", "preserve", "capture", "archive")
"""A step that begins with one of these is for the evidence, and comes before every other (DESIGN, invariant 5)."""


@dataclass(frozen=True, slots=True)
class Advice:
    """Sentences, in order. `rebuild_what` names the recovery boundary."""

    save: tuple[str, ...]
    rebuild_what: str
    rebuild: tuple[str, ...]
    do_not: tuple[str, ...]


def _without_dump(job: Job) -> list[int]:
    """Ranks not known to have ended that left no Flight Recorder dump: only their live stacks can still tell."""
    return [rank.rank for rank in job.ranks if rank.exit_code is None and rank.rank not in job.dumps]


def advice(verdict: Verdict, job: Job) -> Advice:
    """The verdict's steps split into saving and rebuilding.

    Where no step speaks of saving and a fault was found, the live ranks without a dump are named: that evidence exists
    nowhere but in their memory.
    """
    save: list[str] = []
    rebuild: list[str] = []
    for step in verdict.recovery.steps:
        words = plain(step).lower().replace(":", " ").split()
        (save if words and words[0] in SAVING_WORDS else rebuild).append(plain(step))
    silent = _without_dump(job)
    if not save and silent and verdict.class_ is not FaultClass.HEALTHY:
        ranks = f"{'rank' if len(silent) == 1 else 'ranks'} {rank_ranges(silent)}"
        save.append(f"{ranks} left no Flight Recorder dump: take the stacks of the live processes before any is ended")
    return Advice(
        save=tuple(save),
        rebuild_what=BOUNDARY_WORDS[verdict.recovery.boundary],
        rebuild=tuple(rebuild),
        do_not=tuple(plain(line) for line in verdict.recovery.do_not),
    )
