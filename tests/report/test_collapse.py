"""Like ranks are told as one row, and nobody is lost."""

from __future__ import annotations

from dataclasses import replace

from rankmuster.model.fault import FaultClass, Role
from rankmuster.model.job import Job
from rankmuster.model.verdict import Verdict
from rankmuster.report.collapse import collapse
from rankmuster.report.rollcall import roll_call


def test_a_thousand_like_ranks_become_few_rows_and_nobody_is_lost(job: Job) -> None:
    verdict = Verdict(class_=FaultClass.HEALTHY)
    base = roll_call(verdict, job).rows
    many = tuple(replace(base[2] if rank == 700 else base[0], ranks=(rank,), pid=rank) for rank in range(1024))
    rows, left = collapse(many, 24)
    assert left == 0
    assert len(rows) == 2
    assert sorted(rank for row in rows for rank in row.ranks) == list(range(1024))
    assert (700,) in [row.ranks for row in rows]


def test_ranks_of_a_moving_job_are_told_as_a_range_of_numbers(job: Job) -> None:
    base = roll_call(Verdict(class_=FaultClass.HEALTHY), job).rows[0]
    assert base.entered is not None
    many = tuple(
        replace(base, ranks=(rank,), ras=str(rank), entered=replace(base.entered, first=rank, last=rank))
        for rank in range(100)
    )
    rows, left = collapse(many, 24)
    assert (len(rows), left) == (1, 0)
    assert rows[0].entered is not None
    assert rows[0].entered.text("default_pg") == "#0-99 all_reduce"
    assert rows[0].ras == "0-99"


def test_named_ranks_are_kept_when_rows_must_be_cut(job: Job) -> None:
    base = roll_call(Verdict(class_=FaultClass.HEALTHY), job).rows[0]
    many = tuple(
        replace(base, ranks=(rank,), state=f"exit {rank}", role=Role.CULPRIT if rank == 99 else None)
        for rank in range(100)
    )
    rows, left = collapse(many, 10)
    assert rows[-1].ranks == (99,)
    assert left == 90
