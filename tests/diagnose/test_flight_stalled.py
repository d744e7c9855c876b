"""Dumps in which every rank came and one GPU stands: the one that alone has not started, or alone has not finished."""

from __future__ import annotations

import pytest
from build_flight import Call, Group, World, batch, culprits, dumps, judge, one_group, parallel, recv, send, suspects

from rankmuster.model.fault import FaultClass, Subkind


@pytest.mark.parametrize("ranks", [2, 4, 16])
def test_the_one_that_has_not_started_what_its_peers_wait_in(ranks: int) -> None:
    found = judge(one_group(ranks, stalls={1: 20}, timing=True))
    assert culprits(found) == [1]
    assert found.verdict.subclass is Subkind.GPU_STALLED


@pytest.mark.parametrize("ranks", [2, 4, 16])
def test_without_timing_nothing_separates_a_busy_gpu_from_the_path(ranks: int) -> None:
    found = judge(one_group(ranks, stalls={1: 20}))
    assert culprits(found) == []
    assert found.verdict.class_ is FaultClass.TRANSPORT_STALL


@pytest.mark.parametrize("ranks", [2, 4, 16])
def test_the_one_that_has_not_finished_what_its_peers_have(ranks: int) -> None:
    found = judge(one_group(ranks, breaks={1: 20}))
    assert culprits(found) == [1]
    assert found.verdict.subclass is Subkind.GPU_STALLED


@pytest.mark.parametrize("only_active", [False, True])
def test_two_gpus_that_fail_apart_are_both_named(only_active: bool) -> None:
    """As in NVIDIA's resiliency extension's traces of injected GPU errors: 12 and 14 of 16, active entries alone."""
    found = judge(parallel(2, 2, 4, breaks={12: 20, 14: 20}, only_active=only_active))
    assert culprits(found) == [12, 14]
    assert found.verdict.subclass is Subkind.GPU_STALLED


def test_two_busy_gpus_are_both_named() -> None:
    assert culprits(judge(parallel(2, 2, 4, stalls={12: 20, 14: 20}, timing=True))) == [12, 14]


def test_a_rank_one_operation_behind_for_which_nobody_waits_is_healthy() -> None:
    tops = dumps(one_group(4, 30))
    last = tops[1]["entries"][-1]
    last.update(state="scheduled", retired=False, time_discovered_completed_ns=None)
    tops[1]["pg_status"]["0"]["last_completed_collective"] -= 1
    found = judge(tops)
    assert culprits(found) == []
    assert found.verdict.subclass is None


def test_a_slow_job_whose_one_dump_may_be_a_moment_older_has_a_suspect_and_no_culprit() -> None:
    """Steps of a second leave nothing unretired between two of them: a stall and two looks look alike."""
    found = judge(one_group(2, 30, ahead=2, step=1.0, looks={0: 21.5, 1: 20.0}))
    assert culprits(found) == []


def test_a_busy_gpu_in_a_ring_of_batched_sends() -> None:
    found = judge(_ring(4, stalls={2: 10}, timing=True))
    assert culprits(found) == [2]
    assert found.verdict.subclass is Subkind.GPU_STALLED


def test_a_ring_in_which_all_have_met_and_none_leaves_is_the_path() -> None:
    found = judge(_ring(4, breaks=dict.fromkeys(range(4), 10), timing=True))
    assert culprits(found) == []
    assert found.verdict.class_ is FaultClass.TRANSPORT_STALL


def test_a_receive_whose_sender_has_long_gone_on_is_not_a_missing_send() -> None:
    group = Group("0", (0, 1), "pp")
    programs = {0: [send("0", 1), Call("0")] * 20, 1: [recv("0", 0), Call("0")] * 20}
    found = judge(World((group,), programs, breaks={1: 10}))
    assert found.verdict.subclass is Subkind.GPU_STALLED
    assert culprits(found) + suspects(found) == [1]


def test_a_gpu_that_stands_in_a_group_of_its_own_is_the_culprit() -> None:
    groups = (Group("0", (0, 1), "default_pg"), Group("1", (0,), "tp"), Group("2", (1,), "tp"))
    programs = {0: [Call("0"), Call("1")] * 20, 1: [Call("0"), Call("2")] * 20}
    assert culprits(judge(World(groups, programs, stalls={1: 11}))) == [1]


def _ring(ranks: int, **fields: object) -> World:
    group = Group("0", tuple(range(ranks)), "default_pg")
    programs = {
        rank: [batch("0", send("0", (rank + 1) % ranks), recv("0", (rank - 1) % ranks)), Call("0")] * 10
        for rank in range(ranks)
    }
    return World((group,), programs, **fields)  # type: ignore[arg-type]


def test_a_missing_dump_does_not_hide_the_gpu_that_has_not_started() -> None:
    tops = dumps(one_group(4, stalls={2: 20}, timing=True))
    del tops[0]
    found = judge(tops)
    assert culprits(found) == [2]
    assert found.verdict.subclass is Subkind.GPU_STALLED


def test_of_many_groups_that_stand_as_a_whole_the_first_are_told_and_the_others_counted() -> None:
    groups = tuple(Group(f"tp{index}", (2 * index, 2 * index + 1), "TP") for index in range(12))
    programs = {rank: [Call(f"tp{rank // 2}")] * 6 for rank in range(24)}
    told = judge(World(groups, programs, breaks=dict.fromkeys(range(24), 5)))
    whole = [one.statement for one in told.verdict.findings if "members entered" in one.statement]
    assert len(whole) == 9
    assert whole[-1].startswith("4 more groups stand alike")
