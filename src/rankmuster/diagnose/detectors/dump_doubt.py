"""What a set of dumps can be trusted for: when they were taken, and whether `started` means anything in them."""

from __future__ import annotations

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.op_names import EVENTLESS_BACKENDS
from rankmuster.diagnose.roll import RollTable

TIMING = "the same dumps under TORCH_NCCL_ENABLE_TIMING=1: who of them has started it"
"""What would tell a busy GPU from a lost path."""

UNTIMED = "; without timing in all dumps a GPU that is busy with something before it looks the same"
"""... and why nothing does without."""


def taken_after(context: Context, group: int, seq: int, stalled: tuple[int, ...], others: tuple[int, ...]) -> bool:
    """Whether the dumps of `stalled` were taken after `others` had finished `seq`, as far as anything says.

    Two dumps of a moving job, a moment apart, show the same picture as a stall; but where operations follow each other
    faster than the watchdog sweeps, a moving job would show some that are completed and not retired.
    """
    table = context.table
    flights = [table.rows[rank] for rank in others if rank in table.rows]
    brisk = [flight.is_brisk(context.limits.sweep_seconds) for flight in flights]
    if context.timeouts or (flights and all(brisk)):
        return True
    ends = [
        float(roll.completed[position])
        for rank in others
        if (roll := table.rolls.get((group, rank))) is not None and (position := roll.at(seq)) is not None
    ]
    ends = [end for end in ends if end > 0]
    for rank in stalled:
        facts = context.dump_facts.get(rank)
        if facts is None or facts.look is None or not ends:
            continue
        grace = context.limits.tail_seconds if facts.look_noted else 0.0
        if facts.look < max(ends) + grace:
            return False
    return True


def is_timed(table: RollTable, rank: int) -> bool:
    """Whether `started` means something in this rank's dump; the switch is the job's, and any dump may show it."""
    flight = table.rows.get(rank)
    if flight is None:
        return False
    return flight.has_timing or (flight.dump.only_active and any(other.has_timing for other in table.rows.values()))


def asked_for(context: Context, ranks: tuple[int, ...]) -> bool:
    """Whether nothing says that the dumps of `ranks` were taken in a stop.

    Backends without events have no watchdog that writes a dump: theirs were asked for, at any time.
    """
    facts = [context.dump_facts[rank] for rank in ranks if rank in context.dump_facts]
    backends = {op.split(":", 1)[0] for rank in ranks if rank in context.table.rows for op in _ops(context, rank)}
    if context.timeouts or not facts or not backends <= EVENTLESS_BACKENDS:
        return False
    return all(one.look is None or not one.look_noted for one in facts)


def _ops(context: Context, rank: int) -> tuple[str, ...]:
    return context.table.rows[rank].dump.columns.ops
