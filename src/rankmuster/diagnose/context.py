"""Everything a detector may look at: the evidence, aligned once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rankmuster.diagnose import flight_groups, host_clocks, log_rolls, looks, lookup, roll
from rankmuster.diagnose.clock import Clock, anchor
from rankmuster.diagnose.flight_rows import FlightRows, rows_of
from rankmuster.diagnose.lookup import Roster
from rankmuster.diagnose.roll import RollTable
from rankmuster.diagnose.thresholds import Thresholds
from rankmuster.evidence.bundle import Evidence
from rankmuster.model.engine import EnginePage
from rankmuster.model.flight import FlightDump
from rankmuster.model.frameworklog import DumpNotice, LogSpan, WatchdogTimeout, WorkStatus
from rankmuster.model.hardware import GpuTrack
from rankmuster.model.instance import InstanceFacts, ManifestFacts
from rankmuster.model.job import DumpFacts, Job
from rankmuster.model.nccllog import NcclLogFile
from rankmuster.model.ras import RasPoll
from rankmuster.model.stamp import Stamp, StampKind

LOOK_SLACK = 30.0
"""Seconds by which a RAS reply's own time may differ from the time noted for the question."""

DUMP_PATIENCE = 600.0
"""Seconds within which a watchdog writes its dump after the newest entry; torch's default time-out is ten minutes."""


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """One diagnosis's evidence, aligned. `stray_tracks`: GPUs that no rank could be tied to."""

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
    window: tuple[float | None, float | None]
    job: Job

    def time(self, stamp: Stamp | None) -> float | None:
        """Unix seconds of a stamp, where it can be anchored."""
        return self.clock.unix(stamp)

    @property
    def world(self) -> tuple[int, ...]:
        """All global ranks."""
        return tuple(rank.rank for rank in self.roster.ranks)

    @property
    def in_motion(self) -> bool:
        """Whether the dumps, stale ones aside, were taken from a job in motion."""
        return any(facts.in_motion for facts in self.dump_facts.values() if not facts.stale)


def build(evidence: Evidence, limits: Thresholds) -> Context:
    """Aligns all evidence (DESIGN, "Align")."""
    # Of several looks at one incarnation the last one counts.
    facts = max(evidence.of(InstanceFacts), key=lambda item: item.last_look or 0.0, default=None)
    manifests = evidence.of(ManifestFacts)
    dumps = _ranked(evidence.of(FlightDump), manifests)
    newest, older, _ = looks.newest_per_rank(dumps)
    roster = lookup.build(evidence, newest.values(), facts)
    rows = {rank: rows_of(dump) for rank, dump in sorted(newest.items())}
    notices = looks.notices_by_rank(evidence.of(DumpNotice))
    clock = _clock(evidence, facts, rows, notices)
    dump_facts = looks.facts_of(rows, notices, manifests, clock, limits)
    live = {rank: flight for rank, flight in rows.items() if not dump_facts[rank].stale}
    # An empty dump without counters (a recorder of size 0) says as much as none.
    speaking = {rank: flight for rank, flight in live.items() if len(flight.dump.columns) or flight.dump.status}
    groups, local_groups = flight_groups.align({rank: flight.dump for rank, flight in speaking.items()})
    timeouts = evidence.of(WatchdogTimeout)
    table = log_rolls.augment(
        roll.build(groups, local_groups, speaking),
        timeouts,
        evidence.of(WorkStatus),
        tuple(rank.rank for rank in roster.ranks),
    )
    polls = tuple(sorted(evidence.of(RasPoll), key=lambda poll: (clock.unix(poll.time) or 0.0, poll.source)))
    pages = tuple(sorted(evidence.of(EnginePage), key=lambda page: (clock.unix(page.time) or 0.0, page.source)))
    tracks, stray = _tracks(evidence.of(GpuTrack), roster)
    timeout_times = [time for time in (clock.unix(line.origin.stamp) for line in timeouts) if time is not None]
    window = _window(evidence, facts, clock, rows, polls, pages)
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
        local_groups=local_groups,
        first_timeout=min(timeout_times, default=None),
        clock_offsets=host_clocks.estimate(table, roster),
        window=window,
    )
    return Context(
        evidence=evidence,
        limits=limits,
        facts=facts,
        roster=roster,
        clock=clock,
        table=table,
        dump_facts=dump_facts,
        older_dumps=tuple(older),
        polls=sound,
        corrupt_polls=tuple(poll for poll in polls if poll.corrupt),
        pages=pages,
        tracks=tracks,
        stray_tracks=stray,
        timeouts=timeouts,
        first_timeout=min(timeout_times, default=None),
        window=window,
        job=job,
    )


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
        ends = [span.last for span in _spans(evidence) if span.last is not None]
        pairs = [(stamp, facts.last_look - DUMP_PATIENCE, facts.last_look + LOOK_SLACK) for stamp in ends]
    return anchor(known, pairs)


def _spans(evidence: Evidence) -> list[LogSpan | NcclLogFile]:
    return [*evidence.of(LogSpan), *evidence.of(NcclLogFile)]


def _unix_stamps(evidence: Evidence) -> list[Stamp]:
    stamps = [poll.time for poll in evidence.of(RasPoll)] + [page.time for page in evidence.of(EnginePage)]
    return [stamp for stamp in stamps if stamp is not None and stamp.kind is StampKind.UNIX]


def _tracks(tracks: tuple[GpuTrack, ...], roster: Roster) -> tuple[dict[int, GpuTrack], tuple[GpuTrack, ...]]:
    """GPU samples to ranks: by UUID, by bus id and host, by host and index, by the process seen on the GPU."""
    found: dict[int, GpuTrack] = {}
    stray: list[GpuTrack] = []
    hosts = {rank.host for rank in roster.ranks}
    for track in tracks:
        host = roster.host(track.host)
        rank = next(
            (
                rank.rank
                for rank in roster.ranks
                if rank.rank not in found
                and (
                    (track.uuid is not None and rank.gpu_uuid == track.uuid)
                    or (track.bus_id is not None and rank.bus_id == track.bus_id and rank.host in (host, None))
                    or (rank.gpu == track.gpu and (rank.host == host or host is None or len(hosts) == 1))
                )
            ),
            None,
        )
        if rank is None:
            pids = {pid for seen in track.pids if seen for pid in seen}
            owners = {owner for owner in (roster.of_process(host, pid) for pid in pids) if owner is not None}
            rank = owners.pop() if len(owners) == 1 else None
        if rank is None or rank in found:
            stray.append(track)
        else:
            found[rank] = track
    return found, tuple(stray)


def _window(
    evidence: Evidence,
    facts: InstanceFacts | None,
    clock: Clock,
    rows: Mapping[int, FlightRows],
    polls: tuple[RasPoll, ...],
    pages: tuple[EnginePage, ...],
) -> tuple[float | None, float | None]:
    stamps = [poll.time for poll in polls] + [page.time for page in pages]
    times = [time for time in map(clock.unix, stamps) if time]
    for track in evidence.of(GpuTrack):
        if len(track.time):
            times += [float(track.time[0]), float(track.time[-1])]
    for span in _spans(evidence):
        times += [time for time in (clock.unix(span.first), clock.unix(span.last)) if time]
    times += [flight.newest for flight in rows.values() if flight.newest]
    if facts:
        times += [time for time in (facts.started_at, facts.last_look) if time]
    return (min(times), max(times)) if times else (None, None)
