"""What is right to say of a synthetic job: the ranks at fault, and where the dumps alone do not separate anybody.

The rules are the design's ("Who is odd"): with a majority the minority is odd; without one nobody is the culprit unless
the rank's own program order separates it; that a dump is absent is no proof
that its rank is dead, so that dumps alone make it a suspect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.flight.plan import Plan
from benchmarks.flight.settings import SLOW_KINDS, Backend, FaultKind, Look, Settings

_BETWEEN_TWO = (FaultKind.MISSING_SEND, FaultKind.MISSING_RECV, FaultKind.UNEVEN_PAIR)
_NEEDS_MAJORITY = (
    FaultKind.WRONG_OP,
    FaultKind.WRONG_SIZE,
    FaultKind.WRONG_DTYPE,
    FaultKind.SKIP,
    FaultKind.SWAP,
    FaultKind.UNEVEN,
)


@dataclass(frozen=True, slots=True)
class Truth:
    """`culprits`: who did it. `may_be_silent`: naming nobody is right too.
    `suspicion_is_right`: so is naming them as suspects. `is_fault`: something is wrong at all.

    `stands`: the job has stopped.
    """

    fault: str
    culprits: tuple[int, ...]
    may_be_silent: bool
    suspicion_is_right: bool
    is_fault: bool
    stands: bool
    missing: tuple[int, ...]
    stale: tuple[int, ...]
    damaged: tuple[int, ...]
    older: tuple[int, ...]
    group: str
    group_size: int

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def of(
    job: Settings,
    plan: Plan,
    missing: tuple[int, ...],
    stale: tuple[int, ...],
    damaged: tuple[int, ...],
    older: tuple[int, ...],
) -> Truth:
    """The truth about a job whose innocent ranks left no dump, one of another run, half of one, or an earlier one."""
    kind = job.fault.kind
    rank = plan.at[0] if plan.at is not None else -1
    size = 0
    members: tuple[int, ...] = ()
    if plan.at is not None:
        own = next((group for group in plan.layout.groups_of[rank] if group.kind == plan.group), None)
        members = own.members if own is not None else ()
        size = len(members)
    nobody = kind in (FaultKind.NONE, FaultKind.TRANSPORT)
    unseen = {*missing, *stale, *damaged, *older} & set(members)
    silent = nobody or kind in _BETWEEN_TWO or kind in SLOW_KINDS
    silent |= kind in _NEEDS_MAJORITY and (size - len(unseen) < 3 or job.tp < 3)
    silent |= kind is FaultKind.DEAD and (bool(unseen) or size < 3)
    suspected = kind is FaultKind.DEAD
    silent |= kind is FaultKind.NO_FINISH and size - len(unseen) < 2
    silent |= kind is FaultKind.GPU_STALL and not (job.timing and job.has_events)
    # Bare dumps: one that ends where it stopped looks like one taken a little earlier.
    silent |= kind is FaultKind.HOST_STOP and not job.look_times
    # gloo records no message: who stands at one seems to have called nothing more, like who has stopped.
    silent |= job.backend is Backend.GLOO and job.pp > 1
    return Truth(
        fault=kind.value,
        culprits=() if nobody else (rank,),
        may_be_silent=bool(silent),
        suspicion_is_right=suspected,
        is_fault=kind is not FaultKind.NONE,
        stands=job.look is Look.HUNG,
        missing=missing,
        stale=stale,
        damaged=damaged,
        older=older,
        group=plan.group.name,
        group_size=size,
    )
