"""Which benchmark measures: nccl-tests where it is installed, else the built-in one, which needs torch."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from rankmuster.model.benchmark import BenchmarkRun, Profile


class Tool(str, Enum):
    """What measures."""

    AUTO = "auto"
    NCCL_TESTS = "nccl-tests"
    BUILT_IN = "built-in"


@dataclass(frozen=True, slots=True)
class How:
    """`gpus`: how many, None for all. `given`: variables of the run, NCCL_* among them. `limit_s`: of one run.

    `environ`: where PATH and the like are taken from. `folder`: of nccl-tests; `python`: with torch. `keep`: a folder
    for outputs and logs. `choices`: whether NCCL is asked, in short processes, what it chooses.
    """

    tool: Tool
    gpus: int | None
    given: Mapping[str, str]
    environ: Mapping[str, str]
    limit_s: float
    folder: Path | None = None
    python: str | None = None
    keep: Path | None = None
    choices: bool = True


class CannotMeasure(Exception):
    """No benchmark could be started; the message says what is missing. `tool`: which it would have been."""

    def __init__(self, tool: Tool, why: str) -> None:
        super().__init__(why)
        self.tool = tool


def measured(profile: Profile, how: How) -> BenchmarkRun:
    """One run, in fresh processes; how it ended is its state.

    Raises CannotMeasure where none can be started: no program of nccl-tests, no torch, fewer than two GPUs, a profile
    that cannot be run.
    """
    from rankmuster.bench.nccl_tests import NcclTestsMissing

    if how.tool is Tool.BUILT_IN:
        return _built_in(profile, how)
    try:
        return _nccl_tests(profile, how)
    except NcclTestsMissing as error:
        if how.tool is Tool.NCCL_TESTS or how.folder is not None:
            raise CannotMeasure(Tool.NCCL_TESTS, f"{error}; or measure with --tool built-in") from error
        missing = str(error)
    try:
        return _built_in(profile, how)
    except CannotMeasure as error:
        raise CannotMeasure(Tool.BUILT_IN, f"{error}; nor is there nccl-tests: {missing}") from error


def _nccl_tests(profile: Profile, how: How) -> BenchmarkRun:
    from rankmuster.bench.nccl_tests import run_nccl_tests

    try:
        return run_nccl_tests(
            profile,
            gpus=how.gpus,
            environ=how.environ,
            now=time.time,
            given=how.given,
            folder=how.folder,
            time_limit_s=how.limit_s,
            choices=how.choices,
            keep=how.keep,
        )
    except OSError as error:
        raise CannotMeasure(Tool.NCCL_TESTS, f"nccl-tests could not be run: {error.strerror or error}") from error


def _built_in(profile: Profile, how: How) -> BenchmarkRun:
    from rankmuster.bench.builtin.run import run_builtin

    try:
        return run_builtin(
            profile,
            gpus=how.gpus,
            environment=how.given,
            time_limit_s=how.limit_s,
            python=how.python,
            keep=how.keep,
            choices=how.choices,
            here=how.environ,
        )
    except ValueError as error:
        raise CannotMeasure(Tool.BUILT_IN, f"the built-in benchmark cannot run {profile.name}: {error}") from error
    except OSError as error:
        said = error.strerror or error
        raise CannotMeasure(Tool.BUILT_IN, f"the built-in benchmark could not be started: {said}") from error
