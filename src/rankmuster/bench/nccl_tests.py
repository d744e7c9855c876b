"""Runs nccl-tests: one fresh process per series of sizes, stripped of its environment, bounded, and believed only as
far as its output goes (exit status 0 proves nothing: `-h` and an unknown option also end with 0)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from rankmuster.model.benchmark import BenchmarkRun, Profile


class NcclTestsMissing(Exception):
    """No usable nccl-tests; the message says where was looked and what came back."""


def run_nccl_tests(
    profile: Profile,
    *,
    gpus: int | None,
    environ: Mapping[str, str],
    now: Callable[[], float],
    given: Mapping[str, str] | None = None,
    folder: Path | None = None,
    time_limit_s: float = 600.0,
    choices: bool = True,
) -> BenchmarkRun:
    """One run of the profile. `gpus`: how many, None for the profile's or all that the tool sees.

    `environ`: where PATH, LD_LIBRARY_PATH, HOME, CUDA_VISIBLE_DEVICES and NCCL_TESTS_HOME are taken from, and nothing
    else; `given`: variables set for the run (NCCL_* are passed only when they stand here). `folder`: where the
    binaries are. `time_limit_s`: of the whole run; what does not end within it is killed with all its group, and the
    run is HUNG. `choices`: a short second process logs what NCCL chooses (logging each call would slow the measured).

    Raises NcclTestsMissing.
    """
    raise NotImplementedError
