"""Every number by which drift is called drift, with its unit, reason and source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rankmuster.baseline.thresholds import JudgeSettings
from rankmuster.model.judgement import Regime

DAY = 86_400.0
"""Seconds."""

FALSE_ALARMS_PER_LOOK = 0.05
"""Healthy nodes called drifting, expected in one look at a whole fleet of any size: one look in twenty has one. Each
node gets its share, so that a fleet of 1,000 does not cry every day. Simulated: docs/drift.md."""

LEAST_CHANGE: Mapping[Regime, float] = {regime: one.level_refuse for regime, one in JudgeSettings().regimes.items()}
"""Relative change below which nothing is called drift, however certain it is: that of the admission, whose reasons are
the same (clocks and placement move a healthy machine at large sizes by up to 2 %, its two modes at small ones by 40 %).
A creeping loss counts with what it has come to."""

LEAST_RUNS_BEFORE = 5
"""Runs of a node before a change, without which its earlier level is a guess."""

LEAST_RUNS_AFTER = 2
"""Runs at the new level: one bad run is for admission to measure again, not yet a drift."""

LEAST_NODES = 3
"""Nodes that drift together before it is called systematic: two may be a pair with a common cable."""

TOGETHER_S = 3 * DAY
"""Drifts that began within this time of one another may have one cause: rollouts take hours to days, and the first
run after one comes a day later where nodes are measured daily."""

OWN_FAULTS_PER_NODE_DAY = 0.001
"""Nodes that get slower each for a reason of its own: what many at once are held against, beside false alarms. No rate
of silent slowdowns is published; 0.4 % of nodes a day had an unexpected interruption in Llama 3's training
(arXiv 2407.21783, 419 on 2,048 nodes in 54 days), most of which stop a node rather than slow it."""

SYSTEMATIC_P = 0.001
"""Chance at which as many nodes as these drift together each by itself: below it the cause is a common one."""

ATTRIBUTION_P = 0.01
"""Chance (Fisher's exact test, times the number of attributes compared) at which drifted nodes would share a value as
well as they do if it had nothing to do with it."""

LEAST_SPREAD = 5.0
"""Percentage points by which the dispersion between ranks has to grow: in health ranks of one node end within 3 %."""

CHOICE_SHARE = 0.8
"""Share of a node's runs that must agree on an algorithm and protocol before another one is a change: at sizes where
two of them are equally fast NCCL's tuning may go either way between versions, not between runs."""


@dataclass(frozen=True, slots=True)
class DriftSettings:
    """What can be set. `since`: unix seconds from which a change counts, None for all that the history holds."""

    since: float | None = None
    false_alarms_per_look: float = FALSE_ALARMS_PER_LOOK
    least_change: Mapping[Regime, float] = field(default_factory=lambda: dict(LEAST_CHANGE))
    least_nodes: int = LEAST_NODES
    together_s: float = TOGETHER_S
    own_faults_per_node_day: float = OWN_FAULTS_PER_NODE_DAY
    systematic_p: float = SYSTEMATIC_P
    attribution_p: float = ATTRIBUTION_P
    least_spread: float = LEAST_SPREAD
