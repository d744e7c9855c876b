"""The questions that are put to simulated fleets, each a row that stands by itself: same seed, same answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from rankmuster.baseline.simulate_admission import Design, Tally, growth, trial
from rankmuster.baseline.simulate_fleet import HEALTHY, Fleet, Loss
from rankmuster.baseline.simulate_noise import CALIBRATED, Noise
from rankmuster.baseline.simulate_steps import STEADY, ChangeTally, Rollout, node_drift, rollout
from rankmuster.baseline.thresholds import LATENCY_PROCESSES, LATENCY_UP_TO, PLATEAU_FROM

LOSSES = (0.03, 0.05, 0.07, 0.10, 0.15, 0.30)
FLEET_NODES = 3000
"""Nodes that histories and admissions are drawn from: half of them may be in a history, the rest are new."""

Row = dict[str, float | int | str]


@dataclass(frozen=True, slots=True)
class Question:
    """`study`: the table it belongs to; `ask(seed, scale)`: its row, with `scale` times the usual admissions."""

    study: str
    ask: Callable[[int, float], Row]


def questions() -> tuple[Question, ...]:
    """All of them, in the order of the tables."""
    return (*_healthy(), *_found(), *_contaminated(), *_sizes(), *_latency(), *_growth(), *_changes(), *_nodes())


def _healthy() -> list[Question]:
    designs = [(n, n, 1.0) for n in (5, 7, 10, 20, 30, 100, 300, 1000)]
    designs += [(20, 4, 1.0), (30, 6, 1.0), (30, 1, 1.0), *((n, n, 2.0) for n in (5, 10, 30, 1000))]
    return [
        Question("healthy", _admissions(Design(runs, nodes), HEALTHY, factor, count=10000 if runs == 30 else 5000))
        for runs, nodes, factor in designs
    ]


def _found() -> list[Question]:
    return [
        Question("found", _admissions(Design(30, nodes), _large(loss), factor, count=3000))
        for nodes, factor in ((30, 1.0), (6, 1.0), (1, 1.0), (30, 2.0))
        for loss in LOSSES
    ]


def _contaminated() -> list[Question]:
    return [
        Question("contaminated", _admissions(Design(runs, runs, share, _large(own)), loss, 1.0, count=2000))
        for runs in (30, 100)
        for own in (0.10, 0.30)
        for share in (0.05, 0.10, 0.20)
        for loss in (HEALTHY, _large(0.10))
    ]


def _sizes() -> list[Question]:
    one = [Loss(loss, from_bytes=64 << 20, to_bytes=64 << 20) for loss in (0.05, 0.07, 0.10, 0.15)]
    middle = [
        Loss(loss, from_bytes=LATENCY_UP_TO + 1, to_bytes=PLATEAU_FROM - 1)
        for loss in (0.10, 0.15, 0.20, 0.30, 0.40, 0.50)
    ]
    asked = [("one size", loss) for loss in one] + [("transition", loss) for loss in middle]
    return [Question(study, _admissions(Design(30, 30), loss, 1.0, count=2000)) for study, loss in asked]


def _latency() -> list[Question]:
    return [
        Question(
            "latency",
            _admissions(Design(30, 30), _longer(times, LATENCY_UP_TO), 1.0, count=1000, processes=processes),
        )
        for processes in (1, LATENCY_PROCESSES)
        for times in (1.0, 1.1, 1.2, 1.3, 1.5, 1.75, 2.0, 3.0)
    ]


def _large(share: float) -> Loss:
    return Loss(share, from_bytes=PLATEAU_FROM)


def _longer(times: float, to_bytes: int) -> Loss:
    return Loss(1 - 1 / times, to_bytes=to_bytes)


def _admissions(
    design: Design, loss: Loss, factor: float, *, count: int, processes: int = 1
) -> Callable[[int, float], Row]:
    def ask(seed: int, scale: float) -> Row:
        fleet = Fleet(CALIBRATED.scaled(factor), np.random.default_rng(seed), nodes=FLEET_NODES)
        # Rates differ from history to history: many of them, with few nodes each.
        nodes = 20 if design.runs < 1000 else 100
        histories = max(2, round(count * scale / nodes))
        tally = trial(fleet, design, loss, histories=histories, nodes=nodes, processes=processes)
        return {
            "runs": design.runs,
            "nodes": design.nodes,
            "noise": factor,
            "bad_nodes_percent": 100 * design.bad_share,
            "bad_loss_percent": 100 * design.bad_loss.share,
            "loss_percent": round(100 * loss.share, 2),
            "processes": processes,
            **_row(tally),
        }

    return ask


def _row(tally: Tally) -> Row:
    return {name: int(getattr(tally, name)) for name in Tally.__slots__}


def _growth() -> list[Question]:
    return [Question("growth", _fleet_days(fleet, loss)) for fleet in range(5) for loss in (0.10, 0.30)]


def _fleet_days(number: int, loss: float) -> Callable[[int, float], Row]:
    def ask(seed: int, scale: float) -> Row:
        nodes = max(100, round(1000 * min(scale, 1.0)))
        fleet = Fleet(CALIBRATED, np.random.default_rng(seed), nodes=nodes, days=30)
        fault = _large(loss)
        days = growth(fleet, per_day=nodes // 10, bad_share=0.05, loss=fault, limit=1000)
        healthy, bad = Tally(), Tally()
        for good, ill in days:
            healthy, bad = healthy + good, bad + ill
        return {
            "fleet": number,
            "nodes": nodes,
            "loss_percent": round(100 * loss, 2),
            "healthy": healthy.admissions,
            "healthy_refused": healthy.refused,
            "healthy_doubted": healthy.doubted,
            "bad": bad.admissions,
            "bad_found": bad.refused,
            "bad_found_at_once": bad.outright,
        }

    return ask


def _changes() -> list[Question]:
    classes = {"1000 nodes": (2000, 1000), "20 nodes": (300, 20), "1 node": (60, 1)}
    cases: Mapping[str, Rollout] = {
        "none": STEADY,
        "all at once, 1 %": Rollout(_large(0.01), day=18),
        "all at once, 2 %": Rollout(_large(0.02), day=18),
        "all at once, 3 %": Rollout(_large(0.03), day=18),
        "all at once, 5 %": Rollout(_large(0.05), day=18),
        "all at once, 10 %": Rollout(_large(0.10), day=18),
        "node by node in 7 days, 5 %": Rollout(_large(0.05), day=15, days=7),
        "60 % of the nodes, 5 %": Rollout(_large(0.05), day=18, share=0.6),
        "30 % of the nodes, 5 %": Rollout(_large(0.05), day=18, share=0.3),
        "for one week, 5 %": Rollout(_large(0.05), day=12, back=19),
    }
    return [
        Question("changes", _rollouts(what, of, *shape, change))
        for of, shape in classes.items()
        for what, change in cases.items()
        if shape[1] > 1 or "node" not in what
    ]


def _rollouts(what: str, of: str, runs: int, nodes: int, change: Rollout) -> Callable[[int, float], Row]:
    def ask(seed: int, scale: float) -> Row:
        rng, total = np.random.default_rng(seed), ChangeTally()
        count = 300 if change is STEADY else 40
        for _ in range(max(3, round(count * scale))):
            total += rollout(Fleet(CALIBRATED, rng, nodes=nodes, days=30), change, runs=runs, nodes=nodes)
        return {"class": of, "runs": runs, "change": what, **_steps(total)}

    return ask


def _nodes() -> list[Question]:
    cases = [(0.0, 20, 0), (0.0, 60, 0)] + [(loss, 20, after) for after in (2, 3, 5) for loss in LOSSES[:4]]
    return [Question("node steps", _drifts(*case)) for case in cases]


def _drifts(loss: float, before: int, after: int) -> Callable[[int, float], Row]:
    def ask(seed: int, scale: float) -> Row:
        rng, total = np.random.default_rng(seed), ChangeTally()
        for _ in range(max(5, round((500 if loss == 0 else 100) * scale))):
            fleet = Fleet(Noise(), rng, nodes=1, days=30)
            total += node_drift(fleet, _large(loss), before=before, after=after)
        return {"before": before, "after": after, "loss_percent": round(100 * loss, 2), **_steps(total)}

    return ask


def _steps(total: ChangeTally) -> Row:
    return {"series": total.series, "found": total.found, "elsewhere": total.elsewhere}
