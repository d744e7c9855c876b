"""Sub-kinds of `collective_desync`: the ranks of one group do not issue the same operations in the same order."""

from __future__ import annotations

from rankmuster.diagnose.catalogue_entry import TIMEOUT_RULE, Entry
from rankmuster.model.fault import Subkind
from rankmuster.model.plane import Plane

FLIGHT_GRAPHS = (Plane.FLIGHT, "blind where the traffic runs in CUDA graphs, PyNccl or custom kernels")
HARDWARE_WHAT = (Plane.HARDWARE, "sees who spins and who is idle, never which operation")
KERNEL_BLIND = (Plane.KERNEL, "this is software: nothing reaches the kernel log")
RAS_SIZES = (Plane.RAS, "counts operations; equal counts hide what was in them")
SILENT_CORRUPTION = "A mismatch can also complete, with wrong data: no time-out then, and no hang."

ENTRIES = (
    Entry(
        Subkind.MISSING_ENTER,
        "One or more ranks did not enter a collective that their peers are in. Their processes live; they are "
        "somewhere else in the program.",
        (
            (Subkind.UNRESPONSIVE, "there the process does not run: RAS and the dump pipe get no answer from it"),
            (Subkind.EXITED, "there the process is gone"),
            (Subkind.GPU_STALLED, "there the rank did enqueue the operation, and its GPU did not come to it"),
            (Subkind.ORDER_CYCLE, "there every rank waits inside some collective, each for another"),
            (Subkind.OP_MISMATCH, "there the rank entered another operation under the same number"),
            (Subkind.ALL_ENTERED_NONE_LEFT, "there nobody is missing"),
        ),
        (
            (
                Plane.FLIGHT,
                "the peers' oldest outstanding number is higher than all that the rank has issued, and the "
                "rank has nothing outstanding",
            ),
            (Plane.RAS, "its count stays lower in two looks, while nobody moves; it still answers"),
            (Plane.HARDWARE, "its GPU idles while the peers' GPUs are at 100 % with frozen NVLink counters"),
            (Plane.FRAMEWORK_LOG, "the peers' watchdog time-outs name the number"),
        ),
        (FLIGHT_GRAPHS, (Plane.RAS, "blind to CUDA-graph replays, send and receive, all-to-all"), KERNEL_BLIND),
        (
            "an exception that the rank's worker loop swallowed",
            "a lock, a slow file system or a host-side wait in one worker",
            "a scheduler decision (finish, abort, batch shape) that reached one rank only",
        ),
        (
            "py-spy dump --pid PID        # of the rank that did not enter",
            "rankmuster diagnose FOLDER --format perfetto --output trace.json",
        ),
        f"Only if the rank is seen to arrive late again and again in a group that is stable. {TIMEOUT_RULE}",
    ),
    Entry(
        Subkind.OP_MISMATCH,
        "At one sequence number of one group, ranks issued different operations (an all_gather where the others "
        "all_reduce). The minority is odd; between two ranks neither is.",
        (
            (Subkind.MISSING_ENTER, "there the rank issued nothing under this number"),
            (Subkind.SIZE_MISMATCH, "there the operation is the same and its sizes differ"),
            (Subkind.ORDER_CYCLE, "there the order differs between groups, not within one"),
        ),
        (
            (Plane.FLIGHT, "the names at the first diverging number"),
            (Plane.RAS, "equal totals with another split between the operations"),
            (Plane.NCCL_LOG, "with NCCL_DEBUG_SUBSYS=COLL: every call in order"),
        ),
        (FLIGHT_GRAPHS, HARDWARE_WHAT, KERNEL_BLIND, (Plane.ENGINE, "sees that it stopped, not why")),
        (
            "a branch on rank-local data (a finished request, an error, a cache hit)",
            "two threads that issue on one group without an order",
            "ranks with different software or flags",
        ),
        (
            "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL NCCL_DEBUG_FILE=/tmp/nccl-%h-%p.log     # at the next start",
            "TORCH_DISTRIBUTED_DEBUG=DETAIL        # in a test: checks every collective, slow",
        ),
    ),
    Entry(
        Subkind.SIZE_MISMATCH,
        f"The same operation with different sizes on different ranks. {SILENT_CORRUPTION}",
        (
            (Subkind.DTYPE_MISMATCH, "there the number of elements fits and their type differs"),
            (Subkind.ALL_ENTERED_NONE_LEFT, "looks the same in RAS: all entered; sizes tell"),
            (Subkind.VERSION_MISMATCH, "`Message truncated` at init points to the library"),
        ),
        (
            (Plane.FLIGHT, "sizes at the first diverging number (uneven lists are compared peer by peer)"),
            (Plane.NCCL_LOG, "`message truncated … mismatch in collective sizes`, or the counts of COLL lines"),
        ),
        (RAS_SIZES, HARDWARE_WHAT, KERNEL_BLIND, FLIGHT_GRAPHS),
        (
            "batches padded differently on different ranks",
            "tensor-parallel ranks with different configurations or checkpoints",
            "all-to-all split lists that were computed from data that differ",
        ),
        ("rankmuster diagnose FOLDER --format json | jq .first_divergence",),
    ),
    Entry(
        Subkind.DTYPE_MISMATCH,
        f"The same operation and shape with different element types on different ranks. {SILENT_CORRUPTION}",
        ((Subkind.SIZE_MISMATCH, "there the number of elements differs"),),
        (
            (Plane.FLIGHT, "the types at the first diverging number"),
            (Plane.NCCL_LOG, "`datatype` in COLL lines"),
        ),
        (RAS_SIZES, HARDWARE_WHAT, KERNEL_BLIND, FLIGHT_GRAPHS),
        (
            "ranks started with different precision or quantisation flags",
            "a checkpoint whose shards have different types",
        ),
        ("rankmuster diagnose FOLDER --format json | jq '.findings[].statement'",),
    ),
    Entry(
        Subkind.ORDER_CYCLE,
        "Ranks use several groups in different orders and wait for each other in a ring. Nobody is missing and nobody "
        "is wrong within any one group.",
        (
            (Subkind.MISSING_ENTER, "there one rank has nothing outstanding; in a cycle everybody waits"),
            (Subkind.ALL_ENTERED_NONE_LEFT, "there all wait in the same operation"),
        ),
        (
            (Plane.FLIGHT, "the oldest outstanding operation of each rank, over all its groups: the graph has a ring"),
            (Plane.NCCL_LOG, "the order of COLL lines per rank"),
        ),
        (
            (Plane.RAS, "shows MISMATCH in each group and not how the groups hang together"),
            HARDWARE_WHAT,
            KERNEL_BLIND,
            FLIGHT_GRAPHS,
        ),
        (
            "two streams or threads that launch on two groups without an order between them",
            "a change of pipeline schedule that reached some ranks only",
        ),
        ("py-spy dump --pid PID        # of one rank of each side",),
    ),
    Entry(
        Subkind.MISSING_PEER,
        "A send without its receive, or a receive without its send, between two ranks.",
        (
            (Subkind.MISSING_ENTER, "there a collective of the whole group is not entered"),
            (Subkind.PATH_LOST, "there both sides did issue theirs, and nothing arrives"),
        ),
        ((Plane.FLIGHT, "sends and receives per pair, in order: one side has one more"),),
        (
            (Plane.RAS, "does not count sends and receives"),
            HARDWARE_WHAT,
            KERNEL_BLIND,
            FLIGHT_GRAPHS,
        ),
        (
            "pipeline stages that disagree on the number of micro-batches",
            "a request cancelled on one side of a prefill/decode transfer",
        ),
        ("rankmuster diagnose FOLDER --format perfetto --output trace.json",),
    ),
)
