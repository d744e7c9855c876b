"""False alarms and power of `drift`: simulated fleets through the whole of it, one node and rollouts.

    python tools/simulate_drift.py --output docs/measured/drift-fleet.json

The noise is that of the admission's simulations (`baseline/simulate_noise.py`: fitted to four H200s, with the spreads
between nodes, days and sessions assumed). A run of each node a day; the fleet is looked at once, at the end.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rankmuster.baseline.drift.examine import examine
from rankmuster.baseline.drift.fleet import Fleet, NodePast
from rankmuster.baseline.simulate_fleet import DAY_S, START_S, Loss
from rankmuster.baseline.simulate_fleet import Fleet as Results
from rankmuster.baseline.simulate_noise import CALIBRATED, LINK_BOUND_FROM, Noise
from rankmuster.model.drift import DriftKind, DriftReport, DriftScope
from rankmuster.model.fingerprint import NONE, Fingerprint
from rankmuster.model.history import CellHistory, ClassHistory

SLOWER = (DriftKind.BANDWIDTH, DriftKind.LATENCY, DriftKind.DISPERSION)


@dataclass(frozen=True, slots=True)
class Plan:
    """What happens. `slow`: nodes that lose `loss` of their bandwidth from `day` on, or `per_week` of it each week.

    `rolled_out`: whether these nodes get another driver on that day too; `harmless`: nodes that get it and lose
    nothing. `spread_days`: over how many days a rollout goes.
    """

    nodes: int
    days: int = 30
    slow: int = 0
    loss: float = 0.0
    per_week: float = 0.0
    day: float = 20.0
    spread_days: float = 2.0
    rolled_out: bool = False
    harmless: int = 0
    noise: Noise = CALIBRATED


def fingerprint(host: str, driver: str, at: float) -> Fingerprint:
    """Of a node of one kind, with its driver in the names of its classes."""
    return Fingerprint(
        host=host,
        taken_at=at,
        image_digest=NONE,
        cuda_version="12.9",
        nccl_version="2.28.9",
        pytorch_version="2.11.0",
        engine=NONE,
        engine_version=NONE,
        gpu_model="NVIDIA H200",
        gpu_count=4,
        driver=driver,
        topology_hash="sha256:0",
        nccl_test_profile=NONE,
        network_device_set=(),
        nic_order=(),
        settings={},
        kin_hash=f"kin {driver}",
        class_hash=f"class {driver}",
        node_hash=f"node-{int(host.removeprefix('h-'))}",
    )


def fleet_of(plan: Plan, seed: int) -> Fleet:
    """The fleet as the history would have it at the end."""
    rng = np.random.default_rng(seed)
    results = Results(plan.noise, rng, nodes=plan.nodes, days=plan.days)
    node = np.repeat(np.arange(plan.nodes), plan.days)
    day = np.tile(np.arange(plan.days), plan.nodes)
    at = day + np.repeat(rng.random(plan.nodes), plan.days)
    times = results.times(node, day, results.session(len(node)))
    begins = plan.day + rng.random(plan.nodes) * plan.spread_days * (plan.rolled_out or plan.harmless > 0)
    loss = np.zeros(len(node))
    hit = (node < plan.slow) & (at >= begins[node])
    loss[hit] = plan.loss
    if plan.per_week:
        weeks = at / 7
        loss = np.where(node < plan.slow, 1 - (1 - plan.per_week) ** weeks, loss)
    one = np.exp(results.slower(Loss(0.5, from_bytes=LINK_BOUND_FROM))) > 1
    times = np.where(one[None, :], times / (1 - loss[:, None]), times)
    moved = max(plan.slow if plan.rolled_out else 0, plan.harmless)
    new = (node < moved) & (at >= begins[node])
    histories = [
        replace(results.history(times[rows], node[rows], START_S + DAY_S * at[rows]), class_hash=f"class {driver}")
        for driver, rows in (("580.1", ~new), ("580.2", new))
        if rows.any()
    ]
    nodes = []
    for number in range(plan.nodes):
        host = f"h-{number:04d}"
        prints = [fingerprint(host, "580.1", START_S)]
        if number < moved:
            prints.append(fingerprint(host, "580.2", START_S + DAY_S * float(begins[number])))
        prints.append(fingerprint(host, str(prints[-1].driver), START_S + DAY_S * plan.days))
        nodes.append(NodePast(host, f"node-{number}", tuple(prints)))
    return Fleet(tuple(nodes), tuple(histories), START_S + DAY_S * plan.days)


def slower_nodes(report: DriftReport) -> set[str]:
    """Nodes of which the report says that they became slower."""
    return {node for one in report.findings if one.kind in SLOWER and (one.size or 0.0) < 0 for node in one.nodes}


def healthy(plan: Plan, count: int) -> dict[str, float]:
    """Findings per look at healthy fleets, of whatever kind."""
    reports = [examine(fleet_of(plan, seed)) for seed in range(1, count + 1)]
    findings = [one for report in reports for one in report.findings if one.kind is not DriftKind.VERSION]
    return {
        "looks": count,
        "findings_per_look": len(findings) / count,
        "systematic_per_look": sum(one.scope is DriftScope.SYSTEMATIC for one in findings) / count,
        "looks_with_any": sum(bool(set(map(id, report.findings)) & set(map(id, findings))) for report in reports)
        / count,
        "stop_per_look": sum(report.stop_rollout for report in reports) / count,
    }


def daily(plan: Plan, count: int, first: int) -> dict[str, float]:
    """Healthy fleets looked at every day from day `first` on: findings that were not there at the look before."""
    new = 0
    for seed in range(1, count + 1):
        whole = fleet_of(plan, seed)
        before: set[tuple[str, ...]] = set()
        for day in range(first, plan.days + 1):
            until = START_S + DAY_S * day
            histories = tuple(up_to(one, until) for one in whole.histories)
            report = examine(replace(whole, histories=histories, now=until))
            found = {(one.kind.value, *one.nodes) for one in report.findings}
            new += len(found - before)
            before = found
    days = count * (plan.days + 1 - first)
    return {"days": days, "new_findings": new, "new_findings_per_day": new / days}


def up_to(history: ClassHistory, until: float) -> ClassHistory:
    """What the store had then."""
    keep = history.started_at < until
    place = np.cumsum(keep) - 1
    cells = {}
    for cell, column in history.cells.items():
        rows = keep[column.run]
        cells[cell] = CellHistory(
            cell, place[column.run[rows]], column.busbw[rows], column.time_us[rows], column.min_us[rows]
        )
    return replace(
        history,
        nodes=tuple(node for node, kept in zip(history.nodes, keep, strict=True) if kept),
        started_at=history.started_at[keep],
        records=tuple(record for record, kept in zip(history.records, keep, strict=True) if kept),
        cells=cells,
        total=int(keep.sum()),
    )


def one_node(plan: Plan, count: int) -> dict[str, float]:
    """How often the one slow node is found, and any other is called slower."""
    found = [slower_nodes(examine(fleet_of(plan, seed))) for seed in range(1, count + 1)]
    return {
        "fleets": count,
        "found": sum("h-0000" in names for names in found) / count,
        "others_per_look": sum(len(names - {"h-0000"}) for names in found) / count,
    }


def rollout(plan: Plan, count: int) -> dict[str, float]:
    """How often it is called systematic, attributed to the driver, and stopped."""
    stopped = attributed = complete = 0
    words = f"{plan.slow} nodes with driver 580.2, none of the {plan.nodes - plan.slow} with 580.1"
    for seed in range(1, count + 1):
        report = examine(fleet_of(plan, seed))
        many = [
            one for one in report.findings if one.scope is DriftScope.SYSTEMATIC and one.kind is DriftKind.BANDWIDTH
        ]
        stopped += report.stop_rollout
        attributed += any("driver" in one.statement for one in many)
        complete += any(words in one.statement for one in many)
    return {"fleets": count, "stopped": stopped / count, "driver_named": attributed / count, "exact": complete / count}


def main() -> None:
    """All of it; some 40 minutes on one core."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--fleets", type=int, default=20)
    given = parser.parse_args()
    count: int = given.fleets
    wide = CALIBRATED.scaled(2.0)
    answer = {
        "healthy_200": healthy(Plan(200), 5 * count),
        "healthy_1000": healthy(Plan(1000), 3 * count),
        "healthy_1000_every_day": daily(Plan(1000, days=45), max(1, count // 10), first=15),
        "healthy_300_twice_the_noise": healthy(Plan(300, noise=wide), 2 * count),
        "harmless_rollout_300": healthy(Plan(300, harmless=100), count),
        **{
            f"one_of_300_{loss:.0%}_after_{30 - day}_days": one_node(Plan(300, slow=1, loss=loss, day=day), count)
            for loss in (0.03, 0.05, 0.10)
            for day in (28, 27, 25, 20)
        },
        **{
            f"one_of_1000_{loss:.0%}_after_{30 - day}_days": one_node(
                Plan(1000, slow=1, loss=loss, day=day), count // 2
            )
            for loss, day in ((0.10, 28), (0.10, 25), (0.05, 25))
        },
        **{
            f"one_of_300_creeps_1%_a_week_for_{days}_days": one_node(Plan(300, days=days, slow=1, per_week=0.01), count)
            for days in (30, 45, 60)
        },
        **{
            f"rollout_{loss:.0%}_on_24_of_300": rollout(Plan(300, slow=24, loss=loss, rolled_out=True, day=22), count)
            for loss in (0.03, 0.05, 0.08)
        },
        "rollout_8%_on_5_of_300": rollout(Plan(300, slow=5, loss=0.08, rolled_out=True, day=26), count),
    }
    text = json.dumps({"fleets": count, "answers": answer}, indent=1)
    if given.output:
        given.output.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
