"""The roll call: one row per rank, the same for terminal and HTML."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from rankmuster.model.fault import Role
from rankmuster.model.hardware import GpuTrack
from rankmuster.model.job import Group, Job, Rank, RankGroupView
from rankmuster.model.verdict import Verdict
from rankmuster.report.inert import plain
from rankmuster.report.operations import Operations, divergence_group, operations
from rankmuster.report.ras_answers import Answer, RasAnswer, last_answers
from rankmuster.report.series import link_rate
from rankmuster.report.words import clock, span

MAX_WORLD = 65_536
"""Ranks that a roll call lists at most: a damaged file can claim any world size."""

LAST_SECONDS = 5.0
"""GPU columns tell of the last seconds of a track: several samples at the usual 0.5 to 1 s, and after most stalls."""

LINK_STILL_KIB_S = 1.0
"""Below this the links stand still: measured on H200s, NVLink counters of a stalled job do not move by one KiB."""


class Link(Enum):
    MOVING = "moving"
    STILL = "still"
    UNKNOWN = "unknown"


class DumpState(Enum):
    """Whether the rank left a Flight Recorder dump, and what kind."""

    YES = "yes"
    IN_MOTION = "in motion"  # taken while its operations still completed
    STALE = "other run"
    LOG_ONLY = "log only"  # no dump, but its watchdog said where it stood
    NO = "no"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A position in a group: one sequence number, or a range of them where rows are told as one."""

    group: str
    first: int
    last: int
    op: str

    def text(self, home: str | None = None) -> str:
        """`default_pg#751 all_reduce`; without the group where it is `home`."""
        number = f"#{self.first}" if self.first == self.last else f"#{self.first}-{self.last}"
        where = number if self.group == home else f"{self.group}{number}"
        return f"{where} {self.op}".strip()


@dataclass(frozen=True, slots=True)
class Row:
    """One rank, or several alike. `util`: percent over the last seconds. `rate`: KiB/s over its links."""

    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    pid: int | None
    gpu: str | None
    role: Role | None
    state: str
    entered: Place | None
    finished: Place | None
    ras: str
    util: float | None
    link: Link
    rate: float | None
    dump: DumpState
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RollCall:
    """All rows in order of rank. `home`: the group most places are in, so that tables need not repeat it."""

    rows: tuple[Row, ...]
    home: str | None


def exit_words(rank: Rank) -> str:
    """`running`, `exit 1`, `SIGKILL`; `gone` where nobody knows how it ended, `unknown` where no supervisor listed the
    process: not seen is not dead."""
    if rank.exit_code is None and rank.gone:
        return "gone"
    if rank.exit_code is None:
        return "running" if rank.has_exit_facts else "unknown"
    if rank.exit_code < 0:
        try:
            return signal.Signals(-rank.exit_code).name
        except ValueError:
            return f"signal {-rank.exit_code}"
    return f"exit {rank.exit_code}"


def _roles(verdict: Verdict, job: Job) -> dict[int, Role]:
    """The gravest role per rank; a suspect without a rank is found by host and pid."""
    order = (Role.CULPRIT, Role.SUSPECT, Role.VICTIM)
    roles: dict[int, Role] = {}
    for suspect in verdict.suspects:
        ranks = [suspect.rank] if suspect.rank is not None else []
        if not ranks and suspect.pid is not None:
            ranks = [
                rank.rank
                for rank in job.ranks
                if rank.pid == suspect.pid and suspect.host in (None, rank.host, *rank.aliases)
            ]
        for rank in ranks:
            if rank not in roles or order.index(suspect.role) < order.index(roles[rank]):
                roles[rank] = suspect.role
    return roles


def _place(group: Group, seq: int, table: Operations | None, fallback: str = "") -> Place:
    row = table.find(group.key, seq) if table is not None else None
    op = plain(table.op_name(row), 40) if table is not None and row is not None else fallback
    return Place(plain(group.label, 40), seq, seq, op)


def _standing(group: Group, view: RankGroupView | None, table: Operations | None) -> tuple[Place | None, Place | None]:
    """Where a rank stands in one group: last entered, last finished."""
    if view is not None:
        entered = _place(group, view.issued, table) if view.issued >= 0 else None
        finished = _place(group, view.finished, table) if view.finished >= 0 else None
        return entered, finished
    if table is None:
        return None, None
    label = plain(group.label, 40)
    for p2p in (False, True):
        rows = table.rows_of(group.key, p2p)
        if len(rows):
            done = rows[table.mark[rows] == 0]
            return _newest(label, table, rows), _newest(label, table, done)
    return None, None


def _newest(label: str, table: Operations, rows: NDArray[np.int64]) -> Place | None:
    if not len(rows):
        return None
    row = int(rows[int(np.argmax(table.seq[rows]))])
    seq = int(table.seq[row])
    return Place(label, seq, seq, plain(table.op_name(row), 40))


def _main_group(rank: int, groups: list[Group], first: Group | None, table: Operations | None) -> Group | None:
    """The group that a row speaks of: the diverging one, else the one the rank entered last, else its largest."""
    if first is not None and rank in first.members:
        return first
    if not groups:
        return None
    if table is not None and len(table.group):
        created = np.where(np.isnan(table.created), -np.inf, table.created)
        newest = int(table.group[int(np.argmax(created))])
        for last in groups:
            if last.key == newest:
                return last
    return max(groups, key=lambda group: len(group.members))


def _gpu(track: GpuTrack | None) -> tuple[float | None, Link, float | None]:
    """Utilisation, whether link bytes move, and KiB/s, over the last `LAST_SECONDS` of a track."""
    if track is None or not len(track.time):
        return None, Link.UNKNOWN, None
    recent = track.time >= track.time[-1] - LAST_SECONDS
    util = track.sm_percent[recent]
    util = util[~np.isnan(util)]
    curve = link_rate(track)
    rates = curve.value[curve.time >= track.time[-1] - LAST_SECONDS]
    rates = rates[~np.isnan(rates)]
    mean = float(util.mean()) if len(util) else None
    if not len(rates):
        return mean, Link.UNKNOWN, None
    rate = float(rates.mean())
    return mean, Link.MOVING if rate >= LINK_STILL_KIB_S else Link.STILL, rate


def _ras(answer: RasAnswer | None) -> str:
    if answer is None:
        return "-"
    if answer.answer is Answer.COUNTED:
        return str(answer.count)
    return {
        Answer.ANSWERED: "answered",
        Answer.MISSING: "MISSING",
        Answer.DEAD: "DEAD",
        Answer.NOT_LISTED: "not listed",
    }[answer.answer]


def _notes(rank: Rank, track: GpuTrack | None, answer: RasAnswer | None, fault_at: float | None) -> tuple[str, ...]:
    notes = []
    if rank.exited_at is not None:
        if fault_at is None:
            notes.append(f"ended at {clock(rank.exited_at)}")
        else:
            lag = rank.exited_at - fault_at
            notes.append(f"ended {span(abs(lag))} {'after' if lag >= 0 else 'before'} the fault")
    elif rank.exit_code is not None:
        notes.append("ended at an unknown time: proves nothing of who was first")
    if answer is not None and answer.error:
        notes.append(f"RAS: {plain(answer.error, 60)}")
    if track is not None and track.pids and track.pids[-1] is not None and rank.pid is not None:
        foreign = [pid for pid in track.pids[-1] if pid != rank.pid]
        if foreign and rank.pid in track.pids[-1]:
            notes.append(f"GPU shared with pid {', '.join(map(str, foreign[:4]))}")
    return tuple(notes)


def _dump(job: Job, rank: int, from_log: bool) -> DumpState:
    if rank not in job.dumps:
        return DumpState.LOG_ONLY if from_log else DumpState.NO
    facts = job.dump_facts.get(rank)
    if facts is not None and facts.stale:
        return DumpState.STALE
    return DumpState.IN_MOTION if facts is not None and facts.in_motion else DumpState.YES


def roll_call(verdict: Verdict, job: Job, tables: Mapping[int, Operations] | None = None) -> RollCall:
    """One row per rank that the job, its world size or the verdict knows, in order of rank."""
    tables = operations(job) if tables is None else tables
    known = {rank.rank: rank for rank in job.ranks}
    roles = _roles(verdict, job)
    numbers = {*known, *job.dumps, *job.tracks, *roles, *range(min(job.world_size or 0, MAX_WORLD))}
    first = divergence_group(verdict, job)
    groups_of: dict[int, list[Group]] = {}
    for group in job.groups:
        for member in group.members:
            groups_of.setdefault(member, []).append(group)
    answers = last_answers(job)
    rows = []
    for number in sorted(numbers)[:MAX_WORLD]:
        rank, table, track = known.get(number, Rank(number)), tables.get(number), job.tracks.get(number)
        home_group = _main_group(number, groups_of.get(number, []), first, table)
        view = job.views.get((home_group.key, number)) if home_group is not None else None
        entered, finished = _standing(home_group, view, table) if home_group is not None else (None, None)
        util, link, rate = _gpu(track)
        gpu = rank.gpu if rank.gpu is not None else (track.gpu if track is not None else None)
        rows.append(
            Row(
                ranks=(number,),
                hosts=() if rank.host is None else (plain(rank.host, 80),),
                pid=rank.pid,
                gpu=None if gpu is None else str(gpu),
                role=roles.get(number),
                state=exit_words(rank),
                entered=entered,
                finished=finished,
                ras=_ras(answers.get(number)),
                util=util,
                link=link,
                rate=rate,
                dump=_dump(job, number, view is not None and view.from_log),
                notes=_notes(rank, track, answers.get(number), verdict.window.fault_at),
            )
        )
    labels = [place.group for row in rows for place in (row.entered, row.finished) if place is not None]
    common = Counter(labels).most_common(1)
    home = common[0][0] if common else None
    return RollCall(tuple(rows), home)
