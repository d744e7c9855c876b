"""Foreign work on the GPUs while they were measured: by the process lists, and by the mark that it leaves in results.

Two processes on one GPU take turns of milliseconds. So the fastest iterations are as fast as ever and the slowest wait
a turn: a spread between iterations that a slow link does not make (it slows every one of them).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rankmuster.admission.facts import UnderLoad
from rankmuster.baseline.thresholds import PLATEAU_FROM
from rankmuster.model.admission import Check, CheckGroup, CheckState
from rankmuster.model.benchmark import BenchmarkRun, Measurement, RunState
from rankmuster.model.history import ClassHistory
from rankmuster.report.admission_words import span_text

TURNS_CV = 30.0
"""Percent: coefficient of variation between iterations from which turns are presumed. Measured at 16 MiB and above:
at most 7.2 in eight healthy runs and at most 4 with peer-to-peer off; 45 to 178 beside another job, from 32 MiB on."""

AS_EVER = 1.1
"""The fastest iteration is as in the class up to this factor. Measured beside another job: 1.00 at 256 MiB."""

HOW = "end the other process, or take the GPU out of its hands, and admit again: a contended node is not judged"


@dataclass(frozen=True, slots=True)
class Contended:
    """What says so. `certain`: a process was seen; otherwise the results bear its mark."""

    words: str
    certain: bool


def contended(
    runs: Sequence[BenchmarkRun], load: Mapping[int, UnderLoad], history: ClassHistory | None
) -> Contended | None:
    """Whether other work was on the GPUs; None where nothing says so."""
    foreign = {gpu: seen.foreign_pids for gpu, seen in sorted(load.items()) if seen.foreign_pids}
    said = next((run for run in runs if run.state is RunState.CONTENDED), None)
    if foreign:
        who = "; ".join(f"process {', '.join(map(str, pids[:4]))} on GPU {gpu}" for gpu, pids in foreign.items())
        return Contended(f"contention: foreign work while it ran: {who}", certain=True)
    if said is not None:
        words = said.reason or "the benchmark saw foreign work on a GPU"
        return Contended(f"contention: {words}", certain=True)
    for run in runs:
        rows = [row for row in run.measurements if _turns(row, history)]
        if rows:
            worst = max(rows, key=lambda row: row.spread.cv_percent or 0.0 if row.spread else 0.0)
            assert worst.spread is not None
            sizes = span_text([row.cell.size_bytes for row in rows])
            words = (
                f"contention: at {sizes} iterations vary by {worst.spread.cv_percent:.0f} % "
                f"(fastest {worst.spread.min_us or 0:.0f} us, slowest {worst.spread.max_us or 0:.0f} us): the fastest "
                "are as they should be and others wait, as where another process takes turns on a GPU"
            )
            return Contended(words, certain=False)
    return None


def _turns(row: Measurement, history: ClassHistory | None) -> bool:
    spread = row.spread
    if row.cell.size_bytes < PLATEAU_FROM or spread is None or (spread.cv_percent or 0.0) < TURNS_CV:
        return False
    known = history.cells.get(row.cell) if history is not None else None
    if known is None or spread.min_us is None or not len(known.time_us):
        return True
    usual = sorted(known.time_us.tolist())[len(known.time_us) // 2]
    return bool(spread.min_us <= AS_EVER * usual)


def contention_check(found: Contended) -> Check:
    """The refusal."""
    evidence = ("process list" if found.certain else "spread of the iterations",)
    group = CheckGroup.PROFILE
    return Check("contention", group, CheckState.FAIL, "the node", found.words, HOW, evidence, required=True)
