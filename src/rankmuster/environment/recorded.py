"""What bundles recorded of an instance's load, as numbers: rings, durations, logs, steps. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rankmuster.environment.values import read_flag
from rankmuster.evidence.bundle import Evidence
from rankmuster.model.engine import EnginePage
from rankmuster.model.flight import DumpRequest, FlightDump, Floats, State
from rankmuster.model.frameworklog import LogSpan
from rankmuster.model.instance import InstanceFacts
from rankmuster.model.nccllog import InitPhase, LogOrigin, NcclInit, NcclLogFile, NcclTransport
from rankmuster.model.stamp import Stamp, StampKind

MOST_MS = 1e9
"""A duration of more, eleven days, is damage."""
_MS = 1_000_000  # ns


@dataclass(frozen=True, slots=True)
class Ring:
    """One dump's ring. `span`: seconds from its first to its last entry; `rate`: entries a second over that span.

    `full`: older entries were overwritten. `bytes`: of the file, None where it came packed with others.
    `durations`: GPU time of finished collectives, ms; `observed`: enqueue to the moment that the host noticed the end,
    ms. `moving`: it was taken from a job in motion (completed entries that are not retired). `took`: seconds from the
    request to the file, None where nobody wrote down when it was asked for.
    """

    bundle: str
    rank: int | None
    entries: int
    newest_record: int
    newest_ns: int
    span: float
    full: bool
    bytes: int | None
    stacks: bool
    moving: bool
    durations: Floats
    observed: Floats
    timeout_ms: int
    took: float | None = None

    @property
    def rate(self) -> float | None:
        """None where entries are too few, or of one moment."""
        return (self.entries - 1) / self.span if self.entries > 1 and self.span > 0 else None


@dataclass(frozen=True, slots=True)
class LogVolume:
    """One process's log. `start_bytes`: what an init wrote; `bytes` over `seconds`: what came after it."""

    source: str
    nccl: bool
    start_bytes: float
    bytes: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Recorded:
    """One bundle. `instance`: name and incarnation, as far as it says. `timing`: whether start events were on, None
    unknown. `step_rate`: steps or tokens a second of the engine, None where its pages do not show a steady one."""

    bundle: str
    instance: tuple[str | None, str | None]
    world_size: int | None
    timing: bool | None
    environment: Mapping[str, str]
    rings: tuple[Ring, ...]
    logs: tuple[LogVolume, ...]
    step_rate: float | None


def recorded(bundle: str, evidence: Evidence) -> Recorded:
    """Everything that calibration can use of one bundle."""
    facts = evidence.of(InstanceFacts)
    newest = max(facts, key=lambda one: one.last_look or 0.0) if facts else None
    sizes = {source.path: source.size for source in evidence.sources}
    took = {
        one.rank: one.written - one.asked
        for one in evidence.of(DumpRequest)
        if one.written is not None and one.written > one.asked
    }
    rings = tuple(_ring(bundle, dump, sizes.get(dump.source), took.get(dump.rank)) for dump in evidence.of(FlightDump))
    environment = newest.environment if newest else {}
    return Recorded(
        bundle=bundle,
        instance=(newest.instance, newest.incarnation) if newest else (None, None),
        world_size=newest.world_size if newest else None,
        timing=_timing(environment, rings),
        environment=environment,
        rings=rings,
        logs=(*_nccl_logs(evidence, sizes), *_framework_logs(evidence, sizes)),
        step_rate=_step_rate(evidence.of(EnginePage)),
    )


def _ring(bundle: str, dump: FlightDump, size: int | None, took: float | None) -> Ring:
    columns = dump.columns
    created = columns.created_ns[columns.created_ns > 0]
    done = columns.state == State.COMPLETED
    # what was completed and not retired was seen in motion; whatever failed is retired and not completed
    with np.errstate(invalid="ignore"):
        sane = (columns.duration_ms >= 0) & (columns.duration_ms < MOST_MS)
    durations = columns.duration_ms[done & sane]
    seen = done & (columns.completed_ns > columns.created_ns) & (columns.created_ns > 0)
    timeouts = columns.timeout_ms[columns.timeout_ms > 0]
    return Ring(
        bundle=bundle,
        rank=dump.rank,
        entries=len(columns),
        newest_record=int(columns.record_id.max()) if len(columns) else -1,
        newest_ns=columns.newest_ns,
        span=float(created.max() - created.min()) / 1e9 if len(created) else 0.0,
        full=bool(len(columns)) and int(columns.record_id.min()) > 0,
        bytes=size if dump.form == "pickle" and not dump.only_active else None,
        stacks=any(columns.stacks),
        moving=bool((done & ~columns.retired).any()),
        durations=durations.astype(np.float64),
        observed=((columns.completed_ns - columns.created_ns)[seen] / _MS).astype(np.float64),
        timeout_ms=int(np.median(timeouts)) if len(timeouts) else 0,
        took=took if dump.rank is not None else None,
    )


def _timing(environment: Mapping[str, str], rings: tuple[Ring, ...]) -> bool | None:
    """Durations prove it; else what the environment says."""
    if any(len(ring.durations) for ring in rings):
        return True
    for name in ("TORCH_NCCL_ENABLE_TIMING", "NCCL_ENABLE_TIMING"):
        if name in environment:
            return read_flag(environment[name])
    return None


def _nccl_logs(evidence: Evidence, sizes: Mapping[str, int]) -> list[LogVolume]:
    """What stands up to the last line of an init or of a connection was written once."""
    ends: dict[str, LogOrigin] = {}
    once = [init.origin for init in evidence.of(NcclInit) if init.phase in (InitPhase.START, InitPhase.COMPLETE)]
    for origin in (*once, *(transport.origin for transport in evidence.of(NcclTransport))):
        known = ends.get(origin.source)
        if known is None or origin.line > known.line:
            ends[origin.source] = origin
    volumes = []
    for log in evidence.of(NcclLogFile):
        end = ends.get(log.source)
        at, number = (end.stamp or log.first, end.line) if end else (log.first, 0)
        volumes.append(_volume(log.source, True, sizes.get(log.source, 0), number, log.lines, at, log.last))
    return volumes


def _framework_logs(evidence: Evidence, sizes: Mapping[str, int]) -> list[LogVolume]:
    """Of a file of several ranks all bytes, once, over the longest span in it."""
    spans: dict[str, list[LogSpan]] = defaultdict(list)
    for span in evidence.of(LogSpan):
        spans[span.source].append(span)
    volumes = []
    for source, found in sorted(spans.items()):
        longest = max(found, key=lambda span: _seconds(span.first, span.last))
        volumes.append(_volume(source, False, sizes.get(source, 0), 0, 1, longest.first, longest.last))
    return volumes


def _volume(
    source: str, nccl: bool, size: int, line: int, lines: int, first: Stamp | None, last: Stamp | None
) -> LogVolume:
    start = size * min(1.0, line / lines) if lines else 0.0
    return LogVolume(source, nccl, start, size - start, _seconds(first, last))


def _seconds(first: Stamp | None, last: Stamp | None) -> float:
    if first is None or last is None or first.kind is not last.kind or first.kind is StampKind.UPTIME:
        return 0.0
    return max(0.0, last.seconds - first.seconds)


LEAST_PAGES = 5
"""Pages of one engine from which a rate is taken: four intervals."""


def _step_rate(pages: tuple[EnginePage, ...]) -> float | None:
    """Steps or tokens a second: each counter from the first page on which it moves to the last, the sum of all."""
    series: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for page in pages:
        time = page.time.unix_seconds if page.time else None
        if time is None:
            continue
        for stream in page.streams:
            for name, value in stream.steps.items():
                series[(stream.key, name)].append((time, value))
    rates = []
    for points in series.values():
        points.sort()
        moving = [now for before, now in pairwise(points) if now[1] > before[1]]
        if len(points) < LEAST_PAGES or len(moving) < LEAST_PAGES - 1:
            continue
        (t0, v0), (t1, v1) = moving[0], moving[-1]
        if t1 > t0 and v1 > v0 and math.isfinite(v1 - v0):
            rates.append((v1 - v0) / (t1 - t0))
    return float(sum(rates)) if rates else None
