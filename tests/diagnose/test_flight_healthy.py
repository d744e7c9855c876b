"""Dumps of jobs in which nothing is wrong: nobody may be accused, whatever the moment at which they were taken."""

from __future__ import annotations

import pytest
from build_flight import (
    START,
    Call,
    Group,
    World,
    batch,
    blobs,
    culprits,
    dumps,
    judge,
    manifest,
    one_group,
    parallel,
    recv,
    send,
    suspects,
)

from rankmuster.diagnose.run import Diagnosis
from rankmuster.model.fault import FaultClass

COALESCED = Call("0", "ALLREDUCE_coalesced", (), parts=(Call("0", ins=((4,),)), Call("0", ins=((8,),))))


def nobody(found: Diagnosis) -> bool:
    return not culprits(found) and not suspects(found)


@pytest.mark.parametrize("look", [0.1, 0.25, 0.4, 0.53])
def test_a_snapshot_of_64_moving_ranks_is_of_a_job_in_motion(look: float) -> None:
    found = judge(parallel(8, 2, 4, look=look, timing=True))
    assert nobody(found)
    assert found.verdict.class_ is FaultClass.HEALTHY


def test_snapshots_taken_one_after_the_other() -> None:
    assert nobody(judge(parallel(2, 2, 4, looks={rank: 0.5 + 0.03 * (rank % 5) for rank in range(16)})))


def test_a_young_tail_at_a_known_time_accuses_nobody() -> None:
    world = parallel(2, 2, 4, look=0.4, sweep=0.0)
    looks = manifest({f"flight/nccl_trace_rank_{rank}": START + 0.4 for rank in world.programs})
    assert nobody(judge(world, looks))


def test_everything_finished() -> None:
    assert nobody(judge(parallel(8, 2, 4)))


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_dump_that_is_older_than_its_peers_is_not_behind(ranks: int) -> None:
    looks = {rank: 0.2 if rank == 1 else 0.35 for rank in range(ranks)}
    assert nobody(judge(one_group(ranks, looks=looks, sweep=0.0)))


@pytest.mark.parametrize("look", [None, 0.1, 0.205, 0.31])
@pytest.mark.parametrize("kind", ["ring", "pipeline", "coalesced"])
def test_batches_pipelines_and_coalesced_groups(kind: str, look: float | None) -> None:
    ranks = 4
    programs = {}
    for rank in range(ranks):
        if kind == "ring":
            step = [batch("0", send("0", (rank + 1) % ranks), recv("0", (rank - 1) % ranks)), Call("0")]
        elif kind == "pipeline":
            step = [*([recv("0", rank - 1)] if rank else []), *([send("0", rank + 1)] if rank < 3 else []), Call("0")]
        else:
            step = [COALESCED, Call("0")]
        programs[rank] = step * 12
    assert nobody(judge(World((Group("0", (0, 1, 2, 3), "default_pg"),), programs, look=look)))


def test_uneven_lists_are_legal() -> None:
    exchange = {
        rank: Call(
            "0",
            "all_to_all",
            tuple((10 * rank + peer + 1,) for peer in range(4)),
            tuple((10 * peer + rank + 1,) for peer in range(4)),
        )
        for rank in range(4)
    }
    gather = {
        rank: Call("0", "all_gather", ((rank + 1,),), tuple((peer + 1,) for peer in range(4))) for rank in range(4)
    }
    programs = {rank: [exchange[rank], gather[rank]] * 10 for rank in range(4)}
    assert nobody(judge(World((Group("0", (0, 1, 2, 3), "default_pg"),), programs)))


@pytest.mark.parametrize("backend", ["gloo", "nccl2"])
def test_backends_without_events_write_no_dump_by_themselves_so_theirs_may_be_of_any_moment(backend: str) -> None:
    found = judge(one_group(4, look=0.305, backend=backend))
    assert nobody(found)
    assert found.verdict.class_ is not FaultClass.TRANSPORT_STALL


def test_numbers_that_graph_capture_leaves_out_and_entries_that_it_leaves_behind() -> None:
    """Captured collectives take numbers and leave no entry; captured sends leave one that never retires."""
    tops = dumps(one_group(4, 40))
    for top in tops.values():
        entries = top["entries"]
        zombie = {**entries[9], "state": "scheduled", "retired": False, "time_discovered_completed_ns": None}
        top["entries"] = [*entries[:9], zombie, *entries[14:]]
    assert nobody(judge(tops))


def test_one_file_per_rank_under_any_name() -> None:
    assert len(blobs(dumps(one_group(4)))) == 4
