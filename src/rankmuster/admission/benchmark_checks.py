"""How the benchmark itself ended: hung, failed, or cut short is an answer too."""

from __future__ import annotations

from collections.abc import Sequence

from rankmuster.model.admission import Check, CheckGroup, CheckState
from rankmuster.model.benchmark import BenchmarkRun, RunState

NAME = "benchmark"
_STATES = {
    RunState.HUNG: (CheckState.HUNG, "it did not end in its time", "a hung test is a failed one: look at NCCL's log"),
    RunState.ERROR: (CheckState.ERROR, "it failed", "run it by hand with NCCL_DEBUG=INFO"),
    RunState.INCOMPLETE: (CheckState.ERROR, "it ended before its last size", "measure again"),
}


def benchmark_checks(runs: Sequence[BenchmarkRun]) -> list[Check]:
    """One check per run that did not end well, one for all that did. No run at all is an error."""
    group, node = CheckGroup.PROFILE, "the node"
    if not runs:
        return []
    checks = []
    well = [run for run in runs if run.state not in _STATES]
    if well and any(run.measurements for run in well):
        tool = f"{well[0].tool} {well[0].tool_version or ''}".strip()
        words = f"{len(well)} run(s) of {tool} ended, {sum(len(run.measurements) for run in well)} measurements"
        checks.append(Check(NAME, group, CheckState.PASS, node, words, required=True))
    elif well:
        words = f"it ended without a single measurement ({well[0].reason or well[0].source})"
        checks.append(Check(NAME, group, CheckState.ERROR, node, words, "run it by hand", required=True))
    for run in runs:
        if run.state in _STATES:
            state, words, advice = _STATES[run.state]
            said = f"{words}: {run.reason}" if run.reason else words
            checks.append(Check(NAME, group, state, node, f"{run.tool}: {said}", advice, (run.source,), required=True))
    return checks
