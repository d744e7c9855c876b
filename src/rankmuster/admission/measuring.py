"""One start of the benchmark for an admission, the GPUs' links watched under its load."""

from __future__ import annotations

from dataclasses import replace

from rankmuster.admission.load_watch import LoadWatch
from rankmuster.bench.tool import CannotMeasure, How, measured
from rankmuster.model.benchmark import BenchmarkRun, Profile, RunState


def measure(profile: Profile, attempt: int, how: How, watch: LoadWatch) -> BenchmarkRun:
    """Never raises for what a benchmark does or lacks: a run of state ERROR says what is missing."""
    keep = how.keep / f"run-{attempt + 1:02d}" if how.keep is not None else None
    with watch.watching():
        try:
            return measured(profile, replace(how, keep=keep))
        except CannotMeasure as error:
            tool = error.tool.value
            return BenchmarkRun(tool, tool, None, None, None, RunState.ERROR, str(error), (), ())
