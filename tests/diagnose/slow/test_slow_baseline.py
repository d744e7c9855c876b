"""Against a baseline: what is slower, by how much, on whom; like with like; no alarm where nothing changed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from build_slow import Kind, SlowWorld, context_of, stepped, tensor_parallel
from rankmuster.diagnose.slow.baseline import MOST_WINDOWS, BaselineRefused, add
from rankmuster.diagnose.slow.baseline_compare import compare
from rankmuster.diagnose.slow.measure import measure
from rankmuster.model.slow import SlowReport
from rankmuster.model.slow_baseline import Baseline, Measure, Outcome

STEPS = 300


def report_of(day: int, **fields: object) -> SlowReport:
    """A window of one instance on one day."""
    world: SlowWorld = tensor_parallel(8, 4, steps=STEPS, seed=day, clocks=dict.fromkeys(range(8), day * 86_400.0))
    return measure(context_of(replace(world, **fields)))  # type: ignore[arg-type]


def saved(windows: int, first: int = 0) -> Baseline:
    baseline = None
    for day in range(first, first + windows):
        baseline = add(baseline, report_of(day))
    assert baseline is not None
    return baseline


def test_a_day_like_the_others_is_as_before() -> None:
    comparison = compare(saved(4), report_of(9))
    assert (comparison.differs, comparison.slower, comparison.ranks) == ((), (), ())
    assert not comparison.provisional
    assert len(comparison.compared) == 3
    assert {ratio.outcome for one in comparison.compared for ratio in one.ratios} == {Outcome.SAME}


def test_false_alarms_stay_rare_where_days_differ() -> None:
    # Transfers and computing differ from day to day by a tenth and more; 30 days against baselines of three to six.
    rng = np.random.default_rng(11)

    def day(number: int) -> SlowReport:
        level = float(rng.lognormal(0.0, 0.1))
        return report_of(
            number, grown={(0, None): level, (1, None): level}, compute=10.0 * float(rng.lognormal(0, 0.2))
        )

    alarms = kinds = 0
    for trial in range(6):
        baseline = None
        for number in range(3 + trial % 4):
            baseline = add(baseline, day(100 * trial + number))
        assert baseline is not None
        for number in range(50, 55):
            comparison = compare(baseline, day(100 * trial + number))
            kinds += len(comparison.compared)
            alarms += len(comparison.slower)
    assert kinds == 90
    assert alarms <= 2


def test_a_slower_transfer_is_told_with_its_ratio_and_its_group() -> None:
    comparison = compare(saved(4), report_of(9, grown={(0, 1): 3.0}))
    reduce = next(one for one in comparison.slower if one.key.op == "all_reduce" and one.key.role == "tp")
    assert [label for label, _ in reduce.groups] == ["tp1"]
    assert reduce.groups[0][1] == pytest.approx(3.0, rel=0.1)
    tail = reduce.of(Measure.TRANSFER_P99)
    assert tail is not None
    assert tail.outcome is Outcome.SLOWER
    assert tail.low <= tail.ratio <= tail.high
    assert tail.ratio == pytest.approx(3.0, rel=0.15)


def test_a_slower_median_has_an_interval_about_its_ratio() -> None:
    comparison = compare(saved(4), report_of(9, grown={(0, None): 2.0}))
    for one in comparison.slower:
        median = one.of(Measure.TRANSFER_P50)
        assert median is not None
        assert median.low < 2.0 < median.high
        assert median.outcome is Outcome.SLOWER
    assert {one.key.role for one in comparison.slower} == {"tp"}


def test_a_faster_one_is_not_called_slower() -> None:
    comparison = compare(saved(4), report_of(9, grown={(0, None): 0.4}))
    assert comparison.slower == ()
    assert any(ratio.outcome is Outcome.FASTER for one in comparison.compared for ratio in one.ratios)


def test_a_rank_that_is_waited_for_more_is_named() -> None:
    comparison = compare(saved(3), report_of(9, late={5: stepped(STEPS, [(0.5, 0.0), (0.5, 8.0)])}))
    assert [one.rank for one in comparison.ranks] == [5]
    assert comparison.ranks[0].now > 0.2
    assert comparison.slower == ()


def test_one_window_is_too_little_history() -> None:
    comparison = compare(saved(1), report_of(9, grown={(0, None): 3.0}))
    assert comparison.provisional
    assert comparison.slower
    assert all(ratio.provisional for one in comparison.compared for ratio in one.ratios)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"library": "2.29.1"}, "communication library: 2.28.9 then, 2.29.1 now"),
        ({"layouts": (("tp", ((0, 1), (2, 3))), ("default_pg", ((0, 1, 2, 3),)))}, "world size: 8 then, 4 now"),
    ],
)
def test_what_is_not_alike_is_said_and_not_compared(fields: dict[str, object], word: str) -> None:
    baseline = saved(3)
    other = report_of(9, **fields)
    comparison = compare(baseline, other)
    assert any(word in reason for reason in comparison.differs)
    assert comparison.compared == ()
    with pytest.raises(BaselineRefused, match="begin a new one"):
        add(baseline, other)


def test_dumps_without_durations_are_not_compared_nor_saved() -> None:
    blind = report_of(9, timing=False)
    assert any("durations" in reason for reason in compare(saved(3), blind).differs)
    with pytest.raises(BaselineRefused, match="TORCH_NCCL_ENABLE_TIMING"):
        add(None, blind)


def test_a_slow_window_is_no_baseline_unless_somebody_insists() -> None:
    slow = report_of(9, late={5: 12.0})
    with pytest.raises(BaselineRefused, match="rank 5 late"):
        add(None, slow)
    assert add(None, slow, even_if_slow=True).windows[0].waited["5"] > 0.3


def test_the_same_dumps_twice_are_one_window() -> None:
    with pytest.raises(BaselineRefused, match="overlaps"):
        add(saved(1), report_of(0))


def test_only_the_newest_windows_are_kept() -> None:
    baseline = saved(1)
    report = report_of(1)
    for number in range(MOST_WINDOWS + 3):
        at = report.window[1] + 10 * (number + 1)
        baseline = add(baseline, replace(report, window=(at, at + 5)))
    assert len(baseline.windows) == MOST_WINDOWS
    assert {len(one.transfer) for one in baseline.operations} == {MOST_WINDOWS}


def test_what_has_no_history_and_what_did_not_run_are_told() -> None:
    comparison = compare(saved(3), report_of(9, kinds=(Kind(0, sizes=(32, 4096)), Kind(1, sizes=(1,), dtype="Float"))))
    assert [one.size for one in comparison.new] == ["32 x 4096"]
    assert [one.size for one in comparison.gone] == ["16 x 4096", "16 x 8000"]
    assert [one.key.role for one in comparison.compared] == ["default_pg"]


def test_windows_slowed_by_dumps_with_stacks_compare_with_such_alone() -> None:
    clean, slowed = report_of(0), replace(report_of(1), disturbed=True)
    assert any("TORCH_INCLUDE_STACK_TRACE=0" in reason for reason in compare(add(None, clean), slowed).differs)
    with pytest.raises(BaselineRefused, match="dumps with stacks"):
        add(add(None, slowed), clean)
    baseline = None
    for day in range(4):
        baseline = add(baseline, replace(report_of(day), disturbed=True))
    assert baseline is not None
    comparison = compare(baseline, replace(report_of(9), disturbed=True))
    assert comparison.differs == ()
    assert comparison.provisional
