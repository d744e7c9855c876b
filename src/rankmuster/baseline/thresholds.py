"""Every number by which results are judged, with its unit, reason and source. All relative ones are of time or busbw.

"Measured": eight healthy runs of nccl-tests on four H200s, `docs/measured.md`, Admission statistics; "simulated": the
fleets of `tools/simulate_fleet.py`, same place.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rankmuster.model.judgement import Regime

KIB = 1 << 10
MIB = 1 << 20

LATENCY_UP_TO = 64 * KIB
"""Bytes. Measured: up to here the time of an all-reduce does not depend on the size (26 to 42 us, two modes)."""

PLATEAU_FROM = 16 * MIB
"""Bytes. Measured: from here on the spread of healthy runs is about 1 % and the links rule; at 8 MiB they nearly do,
but a protocol switch (LL128 to Simple) may lie there."""

FALSE_ALARM_BUDGET = 0.01
"""Healthy nodes refused per admission, all operations, regimes and sizes together (the issue's figure)."""

OUTRIGHT_SHARE = 0.1
"""Part of the budget spent on a refusal from a single process; the rest on refusals after the re-test. A tenth, since
a fault that matters is far beyond either threshold, and the re-test costs a minute."""

SIZE_SHARE = 0.5
"""Part of a group's budget for the statistic that sees a single bad size; the rest for the level over all sizes."""

LATENCY_BUDGET = 0.01
"""Healthy nodes whose latency is called BELOW per admission. It refuses nobody: no part of the budget above."""

RUNS_MIN = 5
"""Runs of the history below which a group is TOO_LITTLE. Simulated: with 5 the rates hold, because the assumed spreads
below stand in for what 5 runs cannot show; with fewer the assumption would be all there is."""

PROCESSES_TO_DECIDE = 3
"""Fresh processes after which BORDERLINE is decided: their median is below the re-test threshold, or it is not."""

LATENCY_PROCESSES = 5
"""Fresh processes that a latency is judged over; fewer are judged and said."""

LATENCY_QUANTILE = 0.25
"""Of the processes' times: the second fastest of five. What delays a few of them (clock ramp, a neighbour's burst) is
none of the node's, so three of five may be disturbed. Simulated, half as long again is found by the fastest of five in
10 %, by this in 39 % and by the median, which bears two disturbed ones, in 73 %."""

NODES_FOR_CENTRE = 3
"""Nodes from which on the centre is the median of the nodes' medians; below it is the median of all runs."""

NODES_FOR_CLEANING = 5
"""Values below which none is called an outlier: of four, two may lie."""

OUTLIER_SPREADS = 3.5
"""Robust standard deviations beyond which a node of the history is left out of centre and spread (Iglewicz and
Hoaglin's cut for 0.6745 (x - median) / MAD). Bad nodes inside the history must not widen what they are judged by."""

OUTLIER_FEW = 5.0
"""The cut is wider by this part over the count: the MAD of five values is often small by chance, and a healthy node
that is thrown out narrows the spread. Simulated: at twice the assumed spread five nodes otherwise lose one in 15 %."""

MAD_TO_SD = 1.4826
"""MAD of a normal distribution to its standard deviation."""

MODES_SEEN = 20
"""Runs from which on a second healthy mode would have been seen. A mode of a third of the runs is seen less than twice
in 20 of them with 0.3 % probability."""

UNSEEN_MODE = 0.40
"""ln(slow / fast) by which limits are wider where a mode may not have been seen yet. Measured: 0.27 to 0.36."""

PRIOR_DOF = 6.0
"""Weight of the assumed spreads, in degrees of freedom: six runs' worth. They matter with a young history only."""

TAIL_DOF = 20.0
"""Degrees of freedom are counted to here at most: real results have longer tails than a normal distribution, however
many there are. Simulated with Student's t of 5 degrees of freedom as noise."""

MEDIAN_VARIANCE = 1.571
"""Variance of a median of n, in units of variance / n (pi / 2): the centre itself is uncertain."""


@dataclass(frozen=True, slots=True)
class RegimeThresholds:
    """Of one regime, all as natural logarithms of a ratio (0.03: 3 %).

    `level_*` bind the median over sizes, `size_*` each size alone. A node is refused (`*_refuse`) or measured again
    (`*_retest`) only beyond these, however narrow the history: less is no loss that a load would notice, and
    timers quantise. `node_sd`, `run_sd`: spreads between nodes and between runs of one that are assumed until the
    history shows its own. `outlier`: closer to the centre nothing is an outlier. `modes`: healthy machines may be
    two-moded here, and `mode_gap` is how far apart modes stand at least. `above`: faster by this is implausible.
    """

    level_refuse: float
    level_retest: float
    size_refuse: float
    size_retest: float
    node_sd: float
    run_sd: float
    outlier: float
    above: float
    modes: bool
    mode_gap: float = 0.12


PLATEAU = RegimeThresholds(
    level_refuse=0.03,  # per-iteration timing alone moves 16 MiB by 2 % (measured: nt_ar against ar runs)
    level_retest=0.025,
    size_refuse=0.06,  # measured: single sizes scatter up to 1.3 % in health, within one machine
    size_retest=0.05,
    node_sd=0.010,  # "usually below 1 % on NVLink" (vendors' published logs); one machine cannot show it
    run_sd=0.005,  # measured: 0.4 to 0.7 % per size
    outlier=0.03,
    above=0.08,
    modes=False,
)
TRANSITION = RegimeThresholds(
    level_refuse=0.12,
    level_retest=0.10,
    size_refuse=0.30,  # measured: a run of the fast mode may hold one size of the slow one, 30 % apart
    size_retest=0.25,
    node_sd=0.03,
    run_sd=0.04,  # measured: 3 to 5 % inside a mode
    outlier=0.15,
    above=0.40,
    modes=True,
)
LATENCY = RegimeThresholds(
    level_refuse=0.20,
    level_retest=0.15,
    size_refuse=0.40,
    size_retest=0.35,
    node_sd=0.04,
    run_sd=0.05,  # measured: 4 to 6 % inside a mode
    outlier=0.20,
    above=0.50,
    modes=True,
)


def _regimes() -> dict[Regime, RegimeThresholds]:
    return {Regime.PLATEAU: PLATEAU, Regime.TRANSITION: TRANSITION, Regime.LATENCY: LATENCY}


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """What can be set of the judgement; the defaults are the constants above."""

    false_alarm_budget: float = FALSE_ALARM_BUDGET
    outright_share: float = OUTRIGHT_SHARE
    latency_budget: float = LATENCY_BUDGET
    runs_min: int = RUNS_MIN
    processes_to_decide: int = PROCESSES_TO_DECIDE
    latency_processes: int = LATENCY_PROCESSES
    regimes: dict[Regime, RegimeThresholds] = field(default_factory=_regimes)
