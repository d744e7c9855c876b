"""What RAS polls say of each communicator over time: launched counts that moved, or stood.

Blind to all-to-all, sends and receives, and to replays of CUDA graphs: counts that stand are no sign of a stop by
themselves, since a decode that is replayed launches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.ras_view import CountLook, looks_per_communicator, moved


class Counts(str, Enum):
    MOVED = "moved"
    STOOD_APART = "stood apart"  # unchanged, and not the same on all ranks
    STOOD_ALIKE = "stood alike"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CommunicatorSeen:
    """`name`: its commHash as RAS prints it. `ranks`: global ones. `at`: unix seconds of its newest poll."""

    name: str
    ranks: tuple[int, ...]
    counts: Counts
    at: float
    text: str


def communicators(context: Context) -> tuple[CommunicatorSeen, ...]:
    """Every communicator in the polls, in the order of their hashes."""
    if not context.polls:
        return ()
    gap = context.limits.ras_gap_seconds
    return tuple(_seen(key, looks, gap) for key, looks in sorted(looks_per_communicator(context).items()) if looks)


def _seen(key: int, looks: list[CountLook], gap: float) -> CommunicatorSeen:
    last = looks[-1]
    ranks = tuple(sorted(frozenset[int]().union(*(look.ranks | look.missing for look in looks))))
    name = f"{key & 0xFFFF_FFFF_FFFF_FFFF:016x}"
    before = next((look for look in reversed(looks) if look.counts and look.time <= last.time - gap), None)
    if before is None or not last.counts:
        text = "one poll alone does not tell" if last.counts else "all ranks alike, at counts that the reply leaves out"
        return CommunicatorSeen(name, ranks, Counts.UNKNOWN, last.time, text)
    seconds = last.time - before.time
    what = moved(before, last)
    if what is not None:
        return CommunicatorSeen(name, ranks, Counts.MOVED, last.time, f"{what} within {seconds:.0f} s")
    counts = Counts.STOOD_APART if last.differing else Counts.STOOD_ALIKE
    apart = f"; {_apart(last)}" if last.differing else ""
    return CommunicatorSeen(name, ranks, counts, last.time, f"no launched count moved within {seconds:.0f} s{apart}")


def _apart(look: CountLook) -> str:
    """Which ranks have launched least of the first operation that differs."""
    op = min(look.differing_operations)
    counts = look.counts[op]
    least = min(counts.values())
    behind = sorted(rank for rank, count in counts.items() if count == least)
    who = ", ".join(map(str, behind[:4])) + (", ..." if behind[4:] else "")
    return f"{op}: rank{'s' if behind[1:] else ''} {who} at {least}, others up to {max(counts.values())}"
