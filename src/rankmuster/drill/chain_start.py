"""The chain for a fault of the start: the ranks never come together, so that nothing ever served.

Where the group ends by itself, its supervisor tells it. Where the healthy ranks wait, the watch does: it is told how
long this engine takes to come up, as an operator who knows it tells it. The next start is well.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from rankmuster.drill.card import Shape, blank_fault
from rankmuster.drill.chain_served import of_incident
from rankmuster.drill.engine_folder import FaultOrder
from rankmuster.drill.faults import Fault
from rankmuster.drill.incident_journal import incidents_in
from rankmuster.drill.incident_load import Load
from rankmuster.drill.incident_once import (
    AFTER_SECONDS,
    FIRST,
    IncidentOrder,
    measured,
    named_stand,
    result_of,
    until_over,
)
from rankmuster.drill.incident_stand import Stand, StandFailed
from rankmuster.drill.plan import TALLY
from rankmuster.drill.tally import RankState, Tally
from rankmuster.model.drill_run import DrillRun
from rankmuster.store.errors import HistoryError

SERVES_SECONDS = 40.0
"""Within which an incarnation of the built-in engine has to serve, from its processes' start: on a quiet machine it
takes a fifth of that (docs/measured.md), and a start that is stuck is told within a minute."""
OPENED_SECONDS = 30.0
"""Beyond the fault's own time, for which an incident is waited for: one that is late is told as late."""


def run_start(order: IncidentOrder, fault: Fault, number: int, folder: Path, root: Path) -> DrillRun:
    """`folder` (new) keeps everything, `root` is the card's. Never raises for what can go wrong in it."""
    folder.mkdir(parents=True)
    folder = folder.resolve()
    wanted = replace(named_stand(order.stand, fault, number), start_seconds=SERVES_SECONDS)
    shape = Shape(wanted.backend, wanted.ranks, order.culprit, wanted.graph)
    blank = blank_fault(fault, fault.truth(wanted.backend), shape)
    result = result_of(wanted, fault, number, folder)
    stand = Stand(wanted, folder, FaultOrder(fault.name, order.culprit, FIRST))
    made_at: float | None = None
    load: Load | None = None
    wrongs: list[str] = []
    try:
        with stand:
            made_at = _made(stand, order)
            stand.keep_settings()
            load = Load(stand.address, order.clients, folder / "attempts.jsonl", order.seed + number)
            load.start()
            stand.until(
                lambda: _incidents(stand) > 0, fault.most_seconds + OPENED_SECONDS, "told: no incident was opened"
            )
            until_over(stand, order.most_seconds)
            time.sleep(AFTER_SECONDS)
            load.stop()
    except (StandFailed, OSError, HistoryError) as error:
        wrongs.append(str(error))
    finally:
        if load is not None:
            load.stop(0.0)
    return of_incident(blank, measured(result, order, fault, stand, load, made_at, wrongs), root)


def _made(stand: Stand, order: IncidentOrder) -> float:
    """When the fault took effect, unix seconds: it was made, and the healthy ranks wait, or all have ended by it.

    The rank with the fault says in the tally that it makes it. Raises StandFailed where it did not: what ended,
    ended by itself.
    """
    place = stand.engine.of(FIRST) / TALLY
    stand.until(lambda: place.exists() and stand.about(FIRST) is not None, order.start_seconds, "started")
    with Tally(place) as tally:
        healthy = [rank for rank in range(stand.wanted.ranks) if rank != order.culprit]

        def wait() -> bool:
            return bool(tally.fault_at) and all(tally.state(rank) >= RankState.LOADED for rank in healthy)

        stand.until(lambda: wait() or _incidents(stand) > 0, order.start_seconds, "waiting for the rank with the fault")
        now = time.time()
        if not tally.fault_at:
            raise StandFailed(f"the fault was not made: an incident was opened before rank {order.culprit} had it")
        return now if wait() and not _incidents(stand) else tally.fault_at / 1e9


def _incidents(stand: Stand) -> int:
    with suppress(HistoryError):  # the runner may be making it at this moment
        return incidents_in(stand.places.journal)
    return 0
