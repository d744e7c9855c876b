"""When each dump was taken, whether the job moved at that time, and which dumps belong to another run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from rankmuster.diagnose.clock import Clock
from rankmuster.diagnose.flight_rows import FlightRows
from rankmuster.diagnose.thresholds import Thresholds
from rankmuster.model.frameworklog import DumpNotice
from rankmuster.model.instance import ManifestFacts
from rankmuster.model.job import DumpFacts
from rankmuster.model.stamp import Stamp


def notices_by_rank(notices: Iterable[DumpNotice]) -> dict[int, list[Stamp]]:
    """Stamps of `preparing to dump` per rank, in the log's order; the last is the attempt that wrote the file."""
    found: dict[int, list[Stamp]] = defaultdict(list)
    for notice in notices:
        if notice.origin.rank is not None and notice.origin.stamp is not None:
            found[notice.origin.rank].append(notice.origin.stamp)
    return found


def noted(manifests: Iterable[ManifestFacts]) -> dict[str, float]:
    """Unix seconds per file, as collectors noted them."""
    return {path: time for manifest in manifests for path, time in manifest.look_times.items()}


def facts_of(
    rows: Mapping[int, FlightRows],
    notices: Mapping[int, list[Stamp]],
    manifests: Iterable[ManifestFacts],
    clock: Clock,
    limits: Thresholds,
    moving: frozenset[int] = frozenset(),
) -> dict[int, DumpFacts]:
    """Look time, motion and staleness of every dump. `moving`: ranks of which two looks show that they went on."""
    look_times = noted(manifests)
    stale = _stale(rows, limits)
    facts = {}
    for rank, flight in rows.items():
        look, origin = _look(flight, notices.get(rank, []), look_times, clock)
        facts[rank] = DumpFacts(
            rank=rank,
            source=flight.dump.source,
            look=look,
            look_from=origin,
            in_motion=flight.in_motion or rank in moving,
            went_on=rank in moving,
            stale=rank in stale,
            entries=len(flight.dump.columns),
            has_events=flight.has_events,
            has_timing=flight.has_timing,
        )
    return facts


def _look(
    flight: FlightRows, notices: list[Stamp], look_times: Mapping[str, float], clock: Clock
) -> tuple[float | None, str]:
    manifest = look_times.get(flight.dump.source)
    if manifest is not None:
        return manifest, "manifest"
    if flight.dump.time is not None:
        outside = clock.unix(flight.dump.time)
        if outside is not None:
            return outside, "manifest"
    logged = [time for time in (clock.unix(stamp) for stamp in notices) if time is not None]
    if logged:
        return max(logged[-1], flight.newest), "log"
    return (flight.newest, "newest stamp") if flight.newest else (None, "presumed")


def _stale(rows: Mapping[int, FlightRows], limits: Thresholds) -> set[int]:
    """Dumps whose time lies wholly apart from the majority's: the file of an earlier run under the same name."""
    spans = {}
    for rank, flight in rows.items():
        created = flight.dump.columns.created_ns
        if len(created):
            spans[rank] = (float(created.min()) / 1e9, flight.newest)
    if len(spans) < 3:
        return set()
    start = float(np.median([low for low, _ in spans.values()]))
    end = float(np.median([high for _, high in spans.values()]))
    apart = {
        rank
        for rank, (low, high) in spans.items()
        if high < start - limits.dump_spread_seconds or low > end + limits.dump_spread_seconds
    }
    return apart if len(apart) * 2 < len(spans) else set()
