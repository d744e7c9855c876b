"""What to save comes before what to rebuild, and never goes missing."""

from __future__ import annotations

from dataclasses import replace

from rankmuster.model.fault import Boundary, FaultClass
from rankmuster.model.job import Job
from rankmuster.model.verdict import Recovery, Verdict
from rankmuster.report.advice import advice


def recovering(*steps: str) -> Verdict:
    recovery = Recovery(boundary=Boundary.NODE, steps=steps)
    return Verdict(class_=FaultClass.PROCESS_OR_DEVICE_LOST, recovery=recovery)


def test_only_steps_that_begin_with_saving_are_for_the_evidence(job: Job) -> None:
    told = advice(recovering("Save: the dumps.", "Take the instance out of its router.", "Start anew."), job)
    assert told.save == ("Save: the dumps.",)
    assert told.rebuild == ("Take the instance out of its router.", "Start anew.")
    assert "node" in told.rebuild_what


def test_live_ranks_without_a_dump_are_named_where_no_step_saves(job: Job) -> None:
    ranks = (*job.ranks[:2], replace(job.ranks[2], exit_code=-9), job.ranks[3])
    told = advice(recovering("Start anew."), replace(job, ranks=ranks, dumps={0: job.dumps[0]}))
    assert len(told.save) == 1
    assert told.save[0].startswith("ranks 1, 3 left no")


def test_health_asks_for_nothing(job: Job) -> None:
    told = advice(Verdict(class_=FaultClass.HEALTHY), replace(job, dumps={}))
    assert (told.save, told.rebuild, told.do_not) == ((), (), ())
