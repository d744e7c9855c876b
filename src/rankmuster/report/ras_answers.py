"""What each RAS poll said of each global rank."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from rankmuster.model.job import Job, Rank
from rankmuster.model.ras import RasCommunicator, RasPoll
from rankmuster.report.series import unix_seconds

SAME_LOOK_S = 0.5
"""Replies this close together are the text and JSON of one look, or two nodes asked at once."""


class Answer(Enum):
    """What one RAS poll said of one rank."""

    COUNTED = "counted"
    ANSWERED = "answered"  # listed or among the unnamed majority, without a count of its own
    MISSING = "missing"
    DEAD = "considered dead"
    NOT_LISTED = "not listed"


@dataclass(frozen=True, slots=True)
class RasAnswer:
    """`count`: launched operations over all of the rank's communicators, None without one. `error`: async or status.

    `behind`: how many operations its peers launched more, each communicator against its own leader.
    """

    answer: Answer
    count: int | None = None
    error: str | None = None
    behind: int = 0


def poll_time(poll: RasPoll) -> float | None:
    """When a poll was asked, else its own stamp; None where neither is anchored."""
    asked = unix_seconds(poll.time)
    return asked if asked is not None else unix_seconds(poll.stamp)


class _Names:
    """Global ranks by the (host, pid) that RAS knows them by."""

    def __init__(self, ranks: Iterable[Rank]) -> None:
        self._by_pid: dict[int, list[Rank]] = {}
        for rank in ranks:
            if rank.pid is not None:
                self._by_pid.setdefault(rank.pid, []).append(rank)

    def rank(self, host: str | None, pid: int | None) -> int | None:
        """The rank of that process: pid and host, or the pid alone where only one rank has it."""
        if pid is None:
            return None
        same = self._by_pid.get(pid, [])
        exact = [rank for rank in same if host is not None and host in (rank.host, *rank.aliases)]
        if len(exact) == 1:
            return exact[0].rank
        return same[0].rank if len(same) == 1 else None


def _majority(communicator: RasCommunicator) -> int | None:
    """What each unnamed rank launched, where the text gives one number per operation; None where it does not."""
    total = 0
    for entries in communicator.majorities.values():
        if len(entries) != 1:
            return None
        total += entries[0].count
    return total if communicator.majorities else None


def _note(rank_status: str | None, error: str | None) -> str | None:
    if error:
        return error
    return rank_status if rank_status not in (None, "RUNNING", "INIT") else None


def _said(communicator: RasCommunicator, names: _Names) -> dict[int, RasAnswer]:
    """What one communicator's part of a reply says of the ranks it names."""
    said: dict[int, RasAnswer] = {}
    for entry in communicator.ranks:
        rank = names.rank(entry.host, entry.pid)
        if rank is not None:
            note = _note(entry.status, entry.async_error)
            counted = bool(entry.counts)
            count = sum(entry.counts.values()) if counted else None
            said[rank] = RasAnswer(Answer.COUNTED if counted else Answer.ANSWERED, count, note)
    for lost in communicator.missing:
        rank = names.rank(lost.host, lost.pid)
        if rank is not None:
            said[rank] = RasAnswer(Answer.DEAD if lost.considered_dead else Answer.MISSING)
    return said


def _added(before: RasAnswer | None, now: RasAnswer) -> RasAnswer:
    """Two communicators' words on one rank: missing from one outweighs, counts add up."""
    if before is None:
        return now
    for one, other in ((before, now), (now, before)):
        if one.answer in (Answer.DEAD, Answer.MISSING):
            return replace(one, error=one.error or other.error)
    if before.count is None or now.count is None:
        return before if now.count is None else now
    return RasAnswer(Answer.COUNTED, before.count + now.count, before.error or now.error, before.behind + now.behind)


def ras_answers(job: Job, poll: RasPoll) -> dict[int, RasAnswer]:
    """What a sound poll said of each rank; empty for one that brought no reply or is not to be believed.

    Ranks in RAS replies are communicator-local, so processes are matched by host and pid.
    """
    if not poll.answered or poll.corrupt:
        return {}
    names = _Names(job.ranks)
    answers: dict[int, RasAnswer] = {}
    world = {rank.rank for rank in job.ranks}
    for communicator in poll.communicators:
        said = _said(communicator, names)
        if poll.form == "text" and communicator.size == len(world) and communicator.size == job.world_size:
            unnamed = _majority(communicator)
            word = Answer.ANSWERED if unnamed is None else Answer.COUNTED
            said.update({rank: RasAnswer(word, unnamed) for rank in world - set(said)})
        leader = max((answer.count for answer in said.values() if answer.count is not None), default=0)
        for rank, answer in said.items():
            behind = 0 if answer.count is None else leader - answer.count
            answers[rank] = _added(answers.get(rank), replace(answer, behind=behind))
    lost = [(process, Answer.MISSING) for process in poll.missing_processes]
    lost += [(process, Answer.DEAD) for process in poll.dead_processes]
    for process, word in lost:
        number = names.rank(process.host, process.pid)
        if number is not None:
            answers[number] = RasAnswer(word)
    for number in world - set(answers):
        answers[number] = RasAnswer(Answer.NOT_LISTED)
    return answers


def last_answers(job: Job) -> dict[int, RasAnswer]:
    """What the newest believable poll said; per rank the one with a count where two were asked at the same moment."""
    merged: dict[int, RasAnswer] = {}
    newest: float | None = None
    for poll in reversed(job.polls):
        time = poll_time(poll)
        if newest is not None and (time is None or newest - time > SAME_LOOK_S):
            break
        answers = ras_answers(job, poll)
        if not answers:
            continue
        for rank, answer in answers.items():
            if rank not in merged or (merged[rank].count is None and answer.answer is Answer.COUNTED):
                merged[rank] = answer
        if time is None:
            break
        newest = time if newest is None else newest
    return merged
