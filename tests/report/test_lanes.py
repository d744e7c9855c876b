"""A group's picture shows the divergence, and tells missing from unknown."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from rankmuster.model.job import Job
from rankmuster.model.verdict import Verdict
from rankmuster.report.lanes import Lanes, chosen, lanes
from rankmuster.report.operations import Mark, operations


def picture(verdict: Verdict, job: Job) -> Lanes:
    drawn = lanes(job.groups[0], verdict, job, operations(job))
    assert drawn is not None
    return drawn


def test_it_is_around_the_first_divergence(verdict: Verdict, job: Job) -> None:
    drawn = picture(verdict, job)
    assert (drawn.focus, drawn.diverges) == (751, True)
    assert drawn.numbers == tuple(range(747, 756))
    assert drawn.numbers_left == 7


def test_only_whom_the_verdict_names_is_missing(verdict: Verdict, job: Job) -> None:
    cells = picture(verdict, job).cells
    assert cells[2, 751].mark is Mark.MISSING
    assert cells[2, 752].mark is Mark.NOT_ENTERED
    assert cells[0, 751].mark is Mark.STARTED
    assert cells[2, 750].mark is Mark.FINISHED
    nobody = replace(verdict, first_divergence=None)
    assert picture(nobody, job).cells[2, 751].mark is Mark.NOT_ENTERED


def test_what_the_ring_buffer_overwrote_is_unknown_not_missing(
    verdict: Verdict, job: Job, by_hand: SimpleNamespace
) -> None:
    young = by_hand.dump(3, by_hand.columns(755, 750, first=750))
    cells = picture(verdict, replace(job, dumps={**job.dumps, 3: young})).cells
    assert cells[3, 749].mark is Mark.OVERWRITTEN


def test_a_rank_without_a_dump_is_unknown(verdict: Verdict, job: Job) -> None:
    dumps = {rank: dump for rank, dump in job.dumps.items() if rank != 1}
    cells = picture(verdict, replace(job, dumps=dumps, views={})).cells
    assert cells[1, 751].mark is Mark.NO_DUMP


def test_without_a_majority_nobody_differs(verdict: Verdict, job: Job, by_hand: SimpleNamespace) -> None:
    mixed = by_hand.columns(755, 750, ops=("nccl:all_reduce", "nccl:all_gather"))
    nobody = replace(verdict, first_divergence=None)
    one = replace(job, dumps={**job.dumps, 3: by_hand.dump(3, mixed)})
    assert (3, 751) in picture(nobody, one).odd
    two = replace(one, dumps={**one.dumps, 0: by_hand.dump(0, mixed), 2: by_hand.dump(2, by_hand.columns(755, 750))})
    assert picture(nobody, two).odd == frozenset()


def test_the_named_ranks_are_drawn_before_others() -> None:
    assert chosen(range(100), [77], 4) == (0, 1, 2, 77)
