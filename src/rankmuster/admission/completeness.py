"""Whether the whole profile was measured, as it is to be: what is missing was not passed, a part is not the whole."""

from __future__ import annotations

from collections.abc import Sequence

from rankmuster.admission.gathering import sizes_named
from rankmuster.baseline.regimes import group_of
from rankmuster.bench.same_measurement import missing_cells, other_measurement, said_why
from rankmuster.model.admission import Check, CheckGroup, CheckState
from rankmuster.model.benchmark import BenchmarkRun, Cell, Profile
from rankmuster.model.judgement import RegimeJudgement

SAME_MEASUREMENT = "same-measurement"


def completeness_checks(runs: Sequence[BenchmarkRun], profile: Profile) -> list[Check]:
    """ERROR for sizes that are missing, UNKNOWN where the tool says why, ERROR for runs of something else; of runs that
    ended well. No run: nothing said (the benchmark's own check says that)."""
    odd = list(dict.fromkeys(words for run in runs if (words := other_measurement(run, profile))))
    checks = []
    if odd:
        words = f"the benchmark did not measure what the profile {profile.name} is: {'; '.join(odd)}"
        checks.append(_check(SAME_MEASUREMENT, CheckState.ERROR, words, "measure again as the profile says"))
    left = missing_cells(runs, profile) if runs else ()
    why = {cell: said_why(cell, runs) for cell in left}
    lost = [cell for cell in left if not why[cell]]
    if lost:
        words = f"the measurement is incomplete, the profile {profile.name} has also {_named(lost)}"
        advice = "measure all of it, or name the profile that was measured (--profile)"
        checks.append(_check("cells", CheckState.ERROR, words, advice))
    told = [cell for cell in left if why[cell]]
    if told:
        words = f"not measured: {_named(told)} ({why[told[0]]})"
        checks.append(_check("cells", CheckState.UNKNOWN, words, "take a profile that this node can measure"))
    return checks


def whole_regimes(
    judgements: Sequence[RegimeJudgement], runs: Sequence[BenchmarkRun], profile: Profile
) -> tuple[RegimeJudgement, ...]:
    """The judgements without those of regimes of which sizes are missing."""
    groups = {group_of(cell) for cell in missing_cells(runs, profile)}
    keys = {(group.operation, group.regime, group.graph, group.in_place) for group in groups}
    return tuple(one for one in judgements if (one.operation, one.regime, one.graph, one.in_place) not in keys)


def _named(cells: Sequence[Cell]) -> str:
    sizes: dict[str, list[int]] = {}
    for cell in cells:
        launch = f"{cell.operation.value}{', CUDA graph' if cell.graph else ''}{', in place' if cell.in_place else ''}"
        sizes.setdefault(f"{launch} of {cell.dtype}", []).append(cell.size_bytes)
    return "; ".join(f"{what} at {sizes_named(those)}" for what, those in sizes.items())


def _check(name: str, state: CheckState, words: str, advice: str) -> Check:
    return Check(name, CheckGroup.PROFILE, state, "the node", words, advice, required=True)
