"""RAS: two sides that miss each other, so that the path between them is lost and nobody on either side is.

Needs an asker on each side. Blind to paths that RAS's own connections do not take.
"""

from __future__ import annotations

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, accuse, counted
from rankmuster.diagnose.ras_view import Absence
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.plane import Plane
from rankmuster.model.ranks_text import ranks_text

NAME = "ras-missing"
"""Part of the detector of ranks that RAS misses."""


def detect(context: Context, looks: list[Absence]) -> Finding | None:
    """Two askers, each of which reaches its own side and misses the other's, at about the same time."""
    for index, one in enumerate(looks):
        for other in looks[index + 1 :]:
            if not one.answered or not other.answered or one.answered & other.answered:
                continue
            if not (one.unresponsive & other.answered and other.unresponsive & one.answered):
                continue
            near = (
                one.time is None or other.time is None or abs(one.time - other.time) < context.limits.two_sides_seconds
            )
            if near:
                return _parted(context, one, other, looks)
    return None


def _parted(context: Context, one: Absence, other: Absence, looks: list[Absence]) -> Finding:
    sides = [tuple(sorted(one.answered)), tuple(sorted(other.answered))]
    hosts = tuple(
        sorted({host for rank in (*sides[0], *sides[1]) if (host := context.job.rank(rank).host) is not None})
    )
    names = [
        " and ".join(sorted({context.job.rank(rank).host or "an unknown host" for rank in side})) for side in sides
    ]
    repeats = sum(bool(look.unresponsive) for look in looks)
    statement = (
        f"RAS asked on both sides: {ranks_text(sides[0])} ({names[0]}) answer and miss {ranks_text(sides[1])}; "
        f"{ranks_text(sides[1])} ({names[1]}) answer and miss {ranks_text(sides[0])}: all processes live and the path "
        f"between the two sides is lost ({counted(repeats, 'poll')})"
    )
    return Finding(
        NAME,
        Plane.RAS,
        statement,
        (one.source, other.source),
        accuse(
            Subkind.PATH_LOST,
            Confidence.CONFIRMED if repeats > 2 else Confidence.LIKELY,
            victims=(*sides[0], *sides[1]),
            hosts=hosts,
            links=(f"{names[0]} - {names[1]}",),
            scope=Scope.GROUP,
            at=min((look.time for look in looks if look.time is not None), default=None),
            decisive=repeats > 2,
        ),
    )
