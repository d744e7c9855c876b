"""Whether there are results enough to say anything of a node; where not, what is there and what would tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rankmuster.baseline.drift.fleet import Fleet, NodePast
from rankmuster.baseline.drift.lanes import Runs
from rankmuster.baseline.drift.settings import LEAST_RUNS_AFTER, LEAST_RUNS_BEFORE
from rankmuster.baseline.drift.words import many
from rankmuster.model.benchmark import RunState

ENOUGH = LEAST_RUNS_BEFORE + LEAST_RUNS_AFTER
"""Runs of one node and profile without which its level cannot be told from its noise."""


def unmeasured(fleet: Fleet, profiles: Sequence[Runs]) -> tuple[str, ...]:
    """One sentence for each node that no profile has enough runs of."""
    counts: Counter[str] = Counter()
    for runs in profiles:
        for index, count in Counter(runs.node.tolist()).items():
            counts[runs.nodes[index]] = max(counts[runs.nodes[index]], count)
    return tuple(
        f"{node.name}: {_why(node, counts.get(node.node_hash or '', 0))}"
        for node in fleet.nodes
        if counts.get(node.node_hash or "", 0) < ENOUGH
    )


def _why(node: NodePast, complete: int) -> str:
    tell = "measure it by `rankmuster admit` once a day"
    if node.node_hash is None:
        reason = getattr(node.now.node_hash, "reason", "no fingerprint") if node.now is not None else "no fingerprint"
        return f"its results cannot be found: which machine it is is unknown ({reason})"
    others = {state: count for state, count in node.runs.items() if state != RunState.COMPLETE.value and count}
    said = ", ".join(f"{count} {state}" for state, count in sorted(others.items()))
    if complete == 0 and others:
        return f"all of its runs ended otherwise than complete ({said}), which compares with nothing; {tell}"
    if complete == 0:
        return f"the history has no results of it; {tell}"
    aside = f", beside {said}" if said else ""
    return f"{many(complete, 'run')} of it{aside}, and {ENOUGH} are needed to tell a drift from noise; {tell}"
