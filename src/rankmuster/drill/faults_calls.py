"""Faults by which the ranks' calls fall apart: left out, too many, of another kind, in another order, alone."""

from __future__ import annotations

from rankmuster.drill.fault_kinds import Deed, Fault, Need, When, both
from rankmuster.drill.plan import Backend
from rankmuster.drill.truth import Naming, Truth
from rankmuster.model.fault import FaultClass, Progress, Subkind

RECORDER_SECONDS = 20.0
"""Time-out of the process group in `recorder_timeout`: longer than a step and a first collective by far, and short
enough for a drill. torch's own is ten minutes."""
DUMPED_SECONDS = 12.0
"""After it: torch looks once a second, asks the others through the store, and writes within some seconds."""

_DESYNC, _LOST, _UNSURE = FaultClass.COLLECTIVE_DESYNC, FaultClass.PROCESS_OR_DEVICE_LOST, FaultClass.INCONCLUSIVE
_ODD = Truth((_DESYNC,), Naming.MUST, majority=True)
_MISSING = Truth((_DESYNC,), Naming.MUST, (Subkind.MISSING_ENTER,))

CALLS = (
    Fault(
        "skip",
        "one rank leaves out one all-reduce and goes on",
        When.ARMED,
        both(_ODD),
        deed=Deed.SKIP,
    ),
    Fault(
        "extra_call",
        "one rank makes one all-reduce too many and goes on",
        When.ARMED,
        both(_ODD),
        deed=Deed.EXTRA_CALL,
    ),
    Fault(
        "wrong_op",
        "one rank gathers where the others reduce",
        When.ARMED,
        both(Truth((_DESYNC,), Naming.MUST, (Subkind.OP_MISMATCH,), majority=True)),
        deed=Deed.WRONG_OP,
    ),
    Fault(
        "wrong_size",
        "one rank gives half the elements to one all-reduce",
        When.ARMED,
        {
            Backend.NCCL: Truth((_DESYNC,), Naming.MUST, (Subkind.SIZE_MISMATCH,), majority=True),
            Backend.GLOO: Truth(
                (_DESYNC, _LOST, _UNSURE),
                Naming.MAY,
                why="gloo does not hang: the rank with the smaller buffer aborts (`op.preamble.length <= op.nbytes` in "
                "pair.cc, torch 2.13), its peers exit within half a second, and nobody is left to dump",
            ),
        },
        deed=Deed.WRONG_SIZE,
    ),
    Fault(
        "wrong_dtype",
        "one rank gives twice as wide elements to one all-reduce",
        When.ARMED,
        {
            Backend.NCCL: Truth((_DESYNC,), Naming.MUST, (Subkind.DTYPE_MISMATCH,), majority=True),
            Backend.GLOO: Truth(
                (_DESYNC, _LOST, _UNSURE),
                Naming.MAY,
                why="gloo does not hang: the neighbour, whose buffer is the smaller one, aborts "
                "(`op.preamble.length <= op.nbytes` in pair.cc, torch 2.13), and nobody is left to dump",
            ),
        },
        deed=Deed.WRONG_DTYPE,
    ),
    Fault(
        "order_swap",
        "of two groups over the same ranks one rank calls the second before the first, once",
        When.ARMED,
        both(Truth((_DESYNC,), Naming.MUST, (Subkind.ORDER_CYCLE,), majority=True)),
        deed=Deed.ORDER_SWAP,
    ),
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
                (_DESYNC, _UNSURE),
                Naming.MAY,
                why="gloo's recorder has no entry of sends and receives (torch 2.13): the next rank is missing in a "
                "collective, and nothing but its stack shows why",
            ),
        },
        deed=Deed.NO_SEND,
    ),
    Fault(
        "no_recv",
        "one rank leaves out a receive for which the rank before it waits in a send, and goes on",
        When.ARMED,
        {
            Backend.NCCL: Truth(
                (_DESYNC,),
                Naming.MAY,
                why="the rank before it stands in its send and is missing in the collective that follows; that its "
                "peer never received shows where sends are recorded with both ends",
            ),
            Backend.GLOO: Truth(
                (_DESYNC, _UNSURE),
                Naming.MAY,
                why="gloo's recorder has no entry of sends and receives (torch 2.13): the rank before it is missing in "
                "a collective, and nothing but its stack shows why",
            ),
        },
        deed=Deed.NO_RECV,
    ),
    Fault(
        "stop",
        "one rank stops calling and stays alive",
        When.ARMED,
        both(_MISSING),
        deed=Deed.STOP,
    ),
    Fault(
        "loop",
        "one rank is caught in an endless loop of Python and calls nothing any more",
        When.ARMED,
        both(
            Truth(
                (_DESYNC, _LOST),
                Naming.MUST,
                why="it is missing in a collective that its peers have entered; a process that answers badly, being "
                "busy, is unresponsive too",
            )
        ),
        deed=Deed.LOOP,
    ),
    Fault(
        "recorder_timeout",
        "one rank stops calling, nobody can ask for dumps, and torch's watchdog writes them at its time-out",
        When.ARMED,
        {Backend.NCCL: _MISSING},
        deed=Deed.STOP,
        settle_seconds=RECORDER_SECONDS + DUMPED_SECONDS,
        most_seconds=RECORDER_SECONDS + DUMPED_SECONDS,
        group_seconds=RECORDER_SECONDS,
    ),
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
        needs=(Need.GRAPH,),
    ),
)
