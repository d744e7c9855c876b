"""The folder of a drill's job, as its processes find it when they begin."""

from __future__ import annotations

from pathlib import Path

from rankmuster.drill.ledger import Ledger
from rankmuster.drill.orders import Orders
from rankmuster.drill.plan import LEDGER, LOGS, ORDERS, PLAN, TALLY, JobPlan
from rankmuster.drill.tally import Tally


def prepared(folder: Path, plan: JobPlan) -> Tally:
    """Makes it, with its plan and all that its processes share; gives what they tell one another. Raises OSError."""
    for part in (LOGS, "flight", "pipes", "nccl"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / PLAN).write_text(plan.to_json())
    Ledger.create(folder / LEDGER).close()
    Orders.create(folder / ORDERS).close()
    return Tally.create(folder / TALLY, plan.ranks)
