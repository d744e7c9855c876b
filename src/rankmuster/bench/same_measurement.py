"""Whether a run measured what its profile says: the same operation each time, as often, and every one of its sizes.

nccl-tests can be started so that its table looks the same and its numbers are of something else: several operations
launched together, misaligned buffers, another reduction. Such results are compared with nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rankmuster.model.benchmark import BenchmarkRun, Cell, Profile

LEAST_ITERATIONS_SHARE = 0.2
"""Of the profile's iterations. A mean of a fifth of them scatters 2.2 times as much, which is still within what the
thresholds of a re-test allow; nccl-tests' own 20 beside the 50 of a profile are 0.4 and common, `-n 1` is no mean."""

REDUCTIONS = frozenset({"sum", "none", ""})
"""What profiles are measured with; another reduction computes something else, `avg` one pass more."""

SHARE = 16
"""Bytes to which nccl-tests rounds each rank's part down: what was asked for may have been measured so much smaller."""


def other_measurement(run: BenchmarkRun, profile: Profile) -> str:
    """In words how the run was started otherwise than the profile is measured; nothing where it was not."""
    return "; ".join(_others(run, profile))


def _others(run: BenchmarkRun, profile: Profile) -> Iterator[str]:
    said = dict(run.settings)
    odd = sorted(set(said.get("redop", "").split(",")) - REDUCTIONS)
    if odd:
        yield f"values were reduced by {', '.join(odd)}, not by sum"
    if _most(said, "agg_iters", 1) > 1:
        yield f"{said['agg_iters']} operations were launched together and timed as one (-m)"
    if _most(said, "unalign", 0) > 0:
        yield "buffers were not aligned"
    if _most(said, "blocking", 0) > 0:
        yield "the host waited for each operation (-z)"
    measured = {row.cell.operation for row in run.measurements}
    wanted = min((step.iterations for step in profile.steps if step.operation in measured), default=0)
    made = _most(said, "iters", wanted) * max(_most(said, "graph", 0), 1)
    if made < LEAST_ITERATIONS_SHARE * wanted:
        yield f"each size was measured {made} time(s), and the profile takes {wanted}"


def _most(said: dict[str, str], name: str, default: int) -> int:
    return max((int(value) for value in said.get(name, "").split(",") if value.isdecimal()), default=default)


def missing_cells(runs: Sequence[BenchmarkRun], profile: Profile) -> tuple[Cell, ...]:
    """The profile's cells that none of the runs has. A placement that the tool does not have, and says so, is none."""
    measured = {row.cell for run in runs for row in run.measurements}
    ranks = max((run.members for run in runs), default=1)
    placed = any("in place only" in run.reason for run in runs)
    found = []
    for step in profile.steps:
        for size in step.sizes:
            cell = Cell(step.operation, size, step.dtype, step.in_place, step.graph)
            if not any(_is(cell, other, ranks, placed=placed) for other in measured):
                found.append(cell)
    return tuple(found)


def _is(cell: Cell, other: Cell, ranks: int, *, placed: bool) -> bool:
    return (
        (cell.operation, cell.dtype, cell.graph) == (other.operation, other.dtype, other.graph)
        and (placed or cell.in_place == other.in_place)
        and 0 <= cell.size_bytes - other.size_bytes < SHARE * max(ranks, 1)
    )


def said_why(cell: Cell, runs: Sequence[BenchmarkRun]) -> str:
    """What the tool says of a cell that it left out; nothing where it says nothing.

    The built-in benchmark names the operations that it leaves out; of nccl-tests there is the memory that ran short.
    """
    for run in runs:
        built_in = run.tool == "built-in" and cell.operation.value in run.reason
        if built_in or "memory left room for" in run.reason:
            return run.reason
    return ""
