"""What the analysis could not see, and why: blind is not healthy."""

from __future__ import annotations

from collections.abc import Sequence

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import counted
from rankmuster.diagnose.slow.matrix import GroupMatrix
from rankmuster.model.flight import CallField
from rankmuster.model.ranks_text import ranks_text
from rankmuster.model.slow import Timing

MOST_HOSTS = 4
"""Hosts named in a note."""

_NO_DURATIONS = {
    Timing.HOST: (
        "the dumps hold no durations: set TORCH_NCCL_ENABLE_TIMING=1 to see transfers and who comes late; until then "
        "only when hosts enqueued is known, which convicts nobody"
    ),
    Timing.NONE: (
        "the dumps hold no durations (TORCH_NCCL_ENABLE_TIMING=1 records them), and no group's ranks have enough "
        "collectives in common to compare when they were enqueued"
    ),
}


def notes_of(
    context: Context,
    timing: Timing,
    partial: Sequence[GroupMatrix],
    *,
    unseen: int,
    left_out: int,
    only_disturbed: bool,
) -> tuple[str, ...]:
    """`partial`: groups of which some members have no window; `unseen`: how many have no two with one in common."""
    found = []
    if not context.table.rows:
        return ("no dump of the Flight Recorder was readable",)
    if timing in _NO_DURATIONS:
        found.append(_NO_DURATIONS[timing])
    if timing is not Timing.EVENTS:
        found += _of_clocks(context)
    if only_disturbed:
        found.append(
            "everything was enqueued after the first dump with stacks, which slows a job for seconds: shown, not judged"
        )
    elif left_out:
        found.append(f"{counted(left_out, 'collective')} left out: enqueued after the first dump with stacks")
    untimed = [rank for rank, flight in context.table.rows.items() if not flight.has_timing]
    if timing is Timing.EVENTS and untimed:
        found.append(f"no durations of {ranks_text(untimed)}")
    found += _of_partial(partial)
    if timing is Timing.EVENTS and unseen:
        found.append(f"nothing is known of {counted(unseen, 'group')}: no two members have durations of one collective")
    if timing is Timing.EVENTS and any(
        bool(flight.dump.columns.of_calls(CallField.IS_P2P).any()) for flight in context.table.rows.values()
    ):
        found.append("sends and receives are not measured: a rank's own duration does not tell who came late")
    return tuple(found)


def _of_clocks(context: Context) -> list[str]:
    """Hosts whose clocks nothing ties to the others'."""
    hosts = {host for rank in context.table.rows if (host := context.job.rank(rank).host) is not None}
    strange = sorted(hosts - set(context.job.clock_offsets)) if len(hosts) > 1 else []
    if not strange:
        return []
    named = ", ".join(strange[:MOST_HOSTS]) + (" ..." if len(strange) > MOST_HOSTS else "")
    return [
        f"left out: {counted(len(strange), 'host')} ({named}) whose clocks cannot be set right, for want of "
        "collectives that they finished together with the others"
    ]


def _of_partial(partial: Sequence[GroupMatrix]) -> list[str]:
    """One line per reason: a rank without a dump is missing in all its groups."""
    found = []
    for words, missing in (
        ("no window of", [matrix.absent for matrix in partial if matrix.absent]),
        ("another window than most of", [matrix.apart for matrix in partial if matrix.apart]),
    ):
        ranks = {rank for group in missing for rank in group}
        if ranks:
            found.append(
                f"{words} {ranks_text(ranks)} in {counted(len(missing), 'group')}: what looks like transfer there may "
                f"be waiting for {'it' if len(ranks) == 1 else 'them'}"
            )
    return found
