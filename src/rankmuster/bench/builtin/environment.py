"""What ranks are started with: what any program needs and what was asked for, nothing that happens to be set here."""

from __future__ import annotations

from collections.abc import Mapping

NEEDED = (
    *("PATH", "HOME", "USER", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"),
    *("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "VIRTUAL_ENV"),
)
"""Taken from this process. No NCCL_*: what an instance runs with is asked for, and stands in the result."""

FIXED = {
    "LC_ALL": "C",
    "OMP_NUM_THREADS": "1",  # ranks share the host's cores; the CPU only launches
    "PYTHONUNBUFFERED": "1",
    "PYTHONWARNINGS": "ignore",
    "PYTHONNOUSERSITE": "1",  # a person's own packages are not the node's
}

SHOWN = ("NCCL_", "CUDA_")
_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH")


def stripped(here: Mapping[str, str], asked: Mapping[str, str]) -> dict[str, str]:
    """The environment of a rank; what was asked for wins."""
    needed = {name: here[name] for name in NEEDED if name in here}
    return {**needed, **FIXED, **asked}


def shown(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """NCCL_* and CUDA_* values by name, without any that may be a secret: what a result may keep."""
    return tuple(
        sorted(
            (name, value)
            for name, value in environment.items()
            if name.startswith(SHOWN) and not any(word in name.upper() for word in _SECRET)
        )
    )
