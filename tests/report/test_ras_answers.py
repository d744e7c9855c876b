"""RAS speaks of processes; the report speaks of ranks."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from rankmuster.model.job import Job
from rankmuster.model.ras import RasCommunicator, RasMajority, RasRank
from rankmuster.report.ras_answers import Answer, last_answers, ras_answers


def test_each_communicator_is_compared_with_its_own_leader(job: Job, by_hand: SimpleNamespace) -> None:
    def member(rank: int, count: int) -> RasRank:
        return RasRank(rank, by_hand.host, 1517 + rank, counts={"AllReduce": count})

    pairs = (
        RasCommunicator(1, 2, (member(0, 900), member(1, 900))),
        RasCommunicator(2, 2, (member(2, 40), member(3, 37))),
    )
    answers = ras_answers(job, replace(job.polls[0], communicators=pairs))
    assert [answers[rank].behind for rank in range(4)] == [0, 0, 0, 3]


def test_unnamed_ranks_of_a_text_reply_have_the_majoritys_count(job: Job, by_hand: SimpleNamespace) -> None:
    odd = RasRank(2, by_hand.host, 1519, counts={"AllReduce": 750})
    told = RasCommunicator(1, 4, (odd,), majorities={"AllReduce": (RasMajority(755, 3),)})
    answers = ras_answers(job, replace(job.polls[0], form="text", communicators=(told,)))
    assert answers[0].count == 755
    assert (answers[2].count, answers[2].behind) == (750, 5)


def test_a_reply_that_did_not_come_says_nothing_of_anyone(job: Job) -> None:
    polls = (job.polls[0], replace(job.polls[1], answered=False, communicators=()))
    assert ras_answers(job, polls[1]) == {}
    assert last_answers(replace(job, polls=polls))[0].answer is Answer.COUNTED
