"""Everything a detector may look at: the evidence, aligned once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rankmuster.diagnose import (
    bygone,
    dump_choice,
    earlier_dumps,
    flight_groups,
    host_clocks,
    log_rolls,
    looks,
    lookup,
    previous,
    roll,
    window,
)
from rankmuster.diagnose.bygone import Bygone
from rankmuster.diagnose.clock import Clock, anchor
from rankmuster.diagnose.flight_rows import FlightRows, rows_of
from rankmuster.diagnose.lookup import Roster
from rankmuster.diagnose.roll import RollTable
from rankmuster.diagnose.thresholds import Thresholds
from rankmuster.evidence.bundle import Evidence
from rankmuster.model.dump_sets import Between, Since
from rankmuster.model.engine import EnginePage
from rankmuster.model.flight import DumpRequest, FlightDump
from rankmuster.model.frameworklog import DumpNotice, EngineWatchdog, WatchdogTimeout, WorkerDeath, WorkStatus
from rankmuster.model.hardware import GpuTrack
from rankmuster.model.instance import InstanceFacts, ManifestFacts
from rankmuster.model.job import DumpFacts, Job
from rankmuster.model.nccllog import NcclInit
from rankmuster.model.ras import RasPoll
from rankmuster.model.stamp import Stamp, StampKind

LOOK_SLACK = 30.0
"""Seconds by which a RAS reply's own time may differ from the time noted for the question."""

DUMP_PATIENCE = 600.0
"""Seconds within which a watchdog writes its dump after the newest entry; torch's default time-out is ten minutes."""


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """One diagnosis's evidence, aligned. `stray_tracks`: GPUs that no rank could be tied to.

    `timeouts`: torch's watchdog lines, with a time or without: whether one timed out is told by these. `first_timeout`,
    `first_alarm`: unix seconds of the first of them, and of the first alarm of watchdog or engine; None where there is
    none or no stamp can be anchored, so they order events and say nothing by their absence.
    `last_look`: unix seconds of the last look at the instance, None where no collector noted one.
    `bygone`: kernel events from before the instance's start, which `evidence` does not hold; None where there are none.
    `doubtful_motion`: some dumps were taken in motion and most stand, and nothing tells which were taken later; or all
    ranks went on since an earlier set, and nothing tells whether they still did.
    `between`: what an earlier set of dumps, given as such, says of these; None where none was given.
    `memo`: what `memo.once` remembers.
    """

    evidence: Evidence
    limits: Thresholds
    facts: InstanceFacts | None
    roster: Roster
    clock: Clock
    table: RollTable
    dump_facts: Mapping[int, DumpFacts]
    older_dumps: tuple[FlightDump, ...]
    polls: tuple[RasPoll, ...]  # sound ones, in order of time
    corrupt_polls: tuple[RasPoll, ...]
    pages: tuple[EnginePage, ...]
    tracks: Mapping[int, GpuTrack]
    stray_tracks: tuple[GpuTrack, ...]
    timeouts: tuple[WatchdogTimeout, ...]
    first_timeout: float | None
    first_alarm: float | None
    last_look: float | None
    window: tuple[float | None, float | None]
    job: Job
    bygone: Bygone | None = None
    between: Between | None = None
    doubtful_motion: bool = False
    memo: dict[Callable[..., Any], Any] = field(default_factory=dict, repr=False)

    def time(self, stamp: Stamp | None) -> float | None:
        """Unix seconds of a stamp, where it can be anchored."""
        return self.clock.unix(stamp)

    def host_of(self, source: str) -> str | None:
        """The host of which a file is, as the bundle's manifest says; None where it does not."""
        manifests = self.evidence.of(ManifestFacts)
        return next((facts.hosts[source] for facts in manifests if source in facts.hosts), None)

    def stack_dumps(self) -> list[float]:
        """Unix seconds at which a dump with stacks was begun, by logs or by who asked for it: it slows the job."""
        logged = [
            time
            for notice in self.evidence.of(DumpNotice)
            if notice.with_stacks is not False and (time := self.time(notice.origin.stamp)) is not None
        ]
        stacked = {rank for rank, flight in self.table.rows.items() if len(flight.dump.columns.stacks)}
        return logged + [one.asked for one in self.evidence.of(DumpRequest) if one.rank in stacked]

    def after_last_look(self, stamp: Stamp | None) -> bool:
        """Whether a line was written when nobody looked any more: by whoever took the instance down.

        A stamp without fractions stands for its whole second.
        """
        at = self.time(stamp)
        if at is None or self.last_look is None:
            return False
        return at > self.last_look or (at.is_integer() and at >= math.floor(self.last_look))

    @property
    def world(self) -> tuple[int, ...]:
        """All global ranks."""
        return tuple(rank.rank for rank in self.roster.ranks)

    @property
    def in_motion(self) -> bool:
        """Whether the dumps, stale ones aside, were taken from a job in motion."""
        return not self.doubtful_motion and any(
            facts.in_motion for facts in self.dump_facts.values() if not facts.stale
        )


def build(
    evidence: Evidence,
    limits: Thresholds,
    earlier: Evidence | None = None,
) -> Context:
    """Aligns all evidence (DESIGN, "Align"). `earlier`: dumps of the same job that were taken before these."""
    evidence, before_start = bygone.set_aside(evidence)
    facts = _facts(evidence.of(InstanceFacts))
    manifests = evidence.of(ManifestFacts)
    dumps = _ranked(evidence.of(FlightDump), manifests)
    choice = dump_choice.choose(dumps, looks.noted(manifests), limits)
    newest = choice.newest
    roster = lookup.build(evidence, newest.values(), facts)
    rows = {rank: rows_of(dump) for rank, dump in sorted(newest.items())}
    notices = looks.notices_by_rank(evidence.of(DumpNotice))
    clock = _clock(evidence, facts, rows, notices)
    between = _between(rows, earlier, evidence, limits) if earlier is not None else None
    moving = choice.moving | (between.moving if between is not None else frozenset())
    dump_facts = looks.facts_of(rows, notices, manifests, clock, limits, moving)
    live = {rank: flight for rank, flight in rows.items() if not dump_facts[rank].stale}
    # An empty dump without counters (a recorder of size 0) says as much as none.
    speaking = {rank: flight for rank, flight in live.items() if len(flight.dump.columns) or flight.dump.status}
    world = tuple(rank.rank for rank in roster.ranks)
    world_told = bool(facts and facts.world_size) or bool(evidence.of(NcclInit) or evidence.of(RasPoll))
    recorded = _recorded(speaking, world, world_told)
    motion = earlier_dumps.motion(recorded, dump_facts, limits)
    before = motion.earlier
    if before:
        others = {rank: flight for rank, flight in speaking.items() if rank not in before}
        recorded = _recorded(others, world, world_told)
        dump_facts.update({rank: replace(dump_facts[rank], in_motion=False, earlier=True) for rank in before})
    timeouts = evidence.of(WatchdogTimeout)
    table = log_rolls.augment(
        recorded,
        timeouts,
        evidence.of(WorkStatus),
        world,
    )
    polls = tuple(sorted(evidence.of(RasPoll), key=lambda poll: (clock.unix(poll.time) or 0.0, poll.source)))
    pages = tuple(sorted(evidence.of(EnginePage), key=lambda page: (clock.unix(page.time) or 0.0, page.source)))
    tracks, stray = _tracks(evidence.of(GpuTrack), roster)
    first_timeout = window.first(clock, timeouts)
    first_alarm = window.first(clock, (*timeouts, *(line for line in evidence.of(EngineWatchdog) if not line.weak)))
    last_look = window.last_look(evidence, facts, clock, polls, pages)
    covered = window.covered(evidence, facts, clock, rows, polls, pages, last_look)
    sound = tuple(poll for poll in polls if not poll.corrupt)
    job = Job(
        facts=facts,
        ranks=roster.ranks,
        world_size=roster.world_size,
        groups=table.groups,
        dumps={rank: flight.dump for rank, flight in live.items()},
        dump_facts=dump_facts,
        views={(key, rank): view for (key, rank), view in table.views.items()},
        polls=sound,
        pages=pages,
        tracks=tracks,
        local_groups=table.local_groups,
        first_timeout=first_timeout,
        clock_offsets=host_clocks.estimate(table, roster),
        window=covered,
    )
    return Context(
        evidence=evidence,
        limits=limits,
        facts=facts,
        roster=roster,
        clock=clock,
        table=table,
        dump_facts=dump_facts,
        older_dumps=choice.older,
        polls=sound,
        corrupt_polls=tuple(poll for poll in polls if poll.corrupt),
        pages=pages,
        tracks=tracks,
        stray_tracks=stray,
        timeouts=timeouts,
        first_timeout=first_timeout,
        first_alarm=first_alarm,
        last_look=last_look,
        window=covered,
        job=job,
        bygone=before_start,
        between=between,
        doubtful_motion=motion.doubtful or (between is not None and between.since is Since.UNTOLD),
    )


def _recorded(rows: Mapping[int, FlightRows], world: tuple[int, ...], world_told: bool) -> RollTable:
    dumps = {rank: flight.dump for rank, flight in rows.items()}
    groups, local_groups = flight_groups.align(dumps, world, world_told)
    return roll.build(groups, local_groups, rows)


def _between(newest: Mapping[int, FlightRows], earlier: Evidence, evidence: Evidence, limits: Thresholds) -> Between:
    dumps = _ranked(earlier.of(FlightDump), earlier.of(ManifestFacts))
    noted = looks.noted(evidence.of(ManifestFacts))
    return previous.compare(newest, dumps, noted, limits, bool(evidence.of(WatchdogTimeout)))


def _facts(descriptions: tuple[InstanceFacts, ...]) -> InstanceFacts | None:
    """One description: of several looks the last one counts, and processes that only others list are added."""
    if not descriptions:
        return None
    newest = max(descriptions, key=lambda item: item.last_look or 0.0)
    known = {process.rank for process in newest.processes}
    others = {process.rank: process for item in descriptions for process in item.processes if process.rank not in known}
    if not others:
        return newest
    processes = sorted((*newest.processes, *others.values()), key=lambda process: process.rank)
    return replace(newest, processes=tuple(processes))


def _ranked(dumps: tuple[FlightDump, ...], manifests: tuple[ManifestFacts, ...]) -> list[FlightDump]:
    """Dumps with ranks: the manifest's, the name's, else inferred from the dump's own groups."""
    told = {path: rank for manifest in manifests for path, rank in manifest.ranks.items()}
    found = []
    for dump in dumps:
        rank = told.get(dump.source, dump.rank)
        if rank is None:
            rank = flight_groups.infer_rank(dump)
        found.append(dump if rank is None or rank == dump.rank else lookup.with_rank(dump, rank))
    return found


def _clock(
    evidence: Evidence,
    facts: InstanceFacts | None,
    rows: Mapping[int, FlightRows],
    notices: Mapping[int, list[Stamp]],
) -> Clock:
    known = [stamp.seconds for stamp in _unix_stamps(evidence)]
    known += [flight.newest for flight in rows.values() if flight.newest]
    if facts and facts.last_look is not None:
        known.append(facts.last_look)
    pairs: list[tuple[Stamp, float, float]] = []
    for poll in evidence.of(RasPoll):
        if poll.stamp is not None and poll.time is not None and poll.time.kind is StampKind.UNIX:
            pairs.append((poll.stamp, poll.time.seconds - LOOK_SLACK, poll.time.seconds + LOOK_SLACK))
    for rank, flight in rows.items():
        for stamp in notices.get(rank, [])[-1:]:
            if flight.newest:
                pairs.append((stamp, flight.newest - LOOK_SLACK, flight.newest + DUMP_PATIENCE))
    if not pairs and facts and facts.last_look is not None:
        # The last line of a log is hardly older than ten minutes at the last look, and never younger.
        ends = [span.last for span in window.spans(evidence) if span.last is not None]
        ends = ends or [death.origin.stamp for death in evidence.of(WorkerDeath) if death.origin.stamp is not None]
        pairs = [(stamp, facts.last_look - DUMP_PATIENCE, facts.last_look + LOOK_SLACK) for stamp in ends]
    return anchor(known, pairs)


def _unix_stamps(evidence: Evidence) -> list[Stamp]:
    stamps = [poll.time for poll in evidence.of(RasPoll)] + [page.time for page in evidence.of(EnginePage)]
    return [stamp for stamp in stamps if stamp is not None and stamp.kind is StampKind.UNIX]


def _tracks(tracks: tuple[GpuTrack, ...], roster: Roster) -> tuple[dict[int, GpuTrack], tuple[GpuTrack, ...]]:
    """GPU samples to ranks: by UUID, by bus id and host, by host and index, by the process seen on the GPU.

    Each way must lead to one rank: where two hosts have a GPU 0, samples that name no host belong to neither.
    """
    found: dict[int, GpuTrack] = {}
    stray: list[GpuTrack] = []
    for track in tracks:
        rank = next((rank for rank in _owners(track, roster) if rank is not None), None)
        if rank is None or rank in found:
            stray.append(track)
        else:
            found[rank] = track
    return found, tuple(stray)


def _owners(track: GpuTrack, roster: Roster) -> Iterator[int | None]:
    """The rank that each way of knowing one leads to, the surest way first."""
    host = roster.host(track.host)
    alone = len({rank.host for rank in roster.ranks}) == 1
    yield _only(rank.rank for rank in roster.ranks if track.uuid is not None and rank.gpu_uuid == track.uuid)
    # A GPU of another UUID is another GPU, whatever its index.
    others = [rank for rank in roster.ranks if None in (track.uuid, rank.gpu_uuid) or rank.gpu_uuid == track.uuid]
    near = [rank for rank in others if alone or host is None or rank.host == host]
    yield _only(
        rank.rank
        for rank in others
        if track.bus_id is not None and rank.bus_id == track.bus_id and (rank in near or rank.host is None)
    )
    yield _only(rank.rank for rank in near if rank.gpu == track.gpu)
    pids = {pid for seen in track.pids if seen for pid in seen}
    yield _only(owner for owner in (roster.of_process(host, pid) for pid in pids) if owner is not None)


def _only(ranks: Iterable[int]) -> int | None:
    found = set(ranks)
    return found.pop() if len(found) == 1 else None
