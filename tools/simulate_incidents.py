"""A thousand incidents at once, in simulated time: what limits and the circuit breaker make of them.

    python tools/simulate_incidents.py --output docs/measured/incident-simulation.json

The judgement is the program's own (machine, decision, limits); how long steps take and how often actuators fail is
assumed (`incident/simulate/plan.py`). `--quick`: fewer instances and seeds.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rankmuster.incident.limits import Limits
from rankmuster.incident.simulate.plan import FLEET_LIMITS, ClassDrift, Outage, SimPlan
from rankmuster.incident.simulate.run import Result, simulate

SEEDS = 10

CASES: dict[str, SimPlan] = {
    "no outage": SimPlan(hours=24.0),
    "outage of all, 30 min": SimPlan(outage=Outage()),
    "outage of one rail group (10 %), 30 min": SimPlan(outage=Outage(share=0.1)),
    "outage of all, 2 min": SimPlan(outage=Outage(seconds=120.0)),
    "a class of nodes drifts": SimPlan(drift=ClassDrift(), hours=8.0),
    "a class of nodes drifts, nobody says so": SimPlan(drift=ClassDrift(told_after=None), hours=8.0),
    "outage of all while a class drifts": SimPlan(outage=Outage(), drift=ClassDrift()),
}


def small(plan: SimPlan) -> SimPlan:
    """A tenth of the fleet, with limits of its size."""
    limits = Limits(instances=100, nodes=200, rebuilds_at_once=10, fenced_at_once=8)
    values = {name: getattr(plan, name) for name in SimPlan.__dataclass_fields__}
    return SimPlan(**{**values, "instances": 100, "limits": limits})


def told(results: list[Result]) -> dict[str, Any]:
    """The worst over the seeds, and the median of times."""
    opened = [one.breaker_after for one in results if one.breaker_after is not None]
    before = [one.rebuilds_before_breaker for one in results if one.rebuilds_before_breaker is not None]
    return {
        "seeds": len(results),
        "incidents": [one.opened for one in results],
        "breaker_opened_in": sum(any(what == "opened" for _, what in one.breaker) for one in results),
        "breaker_after_s": {"median": middle(opened), "worst": max(opened, default=None)},
        "rebuilds_begun_before_it_opened": max(before, default=None),
        "rebuilds_begun_in_outage": max(one.rebuilds_in_outage for one in results),
        "started_on_a_broken_fabric": max(one.broken_starts for one in results),
        "breaker_closed_after_heal_s": {
            "median": middle([one.breaker_closed_after_heal for one in results]),
            "worst": worst([one.breaker_closed_after_heal for one in results]),
        },
        "most_rebuilds_at_once": max(one.most_at_once for one in results),
        "allowed_at_once": results[0].allowed_at_once,
        "nodes_fenced_by_drift": max(one.fenced_by_drift for one in results),
        "nodes_fenced_by_fabric": max(one.fenced_by_fabric for one in results),
        "hit_by_outage": max(one.hit for one in results),
        "of_them_not_served_again": max(one.hit - one.served_again for one in results),
        "half_served_after_heal_s": middle([one.half_served_after for one in results]),
        "all_served_after_heal_s": worst([one.all_served_after for one in results]),
        "single_faults": sum(one.single_faults for one in results),
        "single_faults_recovered": sum(one.single_recovered for one in results),
        "single_median_s": middle([one.single_seconds for one in results]),
        "two_incidents_open_of_one_instance": max(one.twice_open for one in results),
    }


def middle(values: list[float | None] | list[float]) -> float | None:
    known = sorted(one for one in values if one is not None)
    return known[len(known) // 2] if known else None


def worst(values: list[float | None]) -> float | None:
    """None where one of them never came."""
    return None if any(one is None for one in values) else max(one for one in values if one is not None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--quick", action="store_true", help="100 instances, 2 seeds")
    arguments = parser.parse_args()
    seeds = 2 if arguments.quick else SEEDS
    found: dict[str, Any] = {
        "what": "simulated: the judgement is real, times and failures of actuators are assumed",
        "instances": 100 if arguments.quick else 1000,
        "limits": {
            "instances": FLEET_LIMITS.instances,
            "rebuilds_at_once": FLEET_LIMITS.rebuilds_at_once,
            "breaker_instances": FLEET_LIMITS.breaker_instances,
            "breaker_seconds": FLEET_LIMITS.breaker_seconds,
            "breaker_quiet_seconds": FLEET_LIMITS.breaker_quiet_seconds,
        },
        "cases": {},
    }
    for name, plan in CASES.items():
        chosen = small(plan) if arguments.quick else plan
        found["cases"][name] = told([simulate(chosen, seed) for seed in range(1, seeds + 1)])
        print(name, json.dumps(found["cases"][name]))
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
