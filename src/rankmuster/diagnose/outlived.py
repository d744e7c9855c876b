"""Ranks that ended while somebody looked, and whether the instance is known to have gone on without them.

What moved before they ended says nothing of the instance as it is now: one that has lost ranks is not healthy because
it was a moment ago. Blind to an end that no collector saw.
"""

from __future__ import annotations

from itertools import pairwise

from rankmuster.diagnose import departed
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.engine_series import grew, series
from rankmuster.diagnose.memo import once


@once
def lost(context: Context) -> tuple[int, ...]:
    """Ranks that a collector met alive and found gone at a later look, sorted; none where a server's counters advanced
    wholly after that (a replica was taken out on purpose, or the ranks were started anew)."""
    met = {each.rank for each in departed.watched(context) if each.task.looks[0].state in departed.ALIVE}
    gone = [each for each in departed.departed(context).values() if each.rank in met]
    advanced = _last_advance(context)
    return tuple(sorted(each.rank for each in gone if each.seen is None or advanced is None or advanced < each.seen))


def _last_advance(context: Context) -> float | None:
    """Unix seconds of the earlier of the last two pages between which counters grew."""
    return max(
        (
            one.time
            for each in series(context)
            for one, other in pairwise(each.points)
            if grew(one.stream, other.stream)
        ),
        default=None,
    )
