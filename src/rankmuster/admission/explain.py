"""Why a node is slow, where its settings, its paths or one of its ranks tell: said before "slow", as its cause.

Asked only of a node whose results are below what they were compared with. A setting that differs from kin and costs
nothing is no reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankmuster.admission.nccl_choices import differences
from rankmuster.admission.settings_checks import EFFECTS
from rankmuster.admission.slow_rank import slow_rank
from rankmuster.model.admission import Check, CheckGroup, CheckState
from rankmuster.model.benchmark import AlgorithmChoice, BenchmarkRun


def explanations(
    runs: Sequence[BenchmarkRun],
    reference: Sequence[Sequence[AlgorithmChoice]],
    settings: Mapping[str, tuple[str | None, str | None]],
) -> list[Check]:
    """Refusing checks, each a cause. `settings`: those that differ from the class compared with: (here, there)."""
    checks = [_setting(name, here, there) for name, (here, there) in settings.items()]
    choices = [choice for run in runs for choice in run.choices]
    for difference in differences(choices, reference, runs):
        words = f"NCCL chose otherwise than in the class: {difference.words}"
        checks.append(Check("choices", CheckGroup.NCCL, CheckState.FAIL, "the node", words))
    slow = slow_rank(runs)
    if slow is not None:
        words, evidence = slow.words, ("times per rank",)
        checks.append(Check("slow-rank", CheckGroup.PROFILE, CheckState.FAIL, f"rank {slow.rank}", words, "", evidence))
    return checks


def _setting(name: str, here: str | None, there: str | None) -> Check:
    usual = "unset in the class" if there is None else f"{there} in the class"
    now = f"{name} is unset" if here is None else f"{name}={here}"
    effect = EFFECTS.get(name)
    words = f"{now}, {usual}" + (f": {effect}" if effect else "")
    advice = f"unset {name} and admit again" if there is None else f"set {name}={there} and admit again"
    return Check("setting-differs", CheckGroup.ENVIRONMENT, CheckState.FAIL, name, words, advice)
