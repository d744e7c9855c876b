"""A dump that was taken while the job still moved, among its peers' of when it stood; and groups nobody tells."""

from __future__ import annotations

from typing import Any

import pytest
from build_flight import Call, Group, World, culprits, dumps, judge, manifest, one_group, parallel, suspects

from rankmuster.model.fault import FaultClass, Progress


def with_earlier(world: World, early: World, rank: int) -> dict[int, dict[str, Any]]:
    """The dumps of `world`, but of `rank` the one that `early` gives."""
    tops = dumps(world)
    tops[rank] = dumps(early)[rank]
    return tops


@pytest.mark.parametrize("early", [0, 1, 6])
def test_motion_in_an_earlier_dump_says_nothing_of_a_later_stop(early: int) -> None:
    tops = with_earlier(one_group(8, rounds=200, stops={3: 150}), one_group(8, rounds=200, look=0.8), early)
    found = judge(tops)
    assert culprits(found) == [3]
    assert found.verdict.progress is Progress.STOPPED


def test_it_is_no_sign_that_the_rank_of_the_earlier_dump_is_behind() -> None:
    tops = with_earlier(
        one_group(8, rounds=200, breaks=dict.fromkeys(range(8), 150)), one_group(8, rounds=200, look=0.8), 5
    )
    found = judge(tops)
    assert culprits(found) == []
    assert suspects(found) == []


def test_a_moving_job_looked_at_one_rank_after_another_is_healthy() -> None:
    looks = {rank: 0.8 + 0.05 * rank for rank in range(8)}
    found = judge(one_group(8, rounds=200, looks=looks))
    assert found.verdict.class_ is FaultClass.HEALTHY


def test_where_the_earlier_dumps_time_is_noted_too() -> None:
    tops = with_earlier(parallel(4, 2, 2, stops={9: 30}), parallel(4, 2, 2, look=0.2), 2)
    noted = {f"flight/nccl_trace_rank_{rank}": 1_795_980_900.0 for rank in tops}
    noted["flight/nccl_trace_rank_2"] = 1_795_980_000.2
    assert culprits(judge(tops, manifest(noted))) == [9]


def gloo(groups: tuple[Group, ...], program: dict[int, list[Call]], **fields: Any) -> dict[int, dict[str, Any]]:
    """Dumps as gloo leaves them: no table of groups that could be used."""
    tops = dumps(World(groups, program, backend="gloo", **fields))
    for top in tops.values():
        top["pg_config"] = {"": {"name": "", "desc": "", "ranks": "[]"}}
    return tops


def test_a_rank_that_is_alone_in_a_group_as_far_as_known_has_no_stalled_gpu() -> None:
    groups = (Group("0", (0, 1, 2, 3), "default_pg"), *(Group(f"tp{n}", (2 * n, 2 * n + 1), "tp") for n in range(2)))
    program = {rank: [Call("0"), Call(f"tp{rank // 2}")] * 30 for rank in range(4)}
    found = judge(gloo(groups, program, stops={3: 41}, absent=frozenset({3})))
    assert culprits(found) == []


def test_who_passes_what_to_whom_is_not_told_among_members_that_are_inferred() -> None:
    """The fourth left no dump: lists of four among three known members, and totals without its part."""
    sizes = [[1, 2, 3, 4], [5, 6, 7, 8], [9, 1, 2, 3], [4, 5, 6, 7]]

    def exchange(rank: int) -> Call:
        return Call("ep", "all_to_all", tuple((n,) for n in sizes[rank]), tuple((row[rank],) for row in sizes))

    def single(rank: int) -> Call:
        return Call("ep", "all_to_allv", ((sum(sizes[rank]),),), ((sum(row[rank] for row in sizes),),))

    groups = (Group("ep", (0, 1, 2, 3), "ep"),)
    program = {rank: [exchange(rank), single(rank)] * 20 for rank in range(4)}
    found = judge(gloo(groups, program, stops={3: 30}, absent=frozenset({3})))
    assert culprits(found) == suspects(found) == []


@pytest.mark.parametrize("backend", ["gloo", "nccl2"])
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_without_a_time_a_dump_a_moment_older_than_its_peers_is_no_stall(backend: str, ranks: int) -> None:
    """Backends without events write no dump by themselves and have no sign of motion."""
    found = judge(one_group(ranks, rounds=1000, backend=backend, look=8.0, looks={1: 7.96}))
    assert culprits(found) == suspects(found) == []
    assert found.verdict.class_ in (FaultClass.HEALTHY, FaultClass.INCONCLUSIVE)


def _right_before(early: int) -> dict[int, dict[str, Any]]:
    """Taken right before the stop: what the early dump had enqueued last, its peers never came to finish."""
    stopped = one_group(8, rounds=400, stops={3: 150}, ahead=100)
    return with_earlier(stopped, one_group(8, rounds=400, look=1.505, ahead=100), early)


def test_where_nothing_tells_which_dump_came_first_nobody_is_called_healthy_or_convicted() -> None:
    found = judge(_right_before(5))
    assert culprits(found) == suspects(found) == []
    assert found.verdict.class_ is FaultClass.INCONCLUSIVE
    assert any("no look time tells which were taken later" in one.statement for one in found.verdict.findings)


def test_where_the_looks_are_noted_the_later_ones_count() -> None:
    tops = _right_before(5)
    noted = {f"flight/nccl_trace_rank_{rank}": 1_795_980_900.0 for rank in tops}
    noted["flight/nccl_trace_rank_5"] = 1_795_980_001.2
    assert culprits(judge(tops, manifest(noted))) == [3]
