"""Who does not answer RAS: frozen, gone, cut off, or merely taken down afterwards."""

from __future__ import annotations

import pytest
from build_evidence import (
    IDLE,
    MOVE,
    SPIN,
    T0,
    Comm,
    culprits,
    even,
    flat_pages,
    instance,
    log,
    ras_error,
    ras_json,
    ras_text,
    samples,
    stamped,
    steady_pages,
    verdict_of,
    watchdog,
)

from rankmuster.evidence.blob import Blob

ALL = (0, 1, 2, 3)
HOSTS = ["10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2"]
STALLED = [*steady_pages(T0, 10), *flat_pages(T0 + 11, 40, 1500)]


def gpus(world: int, idle: int) -> Blob:
    ranks = range(world)
    return samples([(10, dict.fromkeys(ranks, MOVE)), (40, {**dict.fromkeys(ranks, SPIN), idle: IDLE})])


def replies(missing: tuple[int, ...], *times: float, node: str = "0", hosts: list[str] | None = HOSTS) -> list[Blob]:
    return [ras_json(T0 + t, [Comm(ALL, even(ALL, 1000), missing=missing)], node=node, hosts=hosts) for t in times]


@pytest.mark.parametrize("world", [2, 4])
def test_a_frozen_rank_that_one_reply_names_between_unanswered_polls(world: int) -> None:
    members = tuple(range(world))
    polls = [ras_text(T0 + 3, Comm(members, even(members, 600))), ras_error(T0 + 15), ras_error(T0 + 28)]
    polls += [ras_text(T0 + 16, Comm(members, even(members, 1000), missing=(1,))), ras_error(T0 + 40)]
    verdict = verdict_of([instance(world), *STALLED, *polls, gpus(world, 1)])
    assert verdict.subclass is not None
    assert (verdict.subclass.value, culprits(verdict)) == ("unresponsive", [1])


@pytest.mark.parametrize("world", [2, 4])
def test_ras_that_never_answers_again_beside_one_idle_gpu(world: int) -> None:
    """A frozen process holds up RAS of the whole job; a graph that stops leaves RAS at RUNNING/OK."""
    members = tuple(range(world))
    before = ras_text(T0 + 3, Comm(members, even(members, 600)))
    silent = [ras_error(T0 + t) for t in (25, 37, 49)]
    frozen = verdict_of([instance(world), *STALLED, before, *silent, gpus(world, 1)])
    assert frozen.subclass is not None
    assert (frozen.class_.value, frozen.subclass.value) == ("process_or_device_lost", "unresponsive")
    assert culprits(frozen) == [1]
    answering = [ras_json(T0 + t, [Comm(members, even(members, 600))]) for t in (3, 25, 37, 49)]
    graph = verdict_of([instance(world), *STALLED, *answering, gpus(world, 1)])
    assert (graph.class_.value, culprits(graph)) == ("collective_desync", [1])


def test_a_rank_that_is_missed_but_writes_on_is_not_unresponsive() -> None:
    alive = log("rank1.log", *[f"[rank1]:[W{stamped(T0 + t)} x.cpp:1] alive" for t in (5, 20, 45)])
    assert culprits(verdict_of([instance(), *STALLED, *replies((1,), 15, 25, 35, hosts=None), alive])) == []


def test_a_rank_that_answers_again_was_a_moment_of_the_network() -> None:
    polls = [ras_json(T0 + t, [Comm(ALL, even(ALL, 560 + 10 * t), missing=(2,))]) for t in (3, 6)]
    polls.append(ras_json(T0 + 10, [Comm(ALL, even(ALL, 680))]))
    assert verdict_of([instance(), *polls]).class_.value in ("healthy", "inconclusive")


def test_a_rank_that_answered_while_work_had_stopped_did_not_stop_it() -> None:
    """Rank 0 answered at 14 and 18 s, long after the stop at 10 s, and was taken down later."""
    polls = [ras_json(T0 + t, [Comm((0, 1), even((0, 1), 1000))]) for t in (14, 18)]
    polls += [ras_json(T0 + t, [Comm((0, 1), even((0, 1), 1000), missing=(0,))]) for t in (30, 35)]
    assert culprits(verdict_of([instance(2), *STALLED, *polls])) == []


def test_a_process_that_answered_without_the_communicator_is_not_unresponsive() -> None:
    polls = [ras_json(T0 + t, [Comm(ALL, even(ALL, 1000), nocomm=(2,))]) for t in (15, 25, 35)]
    verdict = verdict_of([instance(), *STALLED, *polls])
    assert verdict.subclass is None or verdict.subclass.value != "unresponsive"


@pytest.mark.parametrize("later", [4, 200], ids=["at once", "minutes later"])
def test_two_sides_that_miss_each_other_have_lost_the_path(later: int) -> None:
    polls = [*replies((2, 3), 15, 25, node="a"), *replies((0, 1), 15 + later, 25 + later, node="b")]
    verdict = verdict_of([instance(4, None, HOSTS, last_look=T0 + 300), *STALLED, *polls])
    assert (verdict.class_.value, culprits(verdict)) == ("transport_stall", [])
    assert set(verdict.suspect_hosts) == set(HOSTS)


def test_a_silent_host_seen_from_one_side_only() -> None:
    polls = replies((2, 3), 15, 25, 35)
    alone = verdict_of([instance(4, None, HOSTS), *STALLED, *polls])
    assert culprits(alone) == []
    assert alone.confidence is None or alone.confidence.value == "possible"
    logs = [log(f"rank{rank}.log", watchdog(rank, T0 + 21)) for rank in (0, 2, 3)]
    wrote = verdict_of([instance(4, None, HOSTS), *STALLED, *polls, *logs])
    assert wrote.class_.value == "transport_stall", "its ranks wrote logs after RAS had missed them"


def test_everybody_missing_after_the_aborts_is_an_after_shock() -> None:
    logs = [log(f"rank{rank}.log", watchdog(rank, T0 + 21)) for rank in ALL]
    exits = dict.fromkeys((0, 1, 3), (-6, None))
    verdict = verdict_of([instance(4, exits), *STALLED, *replies((0, 1, 3), 30, 35, hosts=None), *logs])
    assert culprits(verdict) == []


def test_replies_before_any_communicator_say_nothing() -> None:
    verdict = verdict_of([instance(), *[ras_json(T0 + t, []) for t in (5, 15)]])
    assert verdict.class_.value in ("blind", "inconclusive")
    ras = next(row for row in verdict.planes if row.plane.value == "ras")
    assert ras.state.value == "blind"
