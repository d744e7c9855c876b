"""Dumps of jobs whose ranks do not do the same: who left the common order, and what sort of difference it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from build_flight import (
    Call,
    Group,
    World,
    batch,
    culprits,
    instead,
    judge,
    one_group,
    parallel,
    recv,
    send,
    suspects,
    without,
)

from rankmuster.model.fault import Subkind

OTHER = {
    Subkind.SIZE_MISMATCH: Call("0", ins=((16, 4097),)),
    Subkind.DTYPE_MISMATCH: Call("0", dtype="Half"),
    Subkind.OP_MISMATCH: Call("0", "broadcast"),
}


def test_a_skipped_collective_of_64_ranks_shows_as_another_operation_under_one_number() -> None:
    found = judge(without(parallel(8, 2, 4), 49, 20))
    assert culprits(found) == [49]
    assert found.verdict.subclass is Subkind.OP_MISMATCH


def test_a_skip_whose_followers_wait_in_a_circle_names_the_rank_that_left_the_order_of_its_stage() -> None:
    world = parallel(8, 2, 4)
    places = [index for index, call in enumerate(world.programs[12]) if call.op == "_reduce_scatter_base"]
    found = judge(without(world, 12, places[1]))
    assert culprits(found) == [12]
    assert found.verdict.subclass is Subkind.ORDER_CYCLE


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_a_circle_over_two_groups_names_the_rank_that_skipped(backend: str) -> None:
    """Rank 2 skips the all-reduce of all four and waits for 3, which waits for it there."""
    groups = (Group("0", (0, 1, 2, 3), "default_pg"), Group("1", (0, 1)), Group("2", (2, 3)))
    programs = {rank: [Call("0"), Call("1" if rank < 2 else "2", ins=((16,),))] * 8 for rank in range(4)}
    found = judge(without(World(groups, programs, backend=backend, ahead=1), 2, 8))
    assert culprits(found) == [2]
    assert found.verdict.subclass is Subkind.ORDER_CYCLE


def test_two_groups_in_another_order_on_one_of_eight_ranks() -> None:
    found = judge(_swapped(8, 3, rounds=8))
    assert culprits(found) == [3]
    assert found.verdict.subclass is Subkind.ORDER_CYCLE


def test_two_ranks_in_opposite_order_are_both_suspects() -> None:
    found = judge(_swapped(2, 1, rounds=8))
    assert (culprits(found), suspects(found)) == ([], [0, 1])
    assert found.verdict.subclass is Subkind.ORDER_CYCLE


def test_of_two_ranks_in_opposite_order_the_one_that_left_its_own_habit_is_the_culprit() -> None:
    assert culprits(judge(_swapped(2, 1, rounds=60))) == [1]


def test_stages_of_a_pipeline_differ_by_design_and_are_no_minority() -> None:
    """At the start of a program there is no common past by which ranks with the same program could be told."""
    found = judge(replace(without(parallel(2, 2, 1), 3, 10), ahead={0: 30, 1: 1, 2: 8, 3: 30}))
    assert set(culprits(found)) <= {3}


@pytest.mark.parametrize("subkind", list(OTHER))
def test_the_odd_call_among_four_is_the_culprit(subkind: Subkind) -> None:
    found = judge(instead(one_group(4, breaks=dict.fromkeys(range(4), 20)), 1, 20, OTHER[subkind]))
    assert culprits(found) == [1]
    assert found.verdict.subclass is subkind
    assert found.verdict.first_divergence is not None
    assert found.verdict.first_divergence.sequence == 21


@pytest.mark.parametrize("subkind", list(OTHER))
def test_of_two_ranks_with_other_calls_none_is_convicted(subkind: Subkind) -> None:
    found = judge(instead(one_group(2, breaks=dict.fromkeys(range(2), 20)), 1, 20, OTHER[subkind]))
    assert (culprits(found), suspects(found)) == ([], [0, 1])
    assert found.verdict.subclass is subkind


def test_of_two_ranks_the_one_that_breaks_its_own_repetition_is_convicted() -> None:
    calls = [Call("0"), Call("0", ins=((7,),)), Call("0", "_all_gather_base", ((3,),), ((6,),))] * 30
    world = one_group(2, calls=calls, breaks=dict.fromkeys(range(2), 80))
    assert culprits(judge(instead(world, 1, 80, Call("0", "broadcast")))) == [1]


def test_the_rank_that_did_not_send_in_a_pipeline() -> None:
    found = judge(without(_pipeline(4), 1, 13))
    assert culprits(found) == [1]
    assert found.verdict.subclass is Subkind.MISSING_PEER


def test_the_rank_that_did_not_receive_in_a_pipeline() -> None:
    found = judge(without(_pipeline(4), 2, 12))
    assert culprits(found) == [2]
    assert found.verdict.subclass is Subkind.MISSING_PEER


@pytest.mark.parametrize("rank", [0, 1])
def test_one_end_of_a_pipeline_of_two_stops(rank: int) -> None:
    found = judge(replace(_pipeline(2), stops={rank: 6}))
    assert culprits(found) == [rank]
    assert found.verdict.subclass is Subkind.MISSING_PEER


def test_ends_of_an_exchange_with_other_sizes_are_suspects() -> None:
    group = Group("0", (0, 1), "pp")
    programs = {0: [send("0", 1)] * 12, 1: [recv("0", 0)] * 11 + [recv("0", 0, 8192)]}
    found = judge(World((group,), programs, breaks={0: 11, 1: 11}))
    assert (culprits(found), suspects(found)) == ([], [0, 1])
    assert found.verdict.subclass is Subkind.SIZE_MISMATCH


@pytest.mark.parametrize("rank", [0, 2])
def test_a_ring_of_batches_in_which_one_stops(rank: int) -> None:
    found = judge(replace(_ring(4), stops={rank: 10}))
    assert culprits(found) == [rank]


def test_a_rank_that_skips_a_batch_left_the_order_of_its_peers() -> None:
    assert culprits(judge(without(_ring(4), 2, 10))) == [2]


def test_a_coalesced_collective_with_another_child() -> None:
    call = Call("0", "ALLREDUCE_coalesced", (), parts=(Call("0", ins=((4,),)), Call("0", ins=((8,),))))
    odd = replace(call, parts=(call.parts[0], Call("0", ins=((9,),))))
    found = judge(instead(one_group(4, calls=[call, Call("0")] * 10), 1, 8, odd))
    assert culprits(found) == [1]
    assert found.verdict.subclass is Subkind.SIZE_MISMATCH


def test_an_uneven_exchange_in_which_one_rank_disagrees_with_several() -> None:
    """Its totals are right: only a comparison peer by peer shows it."""
    found = judge(_uneven(_all_to_all, wrong=2))
    assert culprits(found) == [2]
    assert found.verdict.subclass is Subkind.SIZE_MISMATCH


def test_an_uneven_gather_in_which_one_passes_another_size() -> None:
    assert culprits(judge(_uneven(_all_gather, wrong=2))) == [2]


def test_one_disagreement_between_two_ranks_of_four_suspects_these_two_alone() -> None:
    world = _uneven(_all_to_all, wrong=None)
    call = world.programs[0][5]
    assert call.outs is not None
    odd = replace(call, outs=(call.outs[0], (call.outs[1][0] + 1,), *call.outs[2:]))
    found = judge(instead(replace(world, breaks=dict.fromkeys(range(4), 5)), 0, 5, odd))
    assert (culprits(found), suspects(found)) == ([], [0, 1])


def _swapped(ranks: int, odd: int, rounds: int) -> World:
    groups = (Group("0", tuple(range(ranks)), "default_pg"), Group("1", tuple(range(ranks)), "OTHER"))
    programs = {rank: [Call("0"), Call("1")] * rounds for rank in range(ranks)}
    half = rounds // 2
    programs[odd] = [Call("0"), Call("1")] * half + [Call("1"), Call("0")] + [Call("0"), Call("1")] * (half - 1)
    return World(groups, programs)


def _pipeline(ranks: int) -> World:
    programs = {}
    for rank in range(ranks):
        step = [recv("0", rank - 1)] if rank else []
        step += [send("0", rank + 1)] if rank < ranks - 1 else []
        programs[rank] = step * 12
    return World((Group("0", tuple(range(ranks)), "pp"),), programs)


def _ring(ranks: int) -> World:
    programs = {
        rank: [batch("0", send("0", (rank + 1) % ranks), recv("0", (rank - 1) % ranks)), Call("0")] * 10
        for rank in range(ranks)
    }
    return World((Group("0", tuple(range(ranks)), "default_pg"),), programs)


def _all_to_all(rank: int, wrong: bool) -> Call:
    outs = [(10 * peer + rank + 1,) for peer in range(4)]
    if wrong:
        outs[0], outs[3] = outs[3], outs[0]
    return Call("0", "all_to_all", tuple((10 * rank + peer + 1,) for peer in range(4)), tuple(outs))


def _all_gather(rank: int, wrong: bool) -> Call:
    return Call("0", "all_gather", ((rank + 1 + wrong,),), tuple((peer + 1,) for peer in range(4)))


def _uneven(make: object, wrong: int | None) -> World:
    assert callable(make)
    programs = {
        rank: [make(rank, False)] * 5 + [make(rank, rank == wrong)] + [make(rank, False)] * 5 for rank in range(4)
    }
    stuck = dict.fromkeys(range(4), 5) if wrong is not None else {}
    return World((Group("0", (0, 1, 2, 3), "default_pg"),), programs, breaks=stuck)
