"""Played jobs with a planted slowness: who, since when, and nobody else; healthy ones are not called slow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from build_evidence import instance

from build_slow import START, Kind, SlowWorld, context_of, play, stepped, tensor_parallel
from rankmuster.diagnose.slow.late import SLOW
from rankmuster.diagnose.slow.measure import measure
from rankmuster.model.slow import LateRank, Pattern, Slowness, SlowReport, Timing

STEPS = 400


def report_of(world: SlowWorld) -> SlowReport:
    return measure(context_of(world))


def called(report: SlowReport) -> list[LateRank]:
    return [one for one in report.late if one.pattern in SLOW]


@pytest.mark.parametrize("seed", range(16))
def test_a_healthy_job_is_not_called_slow(seed: int) -> None:
    # From launch-bound to compute-bound, even to scattered, with one rank that launches last.
    report = report_of(
        tensor_parallel(
            16,
            4,
            steps=STEPS,
            seed=seed,
            jitter=0.05 + 0.02 * seed,
            compute=(0.3, 4.0, 10.0, 30.0)[seed % 4],
            biased={seed: (0.0, 5.0, 30.0, 80.0)[seed // 4]},
        )
    )
    assert report.slow == ()
    assert report.notes == ()


def test_launch_order_by_microseconds_is_health() -> None:
    # Rank 3 is last in nearly every collective, by 30 us, in a job that computes next to nothing.
    report = report_of(tensor_parallel(8, 4, compute=0.2, steps=3000, biased={3: 30.0}))
    assert report.slow == ()
    late = next(one for one in report.late if one.label == "tp0")
    assert (late.rank, late.pattern) == (3, Pattern.ORDINARY)
    assert late.dominance > 0.9


def test_clocks_that_differ_between_hosts_do_not_make_a_rank_late() -> None:
    clocks = dict.fromkeys(range(8, 16), 0.25)
    assert report_of(tensor_parallel(16, 4, steps=STEPS, clocks=clocks)).slow == ()


def test_a_rank_that_is_always_late_is_persistent_since_before_the_window() -> None:
    report = report_of(tensor_parallel(16, 4, steps=STEPS, late={5: 8.0}))
    (late,) = called(report)
    assert (late.rank, late.label, late.pattern) == (5, "tp1", Pattern.PERSISTENT)
    assert (late.since, late.until, late.absent, late.from_start) == (None, None, (), True)
    assert late.typical_ms == pytest.approx(8.0, abs=0.5)
    assert report.slow == (Slowness.LATE_RANK,)


@pytest.mark.parametrize("begins", [0.3, 0.5, 0.8])
def test_a_rank_that_became_late_is_persistent_since_then(begins: float) -> None:
    late = {5: stepped(STEPS, [(begins, 0.0), (1 - begins, 12.0)])}
    report = report_of(tensor_parallel(16, 4, steps=STEPS, late=late))
    (found,) = called(report)
    assert (found.rank, found.pattern) == (5, Pattern.PERSISTENT)
    assert found.since is not None
    assert found.until is None
    assert not found.from_start
    # Two collectives of its group a step.
    assert found.since.seq == pytest.approx(2 * begins * STEPS, abs=8)
    assert found.since.grew
    assert START < found.since.at < report.window[1]


def test_a_rank_that_was_late_for_a_while_has_both_ends() -> None:
    late = {5: stepped(STEPS, [(0.3, 0.0), (0.3, 8.0), (0.4, 0.0)])}
    (found,) = called(report_of(tensor_parallel(16, 4, steps=STEPS, late=late)))
    assert found.since is not None
    assert found.until is not None
    assert found.since.at < found.until.at
    assert (found.pattern, found.rank) == (Pattern.PERSISTENT, 5)


def test_single_long_waits_are_a_tail() -> None:
    rng = np.random.default_rng(3)
    late = {5: np.where(rng.random(STEPS) < 0.04, 60.0, 0.0)}
    report = report_of(tensor_parallel(16, 4, steps=STEPS, late=late))
    (found,) = called(report)
    assert (found.rank, found.pattern) == (5, Pattern.TAIL)
    assert found.events == int((late[5] > 0).sum())
    assert report.window[0] <= found.first < found.last <= report.window[1]


def test_who_is_held_up_elsewhere_is_a_victim() -> None:
    # Pairs across two groups of four: whoever waits for rank 5 in its first group comes late to its second.
    layouts = (("tp", ((0, 1, 2, 3), (4, 5, 6, 7))), ("dp", ((0, 4), (1, 5), (2, 6), (3, 7))))
    kinds = (Kind(0), Kind(1, "_reduce_scatter_base", (4096,), (2048,), transfer=0.08))
    report = report_of(SlowWorld(layouts, kinds, steps=STEPS, late={5: 15.0}))
    assert {one.rank for one in called(report)} == {5}
    others = [one for one in report.late if one.rank != 5 and one.share > 0.25]
    assert others
    assert {one.pattern for one in others} <= {Pattern.VICTIM, Pattern.SEVERAL}


@pytest.mark.parametrize("ahead", [-20.0, 1.0, 5.0, 3600.0])
def test_victims_are_told_by_their_own_clocks(ahead: float) -> None:
    # The second host's clock is off by more than the window: by another clock nobody would have waited elsewhere.
    layouts = (("tp", ((0, 1, 2, 3), (4, 5, 6, 7))), ("dp", ((0, 4), (1, 5), (2, 6), (3, 7))))
    kinds = (Kind(0), Kind(0), Kind(1, "_reduce_scatter_base", (4096,), (2048,), transfer=0.08))
    clocks = dict.fromkeys(range(4, 8), ahead)
    for late in (1, 5):
        report = report_of(SlowWorld(layouts, kinds, steps=STEPS, late={late: 15.0}, clocks=clocks))
        assert {one.rank for one in called(report)} == {late}


def test_hosts_known_by_name_share_one_clock_in_the_report() -> None:
    clocks = dict.fromkeys(range(4, 8), 100.0)
    hosts = instance(8, hosts=["10.0.0.1"] * 4 + ["10.0.0.2"] * 4)
    report = measure(context_of(tensor_parallel(8, 4, steps=STEPS, late={5: 12.0}, clocks=clocks), hosts))
    assert {one.rank for one in called(report)} == {5}
    assert report.seconds < 20
    assert report.window[0] == pytest.approx(START, abs=1.0)


def test_a_transfer_that_grew_for_all_is_told_with_its_time() -> None:
    grown = {(0, None): stepped(STEPS, [(0.6, 1.0), (0.4, 20.0)])}
    report = report_of(tensor_parallel(16, 4, steps=STEPS, grown=grown))
    assert report.slow == (Slowness.GREW,)
    assert {one.label for one in report.grown if one.matters} == {"tp0", "tp1", "tp2", "tp3"}
    change = report.grown[0].change
    assert change.after_ms / change.before_ms == pytest.approx(20.0, rel=0.1)
    assert change.seq == pytest.approx(2 * 0.6 * STEPS, abs=8)


def test_a_group_slower_than_its_equals_is_odd_and_of_two_nobody_is() -> None:
    report = report_of(tensor_parallel(16, 4, steps=STEPS, grown={(0, 2): 20.0}))
    assert report.slow == (Slowness.SLOW_GROUP,)
    assert {one.label for one in report.slow_groups if one.odd} == {"tp2"}
    assert report.slow_groups[0].ratio == pytest.approx(20.0, rel=0.1)
    two = report_of(tensor_parallel(8, 4, steps=STEPS, grown={(0, 1): 20.0}))
    assert two.slow == ()
    assert {(one.label, one.odd) for one in two.slow_groups} == {("tp1", False)}


def test_transfer_and_waiting_are_kept_apart() -> None:
    report = report_of(tensor_parallel(8, 4, steps=STEPS, late={1: 8.0}))
    operation = next(one for one in report.operations if one.label == "tp0" and one.key.op == "all_reduce")
    assert operation.transfer is not None
    assert operation.wait is not None
    assert operation.transfer.p50 == pytest.approx(0.05, rel=0.1)
    assert operation.wait.p50 == pytest.approx(8.0, rel=0.1)
    assert operation.bytes == 16 * 4096 * 2
    # 2 (n - 1) / n of 128 KiB in 50 us.
    assert operation.bus_gb_per_s == pytest.approx(1.5 * 131072 / 50e-6 / 1e9, rel=0.1)
    rows = {int(report.ranks.rank[row]): row for row in report.ranks.of(operation.index)}
    p50 = 1
    assert report.ranks.wait[rows[1], p50] < 0.01 < 7 < report.ranks.wait[rows[0], p50]
    assert report.ranks.behind[rows[0], p50] < 1 < 7 < report.ranks.behind[rows[1], p50]
    assert report.ranks.last[rows[1]] == operation.collectives
    assert report.ranks.waited_s[rows[1]] == pytest.approx(8.0 * STEPS / 1e3, rel=0.1)


def test_tails_need_enough_collectives() -> None:
    found = report_of(tensor_parallel(8, 4, steps=150)).operations[0].transfer
    assert found is not None
    assert found.n == 150
    assert found.p99 is not None
    assert found.p999 is None
    assert found.low <= found.p50 <= found.p99 <= found.high


def test_a_missing_dump_costs_its_rank_and_a_line() -> None:
    report = report_of(tensor_parallel(16, 4, steps=STEPS, late={5: 8.0}, absent=frozenset({6})))
    (late,) = called(report)
    assert (late.rank, late.absent) == (5, (6,))
    assert any("rank 6" in note for note in report.notes)
    assert all(6 not in one.ranks for one in report.operations)
    # What looks like transfer may be waiting for rank 6.
    world = tensor_parallel(16, 4, steps=STEPS, late={6: stepped(STEPS, [(0.5, 0.0), (0.5, 20.0)])})
    without = report_of(replace(world, absent=frozenset({6})))
    assert without.slow == ()


def test_a_late_rank_without_a_dump_convicts_none_of_its_victims() -> None:
    layouts = (("tp", ((0, 1, 2, 3), (4, 5, 6, 7))), ("dp", ((0, 4), (1, 5), (2, 6), (3, 7))))
    kinds = (Kind(0), Kind(1, "_reduce_scatter_base", (4096,), (2048,), transfer=0.08))
    world = SlowWorld(layouts, kinds, steps=STEPS, late={5: 15.0}, absent=frozenset({5}))
    report = report_of(world)
    assert report.slow == ()
    assert any("no window of rank 5 in 1 group:" in note for note in report.notes)
    assert any("nothing is known of 1 group:" in note for note in report.notes)


def test_one_dump_of_another_window_costs_its_rank_alone() -> None:
    dumps = play(tensor_parallel(16, 4, steps=STEPS))
    columns = dumps[9].columns
    short = replace(
        columns,
        **{
            name: getattr(columns, name)[:90]
            for name in (
                *("record_id", "call", "seq", "p2p_seq", "op_id", "created_ns", "started_ns", "completed_ns"),
                *("duration_ms", "state", "retired", "stack"),
            )
        },
    )
    dumps[9] = replace(dumps[9], columns=short)
    report = measure(context_of(dumps))
    whole = next(one for one in report.operations if one.label == "default_pg")
    assert whole.collectives == STEPS
    assert 9 not in whole.ranks
    assert any("another window than most of rank 9 in 2 groups" in note for note in report.notes)


def test_sizes_of_every_kind_do_not_make_thousands_of_operations() -> None:
    kinds = tuple(Kind(0, sizes=(16, width)) for width in range(1, 61))
    report = report_of(SlowWorld((("tp", ((0, 1, 2, 3),)),), kinds, steps=20))
    sizes = [one.key.size for one in report.operations]
    assert len(sizes) == 25
    assert sizes.count("various") == 1
    assert sum(one.collectives for one in report.operations) == 60 * 20


def test_collectives_come_one_by_one_if_asked_for() -> None:
    context = context_of(tensor_parallel(8, 4, steps=50, late={2: 4.0}))
    assert measure(context).collectives is None
    table = measure(context, collectives=True).collectives
    assert table is not None
    assert len(table) == 50 * (2 * 2 + 1)
    late = table.last[table.operation == 0]
    assert (late == 2).mean() == 1.0


def test_without_timing_hosts_enqueueing_is_shown_and_nobody_is_late() -> None:
    report = report_of(tensor_parallel(8, 4, steps=STEPS, late={5: 8.0}, timing=False))
    assert report.timing is Timing.HOST
    assert report.slow == ()
    assert report.operations == ()
    assert len(report.host_skew) == 16
    assert any("TORCH_NCCL_ENABLE_TIMING" in note for note in report.notes)


def test_no_dump_at_all_is_said() -> None:
    report = measure(context_of({}))
    assert report.timing is Timing.NONE
    assert report.notes == ("no dump of the Flight Recorder was readable",)
    assert report.slow == ()


def test_a_job_of_one_rank_has_nobody_to_wait_for() -> None:
    world = SlowWorld((("solo", ((0,),)),), (Kind(0),), steps=50)
    assert report_of(world).operations == ()
