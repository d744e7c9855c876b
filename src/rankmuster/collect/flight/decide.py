"""Whether the ranks are asked to write dumps: a dump with stacks slows each of them for seconds."""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.collect.collector import Assessment
from rankmuster.collect.wishes import DumpWish, Wishes


@dataclass(frozen=True, slots=True)
class Decision:
    """`note`: a clause for a person: why they are (not) asked."""

    ask: bool
    note: str


def decide(wishes: Wishes, assessment: Assessment | None, *, last: bool = False) -> Decision | None:
    """The decision, or None while it depends on an assessment that has not come. `last`: none will come in time."""
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
        return Decision(True, "the stop is confirmed" if assessment.stop_confirmed else "work is not seen to advance")
    return Decision(True, "whether work advances could not be told in time") if last else None


def _reason(assessment: Assessment) -> str:
    return assessment.reason.strip().rstrip(".") or "no reason was given"
