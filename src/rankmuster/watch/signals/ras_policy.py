"""May a watch ask RAS of an instance now? Pure. `collect`'s own policy, and stricter: a watch asks for ever.

On releases whose STATUS can hurt the job `collect` takes the dumps first. A watch takes none, so it leaves those
releases to `collect`, a confirmed stop or not, unless `ras_risk=always` says otherwise. While an instance starts, no
release is asked, and no connection is opened: communicators come and go then, and nothing that RAS could say would be a
stop.
"""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.collect.collector import Assessment
from rankmuster.collect.ras.policy import Action, decide, in_init
from rankmuster.collect.ras.probe import Abilities
from rankmuster.collect.ras.release import Span
from rankmuster.collect.wishes import RasRisk


@dataclass(frozen=True, slots=True)
class Permission:
    """`reason`: one sentence, why or why not."""

    granted: bool
    reason: str


def standing(assessment: Assessment | None) -> Permission:
    """Whether the instance is in a state in which RAS may be talked to at all. `assessment`: the watch's newest."""
    if assessment is None:
        return Permission(False, "not asked before a first look has said that the instance is not in its init")
    if in_init(assessment):
        return Permission(False, "not asked while the instance starts: communicators are being built")
    return Permission(True, f"the instance is {assessment.progress.value}")


def permission(candidates: tuple[Span, ...], risk: RasRisk, assessment: Assessment | None) -> Permission:
    """Whether a STATUS may be sent to NCCL of one of `candidates` (none: unknown, which counts as the worst)."""
    decision = decide(candidates, risk, assessment, dumped=True, final=True)
    if decision.action is Action.NO_RAS:
        return Permission(False, decision.reason)
    ready = standing(assessment)
    if not ready.granted:
        return ready
    if decision.risky and risk is RasRisk.AFTER_STOP_CONFIRMED:
        worst = decision.hazards[0]
        names = " or ".join(dict.fromkeys(map(str, candidates))) or "of an unknown release"
        return Permission(
            False,
            f"not polled, since NCCL {names} has this defect: {worst.effect} ({worst.source}); on a stop `collect` "
            "asks it, after its dumps; ras.risk: always polls anyway",
        )
    return Permission(decision.action is Action.ASK, decision.reason)


def narrowed(known: tuple[Span, ...], abilities: Abilities) -> tuple[Span, ...]:
    """What was found without asking, narrowed by what the service can do; both, where they contradict."""
    fitting = tuple(span for span in known if span.overlaps(abilities.span))
    if fitting or not known:
        return fitting or (abilities.span,)
    return (*known, abilities.span)
