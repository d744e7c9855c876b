"""The roll call says of each rank what an operator would ask."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

from rankmuster.model.fault import Role
from rankmuster.model.job import Job, Rank
from rankmuster.model.ras import RasCommunicator, RasMissingRank, RasPoll
from rankmuster.model.stamp import unix
from rankmuster.model.verdict import Verdict
from rankmuster.report.rollcall import DumpState, Link, roll_call


def test_the_culprits_row_differs_from_its_victims(verdict: Verdict, job: Job) -> None:
    call = roll_call(verdict, job)
    assert [row.ranks for row in call.rows] == [(0,), (1,), (2,), (3,)]
    victim, culprit = call.rows[0], call.rows[2]
    assert (culprit.role, victim.role) == (Role.CULPRIT, Role.VICTIM)
    assert culprit.entered is not None
    assert culprit.entered.text() == "default_pg#750 all_reduce"
    assert victim.entered is not None
    assert victim.entered.text(call.home) == "#755 all_reduce"
    assert victim.finished is not None
    assert victim.finished.first == 750
    assert (culprit.ras, victim.ras) == ("750", "755")
    assert (culprit.util, victim.util) == (0.0, 100.0)
    assert culprit.link is Link.STILL
    assert (culprit.pid, culprit.gpu, culprit.hosts) == (1519, "2", ("10.0.0.7",))
    assert culprit.state == "running"
    assert culprit.dump is DumpState.YES


def test_a_rank_that_ras_misses_is_missing_not_dead(verdict: Verdict, job: Job, by_hand: SimpleNamespace) -> None:
    lost = RasMissingRank(2, by_hand.host, 1519, unresponsive=True)
    reply = RasPoll("ras/1.json", unix(by_hand.look), "0", "json", communicators=(RasCommunicator(1, 4, (), (lost,)),))
    rows = roll_call(verdict, replace(job, polls=(*job.polls, reply))).rows
    assert rows[2].ras == "MISSING"
    assert rows[2].state == "running"


def test_ranks_are_matched_by_process_because_ras_numbers_are_local(
    verdict: Verdict, job: Job, by_hand: SimpleNamespace
) -> None:
    reply = by_hand.poll(by_hand.look, {3: 9})  # local number 3, the process of global rank 3
    moved = replace(
        reply,
        communicators=(replace(reply.communicators[0], ranks=(replace(reply.communicators[0].ranks[0], rank=0),)),),
    )
    rows = roll_call(verdict, replace(job, polls=(moved,))).rows
    assert rows[3].ras == "9"
    assert rows[0].ras == "not listed"


def test_a_damaged_reply_is_not_believed(verdict: Verdict, job: Job) -> None:
    polls = tuple(replace(poll, corrupt=("impossible counts",)) for poll in job.polls)
    assert {row.ras for row in roll_call(verdict, replace(job, polls=polls)).rows} == {"-"}


def test_how_a_process_ended_is_told_and_unknown_is_not_running(
    verdict: Verdict, job: Job, by_hand: SimpleNamespace
) -> None:
    ranks = (
        replace(job.ranks[0], exit_code=-9, exited_at=by_hand.fault - 2),
        replace(job.ranks[1], exit_code=1),
        Rank(2),
        job.ranks[3],
    )
    rows = roll_call(verdict, replace(job, ranks=ranks)).rows
    assert [row.state for row in rows] == ["SIGKILL", "exit 1", "unknown", "running"]
    assert rows[0].notes == ("ended 2.0 s before the fault",)
    assert "proves nothing" in rows[1].notes[0]


def test_a_rank_without_a_dump_says_no_and_one_that_never_appeared_is_listed(verdict: Verdict, job: Job) -> None:
    dumps = {rank: dump for rank, dump in job.dumps.items() if rank != 2}
    rows = roll_call(verdict, replace(job, dumps=dumps, views={}, world_size=6)).rows
    assert rows[2].dump is DumpState.NO
    assert rows[2].entered is None
    assert [row.ranks[0] for row in rows] == [0, 1, 2, 3, 4, 5]


def test_moving_links_are_told_with_their_rate(verdict: Verdict, job: Job, by_hand: SimpleNamespace) -> None:
    tracks = {**job.tracks, 0: by_hand.track(0, 90.0, True)}
    row = roll_call(verdict, replace(job, tracks=tracks)).rows[0]
    assert row.link is Link.MOVING
    assert row.rate is not None
    assert abs(row.rate - 2e6) < 1e3


def test_a_claimed_world_of_a_billion_ranks_is_bounded(verdict: Verdict, job: Job) -> None:
    begun = time.monotonic()
    call = roll_call(verdict, replace(job, world_size=10**9))
    assert len(call.rows) == 65_536
    assert time.monotonic() - begun < 20


def test_an_empty_job_has_no_rows(blind_verdict: Verdict, empty_job: Job) -> None:
    assert roll_call(blind_verdict, empty_job).rows == ()


def test_foreign_work_on_a_ranks_gpu_is_noted(verdict: Verdict, job: Job) -> None:
    shared = replace(job.tracks[0], pids=tuple((1517, 4242) for _ in job.tracks[0].time))
    rows = roll_call(verdict, replace(job, tracks={**job.tracks, 0: shared})).rows
    assert rows[0].notes == ("GPU shared with pid 4242",)
    assert rows[1].notes == ()


def test_a_host_whose_pids_are_in_another_namespace_is_not_accused_of_foreign_work(verdict: Verdict, job: Job) -> None:
    contained = replace(job.tracks[0], pids=tuple((90_001,) for _ in job.tracks[0].time))
    assert roll_call(verdict, replace(job, tracks={**job.tracks, 0: contained})).rows[0].notes == ()
