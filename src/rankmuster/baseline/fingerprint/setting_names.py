"""Which NCCL_* values change what NCCL chooses or how fast it is, and which only log, name files or ask questions."""

from __future__ import annotations

from fnmatch import fnmatchcase

PREFIX = "NCCL_"

WITHOUT_EFFECT = (
    "NCCL_DEBUG*",  # how much is logged, and where to
    "NCCL_WARN_ENABLE_DEBUG_INFO",
    "NCCL_RAS_*",  # a thread that answers questions
    "NCCL_RUN_RAS_DIAGNOSTICS",
    "NCCL_RUN_DIAGNOSTICS",
    "NCCL_DIAGNOSTICS_*",
    "NCCL_PROGRESS_COUNTER*",
    "NCCL_TOPO_DUMP_FILE*",  # written, not read; NCCL_TOPO_FILE is read and stays
    "NCCL_GRAPH_DUMP_FILE*",
    "NCCL_INSPECTOR_*",  # what a profiler plugin writes; that there is one (NCCL_PROFILER_PLUGIN) stays
    "NCCL_PROFILE_*",
    "NCCL_TESTS_*",  # of the benchmark, not the library
    "NCCL_CONF_FILE",  # its content is read and stands here by itself
    "NCCL_COMM_ID",  # an address: another one in every job
    "NCCL_HOSTID",  # a name of the host
    "NCCL_SET_THREAD_NAME",
    "NCCL_VERSION",  # of container images: a package version that no library reads
    "NCCL_ASYNC_ERROR_HANDLING",  # old names of torch's own settings
    "NCCL_BLOCKING_WAIT",
    "NCCL_DESYNC_DEBUG",
)
"""Sources: NCCL's user guide (Environment Variables), src/debug.cc, src/ras; torch's ProcessGroupNCCL.hpp."""


def changes_choices(name: str) -> bool:
    """Whether results with and without this value may differ."""
    return name.startswith(PREFIX) and not any(fnmatchcase(name, pattern) for pattern in WITHOUT_EFFECT)
