"""What the judgements of the profile's regimes say, as checks: each regime apart."""

from __future__ import annotations

from collections.abc import Sequence

from rankmuster.model.admission import Check, CheckGroup, CheckState
from rankmuster.model.judgement import RegimeJudgement, Standing
from rankmuster.report.admission_words import regime_words

_STATES = {
    Standing.WITHIN: CheckState.PASS,
    Standing.BELOW: CheckState.FAIL,
    Standing.BORDERLINE: CheckState.UNKNOWN,
    Standing.TOO_LITTLE: CheckState.UNKNOWN,
    Standing.ABOVE: CheckState.UNKNOWN,
}


def profile_checks(judgements: Sequence[RegimeJudgement], against: str) -> list[Check]:
    """`against`: what was compared with, in words ("its class, 40 runs of 12 nodes").

    A regime that may not refuse (latency) warns where others would fail.
    """
    checks = []
    for judgement in judgements:
        state = _STATES[judgement.standing]
        if not judgement.can_refuse and state is CheckState.FAIL:
            state = CheckState.WARN
        words = judgement.reason or f"{judgement.standing.value} against {against}"
        evidence = (judgement.method,) if judgement.method else ()
        checks.append(
            Check(
                "regime",
                CheckGroup.PROFILE,
                state,
                regime_words(judgement),
                words,
                "",
                evidence,
                required=judgement.can_refuse,
            )
        )
    return checks
