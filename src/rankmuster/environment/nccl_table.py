"""What NCCL reads: every variable and version fact of it, and the words of its log's parts.

Sources stand with each; [GPU] and `since` as in `torch_table`.
"""

from __future__ import annotations

from rankmuster.environment.variable import Kind, Reader, Variable

LEVELS = ("NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE")

NCCL: tuple[Variable, ...] = (
    Variable(
        "NCCL_DEBUG",
        Reader.NCCL,
        Kind.WORD,
        "how much NCCL logs",
        "NCCL src/debug.cc",
        defaults=(((2, 18), "NONE"),),
        words=LEVELS,
    ),
    Variable(
        "NCCL_DEBUG_SUBSYS",
        Reader.NCCL,
        Kind.WORDS,
        "which parts of NCCL log at INFO",
        "NCCL src/debug.cc",
        defaults=(((2, 18), "INIT,BOOTSTRAP,ENV"),),
    ),
    Variable(
        "NCCL_DEBUG_FILE",
        Reader.NCCL,
        Kind.PREFIX,
        "where NCCL logs to: %h is the host, %p the pid; opened anew by every process that uses the name",
        "NCCL src/debug.cc; only above level VERSION",
    ),
    Variable(
        "NCCL_DEBUG_TIMESTAMP_LEVELS",
        Reader.NCCL,
        Kind.WORDS,
        "which levels are stamped with the time",
        "NCCL's user guide: since 2.26",
        since=(2, 26),
        defaults=(((2, 26), "WARN"),),
        words=(*LEVELS, "ATTN", "ALL"),
    ),
    Variable(
        "NCCL_DEBUG_TIMESTAMP_FORMAT",
        Reader.NCCL,
        Kind.TEXT,
        "the stamp: strftime, %3f for milliseconds, _ for a blank",
        "NCCL's user guide: since 2.26",
        since=(2, 26),
        defaults=(((2, 26), "[%F %T] "),),
    ),
    Variable(
        "NCCL_WARN_ENABLE_DEBUG_INFO", Reader.NCCL, Kind.FLAG, "INFO from the first WARN on", "NCCL src/debug.cc",
        defaults=(((2, 18), "0"),),
    ),
    Variable(
        "NCCL_RAS_ENABLE",
        Reader.NCCL,
        Kind.FLAG,
        "the RAS thread: who answers, who is behind",
        "NCCL src/ras; since 2.24.3",
        since=(2, 24),
        defaults=(((2, 24), "1"),),
    ),
    Variable(
        "NCCL_RAS_ADDR",
        Reader.NCCL,
        Kind.ADDRESS,
        "where RAS answers clients; all processes of one user on a node share it",
        "NCCL src/ras; since 2.24.3; no authentication",
        since=(2, 24),
        defaults=(((2, 24), "localhost:28028"),),
    ),
    Variable(
        "NCCL_RAS_TIMEOUT_FACTOR", Reader.NCCL, Kind.TEXT, "stretches all RAS timers", "NCCL src/ras",
        since=(2, 24), defaults=(((2, 24), "1"),),
    ),
    Variable("NCCL_RUN_RAS_DIAGNOSTICS", Reader.NCCL, Kind.FLAG, "RAS diagnostics", "since 2.31", since=(2, 31)),
    Variable("NCCL_RUN_DIAGNOSTICS", Reader.NCCL, Kind.FLAG, "diagnostics at init", "since 2.31", since=(2, 31)),
    Variable("NCCL_PROGRESS_COUNTERS", Reader.NCCL, Kind.FLAG, "progress counters", "since 2.32", since=(2, 32)),
    Variable("NCCL_DEBUG_LEVELS", Reader.NCCL, Kind.WORDS, "levels, one by one", "since 2.32", since=(2, 32)),
    Variable("NCCL_P2P_DISABLE", Reader.NCCL, Kind.FLAG, "no direct access between GPUs", "NCCL's user guide"),
    Variable("NCCL_SHM_DISABLE", Reader.NCCL, Kind.FLAG, "no shared memory between processes", "NCCL's user guide"),
    Variable("NCCL_IB_DISABLE", Reader.NCCL, Kind.FLAG, "no InfiniBand or RoCE", "NCCL's user guide"),
    Variable("NCCL_SOCKET_IFNAME", Reader.NCCL, Kind.TEXT, "interfaces for bootstrap and sockets", "NCCL's user guide"),
    Variable("NCCL_CUMEM_ENABLE", Reader.NCCL, Kind.FLAG, "memory through cuMem", "NCCL's user guide"),
    Variable("NCCL_NVLS_ENABLE", Reader.NCCL, Kind.COUNT, "NVLink SHARP", "NCCL's user guide", least=0, most=2),
    Variable("NCCL_ALGO", Reader.NCCL, Kind.TEXT, "pins the algorithm", "NCCL's user guide"),
    Variable("NCCL_PROTO", Reader.NCCL, Kind.TEXT, "pins the protocol", "NCCL's user guide"),
    Variable("NCCL_LAUNCH_MODE", Reader.NCCL, Kind.WORD, "how kernels are launched", "NCCL's user guide",
             words=("PARALLEL", "GROUP")),
    Variable("NCCL_MIN_NCHANNELS", Reader.NCCL, Kind.COUNT, "fewest channels", "NCCL's user guide", least=0, most=64),
    Variable("NCCL_MAX_NCHANNELS", Reader.NCCL, Kind.COUNT, "most channels", "NCCL's user guide", least=1, most=64),
    Variable("NCCL_GRAPH_REGISTER", Reader.NCCL, Kind.FLAG, "registers buffers of CUDA graphs", "NCCL's user guide"),
    Variable("NCCL_GRAPH_MIXING_SUPPORT", Reader.NCCL, Kind.FLAG, "graphs beside plain calls", "NCCL's user guide"),
    Variable("NCCL_MNNVL_ENABLE", Reader.NCCL, Kind.COUNT, "NVLink across nodes", "NCCL's user guide", least=0, most=2),
)  # fmt: skip

SUBSYSTEM_SINCE: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(
        ("INIT", "COLL", "P2P", "SHM", "NET", "GRAPH", "TUNING", "ENV", "ALLOC", "CALL", "PROXY", "NVLS", "BOOTSTRAP"),
        (2, 18),
    ),
    "REG": (2, 20),
    "PROFILE": (2, 22),
    "RAS": (2, 24),
    "ALLOC_HOST": (2, 30),
    "DESTROY": (2, 30),
    "ALL": (2, 18),
    "VERBS": (2, 18),
}
"""NCCL_DEBUG_SUBSYS's words and the first NCCL that knows them (src/debug.cc; early ones as far as the table goes)."""
