"""The environment of a drill's ranks where the caller has none of its own: every plane of the backend may speak."""

from __future__ import annotations

from pathlib import Path

from rankmuster.drill.plan import Backend

MARKER = "RANKMUSTER_INSTANCE"
"""Which instance a process belongs to."""


def surroundings(folder: Path, instance: str, backend: Backend, ras_port: int) -> dict[str, str]:
    """The recorder with dumps below `folder`/flight and pipes below `folder`/pipes; for NCCL its logs below
    `folder`/nccl and a RAS address of this instance alone."""
    common = {
        MARKER: instance,
        "TORCH_FR_BUFFER_SIZE": "2000",
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
        "TORCH_FR_DUMP_TEMP_FILE": str(folder / "flight" / "nccl_trace_rank_"),
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": str(folder / "flight" / "nccl_trace_rank_"),
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": str(folder / "pipes" / "rank_"),
        "GLOO_SOCKET_IFNAME": "lo",  # of the control group too, where the ranks' own is NCCL's
    }
    if backend is Backend.GLOO:
        return {**common, "OMP_NUM_THREADS": "1"}
    return {
        **common,
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",  # also lets the pipe be looked into every second, not every few minutes
        "TORCH_NCCL_ENABLE_TIMING": "1",
        "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "15000",
        "NCCL_RAS_ENABLE": "1",
        "NCCL_RAS_ADDR": f"localhost:{ras_port}",
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,NET,ENV",
        "NCCL_DEBUG_TIMESTAMP_LEVELS": "WARN,INFO",
        "NCCL_DEBUG_FILE": str(folder / "nccl" / "nccl_%h_%p.log"),
    }
