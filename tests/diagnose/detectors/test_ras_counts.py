"""Launched counts over two looks: who is behind, and when a difference says nothing."""

from __future__ import annotations

import pytest
from build_evidence import (
    IDLE,
    T0,
    Comm,
    culprits,
    even,
    flat_pages,
    instance,
    log,
    ras_json,
    ras_text,
    said,
    samples,
    steady_pages,
    verdict_of,
    watchdog,
)

from rankmuster.evidence.blob import Blob

ALL = (0, 1, 2, 3)
STALLED = [*steady_pages(T0, 10), *flat_pages(T0 + 11, 40, 1500)]
TIMES = (15, 25, 35)


@pytest.mark.parametrize("form", [ras_json, ras_text], ids=["json", "text"])
@pytest.mark.parametrize(("world", "behind"), [(2, 0), (2, 1), (4, 2)])
def test_the_rank_that_launched_fewer(form: object, world: int, behind: int) -> None:
    members = tuple(range(world))
    comm = Comm(members, even(members, 1000, **{f"r{behind}": 996}))
    polls = [ras_json(T0 + t, [comm]) if form is ras_json else ras_text(T0 + t, comm) for t in TIMES]
    verdict = verdict_of([instance(world), *STALLED, *polls])
    assert (verdict.class_.value, culprits(verdict)) == ("collective_desync", [behind])


def test_two_against_two_convict_nobody() -> None:
    polls = [ras_json(T0 + t, [Comm(ALL, even(ALL, 1000, r0=996, r1=996))]) for t in TIMES]
    verdict = verdict_of([instance(), *STALLED, *polls])
    assert (verdict.class_.value, culprits(verdict)) == ("collective_desync", [])


def test_a_rank_behind_in_one_communicator_and_ahead_in_another_is_a_victim() -> None:
    comms = [
        Comm((0, 1), even((0, 1), 1000), hash=11),
        Comm((2, 3), even((2, 3), 990, r3=980), hash=22),
        Comm((0, 2), {"AllReduce": {0: 100, 2: 99}}, hash=33),
        Comm((1, 3), {"AllReduce": {1: 100, 3: 99}}, hash=44),
    ]
    verdict = verdict_of([instance(), *STALLED, *[ras_json(T0 + t, comms) for t in TIMES]])
    assert culprits(verdict) == [3]


@pytest.mark.parametrize("instance_known", [True, False])
def test_replies_after_the_victims_were_taken_down_do_not_hide_it(instance_known: bool) -> None:
    """Rank 1 stands in a loop of its own; rank 0's watchdog ends rank 0, and the last replies miss rank 0."""
    polls = [ras_json(T0 + t, [Comm((0, 1), even((0, 1), 1004, r1=1000))]) for t in (14, 18)]
    polls += [ras_json(T0 + t, [Comm((0, 1), even((0, 1), 1004, r1=1000), missing=(0,))]) for t in (30, 35)]
    facts = [instance(2, {0: (-6, None)})] if instance_known else []
    verdict = verdict_of([*facts, *STALLED, *polls, log("rank0.log", watchdog(0, T0 + 21))])
    assert (verdict.class_.value, culprits(verdict)) == ("collective_desync", [1])


def test_text_replies_that_name_other_operations_each_time_are_of_a_moving_job() -> None:
    polls = [
        ras_text(T0 + 1, Comm(ALL, {"AllReduce": {0: 600, 1: 600, 2: 599, 3: 600}})),
        ras_text(T0 + 5, Comm(ALL, {"AllGather": {0: 160, 1: 160, 2: 160, 3: 159}})),
    ]
    assert culprits(verdict_of([instance(last_look=T0 + 6), *polls])) == []


def test_a_text_reply_without_a_difference_ends_an_earlier_one() -> None:
    late = Comm(ALL, {"AllReduce": {0: 600, 1: 600, 2: 599, 3: 600}})
    polls = [ras_text(T0 + 1, late), ras_text(T0 + 8, late), ras_text(T0 + 12, Comm(ALL, even(ALL, 640)))]
    verdict = verdict_of([instance(last_look=T0 + 13), *polls])
    assert verdict.class_.value != "collective_desync"


def test_a_stand_of_two_seconds_alone_may_be_one_long_step() -> None:
    polls = [ras_json(T0 + t, [Comm(ALL, even(ALL, 604, r2=600))]) for t in (1, 3)]
    assert culprits(verdict_of([instance(last_look=T0 + 4), *polls])) == []


def test_idle_gpus_of_those_ahead_wait_for_nobody() -> None:
    polls = [ras_json(T0 + t, [Comm(ALL, even(ALL, 600, r0=604))]) for t in (8, 14, 19)]
    verdict = verdict_of([instance(), samples([(20, dict.fromkeys(ALL, IDLE))]), *polls])
    assert verdict.class_.value != "collective_desync"


def test_a_missing_rank_may_be_the_reason_for_the_lag() -> None:
    polls = [ras_json(T0 + t, [Comm(ALL, even(ALL, 1004, r2=1003), missing=(3,))]) for t in TIMES]
    assert 2 not in culprits(verdict_of([instance(), *STALLED, *polls]))


def test_a_corrupt_reply_beside_sound_ones_is_left_out() -> None:
    polls = [ras_json(T0 + t, [Comm(ALL, even(ALL, 1004, r2=1000))]) for t in TIMES]
    broken = Blob(f"ras/{T0 + 40:.3f}-0.json", polls[0].data.replace(b'"size": 4', b'"size": 1717986918'))
    assert culprits(verdict_of([instance(), *STALLED, *polls, broken])) == [2]


def test_equal_counts_are_told_once_and_only_where_nothing_else_decides() -> None:
    comms = [Comm(ALL, even(ALL, 600)), Comm((0, 1), even((0, 1), 300), hash=0xA1)]
    polls = [ras_json(T0 + t, comms) for t in (5, 15, 25)]
    alone = said(verdict_of([instance(), *polls]))
    assert alone.count("all ranks launched the same number") == 1
    assert "in 2 communicators" in alone
    assert "same number" not in said(verdict_of([instance(last_look=T0 + 26), *steady_pages(T0, 26), *polls]))


def test_several_missing_ranks_are_several() -> None:
    polls = [ras_json(T0 + t, [Comm(ALL, even(ALL, 604, r2=600), missing=(0, 1))]) for t in (15, 25, 35)]
    assert "ranks 0, 1 are missing" in said(verdict_of([instance(), *polls]))
