"""Admissions of simulated nodes by the real judge: how many healthy ones it refuses, how many bad ones it finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankmuster.baseline.judge import judge_by
from rankmuster.baseline.reference import ClassReference
from rankmuster.baseline.simulate_fleet import DAY_S, HEALTHY, START_S, Fleet, Loss
from rankmuster.baseline.thresholds import JudgeSettings
from rankmuster.model.judgement import Regime, RegimeJudgement, Standing

DEFAULTS = JudgeSettings()


@dataclass(frozen=True, slots=True)
class Tally:
    """Admissions. `outright`: refused by the first process. `doubted`: refused or to be measured again by it (what is
    refused where nothing is measured again). `refused`: in the end. `latency`: latency said to be BELOW in the end.
    `above`: said to be faster than the class; `too_little`: something could not be judged."""

    admissions: int = 0
    outright: int = 0
    doubted: int = 0
    refused: int = 0
    latency: int = 0
    above: int = 0
    too_little: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    def percent(self, name: str) -> float:
        """Of the admissions."""
        return 100 * float(getattr(self, name)) / max(1, self.admissions)


@dataclass(frozen=True, slots=True)
class Design:
    """A history: `runs` runs, over `nodes` nodes in turn; a share of its nodes has a fault itself."""

    runs: int
    nodes: int
    bad_share: float = 0.0
    bad_loss: Loss = HEALTHY


def reference(fleet: Fleet, design: Design, settings: JudgeSettings = DEFAULTS) -> ClassReference:
    """A history of this design: runs on days of their own, of sessions of their own, of nodes 0 .. nodes - 1."""
    rng = fleet.rng
    picked = rng.choice(fleet.nodes // 2, size=design.nodes, replace=False)
    node = picked[np.arange(design.runs) % design.nodes]
    day = rng.integers(0, fleet.days, design.runs)
    session = fleet.session(design.runs)
    times = fleet.times(node, day, session)
    bad = np.isin(node, picked[: round(design.bad_share * design.nodes)])
    times[bad] *= np.exp(fleet.slower(design.bad_loss))
    return ClassReference(fleet.history(times, node, START_S + DAY_S * (day + rng.random(design.runs))), settings)


def admit(
    fleet: Fleet, known: ClassReference, node: int, day: int, loss: Loss, *, processes: int = 1, retest: bool = True
) -> Tally:
    """One admission: `processes` at first, then one more as long as something is BORDERLINE, in the same session."""
    session = fleet.session(1)
    who, when = np.array([node]), np.array([day])
    runs = [fleet.run(fleet.times(who, when, session, loss=loss)[0]) for _ in range(processes)]
    first = judge_by(runs, known, settings=known.settings)
    last = first
    while retest and not refusing(last, Standing.BELOW) and refusing(last, Standing.BORDERLINE):
        runs.append(fleet.run(fleet.times(who, when, session, loss=loss)[0]))
        last = judge_by(runs, known, settings=known.settings)
    return Tally(
        admissions=1,
        outright=refusing(first, Standing.BELOW),
        doubted=refusing(first, Standing.BELOW) or refusing(first, Standing.BORDERLINE),
        refused=refusing(last, Standing.BELOW),
        latency=any(j.regime is Regime.LATENCY and j.standing is Standing.BELOW for j in last),
        above=any(j.standing is Standing.ABOVE for j in last),
        too_little=any(j.standing is Standing.TOO_LITTLE for j in last),
    )


def refusing(judgements: Sequence[RegimeJudgement], standing: Standing) -> bool:
    """Whether one that may refuse has this standing."""
    return any(j.can_refuse and j.standing is standing for j in judgements)


def trial(
    fleet: Fleet,
    design: Design,
    loss: Loss,
    *,
    histories: int,
    nodes: int,
    processes: int = 1,
    settings: JudgeSettings = DEFAULTS,
) -> Tally:
    """`histories` histories, each with `nodes` admissions of nodes that it does not know."""
    total = Tally()
    for _ in range(histories):
        known = reference(fleet, design, settings)
        new = fleet.rng.integers(fleet.nodes // 2, fleet.nodes, nodes)
        for node in new.tolist():
            day = int(fleet.rng.integers(0, fleet.days))
            total += admit(fleet, known, node, day, loss, processes=processes)
    return total


def growth(
    fleet: Fleet, *, per_day: int, bad_share: float, loss: Loss, limit: int, settings: JudgeSettings = DEFAULTS
) -> list[tuple[Tally, Tally]]:
    """Per day the admissions of healthy nodes and of bad ones, against a history that starts empty and takes in every
    complete run, of bad nodes too. `limit`: newest runs that are compared with."""
    rng, noise = fleet.rng, fleet.noise
    nodes: list[int] = []
    rows: list[np.ndarray] = []
    at: list[float] = []
    bad_nodes = set(rng.choice(fleet.nodes, size=round(bad_share * fleet.nodes), replace=False).tolist())
    days = []
    for day in range(fleet.days):
        healthy, bad = Tally(), Tally()
        known = None
        if nodes:
            recent = slice(-limit, None)
            history = fleet.history(np.array(rows[recent]), np.array(nodes[recent]), np.array(at[recent]))
            known = ClassReference(history, settings)
        for node in rng.choice(fleet.nodes, size=per_day, replace=False).tolist():
            own = loss if node in bad_nodes else HEALTHY
            if known is not None:
                tally = admit(fleet, known, node, day, own)
                healthy, bad = (healthy, bad + tally) if node in bad_nodes else (healthy + tally, bad)
            # Errored runs and contention that is noticed are kept apart, as the store keeps them.
            noticed = noise.contended_share * (1 - noise.unnoticed_share)
            if rng.random() >= noise.errored_share + noticed:
                rows.append(fleet.times(np.array([node]), np.array([day]), fleet.session(1), loss=own)[0])
                nodes.append(node)
                at.append(START_S + DAY_S * (day + rng.random()))
        days.append((healthy, bad))
    return days
