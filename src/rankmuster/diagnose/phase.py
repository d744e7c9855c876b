"""Was the instance being made, at work or being taken down? Only what the evidence shows; else nobody knows."""

from __future__ import annotations

from rankmuster.diagnose import inits
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Accusation
from rankmuster.model.fault import Phase, Progress

WORKING = frozenset({Progress.ADVANCING, Progress.SLOW, Progress.IDLE})
"""What only an instance past its init does."""


def phase(context: Context, accusation: Accusation | None, progress: Progress) -> Phase | None:
    """The phase of the fault, or of the last look where there is none; None unknown."""
    if progress is Progress.DRAINING:
        return Phase.TEARDOWN
    if (accusation is not None and accusation.phase is Phase.INIT) or progress is Progress.STARTING:
        return Phase.INIT
    if progress in WORKING or has_served(context):
        return Phase.SERVING
    return Phase.INIT if any(comm.pending for comm in inits.communicators(context)) else None


def has_served(context: Context) -> bool:
    """Whether work was seen: recorded or timed-out collectives, launched counts, a completed init, moving counters."""
    return (
        bool(context.table.rolls)
        or bool(context.timeouts)
        or any(
            rank.counts or comm.majorities
            for poll in context.polls
            for comm in poll.communicators
            for rank in comm.ranks
        )
        or inits.any_completed(context)
        or any(value > 0 for page in context.pages for stream in page.streams for value in stream.steps.values())
    )
