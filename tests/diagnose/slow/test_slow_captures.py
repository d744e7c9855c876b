"""The captured jobs: the slow rank is named with its pattern, the healthy ones are not called slow."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankmuster.diagnose import context as contexts
from rankmuster.diagnose.slow.late import SLOW
from rankmuster.diagnose.slow.measure import measure
from rankmuster.diagnose.thresholds import DEFAULTS
from rankmuster.evidence.bundle import load
from rankmuster.model.slow import Pattern, SlowReport, Timing

CASES = Path(__file__).parents[2] / "cases"


def report_of(name: str) -> SlowReport:
    return measure(contexts.build(load(CASES / name / "input.tar.zst"), DEFAULTS))


@pytest.mark.parametrize(
    ("name", "rank", "pattern"),
    [
        ("one-slow-rank", 1, Pattern.PERSISTENT),
        ("mildly-slow", 2, Pattern.PERSISTENT),
        ("tp2-slow", 1, Pattern.PERSISTENT),
        ("pp-slow", 3, Pattern.PERSISTENT),
        ("tail-slow-steps", 3, Pattern.TAIL),
    ],
)
def test_the_slow_rank_is_named_and_nobody_else(name: str, rank: int, pattern: Pattern) -> None:
    report = report_of(name)
    assert [(one.rank, one.pattern) for one in report.late if one.pattern in SLOW] == [(rank, pattern)]
    assert [one.value for one in report.slow] == ["late rank"]


@pytest.mark.parametrize(
    "name",
    sorted(path.name for path in CASES.iterdir() if path.name.startswith(("healthy", "tp2-healthy", "slow-root"))),
)
def test_healthy_jobs_are_not_called_slow(name: str) -> None:
    assert report_of(name).slow == ()


def test_what_was_enqueued_after_a_dump_with_stacks_is_shown_and_not_judged() -> None:
    report = report_of("healthy-tp4")
    assert report.only_disturbed
    assert report.judged == 0
    assert {one.key.op for one in report.operations} == {"all_reduce", "all_gather", "broadcast"}
    assert any("not judged" in note for note in report.notes)


def test_the_transfer_of_a_slow_job_is_that_of_its_fast_rank_alone() -> None:
    operation = next(one for one in report_of("one-slow-rank").operations if one.key.op == "all_reduce")
    assert operation.transfer is not None
    assert operation.wait is not None
    assert operation.transfer.p50 < 0.1 < 19 < operation.wait.high
    assert (operation.bytes, operation.key.dtype, operation.key.size) == (131072, "BFloat16", "16 x 4096")


def test_a_broadcast_has_durations_and_no_transfer() -> None:
    report = report_of("one-slow-rank")
    broadcast = next(one for one in report.operations if one.key.op == "broadcast")
    assert (broadcast.transfer, broadcast.wait, broadcast.bus_gb_per_s) == (None, None, None)
    assert all(report.ranks.duration[row, 1] > 0 for row in report.ranks.of(broadcast.index))


def test_dumps_without_timing_say_so() -> None:
    report = report_of("no-timing-busy")
    assert report.timing is Timing.HOST
    assert report.slow == ()
