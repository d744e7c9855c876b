"""Benchmark runs as a command gives them: to read, or as JSON, and the exit status that they come to."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated

import typer

from rankmuster.cli.output import deliver, table_width
from rankmuster.cli.status import doing
from rankmuster.model.benchmark import BenchmarkRun, RunState


class BenchFormat(str, Enum):
    """How runs are written."""

    TERMINAL = "terminal"
    JSON = "json"


BenchForm = Annotated[
    BenchFormat, typer.Option("--format", help="terminal: tables; json: the schema, a run on each line.")
]


class BenchStatus(IntEnum):
    """0 every run is complete; 1 one is not (wrong, incomplete, error, hung); 2 contended; 3 nothing was measured."""

    COMPLETE = 0
    NOT_COMPLETE = 1
    CONTENDED = 2
    NO_ANSWER = 3


def deliver_runs(runs: Sequence[BenchmarkRun], form: BenchFormat, output: Path | None) -> BenchStatus:
    """Writes the runs, JSON one on a line, and says what they come to."""
    with doing(f"writing {len(runs)} runs as {form.value}"):
        if form is BenchFormat.JSON:
            from rankmuster.report.benchmark_json import as_json

            text = "".join(as_json(run) for run in runs)
        else:
            from rankmuster.report.benchmark_text import as_text

            text = "\n".join(as_text(run, table_width()) for run in runs)
    deliver(text, output)
    return status_of(runs)


def status_of(runs: Sequence[BenchmarkRun]) -> BenchStatus:
    """The worst of the runs decides."""
    states = {run.state for run in runs}
    if states <= {RunState.COMPLETE}:
        return BenchStatus.COMPLETE if states else BenchStatus.NO_ANSWER
    return BenchStatus.CONTENDED if states <= {RunState.COMPLETE, RunState.CONTENDED} else BenchStatus.NOT_COMPLETE
