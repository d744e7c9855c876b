"""Whether the values were right: a fast wrong answer is worse than none, and one that was not checked is no pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rankmuster.admission.gathering import sizes_named
from rankmuster.evidence.nccl_tests_runs import TOOL
from rankmuster.model.admission import Check, CheckGroup, CheckState
from rankmuster.model.benchmark import BenchmarkRun, Cell, Operation, RunState

UNCHECKED_IN_PLACE = frozenset({Operation.ALL_TO_ALL, Operation.SEND_RECV})
"""What nccl-tests never checks in place, and prints N/A for: there one buffer cannot be both (its src/alltoall.cu and
sendrecv.cu, `reportErrors = in_place ? 0 : 1`). The very operation is checked out of place."""


def correctness_checks(runs: Sequence[BenchmarkRun]) -> list[Check]:
    """Over all runs, by operation. Nothing measured: nothing said (the benchmark's own check says that)."""
    group, name = CheckGroup.CORRECTNESS, "values"
    by_operation: dict[Operation, list[tuple[int, int | None]]] = {}
    spared: dict[Operation, int] = {}
    for run in runs:
        checked = {row.cell for row in run.measurements if row.wrong is not None}
        for row in run.measurements:
            operation = row.cell.operation
            if row.wrong is None and _by_rule(run, row.cell) and replace(row.cell, in_place=False) in checked:
                spared[operation] = spared.get(operation, 0) + 1
            else:
                by_operation.setdefault(operation, []).append((row.cell.size_bytes, row.wrong))
    checks = []
    for operation, rows in by_operation.items():
        wrong = sorted({size for size, count in rows if count})
        unchecked = sorted({size for size, count in rows if count is None})
        if wrong:
            total = sum(count or 0 for _, count in rows)
            words = f"{total} wrong values of {operation.value} at {sizes_named(wrong)}"
            advice = "take the node out: look for ACS, an IOMMU that translates, and memory errors"
            checks.append(Check(name, group, CheckState.FAIL, operation.value, words, advice, required=True))
        elif unchecked:
            words = f"the values of {operation.value} at {sizes_named(unchecked)} were not checked"
            advice = "measure with checks on (nccl-tests: -c 1)"
            checks.append(Check(name, group, CheckState.UNKNOWN, operation.value, words, advice, required=True))
        else:
            words = f"all values right at {len({size for size, _ in rows})} sizes"
            words += "; in place the tool cannot check them" if spared.get(operation) else ""
            checks.append(Check(name, group, CheckState.PASS, operation.value, words, required=True))
    said = [run for run in runs if run.state is RunState.WRONG]
    if said and not any(check.state is CheckState.FAIL for check in checks):
        words = said[0].reason or "the benchmark found wrong values"
        checks.append(Check(name, group, CheckState.FAIL, "the node", words, required=True))
    return checks


def _by_rule(run: BenchmarkRun, cell: Cell) -> bool:
    return run.tool == TOOL and cell.in_place and cell.operation in UNCHECKED_IN_PLACE
