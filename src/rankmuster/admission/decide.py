"""The decision, written once: from checks and judgements to pass, fail, provisional or error.

In this order; the first that applies decides:

1. a check hung: fail. A test that does not end is a test that was not passed.
2. a check failed, or a regime that may refuse is below its class, kin or floor: fail.
3. a check ended in an error, or nothing was measured: error. It could not be decided, which is no pass.
4. a regime that may refuse is borderline after all re-tests, above its class, or has too little history; or only kin
   or a floor could be compared with; or no size of the profile may refuse: provisional.
5. a required check could not be answered (unknown): provisional.
6. else: pass. Every regime that may refuse is within the node's own class, every required check passed or warned.

The first reason of a refusal is the one to act on: what explains a low bandwidth comes before the low bandwidth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankmuster.model.admission import Check, CheckGroup, CheckState, Decision, Kinship
from rankmuster.model.judgement import RegimeJudgement, Standing
from rankmuster.report.admission_words import regime_words

_FIRST = ("contention",)
_GROUPS = (
    CheckGroup.HARDWARE,
    CheckGroup.CORRECTNESS,
    CheckGroup.ENVIRONMENT,
    CheckGroup.PEER_TO_PEER,
    CheckGroup.NETWORK,
    CheckGroup.NCCL,
    CheckGroup.TOPOLOGY,
    CheckGroup.PROFILE,
)
"""Broken hardware and wrong values first: they are reasons by themselves. Then what was set, what that closed, and what
NCCL made of it; how slow it was comes last. Foreign work (`contention`) comes before what was set: nothing measured
beside it says anything of the node."""

_OPEN = {
    Standing.BORDERLINE: "between the thresholds after all re-tests",
    Standing.ABOVE: "faster than its class ever was: not the same thing was measured",
    Standing.TOO_LITTLE: "too little history",
}


@dataclass(frozen=True, slots=True)
class Decided:
    """`reasons`: the most telling first; of a pass, what it rests on."""

    decision: Decision
    reasons: tuple[str, ...]


def decide(
    checks: Sequence[Check], judgements: Sequence[RegimeJudgement], kinship: Kinship, why: Sequence[str] = ()
) -> Decided:
    """See the module. `kinship`: what the judgements compare with, and `why` (`compare`)."""
    hung = _of(checks, CheckState.HUNG)
    failed = _of(checks, CheckState.FAIL)
    below = [judged for judged in judgements if judged.can_refuse and judged.standing is Standing.BELOW]
    if hung or failed or below:
        said = {check.subject for check in failed}
        slow = [f"{regime_words(judged)}: {judged.reason}" for judged in below if regime_words(judged) not in said]
        return Decided(Decision.FAIL, (*map(_words, (*_ordered(hung), *_ordered(failed))), *slow))
    errors = _of(checks, CheckState.ERROR)
    if errors or not judgements:
        reasons = tuple(map(_words, _ordered(errors)))
        return Decided(Decision.ERROR, reasons or ("nothing was measured that could be judged",))
    open_questions = [*_kinship(kinship, why), *_open_regimes(judgements, kinship), *_open_checks(checks)]
    if open_questions:
        return Decided(Decision.PROVISIONAL, tuple(open_questions))
    refusing = sum(judged.can_refuse for judged in judgements)
    runs, nodes = max((judged.samples, judged.nodes) for judged in judgements if judged.can_refuse)
    words = f"{refusing} regime(s) within the node's own class ({runs} runs of {nodes} node(s)), no check failed"
    return Decided(Decision.PASS, (words,))


def decide_checks(checks: Sequence[Check]) -> Decided:
    """The same rule where nothing is judged against a history: hung and failed, errors, unanswered, else pass."""
    refused = [*_ordered(_of(checks, CheckState.HUNG)), *_ordered(_of(checks, CheckState.FAIL))]
    if refused:
        return Decided(Decision.FAIL, tuple(map(_words, refused)))
    errors = _ordered(_of(checks, CheckState.ERROR))
    if errors or not checks:
        return Decided(Decision.ERROR, tuple(map(_words, errors)) or ("nothing was checked",))
    unanswered = _open_checks(checks)
    if unanswered:
        return Decided(Decision.PROVISIONAL, tuple(unanswered))
    return Decided(Decision.PASS, (f"{len(_of(checks, CheckState.PASS))} check(s) passed, none failed",))


def _of(checks: Sequence[Check], state: CheckState) -> list[Check]:
    return [check for check in checks if check.state is state]


def _ordered(checks: Sequence[Check]) -> list[Check]:
    return sorted(checks, key=_rank)


def _rank(check: Check) -> float:
    if check.name in _FIRST:
        return _GROUPS.index(CheckGroup.ENVIRONMENT) - 0.5
    if check.name == "slow-rank":
        return _GROUPS.index(CheckGroup.PROFILE) - 0.5
    return _GROUPS.index(check.group)


def _words(check: Check) -> str:
    said = check.subject == "the node" or check.statement.startswith(check.subject)
    return check.statement if said else f"{check.subject}: {check.statement}"


def _open_regimes(judgements: Sequence[RegimeJudgement], kinship: Kinship) -> list[str]:
    """Too little history is said once, by the kinship, where all regimes have too little."""
    refusing = [judged for judged in judgements if judged.can_refuse]
    if not refusing:
        return ["the profile has no size that may refuse: latency alone admits nobody"]
    return [
        f"{regime_words(judged)}: {_OPEN[judged.standing]}" + (f" ({judged.reason})" if judged.reason else "")
        for judged in refusing
        if judged.standing in _OPEN
        and (kinship in (Kinship.CLASS, Kinship.KIN) or judged.standing is not Standing.TOO_LITTLE)
    ]


def _kinship(kinship: Kinship, why: Sequence[str]) -> list[str]:
    if kinship is Kinship.CLASS:
        return []
    because = f": {'; '.join(why)}" if why else ""
    if kinship is Kinship.KIN:
        return ["compared with kin alone, nodes of the same hardware and software with other settings" + because]
    if kinship is Kinship.FLOOR:
        return ["compared with a floor from its hardware's own limits alone" + because]
    return ["compared with nothing, since its hardware's limits are not known either" + because]


def _open_checks(checks: Sequence[Check]) -> list[str]:
    unknown = [check for check in checks if check.required and check.state is CheckState.UNKNOWN]
    regimes = [check for check in unknown if check.group is CheckGroup.PROFILE and check.name == "regime"]
    return [f"{check.name}: {_words(check)}" for check in _ordered([c for c in unknown if c not in regimes])]
