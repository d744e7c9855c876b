"""Faults of the start: the ranks do not come together."""

from __future__ import annotations

from rankmuster.drill.fault_kinds import Deed, Fault, Need, Place, When
from rankmuster.drill.plan import Backend
from rankmuster.drill.truth import Naming, Truth
from rankmuster.model.fault import FaultClass, Subkind

SETTLE_SECONDS = 16.0
"""A start takes longer than a step before it can be told from one that is slow."""
JOIN_SECONDS = 60.0
"""Within which a start that is stuck must be told, from when the healthy ranks wait: as long as one that is well may
take to load a small model. A watch knows the time of larger ones by its setting `start_seconds`."""

_STUCK = FaultClass.INIT_STUCK

START = (
    Fault(
        "init_absent",
        "one rank never joins",
        When.START,
        {
            Backend.NCCL: Truth(
                (_STUCK,),
                Naming.MAY,
                why="who waits in an init is seen, and who does not wait only where its own log shows it",
            ),
            Backend.GLOO: Truth(
                (_STUCK, FaultClass.INCONCLUSIVE, FaultClass.BLIND),
                Naming.MAY,
                why="no plane of NCCL is there, and gloo's recorder begins with the first collective",
            ),
        },
        deed=Deed.ABSENT,
        settle_seconds=SETTLE_SECONDS,
        most_seconds=JOIN_SECONDS,
    ),
    Fault(
        "wrong_interface",
        "one rank is told to use a network interface that is not there",
        When.START,
        {
            Backend.NCCL: Truth(
                (_STUCK,),
                Naming.MAY,
                (Subkind.NO_INTERFACE,),
                why="NCCL's warning names the obstacle; that only one rank has it is a suspicion where the others' "
                "logs are read too",
            ),
            Backend.GLOO: Truth((_STUCK,), Naming.MUST, (Subkind.NO_INTERFACE,), majority=True),
        },
        place=Place.WRONG_INTERFACE,
        ends_process=True,
        settle_seconds=SETTLE_SECONDS,
        most_seconds=JOIN_SECONDS,
    ),
    Fault(
        "small_shm",
        "the ranks' /dev/shm has a few KiB, and NCCL is to use it",
        When.START,
        {Backend.NCCL: Truth((_STUCK,), Naming.NOBODY, (Subkind.RESOURCE_LIMIT,))},
        place=Place.SMALL_SHM,
        needs=(Need.ROOT,),
        ends_process=True,
        settle_seconds=SETTLE_SECONDS,
        most_seconds=JOIN_SECONDS,
    ),
    Fault(
        "memlock",
        "one rank may lock hardly any memory, and NCCL is to use RDMA",
        When.START,
        {
            Backend.NCCL: Truth(
                (_STUCK,),
                Naming.MAY,
                (Subkind.RESOURCE_LIMIT,),
                why="NCCL's warning names the obstacle; whose it is shows where the others do not warn",
            )
        },
        place=Place.MEMLOCK,
        needs=(Need.RDMA,),
        ends_process=True,
        settle_seconds=SETTLE_SECONDS,
        most_seconds=JOIN_SECONDS,
    ),
    Fault(
        "version_mismatch",
        "one rank loads another NCCL",
        When.START,
        {
            Backend.NCCL: Truth(
                (_STUCK,),
                Naming.MAY,
                (Subkind.VERSION_MISMATCH,),
                why="that two versions meet is said by both sides; which one is meant is not",
            )
        },
        place=Place.OTHER_NCCL,
        needs=(Need.OTHER_NCCL,),
        ends_process=True,
        settle_seconds=SETTLE_SECONDS,
        most_seconds=JOIN_SECONDS,
    ),
)
