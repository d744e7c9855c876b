"""The parent of the built-in benchmark on one node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
import time

from rankmuster.model.benchmark import BenchmarkRun, Profile


def run_builtin(
    profile: Profile,
    *,
    gpus: int | None = None,
    environment: Mapping[str, str],
    time_limit_s: float,
    python: str | None = None,
    backend: str | None = None,
    keep: Path | None = None,
    choices: bool = True,
    now: Callable[[], float] = time.time,
) -> BenchmarkRun:
    """Measures `profile` with one rank per GPU of this node; never raises for what ranks do, that is the run's state.

    `gpus`: ranks; None: as the profile says, or all GPUs that CUDA shows. `environment`: variables for the ranks
    besides the few that any program needs. `time_limit_s`: of everything; then every rank is killed and the run HUNG.
    `python`: an interpreter that has torch; None: this one. `backend`: "nccl", "torch-nccl" or "gloo"; None: nccl where
    there is a GPU. `keep`: a folder for NCCL's logs and its dumps of topology and graphs, made where missing.
    `choices`: whether ranks are started a second time, briefly, to log what NCCL chooses.

    Raises ValueError for a profile that cannot be run at all (fewer than two ranks, an unknown dtype or backend).
    """
    raise NotImplementedError
