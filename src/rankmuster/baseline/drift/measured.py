"""Whether there are results enough to say anything of a node; where not, what is there and what would tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rankmuster.baseline.drift.fleet import Fleet, NodePast
from rankmuster.baseline.drift.lanes import Runs
from rankmuster.baseline.drift.settings import LEAST_RUNS_AFTER, LEAST_RUNS_BEFORE
from rankmuster.baseline.drift.words import day, many
from rankmuster.model.benchmark import RunState

ENOUGH = LEAST_RUNS_BEFORE + LEAST_RUNS_AFTER
"""Runs of one node and profile without which its level cannot be told from its noise."""


TELL = "measure it by `rankmuster admit` once a day"


def unmeasured(fleet: Fleet, profiles: Sequence[Runs], since: float | None) -> tuple[str, ...]:
    """One sentence for each node that no profile has enough runs of, or none since `since` (unix seconds)."""
    counts: Counter[str] = Counter()
    newest: dict[str, float] = {}
    for runs in profiles:
        for index, count in Counter(runs.node.tolist()).items():
            counts[runs.nodes[index]] = max(counts[runs.nodes[index]], count)
        for index, at in zip(runs.node.tolist(), runs.time.tolist(), strict=True):
            newest[runs.nodes[index]] = max(newest.get(runs.nodes[index], at), at)
    found = []
    for node in fleet.nodes:
        name = node.node_hash or ""
        if counts[name] < ENOUGH:
            found.append(f"{node.name}: {_why(node, counts[name])}")
        elif since is not None and newest[name] < since:
            found.append(
                f"{node.name}: its newest result is of {day(newest[name])}, so nothing says how it is now; {TELL}"
            )
    return tuple(found)


def _why(node: NodePast, complete: int) -> str:
    if node.node_hash is None:
        reason = getattr(node.now.node_hash, "reason", "no fingerprint") if node.now is not None else "no fingerprint"
        return f"its results cannot be found: which machine it is is unknown ({reason})"
    others = {state: count for state, count in node.runs.items() if state != RunState.COMPLETE.value and count}
    said = ", ".join(f"{count} {state}" for state, count in sorted(others.items()))
    if complete == 0 and others:
        return f"all of its runs ended otherwise than complete ({said}), which compares with nothing; {TELL}"
    if complete == 0:
        return f"the history has no results of it; {TELL}"
    aside = f", beside {said}" if said else ""
    return f"{many(complete, 'run')} of it{aside}, and {ENOUGH} are needed to tell a drift from noise; {TELL}"
