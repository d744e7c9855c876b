"""The recovery table: (class, sub-kind) -> what must be rebuilt, in which order, and what must not be done.

The one place where a boundary is decided; the boundaries are those of DESIGN's "Classes" table. Two rules hold for
every row. Evidence is saved before anything is killed, and saving has a deadline: evidence never blocks recovery.
The unit of recovery is the process group: no row restarts one rank into an old communicator, because NCCL has no
way to take a new process into one, and the others would wait for ever or read what is meant for the dead one.
"""

from __future__ import annotations

from rankmuster.model.fault import Boundary, FaultClass, Subkind
from rankmuster.model.verdict import Recovery

SAVE_ALL = (
    "Save before anything is killed, within one minute: the Flight Recorder dumps of every rank, two RAS replies "
    "10 s apart, the stacks of every rank, the last 5 minutes of GPU counters, logs and NCCL logs."
)
SAVE_INIT = (
    "Save before anything is killed: the NCCL logs and stderr of every rank, the NCCL_* and TORCH_* environment and "
    "the library versions of every process, the pods' or tasks' states. Do not query RAS while communicators are "
    "being made: NCCL 2.26.2 to 2.26.6 can crash on it."
)
SAVE_KERNEL = (
    "Save before anything is reset: the kernel log and `nvidia-smi -q` of the node named, then the Flight Recorder "
    "dumps and logs of every rank. Give a call to a sick GPU's driver 45 s at most, and go on without its answer."
)
SAVE_NETWORK = (
    "Save before anything is killed: two readings, 5 s apart, of the RDMA or interface counters on the hosts at both "
    "ends, the NCCL logs, the Flight Recorder dumps of every rank and two RAS replies."
)
SAVE_SPEED = (
    "Save while it is slow: GPU counters (clocks, power, NVLink, PCIe) of every rank, Flight Recorder dumps without "
    "stacks and the engine's metrics pages over at least one minute. Nothing is killed."
)

STOP_TRAFFIC = "Remove the instance from its router, so that no new request waits on it."
END_GROUP = (
    "End every process of the process group, the waiting ones too: SIGTERM, and SIGKILL after its grace period. A rank "
    "inside a collective does not come out of it by itself."
)
REBUILD_GROUP = "Start the whole process group anew, with a new rendezvous and a new incarnation."
VERIFY = "Give traffic back only when work is seen to advance: requests running and tokens counted, on two looks."
FENCE = "Fence the node named: cordon it or drain it in the scheduler, with the verdict as the reason."
ELSEWHERE = "Start the whole process group on other nodes, with a new rendezvous and a new incarnation."
RETEST_NODE = "Let the node back only after it passed its checks and a collective benchmark against its own baseline."

NOT_ONE_RANK = "Do not restart one rank into the old communicator: NCCL cannot take it in, and its peers go on waiting."
NOT_TIMEOUT = (
    "Do not raise the time-out unless a second look shows the group stable and only slow: what is missing does not "
    "come later."
)
NOT_VICTIM = "Do not fence the nodes of the ranks that wait: they are the victims."
NOT_SAME_NODE = "Do not put the group back onto the node named before it is repaired and tested."
NOT_RESTART_ONLY = "Do not only restart: the same start meets the same obstacle."
NOT_ACT = "Do not restart, fence or kill anything on this verdict."

_GROUP = Boundary.PROCESS_GROUP
_REBUILD = (STOP_TRAFFIC, END_GROUP, REBUILD_GROUP, VERIFY)


def _row(boundary: Boundary, steps: tuple[str, ...], do_not: tuple[str, ...]) -> Recovery:
    return Recovery(boundary=boundary, steps=steps, do_not=do_not)


def _init(repair: str, *do_not: str) -> Recovery:
    """A start that never completed: nothing serves yet, so what is in the way is mended between end and start."""
    return _row(_GROUP, (SAVE_INIT, END_GROUP, repair, REBUILD_GROUP, VERIFY), (NOT_ONE_RANK, *do_not))


def _desync(find: str, *do_not: str) -> Recovery:
    """A program fault: the rebuilt group runs, and will fail again until the program is mended."""
    return _row(_GROUP, (SAVE_ALL, *_REBUILD, find), (NOT_ONE_RANK, NOT_TIMEOUT, *do_not))


def _transport(repair: str, *do_not: str) -> Recovery:
    """Suspect hosts are tested again before they carry traffic; a node that is named twice is fenced."""
    return _row(
        _GROUP,
        (
            SAVE_NETWORK,
            STOP_TRAFFIC,
            END_GROUP,
            repair,
            "Test the suspect hosts again, in pairs and each with a host that is not suspected: link state, error "
            "counters, then a collective benchmark across the two.",
            REBUILD_GROUP,
            VERIFY,
            "If the same host is suspected a second time, the boundary is the node: fence it and start elsewhere.",
        ),
        (NOT_ONE_RANK, "Do not fence both ends at the first time: one look cannot tell which end it is.", *do_not),
    )


def _process(first: str, find: str, *do_not: str) -> Recovery:
    return _row(_GROUP, (first, *_REBUILD, find), (NOT_ONE_RANK, NOT_TIMEOUT, NOT_VICTIM, *do_not))


def _node(first: str, *last: str, do_not: tuple[str, ...] = ()) -> Recovery:
    return _row(
        Boundary.NODE,
        (first, STOP_TRAFFIC, FENCE, END_GROUP, ELSEWHERE, VERIFY, *last, RETEST_NODE),
        (NOT_ONE_RANK, NOT_SAME_NODE, *do_not),
    )


_INSTANCE_SLOW = (
    SAVE_SPEED,
    "Shed load: lower the instance's weight in its router, so that its queue stops growing.",
)

TABLE: dict[tuple[FaultClass, Subkind | None], Recovery] = {
    (FaultClass.INIT_STUCK, None): _init("Mend what the findings name before the next start.", NOT_RESTART_ONLY),
    (FaultClass.INIT_STUCK, Subkind.RANK_ABSENT): _init(
        "Find why the rank named did not arrive, in its own log and its pod's events: still loading, unscheduled, "
        "failed, or busy elsewhere before its first collective.",
        "Do not raise the time-out before the absent rank's own log shows that it is loading and comes later.",
        NOT_VICTIM,
    ),
    (FaultClass.INIT_STUCK, Subkind.NO_INTERFACE): _init(
        "Give NCCL_SOCKET_IFNAME the name, on every host, of the interface that carries the job's network, or unset "
        "it; check in the container that the interface is there and up.",
        NOT_RESTART_ONLY,
    ),
    (FaultClass.INIT_STUCK, Subkind.BOOTSTRAP_UNREACHABLE): _init(
        "Set NCCL_SOCKET_IFNAME to the interface that peers can reach (exclude bridges and virtual pairs: "
        "`^docker,lo,veth`), and try a TCP connection between the two addresses that the logs name.",
        NOT_RESTART_ONLY,
        "Do not raise NCCL's retry count: an address that is not routed stays so.",
    ),
    (FaultClass.INIT_STUCK, Subkind.RENDEZVOUS_TIMEOUT): _init(
        "Check that the rendezvous host and port answer from every node, that one process listens there, and that all "
        "processes were given the same address, world size and attempt.",
        "Do not let a process of the earlier attempt live on: it may answer for the new one.",
    ),
    (FaultClass.INIT_STUCK, Subkind.VERSION_MISMATCH): _init(
        "Make the library the same on every rank: one image by digest, and no LD_LIBRARY_PATH or LD_PRELOAD that puts "
        "another libnccl first; print the version that each process loaded.",
        NOT_RESTART_ONLY,
        "Do not mix NCCL versions in one communicator, not even when it seems to start.",
    ),
    (FaultClass.INIT_STUCK, Subkind.RESOURCE_LIMIT): _init(
        "Raise the limit that the log names, for the process itself: a larger /dev/shm for `failed to extend`, "
        "unlimited memlock for `ibv_reg_mr` or `create_cq`; remove left-over /dev/shm/nccl-* of dead processes.",
        NOT_RESTART_ONLY,
    ),
    (FaultClass.INIT_STUCK, Subkind.MISCONFIGURED): _init(
        "Mend what the finding names before the next start: the setting, the assignment of GPUs to ranks, the port, "
        "the plugin or the driver.",
        NOT_RESTART_ONLY,
    ),
    (FaultClass.INIT_STUCK, Subkind.FABRIC_NOT_READY): _node(
        SAVE_KERNEL,
        "On the fenced node: restart the Fabric Manager (or the IMEX service) with no GPU process alive, reset the "
        "GPUs, and wait until the fabric state reads Completed on every GPU.",
        do_not=(
            "Do not restart the Fabric Manager under a running job: its NVLink multicast groups are lost.",
            "Do not turn NVLS off for good to get past it: that hides a broken fabric and slows every job.",
        ),
    ),
    (FaultClass.COLLECTIVE_DESYNC, None): _desync("Hand the first divergence and the stacks to the program's owner."),
    (FaultClass.COLLECTIVE_DESYNC, Subkind.MISSING_ENTER): _desync(
        "Read the stack of the rank that did not enter: where it is instead of in the collective is the cause.",
        NOT_VICTIM,
    ),
    (FaultClass.COLLECTIVE_DESYNC, Subkind.OP_MISMATCH): _desync(
        "Compare the call stacks at the first diverging number: often a branch on rank-local data took two ways.",
        "Do not fence a node: this is program order, not hardware.",
    ),
    (FaultClass.COLLECTIVE_DESYNC, Subkind.SIZE_MISMATCH): _desync(
        "Treat what this group answered since the first diverging number as wrong data, then compare the shapes: "
        "uneven batches, padding, or ranks with different configurations.",
        "Do not trust results of the mismatched collective, even where it completed.",
    ),
    (FaultClass.COLLECTIVE_DESYNC, Subkind.DTYPE_MISMATCH): _desync(
        "Treat what this group answered since the first diverging number as wrong data, then compare the ranks' "
        "precision and quantisation settings.",
        "Do not trust results of the mismatched collective, even where it completed.",
    ),
    (FaultClass.COLLECTIVE_DESYNC, Subkind.ORDER_CYCLE): _desync(
        "Give all ranks one order over the groups in the cycle: the findings list who waits for whom.",
        "Do not fence a node: every rank in the cycle does what its program says.",
    ),
    (FaultClass.COLLECTIVE_DESYNC, Subkind.MISSING_PEER): _desync(
        "Compare the send and receive lists of the pair named: one side's schedule has one operation more.",
    ),
    (FaultClass.TRANSPORT_STALL, None): _transport("Look at the paths between the suspect hosts."),
    (FaultClass.TRANSPORT_STALL, Subkind.PATH_LOST): _transport(
        "Check the path between the hosts named: link state at both ends, the switch ports, routes and firewalls."
    ),
    (FaultClass.TRANSPORT_STALL, Subkind.LINK_ERROR): _transport(
        "Look at the adapter, cable and switch port that the error names; take the earliest error that is not a flush."
    ),
    (FaultClass.TRANSPORT_STALL, Subkind.ADDRESS_OR_GID): _transport(
        "Choose the RoCE v2 GID on every host: unset NCCL_IB_GID_INDEX where NCCL chooses by itself (2.21 and later), "
        "else set the index that is RoCE v2 with the routed address on that host.",
        "Do not copy one host's GID index to all: the index is not the same everywhere.",
        NOT_RESTART_ONLY,
    ),
    (FaultClass.TRANSPORT_STALL, Subkind.ALL_ENTERED_NONE_LEFT): _transport(
        "Read byte counters and kernel logs of all members: all entered, so the program is not to blame."
    ),
    (FaultClass.PERFORMANCE_DEGRADATION, None): _row(
        Boundary.INSTANCE,
        (*_INSTANCE_SLOW, "Compare the ranks' clocks, power and paths to find who holds the others up."),
        ("Do not rebuild anything: the group works.",),
    ),
    (FaultClass.PERFORMANCE_DEGRADATION, Subkind.PERSISTENT): _row(
        Boundary.INSTANCE,
        (
            *_INSTANCE_SLOW,
            "Look at the slow rank's host for what takes its time: CPU throttling, GPU clock limits, power, "
            "temperature, a neighbour on the same cores, slow storage.",
            "Replace the instance in a planned way if it does not recover; drain it first, as it still serves.",
        ),
        (
            "Do not rebuild the group in a hurry: it works, and a restart costs more than it gains.",
            NOT_VICTIM,
            "Raise the time-out only if it is near: three times the 99.9th percentile of this group's longest "
            "completed collectives, and not below 60 s.",
        ),
    ),
    (FaultClass.PERFORMANCE_DEGRADATION, Subkind.TAIL): _row(
        Boundary.INSTANCE,
        (
            *_INSTANCE_SLOW,
            "Collect longer, over hundreds of steps, and look for what the slow steps have in common: a period, a "
            "rank, a request size, garbage collection, a cron job.",
        ),
        ("Do not rebuild anything: the group works.", "Do not fence a node for a few slow steps."),
    ),
    (FaultClass.PERFORMANCE_DEGRADATION, Subkind.DRIFT): _row(
        Boundary.NODE,
        (
            SAVE_SPEED,
            "Repeat the benchmark on the node named, with the same sizes and versions as its baseline.",
            FENCE,
            "Drain the instance that uses it, and start its process group on other nodes.",
            RETEST_NODE,
            "If many nodes of one class drift together, the boundary is the cluster: look at what changed for all.",
        ),
        (
            "Do not compare with another class of node, another version or another message size.",
            "Do not re-learn the baseline from the slow results.",
        ),
    ),
    (FaultClass.PERFORMANCE_DEGRADATION, Subkind.WRONG_PATH): _row(
        Boundary.NODE,
        (
            SAVE_SPEED,
            "Compare the transports in the NCCL log (`via …`) with what the topology offers, and the NCCL_* "
            "environment with that of a node that is right.",
            "If a setting forces the path, mend the setting and start the process group anew in a planned way.",
            "If none does, fence the node: NVLink, PCIe access control, GPU-Direct RDMA or the fabric is not as it "
            "should be.",
            RETEST_NODE,
        ),
        ("Do not accept the slow path as the node's new baseline.", NOT_RESTART_ONLY),
    ),
    (FaultClass.PROCESS_OR_DEVICE_LOST, None): _process(SAVE_ALL, "Find why the process named was lost."),
    (FaultClass.PROCESS_OR_DEVICE_LOST, Subkind.EXITED): _process(
        SAVE_ALL,
        "Read the end of the exited rank's own log: an exit, also one with code 0, that the others did not share is a "
        "fault of the program or its supervisor.",
    ),
    (FaultClass.PROCESS_OR_DEVICE_LOST, Subkind.KILLED): _process(
        SAVE_ALL,
        "Find who sent the signal: the kernel log for the OOM killer, the pod's last state for OOMKilled or eviction, "
        "a core file for SIGSEGV and SIGBUS.",
        "Do not read the peers' SIGABRT or SIGTERM as faults: they came after.",
    ),
    (FaultClass.PROCESS_OR_DEVICE_LOST, Subkind.UNRESPONSIVE): _process(
        SAVE_ALL,
        "Look on its host why it did not run: stopped (state T), in uninterruptible sleep (state D), frozen cgroup, "
        "no CPU time; fence the node if the process cannot be killed.",
        "Do not take silence for death before the process table says so.",
    ),
    (FaultClass.PROCESS_OR_DEVICE_LOST, Subkind.GPU_STALLED): _process(
        SAVE_ALL,
        "Find the kernel that keeps the stream busy (stacks, and a GPU core dump if the process may die), and test "
        "the GPU before it serves again.",
    ),
    (FaultClass.PROCESS_OR_DEVICE_LOST, Subkind.GPU_LOST): _node(
        SAVE_KERNEL,
        "Do what the driver's recovery action says (Xid 154): reset the GPU, drain and reset, or reboot; hand the "
        "board to its vendor when it comes back.",
        do_not=(
            "Do not reset a GPU while processes hold it or its NVLink peers.",
            "Do not count secondary Xids (45, 154, 43 after 13 or 31) as further faults.",
        ),
    ),
    (FaultClass.PROCESS_OR_DEVICE_LOST, Subkind.HOST_LOST): _node(
        "Save what the other hosts have: Flight Recorder dumps, RAS replies, logs, and the platform's events of the "
        "lost host; its console log from the management controller, if there is one.",
        do_not=(
            "Do not start the group's old ranks elsewhere before the lost host is fenced: it may come back and serve.",
        ),
    ),
    (FaultClass.HEALTHY, None): _row(Boundary.NONE, (), ()),
    (FaultClass.INCONCLUSIVE, None): _row(
        Boundary.NONE,
        (
            "Look a second time: two RAS replies and two dumps without stacks, 10 to 30 s apart; what moved between "
            "them is alive.",
            "Add the planes that were silent: dumps of every rank, NCCL logs, GPU counters, the engine's metrics, "
            "the kernel log and the exit codes.",
            "Take the stacks of every rank (`py-spy dump --pid PID`): who is not in the collective stands out.",
        ),
        (NOT_ACT, "Do not take this for health: the evidence does not decide."),
    ),
    (FaultClass.BLIND, None): _row(
        Boundary.NONE,
        (
            "Collect what could see: GPU utilisation and NVLink byte counters of every GPU for 30 s, and the engine's "
            "metrics twice; both see CUDA-graph replays and custom kernels, which RAS and the Flight Recorder do not.",
            "Name a folder that holds evidence of the running instance: this one had none of the part that matters.",
        ),
        (NOT_ACT, "Do not take this for health: nobody could look."),
    ),
}


def recovery_for(class_: FaultClass, subkind: Subkind | None = None) -> Recovery:
    """The row for a class and sub-kind; the class's own row where the sub-kind is unknown or of another class."""
    return TABLE.get((class_, subkind)) or TABLE[(class_, None)]
