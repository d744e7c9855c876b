"""Which dump of each rank is judged, where a collector took several: of two recorders, at two looks.

torch keeps a recorder for the devices' operations (NCCL) and one for the host's (gloo), and their dumps do not compare:
ranks are judged on one recorder. An older dump of the same recorder tells whether the rank moved in between. Blind to a
wait that leads from one recorder's operations to the other's and back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from rankmuster.diagnose.flight_rows import FlightRows, rows_of
from rankmuster.diagnose.op_names import backend_of
from rankmuster.diagnose.thresholds import Thresholds
from rankmuster.model.flight import FlightDump

HOST_BACKENDS = frozenset({"gloo"})
"""Backends whose operations run on the host (torch keeps them in the generic recorder)."""


class Recorder(str, Enum):
    DEVICE = "device"
    HOST = "host"
    EMPTY = "empty"  # without an entry: either


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """`newest`: the judged dump per rank. `older`: the others. `moving`: ranks that went on between two looks."""

    newest: Mapping[int, FlightDump]
    older: tuple[FlightDump, ...]
    moving: frozenset[int] = frozenset()


def recorder_of(dump: FlightDump) -> Recorder:
    """By the backends of its operations."""
    if not len(dump.columns):
        return Recorder.EMPTY
    return Recorder.HOST if {backend_of(op) for op in dump.columns.ops} <= HOST_BACKENDS else Recorder.DEVICE


def choose(dumps: Iterable[FlightDump], looks: Mapping[str, float], limits: Thresholds) -> Choice:
    """The dump of each rank to judge. `looks`: unix seconds per file, where a collector noted them."""
    by_rank: dict[int, list[FlightDump]] = defaultdict(list)
    for dump in dumps:
        if dump.rank is not None:
            by_rank[dump.rank].append(dump)
    unwanted = _unwanted(by_rank, looks, limits)
    newest: dict[int, FlightDump] = {}
    older: list[FlightDump] = []
    for rank, own in by_rank.items():
        fitting = [dump for dump in own if unwanted is None or recorder_of(dump) is not unwanted]
        chosen = max(fitting, key=lambda dump: _age_key(dump, looks)) if fitting else None
        if chosen is not None:
            newest[rank] = chosen
        older += [dump for dump in own if dump is not chosen]
    return Choice(newest, tuple(older), _moving(newest, older, looks, limits))


def _age_key(dump: FlightDump, looks: Mapping[str, float]) -> tuple[int, int, float]:
    """What moved since tells which is newer; of two that are alike, the later look."""
    return (dump.columns.newest_ns, len(dump.columns), _look(dump, looks) or 0.0)


def _look(dump: FlightDump, looks: Mapping[str, float]) -> float | None:
    known = looks.get(dump.source)
    return known if known is not None or dump.time is None else dump.time.unix_seconds


def _unwanted(
    by_rank: Mapping[int, list[FlightDump]], looks: Mapping[str, float], limits: Thresholds
) -> Recorder | None:
    """The recorder to leave aside, where a rank has dumps of both; None otherwise."""
    best: dict[Recorder, dict[int, FlightDump]] = {Recorder.DEVICE: {}, Recorder.HOST: {}}
    both = False
    for rank, own in by_rank.items():
        kinds: dict[Recorder, list[FlightDump]] = defaultdict(list)
        for dump in own:
            kinds[recorder_of(dump)].append(dump)
        both |= len(kinds.keys() - {Recorder.EMPTY}) > 1
        for kind, found in kinds.items():
            if kind is not Recorder.EMPTY:
                best[kind][rank] = max(found, key=lambda dump: _age_key(dump, looks))
    if not both:
        return None

    ends = {
        kind: max((dump.columns.newest_ns / 1e9 for dump in found.values()), default=0.0)
        for kind, found in best.items()
    }

    def worth(kind: Recorder) -> tuple[bool, bool, bool]:
        # Who stands in a collective of the devices blocks the host's as well, so that the devices' tell the cause; a
        # recorder that ended long before the other is of an earlier run, or holds what was captured in a graph.
        current = ends[kind] >= max(ends.values()) - limits.dump_spread_seconds
        half = len(best[kind]) * 2 >= len(by_rank)
        return (current and _stands(best[kind].values(), looks, limits), half, kind is Recorder.DEVICE)

    return min((Recorder.DEVICE, Recorder.HOST), key=worth)


def _stands(dumps: Iterable[FlightDump], looks: Mapping[str, float], limits: Thresholds) -> bool:
    """Whether an operation is outstanding for longer than a moving job's are."""
    for dump in dumps:
        flight = rows_of(dump)
        since = oldest_outstanding(flight)
        look = _look(dump, looks)
        age = limits.tail_seconds + 1 if look is None or since is None else look - since
        if since is not None and age > max(limits.tail_seconds, limits.tail_gaps * flight.longest_gap):
            return True
    return False


def oldest_outstanding(flight: FlightRows) -> float | None:
    """Unix seconds at which the oldest operation that has not finished was enqueued; None where all have."""
    p2p = flight.p2p.row[~flight.p2p.finished]
    times = [*flight.created[~flight.finished].tolist(), *(flight.dump.columns.created_ns[p2p] / 1e9).tolist()]
    return min(times, default=None)


def _moving(
    newest: Mapping[int, FlightDump], older: Iterable[FlightDump], looks: Mapping[str, float], limits: Thresholds
) -> frozenset[int]:
    """All ranks, where every one of them enqueued operations since its older look and waits for none from before it."""
    before: dict[int, float] = {}
    for dump in older:
        chosen = newest.get(dump.rank) if dump.rank is not None else None
        look = _look(dump, looks)
        later = _look(chosen, looks) if chosen is not None else None
        if dump.rank is None or chosen is None or look is None or later is None:
            continue
        apart = limits.stopped_seconds <= later - look <= limits.dump_spread_seconds
        if apart and recorder_of(dump) is recorder_of(chosen):
            before[dump.rank] = max(look, before.get(dump.rank, look))
    if not newest or before.keys() != newest.keys():
        return frozenset()
    for rank, dump in newest.items():
        newest_entry, look = dump.columns.newest_ns / 1e9, _look(dump, looks) or 0.0
        if newest_entry <= before[rank] or look - newest_entry > limits.tail_seconds:
            return frozenset()
        since = oldest_outstanding(rows_of(dump))
        if since is not None and since <= before[rank]:
            return frozenset()
    return frozenset(newest)
