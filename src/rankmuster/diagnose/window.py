"""What time the evidence covers, when somebody last looked, and when something first alarmed."""

from __future__ import annotations

from collections.abc import Mapping

from rankmuster.diagnose.clock import Clock
from rankmuster.diagnose.flight_rows import FlightRows
from rankmuster.evidence.bundle import Evidence
from rankmuster.model.engine import EnginePage
from rankmuster.model.frameworklog import EngineWatchdog, LogSpan, WatchdogTimeout
from rankmuster.model.hardware import GpuTrack
from rankmuster.model.instance import InstanceFacts
from rankmuster.model.nccllog import NcclLogFile
from rankmuster.model.ras import RasPoll


def spans(evidence: Evidence) -> list[LogSpan | NcclLogFile]:
    """First and last stamps of all logs."""
    return [*evidence.of(LogSpan), *evidence.of(NcclLogFile)]


def first(clock: Clock, lines: tuple[WatchdogTimeout | EngineWatchdog, ...]) -> float | None:
    """Unix seconds of the first of these lines that carries a time."""
    times = (clock.unix(line.origin.stamp) for line in lines)
    return min((time for time in times if time is not None), default=None)


def _looks(evidence: Evidence, clock: Clock, polls: tuple[RasPoll, ...], pages: tuple[EnginePage, ...]) -> list[float]:
    """Times at which somebody looked: polls, pages, and the ends of GPU samples."""
    stamps = [*(poll.time for poll in polls), *(page.time for page in pages)]
    times = [time for time in map(clock.unix, stamps) if time]
    for track in evidence.of(GpuTrack):
        if len(track.time):
            times += [float(track.time[0]), float(track.time[-1])]
    return times


def last_look(
    evidence: Evidence,
    facts: InstanceFacts | None,
    clock: Clock,
    polls: tuple[RasPoll, ...],
    pages: tuple[EnginePage, ...],
) -> float | None:
    """The noted last look, or a poll, page or sample after it; without a note the looks may have ended at any time."""
    if facts is None or facts.last_look is None:
        return None
    return max([facts.last_look, *_looks(evidence, clock, polls, pages)])


def covered(
    evidence: Evidence,
    facts: InstanceFacts | None,
    clock: Clock,
    rows: Mapping[int, FlightRows],
    polls: tuple[RasPoll, ...],
    pages: tuple[EnginePage, ...],
    looked: float | None,
) -> tuple[float | None, float | None]:
    """From the first to the last moment that is looked at; logs may go on after the last look and do not stretch it."""
    times = _looks(evidence, clock, polls, pages)
    for span in spans(evidence):
        told = [time for time in (clock.unix(span.first), clock.unix(span.last)) if time]
        times += told if looked is None else [min(time, looked) for time in told]
    times += [flight.newest for flight in rows.values() if flight.newest]
    if facts:
        times += [time for time in (facts.started_at, facts.last_look) if time]
    return (min(times), max(times)) if times else (None, None)
