"""The closed vocabulary of a verdict: classes, sub-kinds, progress, confidence, boundaries (DESIGN, "Classes")."""

from __future__ import annotations

from enum import Enum


class FaultClass(str, Enum):
    """Five faults and three honest answers."""

    INIT_STUCK = "init_stuck"
    COLLECTIVE_DESYNC = "collective_desync"
    TRANSPORT_STALL = "transport_stall"
    PERFORMANCE_DEGRADATION = "performance_degradation"
    PROCESS_OR_DEVICE_LOST = "process_or_device_lost"
    HEALTHY = "healthy"
    INCONCLUSIVE = "inconclusive"
    BLIND = "blind"


class Subkind(str, Enum):
    """What exactly happened, within one class."""

    RANK_ABSENT = "rank_absent"
    NO_INTERFACE = "no_interface"
    BOOTSTRAP_UNREACHABLE = "bootstrap_unreachable"
    RENDEZVOUS_TIMEOUT = "rendezvous_timeout"
    VERSION_MISMATCH = "version_mismatch"
    RESOURCE_LIMIT = "resource_limit"
    MISCONFIGURED = "misconfigured"
    FABRIC_NOT_READY = "fabric_not_ready"

    MISSING_ENTER = "missing_enter"
    OP_MISMATCH = "op_mismatch"
    SIZE_MISMATCH = "size_mismatch"
    DTYPE_MISMATCH = "dtype_mismatch"
    ORDER_CYCLE = "order_cycle"
    MISSING_PEER = "missing_peer"

    PATH_LOST = "path_lost"
    LINK_ERROR = "link_error"
    ADDRESS_OR_GID = "address_or_gid"
    ALL_ENTERED_NONE_LEFT = "all_entered_none_left"

    PERSISTENT = "persistent"
    TAIL = "tail"
    DRIFT = "drift"
    WRONG_PATH = "wrong_path"

    EXITED = "exited"
    KILLED = "killed"
    UNRESPONSIVE = "unresponsive"
    GPU_STALLED = "gpu_stalled"
    GPU_LOST = "gpu_lost"
    HOST_LOST = "host_lost"


SUBKINDS: dict[FaultClass, tuple[Subkind, ...]] = {
    FaultClass.INIT_STUCK: (
        Subkind.RANK_ABSENT,
        Subkind.NO_INTERFACE,
        Subkind.BOOTSTRAP_UNREACHABLE,
        Subkind.RENDEZVOUS_TIMEOUT,
        Subkind.VERSION_MISMATCH,
        Subkind.RESOURCE_LIMIT,
        Subkind.MISCONFIGURED,
        Subkind.FABRIC_NOT_READY,
    ),
    FaultClass.COLLECTIVE_DESYNC: (
        Subkind.MISSING_ENTER,
        Subkind.OP_MISMATCH,
        Subkind.SIZE_MISMATCH,
        Subkind.DTYPE_MISMATCH,
        Subkind.ORDER_CYCLE,
        Subkind.MISSING_PEER,
    ),
    FaultClass.TRANSPORT_STALL: (
        Subkind.PATH_LOST,
        Subkind.LINK_ERROR,
        Subkind.ADDRESS_OR_GID,
        Subkind.ALL_ENTERED_NONE_LEFT,
    ),
    FaultClass.PERFORMANCE_DEGRADATION: (Subkind.PERSISTENT, Subkind.TAIL, Subkind.DRIFT, Subkind.WRONG_PATH),
    FaultClass.PROCESS_OR_DEVICE_LOST: (
        Subkind.EXITED,
        Subkind.KILLED,
        Subkind.UNRESPONSIVE,
        Subkind.GPU_STALLED,
        Subkind.GPU_LOST,
        Subkind.HOST_LOST,
    ),
    FaultClass.HEALTHY: (),
    FaultClass.INCONCLUSIVE: (),
    FaultClass.BLIND: (),
}

CLASS_OF: dict[Subkind, FaultClass] = {sub: cls for cls, subs in SUBKINDS.items() for sub in subs}


class Progress(str, Enum):
    ADVANCING = "advancing"
    SLOW = "slow"
    IDLE = "idle"
    STOPPED = "stopped"
    STARTING = "starting"
    DRAINING = "draining"
    UNKNOWN = "unknown"


class Confidence(str, Enum):
    """`confirmed`: two independent planes, or one that cannot be read otherwise. `likely`: one. `possible`: a lead."""

    CONFIRMED = "confirmed"
    LIKELY = "likely"
    POSSIBLE = "possible"


class Boundary(str, Enum):
    """What must be rebuilt, smallest first."""

    NONE = "none"
    REQUEST = "request"
    INSTANCE = "instance"
    PROCESS_GROUP = "process_group"
    NODE = "node"
    CLUSTER = "cluster"


class Role(str, Enum):
    CULPRIT = "culprit"
    SUSPECT = "suspect"
    VICTIM = "victim"


class SuspectKind(str, Enum):
    RANK = "rank"
    PROCESS = "process"
    GPU = "gpu"
    NODE = "node"
    LINK = "link"


class Scope(str, Enum):
    RANK = "rank"
    GROUP = "group"
    NODE = "node"
    INSTANCE = "instance"
    FLEET = "fleet"


class Phase(str, Enum):
    INIT = "init"
    SERVING = "serving"
    TEARDOWN = "teardown"
