"""Whether the ranks are asked to write dumps: a dump with stacks slows each of them for seconds."""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.collect.collector import Assessment
from rankmuster.collect.wishes import DumpWish, Wishes

LEAST_SECONDS = 1.5
"""In fewer no dump comes, since torch looks into its pipe once a second: asking would only slow the job."""


@dataclass(frozen=True, slots=True)
class Decision:
    """`note`: a clause for a person: why they are (not) asked."""

    ask: bool
    note: str


def decide(
    wishes: Wishes, assessment: Assessment | None, *, last: bool = False, left: float = float("inf")
) -> Decision | None:
    """The decision, or None while it depends on an assessment that has not come. `last`: none will come in time.

    `left`: seconds in which a dump would have to come.
    """
    if wishes.dumps is DumpWish.NEVER:
        return Decision(False, "not asked for dumps: they are not wanted (--dumps never)")
    if wishes.dumps is DumpWish.ALWAYS:
        return Decision(True, "dumps are wanted in any case")
    if wishes.stop_confirmed:
        return Decision(True, "the stop is confirmed")
    if assessment is not None:
        if assessment.healthy:
            why = "work advances, or there is none to do"
            return Decision(
                False, f"not asked for dumps: {why} ({_reason(assessment)}); --dumps always asks all the same"
            )
        if assessment.stop_confirmed:
            return Decision(True, "the stop is confirmed")
    elif not last:
        return None
    why = "whether work advances could not be told in time" if assessment is None else "work is not seen to advance"
    if left < LEAST_SECONDS:
        return Decision(
            False,
            f"not asked for dumps: {why}, and none would come in the {left:.1f} s that were left; give it a longer "
            "--deadline, or --stop-confirmed where you know that it has stopped",
        )
    return Decision(True, why)


def _reason(assessment: Assessment) -> str:
    return assessment.reason.strip().rstrip(".") or "no reason was given"
