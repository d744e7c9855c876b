"""One simulated fleet from its first second to its last, and what came of it as numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from rankmuster.incident.simulate.faults import Cause, drift, fabric, single
from rankmuster.incident.simulate.fleet import Fleet
from rankmuster.incident.simulate.plan import HOUR, SimPlan

START = 1_790_000_000.0
"""Unix seconds of second 0: any will do."""

DETECTION = 15.0
"""Seconds within which the watch tells a stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """`breaker_after`: seconds from the outage's begin until the breaker opened; None where it did not.

    `rebuilds_before_breaker`: begun in the outage until then; `rebuilds_in_outage`: all that were begun in it.
    `most_at_once`: rebuilds; `allowed_at_once`: what limits allow. `fenced_by_drift`, `fenced_by_fabric`: nodes.
    `hit`: instances that the outage stopped and that had not stopped before; `served_again`: of them;
    `half_served_after`, `all_served_after`: seconds after the fabric is well. `single_faults`: background faults before
    the outage, with an hour left; `single_recovered`: of them, `single_seconds`: median until served again.
    """

    seed: int
    opened: int
    twice_open: int
    outcomes: dict[str, int]
    breaker: list[tuple[float, str]]
    breaker_after: float | None
    breaker_closed_after_heal: float | None
    rebuilds_before_breaker: int | None
    rebuilds_in_outage: int
    broken_starts: int
    most_at_once: int
    allowed_at_once: int
    fenced_by_drift: int
    fenced_by_fabric: int
    hit: int
    served_again: int
    half_served_after: float | None
    all_served_after: float | None
    single_faults: int
    single_recovered: int
    single_seconds: float | None

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def simulate(plan: SimPlan, seed: int) -> Result:
    """Deterministic for a seed."""
    random = Random(seed)  # noqa: S311  # a simulation, no secret
    fleet = Fleet(plan, random, START)
    end = plan.hours * HOUR
    _background(fleet, plan, random, end)
    _outage(fleet, plan, random)
    _drift(fleet, plan, random)
    fleet.at(plan.ask_limits_seconds, fleet.ask_limits)
    fleet.run(end)
    return _result(fleet, plan, seed)


def _background(fleet: Fleet, plan: SimPlan, random: Random, end: float) -> None:
    """Faults of single instances, evenly in time."""
    for instance in fleet.instances:
        at = random.expovariate(1 / (plan.days_between_faults * 86_400.0))
        while at < end:
            fault = single(random, at + random.uniform(1, DETECTION), instance.number, instance.nodes)
            fleet.at(fault.at, lambda fault=fault: fleet.strike(fault))  # type: ignore[misc]  # bound now
            at += random.expovariate(1 / (plan.days_between_faults * 86_400.0))


def _outage(fleet: Fleet, plan: SimPlan, random: Random) -> None:
    outage = plan.outage
    if outage is None:
        return
    # A rail group: every tenth instance, say, not those of one rack.
    every = round(1 / outage.share)
    hit = [instance for instance in fleet.instances if instance.number % every == 0]
    for instance in hit:
        instance.on_outage = True
        at = outage.at + random.uniform(0, outage.spread_seconds) + random.uniform(1, DETECTION)
        fault = fabric(random, at, instance.number, instance.nodes, plan.inconclusive)
        fleet.at(at, lambda fault=fault: fleet.strike(fault))  # type: ignore[misc]  # bound now


def _drift(fleet: Fleet, plan: SimPlan, random: Random) -> None:
    if plan.drift is None:
        return
    for instance in random.sample(fleet.instances, round(plan.drift.share * len(fleet.instances))):
        at = plan.drift.at + random.uniform(0, plan.drift.spread_seconds)
        fault = drift(random, at, instance.number, instance.nodes)
        fleet.at(at, lambda fault=fault: fleet.strike(fault))  # type: ignore[misc]  # bound now


def _result(fleet: Fleet, plan: SimPlan, seed: int) -> Result:
    record, outage, limits = fleet.record, plan.outage, plan.limits
    begin = outage.at if outage is not None else 0.0
    heal = begin + outage.seconds if outage is not None else 0.0
    opened = next((at for at, what in record.breaker if what == "opened" and at >= begin), None)
    closed = next((at for at, what in record.breaker if what == "closed" and at >= heal), None)
    in_outage = [at for at, _ in record.rebuilds if begin <= at < heal]
    served = sorted(at for fault, at in record.recovered if fault.cause is Cause.FABRIC)
    struck = sum(one.cause is Cause.FABRIC for one in record.struck)
    again = len({fault.instance for fault, _ in record.recovered if fault.cause is Cause.FABRIC})
    calm = begin if outage is not None else plan.hours * HOUR
    single = [at - fault.at for fault, at in record.recovered if fault.cause is Cause.SINGLE and fault.at < calm - HOUR]
    return Result(
        seed=seed,
        opened=record.opened,
        twice_open=record.twice_open,
        outcomes=dict(sorted(record.outcomes.items())),
        breaker=[(round(at, 1), what) for at, what in record.breaker],
        breaker_after=None if opened is None or outage is None else round(opened - begin, 1),
        breaker_closed_after_heal=None if closed is None or outage is None else round(closed - heal, 1),
        rebuilds_before_breaker=None if opened is None else sum(at < opened for at in in_outage),
        rebuilds_in_outage=len(in_outage),
        broken_starts=record.broken_starts,
        most_at_once=record.most_at_once,
        allowed_at_once=min(limits.rebuilds_at_once, int(limits.rebuilds_share * limits.instances)),
        fenced_by_drift=sum(cause is Cause.DRIFT for *_, cause in record.fenced),
        fenced_by_fabric=sum(cause is Cause.FABRIC for *_, cause in record.fenced),
        hit=struck,
        served_again=again,
        half_served_after=_after(served, heal, struck // 2),
        all_served_after=_after(served, heal, struck - 1) if again == struck else None,
        single_faults=sum(one.cause is Cause.SINGLE and one.at < calm - HOUR for one in record.struck),
        single_recovered=len(single),
        single_seconds=round(sorted(single)[len(single) // 2], 1) if single else None,
    )


def _after(served: list[float], heal: float, number: int) -> float | None:
    return round(served[number] - heal, 1) if 0 <= number < len(served) else None
