"""What a fault is, as a value: who makes it, when, what it needs, and what is right to say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from rankmuster.drill.plan import Backend
from rankmuster.drill.truth import Truth
from rankmuster.model.fault import Phase

TOLD_SECONDS = 15.0
"""Within which a stop must be told: three looks of the watch (docs/watch.md)."""


class When(str, Enum):
    """NEVER: nothing is made. START: from the culprit's own start on. ARMED: in the first step after the parent gives
    the word. OUTSIDE: by the parent, with a signal or at what surrounds the rank, at a time of its own."""

    NEVER = "never"
    START = "start"
    ARMED = "armed"
    OUTSIDE = "outside"


class Deed(str, Enum):
    """What a rank does itself."""

    SKIP = "skip"  # leaves out one all-reduce and goes on
    EXTRA_CALL = "extra_call"  # makes one all-reduce too many, and goes on
    WRONG_OP = "wrong_op"  # an all-gather in place of one all-reduce
    WRONG_SIZE = "wrong_size"  # one all-reduce with half the elements
    WRONG_DTYPE = "wrong_dtype"  # one all-reduce in a type of twice the width
    ORDER_SWAP = "order_swap"  # calls the second of two groups before the first, once
    NO_SEND = "no_send"  # leaves out one send to the next rank, and goes on
    NO_RECV = "no_recv"  # leaves out one receive from the rank before it, and goes on
    STOP = "stop"  # stops calling, or replaying; it stays alive
    LOOP = "loop"  # computes in Python without an end, and calls nothing any more
    RAISE = "raise"  # raises an exception that nobody catches
    GPU_BUSY = "gpu_busy"  # puts a kernel without an end before its next collective
    SLOW = "slow"  # sleeps in every step
    TAIL = "tail"  # sleeps long in some steps
    REST = "rest"  # rank 0 has no request left: all ranks rest
    ABSENT = "absent"  # never joins


class Place(str, Enum):
    """What surrounds the culprit, or all ranks, and is not as it should be."""

    WRONG_INTERFACE = "wrong_interface"  # the interface that its variables name is not there
    SMALL_SHM = "small_shm"  # a /dev/shm of a few KiB, which all ranks have in common
    MEMLOCK = "memlock"  # may lock hardly any memory
    OTHER_NCCL = "other_nccl"  # loads another libnccl
    OWN_NETWORK = "own_network"  # a network namespace of its own, joined by a link that can be cut


class Need(str, Enum):
    """What a machine must have for a fault to be made on it; `fault_needs` says whether it has."""

    ROOT = "root"
    IP = "ip"
    RDMA = "rdma"
    OTHER_NCCL = "other_nccl"
    GRAPH = "graph"


@dataclass(frozen=True, slots=True)
class Fault:
    """`truths`: what is right, by backend; a backend without one cannot have this fault.

    Made by one of `deed` (the rank), `signal` (the parent), `place` (what surrounds the rank). `graph`: the step must
    be a replayed CUDA graph. `needs`: of the machine. `ends_process`: the culprit's process ends by it.
    `settle_seconds`: from the fault to the first look; a hang needs some seconds before it can be told from a pause.
    `most_seconds`: in which it must be told, from the fault, or from when the healthy ranks wait for one that is to
    join. `pause_seconds`: what SLOW and TAIL sleep. `group_seconds`: time-out of the process group, else the plan's.
    """

    name: str
    summary: str
    when: When
    truths: Mapping[Backend, Truth]
    deed: Deed | None = None
    signal: int | None = None
    place: Place | None = None
    graph: bool = False
    needs: tuple[Need, ...] = ()
    ends_process: bool = False
    settle_seconds: float = 6.0
    most_seconds: float = TOLD_SECONDS
    pause_seconds: float = 0.02
    group_seconds: float | None = None

    @property
    def stops(self) -> bool:
        """Whether the work of all ranks stops with it, after it had begun."""
        return self.when in (When.ARMED, When.OUTSIDE) and self.deed not in (Deed.REST, Deed.SLOW, Deed.TAIL)

    @property
    def phase(self) -> Phase:
        """Of the job, when it is made."""
        return Phase.INIT if self.when is When.START else Phase.SERVING

    @property
    def cuts(self) -> bool:
        """Whether the parent makes it by cutting the link of the rank."""
        return self.when is When.OUTSIDE and self.place is Place.OWN_NETWORK

    @property
    def makers(self) -> str:
        """By what it is made, for an error."""
        made = {"deed": self.deed, "signal": self.signal, "place": self.place}
        named = [f"{kind} {getattr(one, 'value', one)}" for kind, one in made.items() if one is not None]
        return " and ".join(named) or "nothing"

    @property
    def makeable(self) -> bool:
        """Whether exactly one thing makes it, and one that can at its time."""
        made = [kind for kind, one in (("deed", self.deed), ("signal", self.signal), ("place", self.place)) if one]
        fitting = {
            When.NEVER: ((),),
            When.START: (("deed",), ("place",)),
            When.ARMED: (("deed",),),
            When.OUTSIDE: (("signal",), ("place",)),
        }
        return tuple(made) in fitting[self.when]

    def truth(self, backend: Backend) -> Truth:
        """Raises ValueError when this backend cannot have the fault."""
        if backend not in self.truths:
            able = ", ".join(sorted(one.value for one in self.truths))
            raise ValueError(f"{self.name} cannot be made with {backend.value} ({self.summary}); it can with {able}")
        return self.truths[backend]


def both(truth: Truth) -> dict[Backend, Truth]:
    """The same on either backend."""
    return {Backend.NCCL: truth, Backend.GLOO: truth}
