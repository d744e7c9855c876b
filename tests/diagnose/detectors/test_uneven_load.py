"""One quiet GPU among busy ones while all move bytes: the late rank, without any dump."""

from __future__ import annotations

import pytest
from build_evidence import T0, culprits, instance, pid, samples, steady_pages, verdict_of

QUIET, BUSY = (2.0, 40_000.0), (97.0, 42_000.0)


@pytest.mark.parametrize("world", [2, 4])
def test_the_quiet_rank_is_late(world: int) -> None:
    gpus = samples([(20, {rank: QUIET if rank == 1 else BUSY for rank in range(world)})])
    verdict = verdict_of([instance(world), *steady_pages(T0, 20), gpus])
    assert (verdict.class_.value, culprits(verdict)) == ("performance_degradation", [1])


@pytest.mark.parametrize(
    "quiet",
    [(2.0, 3_000.0), (60.0, 40_000.0)],
    ids=["takes little part in the traffic", "is busy enough"],
)
def test_others_are_not(quiet: tuple[float, float]) -> None:
    gpus = samples([(20, {rank: quiet if rank == 1 else BUSY for rank in range(4)})])
    assert culprits(verdict_of([instance(), *steady_pages(T0, 20), gpus])) == []


def test_two_quiet_ranks_convict_nobody() -> None:
    gpus = samples([(20, {rank: QUIET if rank in (1, 2) else BUSY for rank in range(4)})])
    assert culprits(verdict_of([instance(), *steady_pages(T0, 20), gpus])) == []


def test_foreign_work_on_the_busy_gpus_tells_nothing() -> None:
    gpus = samples(
        [(20, {rank: QUIET if rank == 1 else BUSY for rank in range(4)})],
        pids={rank: [pid(rank), 99] for rank in (0, 2, 3)},
    )
    assert culprits(verdict_of([instance(), *steady_pages(T0, 20), gpus])) == []


def test_a_handful_of_samples_is_a_moment() -> None:
    gpus = samples([(5, {rank: QUIET if rank == 1 else BUSY for rank in range(4)})])
    assert culprits(verdict_of([instance(), *steady_pages(T0, 5), gpus])) == []
