"""Dumps of jobs in which a rank stops calling or has gone: that rank is named, however many groups are blocked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from build_flight import (
    START,
    Call,
    Group,
    World,
    blobs,
    culprits,
    dumps,
    judge,
    manifest,
    one_group,
    parallel,
    suspects,
)

from rankmuster.diagnose.run import diagnose
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import gather
from rankmuster.model.fault import Subkind

SKEW = {rank: 3 + (rank * 7) % 25 for rank in range(64)}
"""How far each host runs ahead of its GPU: many groups are blocked at many numbers."""


@pytest.mark.parametrize("rank", [0, 5, 49, 60])
def test_a_rank_that_stops_in_64_is_the_one_culprit(rank: int) -> None:
    found = judge(parallel(8, 2, 4, stops={rank: 20}))
    assert culprits(found) == [rank]
    assert found.verdict.subclass is Subkind.MISSING_ENTER


@pytest.mark.parametrize("timing", [False, True])
@pytest.mark.parametrize("rank", [5, 60])
def test_launch_ahead_that_blocks_many_groups_hides_nobody(rank: int, timing: bool) -> None:
    assert culprits(judge(parallel(8, 2, 4, stops={rank: 22}, ahead=SKEW, timing=timing))) == [rank]


@pytest.mark.parametrize("backend", ["nccl", "gloo", "nccl2"])
@pytest.mark.parametrize("ranks", [2, 4, 16])
def test_one_group_and_every_backend(ranks: int, backend: str) -> None:
    found = judge(one_group(ranks, stops={1: 20}, backend=backend))
    assert culprits(found) == [1]
    divergence = found.verdict.first_divergence
    assert divergence is not None
    assert (divergence.sequence, divergence.op, divergence.missing) == (21, "all_reduce", (1,))


def test_two_ranks_that_stop_independently_are_both_named() -> None:
    assert culprits(judge(parallel(2, 2, 4, stops={9: 20, 14: 20}))) == [9, 14]


def test_a_rank_that_only_waits_for_the_first_one_is_a_victim_though_its_host_stops_too() -> None:
    world = one_group(4, stops={1: 20, 2: 25})
    assert culprits(judge(world)) == [1]


def test_numbers_of_different_groups_are_not_compared_to_find_the_first_divergence() -> None:
    """The rank misses #3 of a busy group before #2 of a quiet one; the lower number is not the earlier one."""
    groups = (Group("0", (0, 1), "quiet"), Group("1", (0, 1), "busy"))
    program = [Call("0"), *[Call("1")] * 9, Call("0"), Call("1")]
    found = judge(World(groups, {0: program, 1: program}, stops={1: 8}, ahead=20))
    assert found.verdict.first_divergence is not None
    assert (found.verdict.first_divergence.group, found.verdict.first_divergence.sequence) == ("busy", 8)


def test_a_rank_without_dump_for_which_all_wait_is_unresponsive() -> None:
    """It is suspected alone: an innocent whose dump is lost, in a group whose path is lost, leaves the same dumps."""
    found = judge(parallel(8, 2, 4, stops={12: 20}, absent=frozenset({12})))
    assert (culprits(found), suspects(found)) == ([], [12])
    assert found.verdict.subclass is Subkind.UNRESPONSIVE


def test_of_a_large_job_the_one_lost_dump_is_hardly_by_chance_that_of_the_group_that_stands() -> None:
    found = judge(parallel(2, 1, 24, stops={13: 20}, absent=frozenset({13})))
    assert culprits(found) == [13]
    assert found.verdict.subclass is Subkind.UNRESPONSIVE


def test_an_innocent_rank_whose_dump_is_lost_is_no_culprit_where_nobody_leaves() -> None:
    found = judge(one_group(8, breaks=dict.fromkeys(range(8), 20), absent=frozenset({3})))
    assert culprits(found) == []


def test_a_rank_without_dump_has_entered_what_its_peers_have_finished() -> None:
    found = judge(one_group(8, breaks={5: 20}, absent=frozenset({3})))
    assert culprits(found) == [5]
    assert found.verdict.subclass is Subkind.GPU_STALLED


def test_a_pipeline_held_through_others_counts_as_waiting_for_the_rank_without_dump() -> None:
    world = parallel(2, 2, 1, stops={1: 16}, absent=frozenset({1}), status=False, version="2.1", timeout=False)
    found = judge(world)
    assert (culprits(found), suspects(found)) == ([], [1])


@pytest.mark.parametrize("culprit", [5, 40])
def test_a_rank_whose_dump_got_lost_is_not_accused_where_another_explains_the_wait(culprit: int) -> None:
    found = judge(parallel(8, 2, 4, stops={culprit: 20}, absent=frozenset({12})))
    assert culprits(found) == [culprit]


def test_a_dump_of_an_earlier_run_is_set_aside_and_its_rank_is_the_one_that_left_none() -> None:
    tops = dumps(one_group(4, stops={3: 20}))
    tops[3] = _days_earlier(dumps(one_group(4, 90))[3])
    found = judge(tops)
    assert (culprits(found), suspects(found)) == ([], [3])


@pytest.mark.parametrize("rounds", [10, 90])
def test_an_innocent_rank_with_a_dump_of_an_earlier_run_is_not_accused(rounds: int) -> None:
    tops = dumps(one_group(4, stops={1: 20}))
    tops[3] = _days_earlier(dumps(one_group(4, rounds))[3])
    assert culprits(judge(tops)) == [1]


def test_an_empty_dump_of_a_recorder_that_was_off_is_not_a_rank_that_did_not_come() -> None:
    tops = dumps(one_group(4, stops={2: 20}))
    tops[1] = {"version": "2.10", "pg_config": {}, "pg_status": {}, "entries": []}
    assert culprits(judge(tops)) == [2]
    tops = dumps(one_group(4, 20, breaks=dict.fromkeys(range(4), 19)))
    tops[1] = {"version": "2.10", "pg_config": {}, "pg_status": {}, "entries": []}
    found = judge(tops)
    assert culprits(found) == []
    assert found.verdict.subclass is not Subkind.UNRESPONSIVE


def test_counters_place_a_rank_whose_entries_were_left_out() -> None:
    tops = dumps(one_group(4, stops={2: 20}))
    tops[1]["entries"] = []
    assert culprits(judge(tops)) == [2]


def test_a_group_whose_entries_the_ring_overwrote_is_unknown_and_not_missed() -> None:
    """Rank 1's buffer is full of its busy group; of the other group, which it did enter, no entry is left."""
    groups = (Group("0", (0, 1, 2), "default_pg"), Group("1", (1, 2), "busy"))
    slow, busy = Call("0"), Call("1")
    programs = {0: [slow] * 3, 1: [slow, slow, *[busy] * 150], 2: [slow, slow, *[busy] * 10, slow, *[busy] * 140]}
    world = World(groups, programs, ring=60, status=False, version="2.1", timeout=False, stops={0: 2})
    assert 1 not in culprits(judge(world))


def test_a_buffer_of_outstanding_operations_alone_does_not_say_where_a_rank_stands() -> None:
    world = one_group(3, 400, ahead={0: 8, 1: 8, 2: 300}, ring=120, breaks={0: 20, 1: 20, 2: 20})
    found = judge(world)
    assert culprits(found) == []
    assert any("overwritten" in finding.statement for finding in found.verdict.findings)
    assert culprits(judge(one_group(3, 400, ahead={0: 8, 1: 8, 2: 300}, ring=120, stops={1: 20}))) == [1]


def test_one_dump_alone_accuses_nobody() -> None:
    found = judge({0: dumps(one_group(4, stops={1: 20}))[0]})
    assert culprits(found) == []
    assert suspects(found) == []


def test_dumps_without_an_entry_say_nothing() -> None:
    found = judge({rank: {**top, "entries": [], "pg_status": {}} for rank, top in dumps(one_group(4)).items()})
    assert culprits(found) == []


def test_one_form_for_pickle_and_json() -> None:
    tops = dumps(parallel(2, 2, 2, stops={3: 20}, timing=True))
    mixed = diagnose(gather(blobs(tops, json_ranks=(1, 3, 6))))
    assert culprits(mixed) == [3]
    assert mixed.verdict.first_divergence == judge(tops).verdict.first_divergence


def test_numbers_that_start_anew_after_a_reset_do_not_accuse_the_ranks_that_restarted() -> None:
    old, new = dumps(one_group(4, stops={1: 20}, seq_base=1000)), dumps(one_group(4, stops={1: 20}))
    found = judge({0: old[0], 1: old[1], 2: new[2], 3: new[3]})
    assert set(culprits(found)) <= {1}


def _days_earlier(top: dict[str, Any]) -> dict[str, Any]:
    assert START > 86_400
    for entry in top["entries"]:
        for key in ("time_created_ns", "time_discovered_started_ns", "time_discovered_completed_ns"):
            if entry[key]:
                entry[key] -= 86_400 * 10**9
    return top


def test_a_rank_that_a_collector_knew_of_and_that_gave_no_dump_is_convicted() -> None:
    """Its process is listed and the others' dumps were taken in one look: none was lost on its way."""
    tops = dumps(one_group(3, stops={1: 20}, absent=frozenset({1})))
    noted = manifest({f"flight/nccl_trace_rank_{rank}": START + 900.0 for rank in tops})
    processes = [{"rank": rank, "pid": 100 + rank, "exit_code": None} for rank in range(3)]
    told = {"instance": "llm-0", "world_size": 3, "last_look": START + 901.0, "processes": processes}
    found = judge(tops, noted, Blob("instance.json", json.dumps(told).encode()))
    assert culprits(found) == [1]
    assert found.verdict.subclass is Subkind.UNRESPONSIVE
    assert suspects(judge(tops, noted)) == [1]
