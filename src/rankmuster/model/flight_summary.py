"""What is known of one node's summary of dumps as a file, beside the dumps that it holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FlightSummary:
    """One summary. `node`: the name it goes by, before the paths of its dumps; `host`: where they were, as told.

    `written`: unix seconds. `digest`: of its content, the same for a copy. `ranks`: whose dumps it holds, one per dump,
    None for a dump whose rank its name does not say. `from_ns`, `to_ns`: oldest and newest enqueueing of any entry, ns
    since the epoch, 0 where there is none. `damage`: why its tables cannot be used, None where they can; `ranks` is
    empty then if not even that could be read.
    """

    source: str
    node: str | None
    host: str | None
    written: float | None
    digest: str
    ranks: tuple[int | None, ...]
    entries: int
    from_ns: int
    to_ns: int
    damage: str | None = None
