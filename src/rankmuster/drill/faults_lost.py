"""Faults that take a rank, its GPU or its link away from the others, after work had begun."""

from __future__ import annotations

import signal

from rankmuster.drill.fault_kinds import Deed, Fault, Need, Place, When, both
from rankmuster.drill.plan import Backend
from rankmuster.drill.truth import Naming, Truth
from rankmuster.model.fault import FaultClass, Subkind

_LOST, _STALL = FaultClass.PROCESS_OR_DEVICE_LOST, FaultClass.TRANSPORT_STALL

LOST = (
    Fault(
        "kill",
        "one rank is killed by SIGKILL",
        When.OUTSIDE,
        both(Truth((_LOST,), Naming.MUST)),
        signal=signal.SIGKILL,
        ends_process=True,
    ),
    Fault(
        "freeze",
        "one rank is stopped by SIGSTOP and does not answer",
        When.OUTSIDE,
        both(Truth((_LOST,), Naming.MUST, (Subkind.UNRESPONSIVE,))),
        signal=signal.SIGSTOP,
    ),
    Fault(
        "exception",
        "one rank raises an exception in its step, and its process ends with status 1",
        When.ARMED,
        both(Truth((_LOST,), Naming.MUST, (Subkind.EXITED,))),
        deed=Deed.RAISE,
        ends_process=True,
    ),
    Fault(
        "gpu_busy",
        "a kernel without an end runs on one rank's stream before its next collective",
        When.ARMED,
        {Backend.NCCL: Truth((_LOST,), Naming.MUST, (Subkind.GPU_STALLED,))},
        deed=Deed.GPU_BUSY,
    ),
    Fault(
        "link_cut",
        "the network link of one rank, which lives in a network namespace of its own, is set down",
        When.OUTSIDE,
        both(
            Truth(
                (_STALL,),
                Naming.MAY,
                why="a link has two ends, and who has lost it is not seen from either",
            )
        ),
        place=Place.OWN_NETWORK,
        needs=(Need.ROOT, Need.IP),
    ),
)
