"""Runs of one tool as one: nccl-tests starts a process for each operation, a profile is measured by all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rankmuster.model.benchmark import BenchmarkRun, RunState

WORST_FIRST = (
    RunState.WRONG,
    RunState.HUNG,
    RunState.ERROR,
    RunState.INCOMPLETE,
    RunState.CONTENDED,
    RunState.REFUSED,
    RunState.COMPLETE,
)
"""A whole is what its worst part is; wrong values are the worst, since they are the node's fault for sure."""


def merged(runs: Sequence[BenchmarkRun]) -> BenchmarkRun:
    """One run with all measurements, in order, and the worst state. At least one is needed."""
    first = runs[0]
    if len(runs) == 1:
        return first
    state = min((run.state for run in runs), key=WORST_FIRST.index)
    reasons = dict.fromkeys(_told(run) for run in runs if run.reason)
    started = [run.started_at for run in runs if run.started_at is not None]
    channels = [run.channels for run in runs if run.channels is not None]
    return replace(
        first,
        tool_version=next((run.tool_version for run in runs if run.tool_version), None),
        nccl_version=next((run.nccl_version for run in runs if run.nccl_version), None),
        started_at=min(started, default=None),
        state=state,
        reason="; ".join(reasons),
        ranks=max((run.ranks for run in runs), key=len),
        measurements=tuple(one for run in runs for one in run.measurements),
        choices=tuple(dict.fromkeys(one for run in runs for one in run.choices)),
        environment=tuple(sorted({pair for run in runs for pair in run.environment})),
        transports=tuple(sorted({word for run in runs for word in run.transports})),
        channels=max(channels, default=None),
        command=next((run.command for run in runs if run.command), ()),
        settings=_settings(runs),
        rank_count=max((run.rank_count for run in runs if run.rank_count is not None), default=None),
    )


def _settings(runs: Sequence[BenchmarkRun]) -> tuple[tuple[str, str], ...]:
    """Each setting once, with all the values it had: "20,50"."""
    found: dict[str, dict[str, None]] = {}
    for name, value in sorted({pair for run in runs for pair in run.settings}):
        found.setdefault(name, {}).update(dict.fromkeys(value.split(",")))
    return tuple((name, ",".join(values)) for name, values in found.items())


def _told(run: BenchmarkRun) -> str:
    operations = dict.fromkeys(one.cell.operation.value for one in run.measurements)
    return f"{', '.join(operations)}: {run.reason}" if operations else run.reason
