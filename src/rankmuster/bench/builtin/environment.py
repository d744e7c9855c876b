"""What ranks are started with: what any program needs and what was asked for, nothing that happens to be set here."""

from __future__ import annotations

from collections.abc import Mapping

NEEDED = (
    *("PATH", "HOME", "USER", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"),
    *("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "VIRTUAL_ENV"),
)
"""Taken from this process. No NCCL_*: what an instance runs with is asked for, and stands in the result."""

SAFEGUARDS = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
"""The exception: where NVLink multicast is turned off it stays off, unless asked for. It is turned off on hosts whose
GPUs others share, since a fault in it can take all of them out of service: no benchmark may risk that by forgetting."""

FIXED = {
    "LC_ALL": "C",
    "OMP_NUM_THREADS": "1",  # ranks share the host's cores; the CPU only launches
    "PYTHONUNBUFFERED": "1",
    "PYTHONWARNINGS": "ignore",
}


def stripped(here: Mapping[str, str], asked: Mapping[str, str]) -> dict[str, str]:
    """The environment of a rank; what was asked for wins."""
    needed = {name: here[name] for name in NEEDED if name in here}
    return {**needed, **FIXED, **safeguards(here), **asked}


def safeguards(here: Mapping[str, str]) -> dict[str, str]:
    """Those that are set here."""
    return {name: value for name, value in SAFEGUARDS.items() if here.get(name) == value}
