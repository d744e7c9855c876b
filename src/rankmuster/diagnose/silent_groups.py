"""Groups of which a rank's dump has no entry: never used, all of it finished and not listed, or overwritten.

Absence of entries proves that nothing was entered only where the dump holds everything from its first record on. A dump
of active operations alone, or a ring buffer that has wrapped, needs the status counters for it; those are keyed by a
local id (order of creation in that process), which members of one group nearly always share.
"""

from __future__ import annotations

from collections.abc import Mapping

from rankmuster.diagnose.flight_rows import FlightRows
from rankmuster.model.job import Group, RankGroupView


def place(
    groups: tuple[Group, ...],
    local_groups: Mapping[tuple[int, int], int],
    rows: Mapping[int, FlightRows],
    placed: frozenset[tuple[int, int]],
) -> tuple[dict[tuple[int, int], RankGroupView], frozenset[tuple[int, int]]]:
    """(views that the status counters give, places of which nothing can be said), as (group key, rank).

    A place in neither was never entered.
    """
    pg_ids, mixed = _ids(local_groups, rows)
    views: dict[tuple[int, int], RankGroupView] = {}
    unplaced = set()
    for group in groups:
        for rank in group.members:
            if (group.key, rank) in placed or rank not in rows:
                continue
            dump = rows[rank].dump
            if dump.from_the_first and not dump.cut:
                continue
            candidates = pg_ids.get(group.key, frozenset())
            own = next(iter(candidates)) if len(candidates) == 1 else None
            taken = any(
                other.pg_id == own and local_groups.get((rank, index)) != group.key
                for index, other in enumerate(dump.columns.groups)
            )
            if own is None or taken or group.key in mixed or not dump.status:
                unplaced.add((group.key, rank))
                continue
            status = dump.status.get(str(own))
            if status is not None and status.last_enqueued >= 0:
                views[(group.key, rank)] = RankGroupView(rank, status.last_enqueued, status.last_completed)
    return views, frozenset(unplaced)


def _ids(
    local_groups: Mapping[tuple[int, int], int], rows: Mapping[int, FlightRows]
) -> tuple[dict[int, frozenset[int]], frozenset[int]]:
    """Local ids that members know a group by, and the groups that also send and receive (their counters mix)."""
    found: dict[int, set[int]] = {}
    mixed = set()
    for rank, flight in rows.items():
        sends = flight.p2p.groups()
        for index, own in enumerate(flight.dump.columns.groups):
            key = local_groups.get((rank, index))
            if key is None:
                continue
            if own.pg_id is not None:
                found.setdefault(key, set()).add(own.pg_id)
            if index in sends:
                mixed.add(key)
    return {key: frozenset(ids) for key, ids in found.items()}, frozenset(mixed)
