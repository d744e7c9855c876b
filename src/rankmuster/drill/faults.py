"""The faults that can be made on purpose, as data: who can have them, when they are made, and what is right to say.

Later parts add theirs with `register`. What a rank does itself stands in `deeds`; what is done to it is a signal.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from rankmuster.drill.plan import Backend
from rankmuster.drill.truth import Naming, Truth
from rankmuster.model.fault import FaultClass, Progress, Subkind


class When(str, Enum):
    """NEVER: nothing is made. START: from the culprit's own start on. ARMED: in the first step after the parent gives
    the word. OUTSIDE: by the parent, with a signal, at a time of its own."""

    NEVER = "never"
    START = "start"
    ARMED = "armed"
    OUTSIDE = "outside"


class Deed(str, Enum):
    """What a rank does itself."""

    SKIP = "skip"  # leaves out one all-reduce and goes on
    STOP = "stop"  # stops calling, or replaying; it stays alive
    LOOP = "loop"  # computes in Python without an end, and calls nothing any more
    NO_SEND = "no_send"  # leaves out one send to the next rank, and goes on
    WRONG_SIZE = "wrong_size"  # one all-reduce with half the elements
    SLOW = "slow"  # sleeps in every step
    REST = "rest"  # rank 0 has no request left: all ranks rest
    ABSENT = "absent"  # never joins


@dataclass(frozen=True, slots=True)
class Fault:
    """`truths`: what is right, by backend; a backend without one cannot have this fault.

    `settle_seconds`: from the fault to the first look; a hang needs some seconds before it can be told from a pause.
    `graph`: the step must be a replayed CUDA graph. `pause_seconds`: what SLOW sleeps.
    """

    name: str
    summary: str
    when: When
    truths: Mapping[Backend, Truth]
    deed: Deed | None = None
    signal: int | None = None
    graph: bool = False
    settle_seconds: float = 6.0
    pause_seconds: float = 0.02

    @property
    def stops(self) -> bool:
        """Whether the work of all ranks stops with it, after it had begun."""
        return self.when in (When.ARMED, When.OUTSIDE) and self.deed not in (Deed.REST, Deed.SLOW)

    def truth(self, backend: Backend) -> Truth:
        """Raises ValueError when this backend cannot have the fault."""
        if backend not in self.truths:
            able = ", ".join(sorted(one.value for one in self.truths))
            raise ValueError(f"{self.name} cannot be made with {backend.value} ({self.summary}); it can with {able}")
        return self.truths[backend]


FAULTS: dict[str, Fault] = {}
"""All faults by name."""


def register(fault: Fault) -> Fault:
    """Adds a fault. Raises ValueError when the name is taken, or when nothing or two things would make it."""
    if fault.name in FAULTS:
        raise ValueError(f"there is a fault named {fault.name} already ({FAULTS[fault.name].summary})")
    wanted = {When.NEVER: (False, False), When.OUTSIDE: (False, True)}.get(fault.when, (True, False))
    if (fault.deed is not None, fault.signal is not None) != wanted:
        raise ValueError(f"{fault.name}: made {fault.when.value}, with deed {fault.deed} and signal {fault.signal}")
    FAULTS[fault.name] = fault
    return fault


def fault_named(name: str) -> Fault:
    """Raises ValueError, with the names there are."""
    if name not in FAULTS:
        raise ValueError(f"there is no fault named {name!r}; there are {', '.join(FAULTS)}")
    return FAULTS[name]


def _both(truth: Truth) -> dict[Backend, Truth]:
    return {Backend.NCCL: truth, Backend.GLOO: truth}


_DESYNC, _LOST = FaultClass.COLLECTIVE_DESYNC, FaultClass.PROCESS_OR_DEVICE_LOST
_MOVES = (Progress.ADVANCING,)

register(
    Fault(
        "none",
        "nothing is wrong",
        When.NEVER,
        _both(Truth((FaultClass.HEALTHY,), Naming.NOBODY, progress=_MOVES)),
        settle_seconds=2.0,
    )
)
register(
    Fault(
        "idle",
        "no request is left, and all ranks rest outside any collective",
        When.ARMED,
        _both(Truth((FaultClass.HEALTHY,), Naming.NOBODY, progress=(Progress.IDLE,))),
        deed=Deed.REST,
        settle_seconds=2.0,
    )
)
register(
    Fault(
        "skip",
        "one rank leaves out one all-reduce and goes on",
        When.ARMED,
        _both(Truth((_DESYNC,), Naming.MUST, majority=True)),
        deed=Deed.SKIP,
    )
)
register(
    Fault(
        "stop",
        "one rank stops calling and stays alive",
        When.ARMED,
        _both(Truth((_DESYNC,), Naming.MUST, (Subkind.MISSING_ENTER,))),
        deed=Deed.STOP,
    )
)
register(
    Fault(
        "loop",
        "one rank is caught in an endless loop of Python and calls nothing any more",
        When.ARMED,
        _both(
            Truth(
                (_DESYNC, _LOST),
                Naming.MUST,
                why="it is missing in a collective that its peers have entered; a process that answers badly, being "
                "busy, is unresponsive too",
            )
        ),
        deed=Deed.LOOP,
    )
)
register(
    Fault(
        "no_send",
        "one rank leaves out a send for which the next one waits, and goes on",
        When.ARMED,
        {
            Backend.NCCL: Truth(
                (_DESYNC,),
                Naming.MAY,
                why="the next rank stands in its receive and is missing in the collective that follows; that its peer "
                "never sent shows where sends are recorded with both ends",
            ),
            Backend.GLOO: Truth(
                (_DESYNC, FaultClass.INCONCLUSIVE),
                Naming.MAY,
                why="gloo's recorder has no entry of a receive that still waits (torch 2.13): the next rank is missing "
                "in a collective, and nothing shows why",
            ),
        },
        deed=Deed.NO_SEND,
    )
)
register(
    Fault(
        "kill",
        "one rank is killed by SIGKILL",
        When.OUTSIDE,
        _both(Truth((_LOST,), Naming.MUST)),
        signal=signal.SIGKILL,
    )
)
register(
    Fault(
        "freeze",
        "one rank is stopped by SIGSTOP and does not answer",
        When.OUTSIDE,
        _both(Truth((_LOST,), Naming.MUST, (Subkind.UNRESPONSIVE,))),
        signal=signal.SIGSTOP,
    )
)
register(
    Fault(
        "wrong_size",
        "one rank gives half the elements to one all-reduce",
        When.ARMED,
        {
            Backend.NCCL: Truth((_DESYNC,), Naming.MUST, (Subkind.SIZE_MISMATCH,), majority=True),
            Backend.GLOO: Truth(
                (_DESYNC, _LOST, FaultClass.INCONCLUSIVE),
                Naming.MAY,
                why="gloo does not hang: the rank with the smaller buffer aborts (`op.preamble.length <= op.nbytes` in "
                "pair.cc, torch 2.13), its peers exit within half a second, and nobody is left to dump",
            ),
        },
        deed=Deed.WRONG_SIZE,
    )
)
register(
    Fault(
        "graph_stop",
        "one rank stops replaying its CUDA graph: no log, no recorder and no RAS count tells of it",
        When.ARMED,
        {
            Backend.NCCL: Truth(
                (_DESYNC, _LOST),
                Naming.MUST,
                progress=(Progress.STOPPED,),
                why="only the hardware plane sees it: an idle GPU among spinning ones, whatever keeps it",
            )
        },
        deed=Deed.STOP,
        graph=True,
    )
)
register(
    Fault(
        "init_absent",
        "one rank never joins",
        When.START,
        {
            Backend.NCCL: Truth(
                (FaultClass.INIT_STUCK,),
                Naming.MAY,
                why="who waits in an init is seen, and who does not wait only where its own log shows it",
            ),
            Backend.GLOO: Truth(
                (FaultClass.INIT_STUCK, FaultClass.INCONCLUSIVE, FaultClass.BLIND),
                Naming.MAY,
                why="no plane of NCCL is there, and gloo's recorder begins with the first collective",
            ),
        },
        deed=Deed.ABSENT,
        settle_seconds=16.0,
    )
)
register(
    Fault(
        "slow",
        "one rank sleeps in every step",
        When.ARMED,
        _both(
            Truth(
                (FaultClass.PERFORMANCE_DEGRADATION, FaultClass.HEALTHY, FaultClass.INCONCLUSIVE),
                Naming.MAY,
                why="one collect sees that work advances, not what its rate was before; who is late stands in NCCL's "
                "dumps (gloo's know no durations), which a job that advances is not asked for unless told",
            )
        ),
        deed=Deed.SLOW,
        settle_seconds=10.0,
    )
)
