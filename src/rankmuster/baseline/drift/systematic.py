"""One node or many: whether as many nodes as these drifted together by chance, each for a reason of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rankmuster.baseline.drift.chance import at_least
from rankmuster.baseline.drift.settings import DAY, DriftSettings


@dataclass(frozen=True, slots=True)
class Together:
    """`nodes`: those that began within one window of `together_s`, by name. `of`: nodes of the class that could have.

    `chance`: at which so many drift within one window each by itself. `since`: unix seconds of the first of them.
    """

    nodes: tuple[str, ...]
    of: int
    chance: float
    since: float


def together(starts: Mapping[str, float], of: int, settings: DriftSettings, *, span_s: float = 0.0) -> Together | None:
    """The largest set of nodes whose drift began together, where it is too large for chance; None otherwise.

    `starts`: node -> unix seconds of the first run that shows it. `of`: nodes of the class that were measured then.
    Two nodes are systematic only where they are all there are. `span_s`: seconds over which one of the drifts came
    about, where that was longer than a window.
    """
    order = sorted(starts.items(), key=lambda item: (item[1], item[0]))
    best: list[tuple[str, float]] = []
    begin = 0
    for end in range(len(order)):
        while order[end][1] - order[begin][1] > settings.together_s:
            begin += 1
        if end + 1 - begin > len(best):
            best = order[begin : end + 1]
    if len(best) < max(2, min(settings.least_nodes, of)):
        return None
    chance = at_least(len(best), max(of, len(best)), rate(of, settings, span_s))
    if chance >= settings.systematic_p:
        return None
    return Together(tuple(sorted(name for name, _ in best)), max(of, len(best)), chance, best[0][1])


def rate(of: int, settings: DriftSettings, span_s: float = 0.0) -> float:
    """Share of nodes that drift within one window each by itself: faults of their own, and false alarms."""
    false = settings.false_alarms_per_look / max(of, 1)
    return min(1.0, settings.own_faults_per_node_day * max(settings.together_s, span_s) / DAY + false)
