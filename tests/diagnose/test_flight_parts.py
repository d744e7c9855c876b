"""Batches of which a dump holds a part: cut by the ring buffer, or without the terminator that has finished."""

from __future__ import annotations

import pytest
from build_flight import Call, Group, World, as_pickle, batch, culprits, dumps, judge, recv, send, suspects

from rankmuster.diagnose.run import diagnose
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import gather
from rankmuster.model.fault import FaultClass

PARTS = tuple(Call("dp", "_reduce_scatter_base", ((size,),), ((size // 4,),)) for size in (4096, 1024))
COALESCED = Call("dp", "reduce_scatter_tensor_coalesced", (), parts=PARTS)
"""Two parts and a terminator under one number."""


def world(ranks: int = 4, rounds: int = 60, **fields: object) -> World:
    groups = (Group("dp", tuple(range(ranks)), "DATA_PARALLEL_GROUP"),)
    program = [COALESCED, Call("dp")] * rounds
    return World(groups, dict.fromkeys(range(ranks), program), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("ring", [40, 41, 42, 43])
@pytest.mark.parametrize("more", [1, 2, 3])
def test_a_batch_that_the_ring_has_cut_differs_from_nothing(ring: int, more: int) -> None:
    tops = dumps(world(look=0.5, ring=ring))
    tops[1]["entries"] = tops[1]["entries"][more:]
    found = judge(tops)
    assert suspects(found) == culprits(found) == []
    assert found.verdict.class_ is not FaultClass.COLLECTIVE_DESYNC


@pytest.mark.parametrize("ring", [40, 41, 42, 43])
def test_what_the_ring_has_cut_hides_no_culprit(ring: int) -> None:
    tops = dumps(world(stops={2: 80}, ring=ring))
    tops[1]["entries"] = tops[1]["entries"][1:]
    assert culprits(judge(tops)) == [2]


def test_another_size_of_a_whole_batch_is_still_told() -> None:
    made = world(ring=60)
    odd = Call("dp", "reduce_scatter_tensor_coalesced", (), parts=(PARTS[1], PARTS[0]))
    program = list(made.programs[3])
    program[100] = odd
    changed = World(made.groups, {**made.programs, 3: program}, ring=60)
    assert culprits(judge(changed)) == [3]


def test_parts_of_finished_batches_are_not_outstanding_in_dumps_of_active_operations() -> None:
    found = judge(world(look=0.7, only_active=True))
    assert suspects(found) == culprits(found) == []
    assert culprits(judge(world(stops={1: 61}, only_active=True))) == [1]


def test_messages_that_the_status_calls_over_are_not_outstanding_in_dumps_of_active_operations() -> None:
    """A pipeline's group does nothing else, so that its counter is theirs; a batch of one looks like a single one."""
    groups = (Group("tp", (0, 1, 2, 3), "TENSOR"), Group("pp", (0, 1), "PIPELINE"))
    sending = [batch("pp", send("pp", 1)), Call("tp"), Call("tp")] * 30
    receiving = [batch("pp", recv("pp", 0)), Call("tp"), Call("tp")] * 30
    other = [Call("tp"), Call("tp")] * 30
    made = World(groups, {0: sending, 1: receiving, 2: other, 3: other}, stops={3: 41}, only_active=True)
    assert culprits(judge(made)) == [3]


def test_a_few_records_with_gaps_in_their_numbers_were_not_cut_by_a_ring() -> None:
    """A graph capture takes numbers, so that the last completed one lies further back than the first active."""
    tops = dumps(world(stops={0: 90}, only_active=True))
    for top in tops.values():
        for entry in top["entries"]:
            entry["collective_seq_id"] += 5
        for status in top["pg_status"].values():
            status["last_enqueued_collective"] += 5
    assert culprits(judge(tops)) == [0]


@pytest.mark.parametrize("less", [1, 2])
def test_a_batch_at_the_end_of_a_damaged_file_differs_from_nothing_and_stands_nowhere(less: int) -> None:
    tops = dumps(world(rounds=21))
    whole = {rank: Blob(f"flight/nccl_trace_rank_{rank}", as_pickle(top)) for rank, top in tops.items()}
    top = tops[1]
    while not top["entries"][-1]["profiling_name"].endswith("_coalesced"):
        top["entries"].pop()
    top["entries"] = top["entries"][:-less]
    cut = as_pickle(top)
    found = diagnose(gather([*(blob for rank, blob in whole.items() if rank != 1), Blob(whole[1].path, cut[:-2])]))
    assert culprits(found) == suspects(found) == []
