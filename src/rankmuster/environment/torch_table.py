"""What torch reads: every variable and version fact of it.

Sources: [HDR] headers of torch's wheels 2.4.1 to 2.14.1; [SRC] public source text; [GPU] seen on four H200s with torch
2.11 and NCCL 2.28.9; PR numbers are pytorch/pytorch's. Where it is not known when a name was added, `since` is None and
nobody is told that it is too new.
"""

from __future__ import annotations

from rankmuster.environment.variable import Kind, Reader, Variable

_SECOND = 1000
_DAY = 86_400

TORCH: tuple[Variable, ...] = (
    Variable(
        "TORCH_FR_BUFFER_SIZE",
        Reader.TORCH,
        Kind.COUNT,
        "entries that the Flight Recorder's ring holds, per rank over all groups (entries, not bytes)",
        "[HDR] 2.8; default 2000 since 2.11 (PR #172843)",
        since=(2, 8),
        defaults=(((2, 2), "0"), ((2, 11), "2000")),
        least=0,
        most=10_000_000,
    ),
    Variable(
        "TORCH_NCCL_TRACE_BUFFER_SIZE",
        Reader.TORCH,
        Kind.COUNT,
        "the ring's older name; ProcessGroupNCCL keeps a copy that reads this name only, and dumps nothing at 0",
        "[SRC] copy's default 2000 since PR #142260 (2.6); [GPU] logs one deprecation warning",
        since=(2, 2),
        defaults=(((2, 2), "0"), ((2, 6), "2000")),
        newer="TORCH_FR_BUFFER_SIZE",
        newer_since=(2, 8),
        least=0,
        most=10_000_000,
    ),
    Variable(
        "TORCH_FR_CPP_STACK",
        Reader.TORCH,
        Kind.FLAG,
        "C++ frames in every entry; symbolising them is slow",
        "[HDR] 2.8",
        since=(2, 8),
        defaults=(((2, 2), "0"),),
    ),
    Variable(
        "TORCH_NCCL_TRACE_CPP_STACK",
        Reader.TORCH,
        Kind.FLAG,
        "C++ frames in every entry, older name",
        "[HDR] 2.4; [GPU] logs a deprecation warning",
        since=(2, 3),
        defaults=(((2, 2), "0"),),
        newer="TORCH_FR_CPP_STACK",
        newer_since=(2, 8),
    ),
    Variable(
        "TORCH_NCCL_DUMP_ON_TIMEOUT",
        Reader.TORCH,
        Kind.FLAG,
        "every rank writes its ring to a file when one of them times out",
        "[SRC] default true since PR #143446 (2.7); [HDR] asks for monitoring and a buffer",
        since=(2, 2),
        defaults=(((2, 2), "0"), ((2, 7), "1")),
    ),
    Variable(
        "TORCH_NCCL_DESYNC_DEBUG",
        Reader.TORCH,
        Kind.FLAG,
        "torch's own report of who lags, through the store; forces timing; a lead and often wrong",
        "[SRC]; [GPU] named ranks that were fine",
        since=(2, 2),
        defaults=(((2, 2), "0"),),
    ),
    Variable(
        "TORCH_NCCL_ENABLE_TIMING",
        Reader.TORCH,
        Kind.FLAG,
        "start events: tells `started` from `scheduled`, and how long each collective took",
        "[SRC]; [HDR] 2.13 says that it can increase the chance of a stuck watchdog",
        since=(2, 2),
        defaults=(((2, 2), "0"),),
    ),
    Variable(
        "TORCH_NCCL_ENABLE_MONITORING",
        Reader.TORCH,
        Kind.FLAG,
        "whether the monitor thread, which writes the dump and polls the pipe, ends a process whose watchdog is stuck",
        "[SRC] off: it logs and ends nothing; [HDR] asks for it where dump on time-out is on",
        since=(2, 2),
        defaults=(((2, 2), "1"),),
    ),
    Variable(
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
        Reader.TORCH,
        Kind.SECONDS,
        "how long a watchdog may show no life before the process is ended; also the wait before the end after a dump",
        "[SRC] 600, later 480; 2.5 is assumed for the change",
        since=(2, 2),
        defaults=(((2, 2), "600"), ((2, 5), "480")),
        least=1,
        most=_DAY,
    ),
    Variable(
        "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC",
        Reader.TORCH,
        Kind.MILLISECONDS,
        "how long each of a dump's two attempts may take (with stacks, then without); the watchdog waits four times it",
        "[SRC] 60000, then 15000 since PR #151329 (2.8)",
        since=(2, 2),
        defaults=(((2, 2), "60000"), ((2, 8), "15000")),
        least=1,
        most=_DAY * _SECOND,
    ),
    Variable(
        "TORCH_NCCL_COORD_CHECK_MILSEC",
        Reader.TORCH,
        Kind.MILLISECONDS,
        "how often the monitor looks whether another rank asked for dumps, and into the pipe",
        "[SRC]",
        since=(2, 2),
        defaults=(((2, 2), "1000"),),
        least=1,
        most=_DAY * _SECOND,
    ),
    Variable(
        "TORCH_FR_DUMP_TEMP_FILE",
        Reader.TORCH,
        Kind.PREFIX,
        "prefix of the dump's file; the global rank is appended, no host and no job",
        "[HDR] 2.8; $XDG_CACHE_HOME is looked at first",
        since=(2, 8),
        defaults=(
            ((2, 2), "/tmp/nccl_trace_rank_"),  # noqa: S108  # torch's own default
            ((2, 7), "~/.cache/torch/nccl_trace_rank_"),
            ((2, 8), "~/.cache/torch/comm_lib_trace_rank_"),
        ),
    ),
    Variable(
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
        Reader.TORCH,
        Kind.PREFIX,
        "prefix of the dump's file, older name",
        "[HDR] 2.4; [GPU] logs a deprecation warning",
        since=(2, 2),
        newer="TORCH_FR_DUMP_TEMP_FILE",
        newer_since=(2, 8),
    ),
    Variable(
        "TORCH_FR_DUMP_DYNAMIC_FILE_NAME",
        Reader.TORCH,
        Kind.FLAG,
        "the dump's name is read again at every dump, as the whole name (no rank is appended)",
        "[SRC], for torchft",
        defaults=(((2, 2), "0"),),
    ),
    Variable(
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
        Reader.TORCH,
        Kind.PREFIX,
        "prefix of a named pipe, `<prefix><rank>.pipe`: one byte into it makes that rank dump, and work goes on",
        "PR #115770; [GPU]. The folder must exist: a pipe that cannot be made ends the process [SRC]",
        since=(2, 3),
    ),
    Variable(
        "TORCH_INCLUDE_STACK_TRACE",
        Reader.TORCH,
        Kind.FLAG,
        "Python stacks in the dump: they need the interpreter lock, which a stuck process may hold",
        "[HDR] 2.5",
        since=(2, 5),
        defaults=(((2, 2), "1"),),
    ),
    Variable(
        "TORCH_INCLUDE_ONLY_ACTIVE",
        Reader.TORCH,
        Kind.FLAG,
        "the dump leaves out what is finished: no order of calls can be compared",
        "[HDR] 2.5",
        since=(2, 5),
        defaults=(((2, 2), "0"),),
    ),
    Variable(
        "TORCH_NCCL_EXTRA_DUMP_ON_EXEC",
        Reader.TORCH,
        Kind.FLAG,
        "one more dump, without stacks, when a group is aborted or its watchdog raises",
        "[HDR]; seen from about 2.10 on",
        defaults=(((2, 2), "0"),),
    ),
    Variable(
        "TORCH_NCCL_ASYNC_ERROR_HANDLING",
        Reader.TORCH,
        Kind.COUNT,
        "what the watchdog does with an error: 0 nothing, 1 abort and end, 2 abort only, 3 end without abort",
        "[SRC]",
        since=(2, 2),
        defaults=(((2, 2), "3"),),
        least=0,
        most=3,
    ),
    Variable(
        "TORCH_NCCL_BLOCKING_WAIT",
        Reader.TORCH,
        Kind.FLAG,
        "wait() blocks and raises; there is no watchdog then, so nothing times out by itself and nothing is dumped",
        "[SRC]",
        since=(2, 2),
        defaults=(((2, 2), "0"),),
    ),
    Variable(
        "TORCH_NCCL_PROPAGATE_ERROR", Reader.TORCH, Kind.FLAG, "tells all ranks of one rank's error", "[HDR]",
        defaults=(((2, 2), "0"),),
    ),
    Variable(
        "TORCH_NCCL_RETHROW_CUDA_ERRORS", Reader.TORCH, Kind.FLAG, "the watchdog raises CUDA errors", "[HDR]",
        defaults=(((2, 2), "1"),),
    ),
    Variable(
        "TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN",
        Reader.TORCH,
        Kind.FLAG,
        "C++ stacks of all threads are logged when a process is ended; it can itself get stuck",
        "[HDR], [SRC]",
        defaults=(((2, 2), "1"),),
    ),
    Variable(
        "TORCH_NCCL_CUDA_EVENT_CACHE", Reader.TORCH, Kind.FLAG, "events are kept and used again", "[HDR]",
        defaults=(((2, 2), "1"),),
    ),
    Variable(
        "TORCH_DISTRIBUTED_DEBUG",
        Reader.TORCH,
        Kind.WORD,
        "DETAIL checks every collective against all ranks before it runs, and forces timing: slow",
        "[SRC]",
        defaults=(((2, 2), "OFF"),),
        words=("OFF", "INFO", "DETAIL"),
    ),
    Variable(
        "TORCH_DIST_USE_NCCL2",
        Reader.TORCH,
        Kind.FLAG,
        "the newer NCCL backend: no events, no coordinated dump; a rank dumps only when it fails itself",
        "PR #192281; opt-in in 2.14, default in 2.15",
        since=(2, 14),
        defaults=(((2, 2), "0"), ((2, 15), "1")),
    ),
    # Until 2.1 the only names; getCvar still reads them after the TORCH_ ones.
    *(
        Variable(f"NCCL_{name}", Reader.TORCH, kind, f"older name of TORCH_NCCL_{name}", "[HDR]",
                 newer=f"TORCH_NCCL_{name}", newer_since=(2, 2))
        for name, kind in (
            ("ASYNC_ERROR_HANDLING", Kind.COUNT),
            ("BLOCKING_WAIT", Kind.FLAG),
            ("DESYNC_DEBUG", Kind.FLAG),
            ("ENABLE_TIMING", Kind.FLAG),
        )
    ),
)  # fmt: skip

PIPE_BUFFER_DEFAULTS: tuple[tuple[tuple[int, ...], str], ...] = (((2, 2), "0"), ((2, 11), "2000"))
"""The pipe has a default of its own for TORCH_NCCL_TRACE_BUFFER_SIZE: until 2.10 there is no pipe unless that name is
set [SRC]; since PR #172843 (2.11) it takes the group's size [HDR 2.13]."""

OTHER_TORCH_NAMES = frozenset(
    {
        "TORCH_NCCL_ABORT_IN_DESTROY_PG",
        "TORCH_NCCL_AVOID_RECORD_STREAMS",
        "TORCH_NCCL_BCAST_UNIQUEID",
        "TORCH_NCCL_HIGH_PRIORITY",
        "TORCH_NCCL_NAN_CHECK",
        "TORCH_NCCL_NONBLOCKING_TIMEOUT",
        "TORCH_NCCL_RANKS_PER_ROOT",
        "TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING",
        "TORCH_NCCL_USE_COMM_NONBLOCKING",
        "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK",
    }
)
"""Names that torch reads and that have nothing to do with evidence [HDR]; they are not spelling mistakes."""
