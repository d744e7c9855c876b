"""The NCCL_DEBUG plane: what NCCL itself wrote, line by line (formats: NCCL src/debug.cc and its callers)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rankmuster.model.stamp import Stamp


@dataclass(frozen=True, slots=True)
class LogOrigin:
    """Where a line stands and who wrote it. `rank` only where a launcher's prefix says so; `dev` is a CUDA index."""

    source: str
    line: int
    host: str | None
    pid: int | None
    tid: int | None
    dev: int | None
    rank: int | None
    stamp: Stamp | None

    @property
    def reference(self) -> str:
        """`nccl/rank2.log#L17`: how findings point at this line."""
        return f"{self.source}#L{self.line}"


class InitPhase(str, Enum):
    START = "start"
    COMPLETE = "complete"
    ABORT = "abort"  # Abort START or COMPLETE, Revoke
    DESTROY = "destroy"


@dataclass(frozen=True, slots=True)
class NcclInit:
    """A communicator's init or end as one rank wrote it. `rank` is communicator-local; `comm` the local pointer."""

    origin: LogOrigin
    phase: InitPhase
    comm: str
    rank: int
    nranks: int
    cuda_dev: int | None
    nvml_dev: int | None
    bus_id: str | None  # hex as NCCL writes it: 1b000 is bus 1b, device 0
    comm_id: str | None  # 16 hex digits; None for splits before 2.32
    parent: str | None = None
    color: int | None = None
    call: str | None = None  # ncclCommInitRank, ncclCommInitRankConfig, ncclCommSplit, ...


@dataclass(frozen=True, slots=True)
class NcclVersionLine:
    origin: LogOrigin
    version: str  # "2.28.9"
    cuda: str | None


@dataclass(frozen=True, slots=True)
class NcclInterface:
    """`Bootstrap: Using eth0:10.0.0.1<0>` and `NET/... : Using [0]eth0:...`; `role`: bootstrap, socket, ib."""

    origin: LogOrigin
    role: str
    interfaces: tuple[tuple[str, str | None], ...]  # (name, address without port)


@dataclass(frozen=True, slots=True)
class NcclTransport:
    """One channel's connection. `via` as written: P2P/CUMEM, SHM/direct, NET/IB/0/GDRDMA, NET/Socket/0, ..."""

    origin: LogOrigin
    channel: int
    src: int  # communicator-local ranks
    dst: int
    src_dev: str | None
    dst_dev: str | None
    direction: str | None  # send, receive
    via: str


@dataclass(frozen=True, slots=True)
class NcclSetting:
    """`NCCL_X set by environment to Y`."""

    origin: LogOrigin
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class NcclTuning:
    """The algorithm and protocol that NCCL chose for one size."""

    origin: LogOrigin
    op: str | None
    bytes: int
    algorithm: str
    protocol: str
    channels: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class NcclCall:
    """A COLL line. `op_count` is 0 for every call of a single-node communicator since 2.27."""

    origin: LogOrigin
    op: str  # AllReduce, AllGather, Send, ...
    op_count: int
    count: int
    datatype: int
    redop: int
    root: int
    comm: str
    nranks: int | None


class NcclProblemKind(str, Enum):
    """What a WARN (or a telling INFO) line is about."""

    VERSION_MISMATCH = "version_mismatch"
    NO_INTERFACE = "no_interface"
    CONNECT_FAILED = "connect_failed"  # connect refused, no route, timed out, retries used up
    CONNECT_RETRY = "connect_retry"  # INFO: still trying
    CLOSED_BY_PEER = "closed_by_peer"  # the usual secondary symptom
    BOOTSTRAP = "bootstrap"  # mismatch in info from procs, already checked in, truncated message
    SOCKET_ERROR = "socket_error"  # call to recv/send failed
    IB_COMPLETION = "ib_completion"
    IB_ASYNC = "ib_async"
    IB_DEVICE_FAILED = "ib_device_failed"  # resiliency lines of 2.29 and later
    IB_QP = "ib_qp"  # ibv_modify_qp and its like failed
    GDR_MEMORY = "gdr_memory"  # ibv_reg_mr or ibv_create_cq failed: memlock, peermem
    SHM = "shm"
    RESOURCE = "resource"  # open files, threads: a limit of the process or its container
    NVLS = "nvls"
    MNNVL = "mnnvl"
    P2P_DISABLED = "p2p_disabled"
    NO_TRANSPORT = "no_transport"
    CUDA = "cuda"
    COLLECTIVE_MISMATCH = "collective_mismatch"  # old WARN, truncated net messages, check-mode lines
    DUPLICATE_GPU = "duplicate_gpu"
    PROXY = "proxy"
    NET_PLUGIN = "net_plugin"
    NET_UNAVAILABLE = "net_unavailable"  # an adapter or its library cannot be used; NCCL goes on with another network
    GDR_DISABLED = "gdr_disabled"  # GPU Direct RDMA is off for an adapter: data goes through host memory
    RAS = "ras"  # RAS declares a peer dead, keep-alive warnings
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class NcclProblem:
    """A warning, classified. `primary` is False for known after-effects (status 5 flush, closed by peer, `-> N`).

    `detail`: what the line says beyond its kind, e.g. versions {"rank 0": "2.27.3"}, {"status": "12", "peer": ...}.
    """

    origin: LogOrigin
    kind: NcclProblemKind
    primary: bool
    text: str
    peer: str | None = None
    detail: tuple[tuple[str, str], ...] = ()

    @property
    def of_ras(self) -> bool:
        """Whether the RAS thread wrote it: it speaks of RAS's own connections, not of the job's."""
        return ("thread", "ras") in self.detail


@dataclass(frozen=True, slots=True)
class NcclLogFile:
    """What is known of one log as a whole.

    `hole`: it does not begin where its writer began, or pieces between rotations are missing; then START without
    COMPLETE means nothing. `pids`: (host, pid) of all writers in it.
    """

    source: str
    lines: int
    hole: bool
    writers: tuple[tuple[str, int], ...]
    first: Stamp | None
    last: Stamp | None
    holed: tuple[tuple[str, int], ...] = ()  # the writers that `hole` is about; empty with `hole`: all of them
    cut: bool = False  # the last line has no end: the copy may stop before its writer did


@dataclass(frozen=True, slots=True)
class NcclPerformance:
    """One completed operation from the Inspector plugin's JSON lines."""

    source: str
    line: int
    host: str | None
    pid: int | None
    comm: str | None
    rank: int
    nranks: int
    op: str
    sequence: int
    bytes: int
    exec_us: float
    bus_gbs: float | None
    peer: int | None
    stamp: Stamp | None


@dataclass(frozen=True, slots=True)
class NcclTopology:
    """What NCCL's own topology XML (NCCL_TOPO_DUMP_FILE) or graph XML holds, reduced to what a diagnosis needs."""

    source: str
    gpus: tuple[tuple[int, str, int], ...]  # (dev, bus id, NVLink count in all)
    nets: tuple[tuple[str, float, bool], ...]  # (name, Gb/s, gdr)
    graphs: tuple[str, ...]  # types of the graphs, e.g. "NVL/PIX"
