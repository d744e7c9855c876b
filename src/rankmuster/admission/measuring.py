"""Which benchmark measures: nccl-tests where it is installed, else the built-in one, which needs torch."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from rankmuster.admission.load_watch import LoadWatch
from rankmuster.model.benchmark import BenchmarkRun, Profile, RunState


class Tool(str, Enum):
    """What measures."""

    AUTO = "auto"
    NCCL_TESTS = "nccl-tests"
    BUILT_IN = "built-in"


@dataclass(frozen=True, slots=True)
class How:
    """`gpus`: how many, None for all. `given`: variables of the run, NCCL_* among them. `limit_s`: of one run.

    `environ`: where PATH and the like are taken from. `folder`: of nccl-tests; `python`: with torch. `keep`: a folder
    for outputs and logs.
    """

    tool: Tool
    gpus: int | None
    given: Mapping[str, str]
    environ: Mapping[str, str]
    limit_s: float
    folder: Path | None = None
    python: str | None = None
    keep: Path | None = None


def measure(profile: Profile, attempt: int, how: How, watch: LoadWatch) -> BenchmarkRun:
    """One start. Never raises for what a benchmark does or lacks: a run of state ERROR says what is missing."""
    keep = how.keep / f"run-{attempt + 1:02d}" if how.keep is not None else None
    with watch.watching():
        try:
            return _measured(profile, how, keep)
        except (OSError, ValueError) as error:
            said = getattr(error, "strerror", None) or str(error)
            return _failed(how.tool.value, f"it could not be started: {said}")


def _measured(profile: Profile, how: How, keep: Path | None) -> BenchmarkRun:
    from rankmuster.bench.nccl_tests import NcclTestsMissing, run_nccl_tests

    missing = ""
    if how.tool is not Tool.BUILT_IN:
        try:
            return run_nccl_tests(
                profile,
                gpus=how.gpus,
                environ=how.environ,
                now=time.time,
                given=how.given,
                folder=how.folder,
                time_limit_s=how.limit_s,
                keep=keep,
            )
        except NcclTestsMissing as error:
            missing = str(error)
            if how.tool is Tool.NCCL_TESTS or how.folder is not None:
                return _failed(Tool.NCCL_TESTS.value, missing)
    from rankmuster.bench.builtin.run import run_builtin

    try:
        return run_builtin(
            profile,
            gpus=how.gpus,
            environment=how.given,
            time_limit_s=how.limit_s,
            python=how.python,
            keep=keep,
            here=how.environ,
        )
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        also = f"; nor is there nccl-tests: {missing}" if missing else ""
        return _failed(Tool.BUILT_IN.value, f"{said}{also}")


def _failed(tool: str, reason: str) -> BenchmarkRun:
    return BenchmarkRun(tool, tool, None, None, None, RunState.ERROR, reason, (), ())
