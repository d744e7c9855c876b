"""Hardware: one GPU quiet while its peers are busy, with bytes moving on all of them: it arrives late, they wait.

Waiting in a collective counts as load, so in a group that waits for one rank that rank's GPU is the idle one. Needs no
dump and sees replayed graphs. Blind to slowness that all share, and to a rank that is slow because its GPU is.
"""

from __future__ import annotations

import numpy as np

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, accuse
from rankmuster.diagnose.spin import Doing, picture, rates
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.frameworklog import DumpNotice
from rankmuster.model.plane import Plane

NAME = "uneven-load"

FEWEST_SAMPLES = 6
"""Samples of each GPU within the time looked at; a handful is a moment."""

FULL = 99.5
"""Per cent that are written as 100."""

EVEN_TRAFFIC = 0.3
"""Least share of its peers' link traffic at which the quiet GPU still takes part in the same collectives."""


def detect(context: Context) -> list[Finding]:
    """The one quiet rank among busy peers, while all move bytes."""
    limits = context.limits
    tracks = context.tracks
    if len(tracks) < 2 or len(tracks) != len(context.world):
        return []
    if picture(context).ranks(Doing.FOREIGN):
        return []
    dumps = [
        time for notice in context.evidence.of(DumpNotice) if (time := context.time(notice.origin.stamp)) is not None
    ]
    end = min(dumps, default=float("inf"))
    busy: dict[int, float] = {}
    traffic: dict[int, float] = {}
    for rank, track in tracks.items():
        rate = rates(track)
        inside = (track.time[1:] < end) & (rate >= limits.moving_kib_per_s)
        if int(inside.sum()) < FEWEST_SAMPLES:
            return []
        busy[rank] = float(np.median(track.sm_percent[1:][inside]))
        traffic[rank] = float(np.median(rate[inside]))
    quiet = min(busy, key=lambda rank: busy[rank])
    others = [rank for rank in busy if rank != quiet]
    even = traffic[quiet] >= EVEN_TRAFFIC * float(np.median([traffic[rank] for rank in others]))
    if busy[quiet] > limits.uneven_quiet_percent or not even:
        return []
    if min(busy[rank] for rank in others) < limits.uneven_busy_percent:
        return []
    least = min(busy[rank] for rank in others)
    peers = "100 %" if least > FULL else f"{least:.0f} % and more"
    statement = (
        f"Rank {quiet}'s GPU is busy {busy[quiet]:.0f} % of the time while its peers' are at "
        f"{peers}, and all move bytes: they wait in their kernels for it"
    )
    return [
        Finding(
            NAME,
            Plane.HARDWARE,
            statement,
            (tracks[quiet].source,),
            accuse(
                Subkind.PERSISTENT,
                Confidence.LIKELY,
                culprits=(quiet,),
                victims=tuple(others),
                why={quiet: "has the only quiet GPU while its peers wait for it in their kernels"},
                scope=Scope.RANK,
                stop=False,
            ),
        )
    ]
