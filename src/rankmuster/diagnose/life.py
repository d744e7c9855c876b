"""Signs of life of a rank: what it wrote, left or did, and when it was last heard of."""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.diagnose.context import Context
from rankmuster.model.frameworklog import DumpNotice, LogSpan
from rankmuster.model.nccllog import NcclLogFile


@dataclass(frozen=True, slots=True)
class Life:
    """`dumped`: it left a dump. `last_word`: unix seconds of its last stamped line, None unknown.

    `spoke_of_trouble`: its own log has a time-out or a dump notice.
    """

    rank: int
    dumped: bool
    last_word: float | None
    spoke_of_trouble: bool


def of_rank(context: Context, rank: int) -> Life:
    """Everything that shows that `rank` lived after the fault."""
    times = []
    for span in context.evidence.of(LogSpan):
        if span.rank == rank:
            times.append(context.time(span.last))
    for log in context.evidence.of(NcclLogFile):
        if len(log.writers) == 1 and context.roster.of_process(*log.writers[0]) == rank:
            times.append(context.time(log.last))
    known = [time for time in times if time is not None]
    trouble = any(line.origin.rank == rank for line in context.timeouts) or any(
        notice.origin.rank == rank for notice in context.evidence.of(DumpNotice)
    )
    return Life(rank, rank in context.dump_facts, max(known, default=None), trouble)
