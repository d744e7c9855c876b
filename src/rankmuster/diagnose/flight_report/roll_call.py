"""Who is where in a group: the last number entered and finished by each member, alike ones told together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.roll import Head
from rankmuster.model.flight_report import Known, RankPlace, Stand
from rankmuster.model.job import Group


def stand_of(head: Head | None) -> Stand | None:
    """What a rank stands at, as the report has it."""
    if head is None:
        return None
    since = head.created if head.created > 0 else None
    return Stand(head.group, head.seq, head.op, head.peer, head.started, since)


def places(
    context: Context,
    group: Group,
    older: frozenset[tuple[int, int]],
    named: frozenset[int],
    silence: Mapping[int, Known],
) -> tuple[RankPlace, ...]:
    """All members, alike ones as one. `silence`: why ranks without a dump have none. `named`: by the verdict."""
    table, key = context.table, group.key
    alike: dict[tuple[object, ...], list[int]] = defaultdict(list)
    views, heads, rows, unplaced = table.views, table.heads, table.rows, table.unplaced
    for rank in group.members:
        view = views.get((key, rank))
        head = heads.get(rank)
        stands = (head.group, head.seq, head.op, head.peer) if head is not None else None
        if view is not None:
            known = Known.LOG if view.from_log else Known.OLDER if (key, rank) in older else Known.DUMP
            alike[known, view.issued, view.finished, stands, rank in named].append(rank)
        elif rank not in rows:
            known = silence.get(rank, Known.NO_DUMP)
            alike[known, -1, -1, stands, rank in named].append(rank)
        else:
            known = Known.OVERWRITTEN if (key, rank) in unplaced or rows[rank].dump.cut else Known.NEVER
            alike[known, -1, -1, stands, rank in named].append(rank)
    found = [
        RankPlace(tuple(ranks), known, entered, finished, stand_of(heads.get(ranks[0])), suspected)  # type: ignore[arg-type]
        for (known, entered, finished, _, suspected), ranks in alike.items()
    ]
    return tuple(sorted(found, key=lambda place: (not place.suspected, len(place.ranks), place.ranks)))
