"""Which rank's GPU has a bus id: what the supervisor or NCCL said of it, else what the samples of its GPU say."""

from __future__ import annotations

from rankmuster.diagnose.context import Context
from rankmuster.model.job import Rank


def bus_of(context: Context, rank: Rank) -> str | None:
    """The bus id of the rank's GPU, None where nothing says it."""
    if rank.bus_id is not None:
        return rank.bus_id
    track = context.tracks.get(rank.rank)
    return track.bus_id if track is not None else None


def users(context: Context, bus: str, host: str | None) -> list[int]:
    """The ranks with this GPU. `host`: as somebody names it, None unknown."""
    known = context.roster.host(host)
    return [
        rank.rank
        for rank in context.roster.ranks
        if bus_of(context, rank) == bus
        and (known is None or rank.host in (None, known) or known in rank.aliases or host in rank.aliases)
    ]


def of_nobody(context: Context) -> bool:
    """Whether the bus ids of all ranks are known, so that a GPU that fits none of them is not the instance's."""
    return bool(context.roster.ranks) and all(bus_of(context, rank) is not None for rank in context.roster.ranks)
