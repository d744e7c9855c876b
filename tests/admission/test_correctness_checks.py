"""Values that no tool can check in place do not keep a node out; values that were simply not checked do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rankmuster.admission.correctness import correctness_checks
from rankmuster.evidence.nccl_tests import read_runs
from rankmuster.model.admission import CheckState
from rankmuster.model.benchmark import BenchmarkRun

MEASURED = Path(__file__).parents[1] / "evidence" / "nccl_tests_h200"


def measured(name: str) -> BenchmarkRun:
    (run,) = read_runs((MEASURED / name).read_bytes(), name)
    assert {row.wrong for row in run.measurements if row.cell.in_place} == {None}, "the tool prints N/A there"
    return run


def without(run: BenchmarkRun, *, in_place: bool) -> BenchmarkRun:
    """The run as if that half had not been measured."""
    return replace(run, measurements=tuple(row for row in run.measurements if row.cell.in_place is not in_place))


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("alltoall.txt", "all_to_all"),
        ("sendrecv.txt", "send_recv"),
        ("nccl-tests-alltoall.json", "all_to_all"),
        ("nccl-tests-sendrecv.json", "send_recv"),
    ],
)
def test_what_the_tool_checks_out_of_place_alone_is_checked(name: str, operation: str) -> None:
    (check,) = correctness_checks([measured(name)])
    assert (check.state, check.subject) == (CheckState.PASS, operation)
    assert check.statement == "all values right at 16 sizes; in place the tool cannot check them"


def test_a_wrong_value_out_of_place_is_wrong() -> None:
    run = measured("alltoall.txt")
    first, *rest = run.measurements
    (check,) = correctness_checks([replace(run, measurements=(replace(first, wrong=3), *rest))])
    assert (check.state, check.statement) == (CheckState.FAIL, "3 wrong values of all_to_all at 8 KiB")


def test_what_was_checked_nowhere_stays_unknown() -> None:
    run = measured("sendrecv.txt")
    silent = replace(run, measurements=tuple(replace(row, wrong=None) for row in run.measurements))
    for unchecked in (silent, without(run, in_place=False), replace(run, tool="built-in")):
        (check,) = correctness_checks([unchecked])
        assert (check.state, check.required) == (CheckState.UNKNOWN, True)


def test_an_operation_that_can_be_checked_in_place_has_no_excuse() -> None:
    (run,) = read_runs((MEASURED / "ar_1.txt").read_bytes(), "ar_1.txt")
    rows = tuple(replace(row, wrong=None) if row.cell.in_place else row for row in run.measurements)
    (check,) = correctness_checks([replace(run, measurements=rows)])
    assert check.state is CheckState.UNKNOWN
