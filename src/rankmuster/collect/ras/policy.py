"""May RAS be asked now, and in which form? Pure: what is known goes in, a decision and its reason come out.

On releases whose STATUS can crash the job the dumps come first (a crash would take them along), then RAS, and only once
a stop is confirmed: a job that has stopped has little to lose. Never while communicators are being built.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rankmuster.collect.collector import Assessment
from rankmuster.collect.ras.hazards import Harm, Hazard, hazards_of
from rankmuster.collect.ras.release import HAS_JSON, NO_RAS, Span
from rankmuster.collect.wishes import RasRisk
from rankmuster.model.fault import Phase, Progress


class Action(str, Enum):
    """ASK: now. WAIT_FOR_DUMPS, WAIT_FOR_STOP: not before that is known. DECLINE: not at all. NO_RAS: this NCCL has
    none."""

    ASK = "ask"
    WAIT_FOR_DUMPS = "wait_for_dumps"
    WAIT_FOR_STOP = "wait_for_stop"
    DECLINE = "decline"
    NO_RAS = "no_ras"


class Form(str, Enum):
    """In which form the reply is asked for: JSON where the release has it."""

    JSON = "json"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Decision:
    """`reason`: one sentence. `warnings`: what the operator should know whatever is decided, one sentence each."""

    action: Action
    reason: str
    form: Form
    hazards: tuple[Hazard, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def risky(self) -> bool:
        """Whether a request in this form may hurt the job."""
        return any(_hurts(hazard, self.form) for hazard in self.hazards)

    @property
    def waits(self) -> bool:
        """Whether something else has to be known first."""
        return self.action in (Action.WAIT_FOR_DUMPS, Action.WAIT_FOR_STOP)


def decide(
    candidates: tuple[Span, ...], risk: RasRisk, assessment: Assessment | None, *, dumped: bool, final: bool = False
) -> Decision:
    """The decision for a job whose NCCL is in one of `candidates` (none: unknown, which counts as the worst).

    `assessment`: None while there is none. `dumped`: the Flight Recorder's dumps are taken, or will not be.
    `final`: there is no more time to wait for anything, so that whatever would wait is declined.
    """
    if candidates and all(span.within(NO_RAS) for span in candidates):
        return Decision(Action.NO_RAS, f"NCCL {_names(candidates)} has no RAS (it came with 2.24.3)", Form.TEXT)
    form = Form.JSON if candidates and all(span.within(HAS_JSON) for span in candidates) else Form.TEXT
    hazards = hazards_of(candidates)
    warnings = tuple(
        f"NCCL {_names(candidates)}: {hazard.effect} ({hazard.source})"
        for hazard in hazards
        if hazard.harm is Harm.THREAD_CRASH and candidates
    )
    risky = tuple(hazard for hazard in hazards if _hurts(hazard, form))
    action, reason = _action(candidates, risk, assessment, hazards, risky, dumped=dumped)
    decision = Decision(action, reason, form, hazards, warnings)
    if final and decision.waits:
        return Decision(Action.DECLINE, f"not asked: {reason}, and no time is left to wait", form, hazards, warnings)
    return decision


def in_init(assessment: Assessment) -> bool:
    """Whether communicators may be under construction; an instance that has stopped within its init counts."""
    return assessment.phase is Phase.INIT or assessment.progress is Progress.STARTING


def _hurts(hazard: Hazard, form: Form) -> bool:
    """Whether a STATUS in this form may set it off."""
    if hazard.harm is Harm.TEXT_CHURN:
        return form is Form.TEXT
    return hazard.harm is not Harm.THREAD_CRASH


def _action(
    candidates: tuple[Span, ...],
    risk: RasRisk,
    assessment: Assessment | None,
    hazards: tuple[Hazard, ...],
    risky: tuple[Hazard, ...],
    *,
    dumped: bool,
) -> tuple[Action, str]:
    name = f"NCCL {_names(candidates)}"
    starting = assessment is not None and in_init(assessment)
    if not risky:
        if starting and any(hazard.harm is Harm.TEXT_CHURN for hazard in hazards):
            return Action.DECLINE, f"not asked: {name} should not be asked during init ({hazards[0].source})"
        return Action.ASK, f"{name} may be asked at any time"
    during_init = [hazard for hazard in risky if hazard.harm is Harm.INIT_CRASH and starting]
    chosen = (*during_init, *risky)[0]
    worst = f"{name}: {chosen.effect} ({chosen.source})"
    if risk is RasRisk.NEVER:
        return Action.DECLINE, f"not asked, as ras_risk=never wants it: {worst}"
    if starting:
        return Action.DECLINE, f"not asked during init, whatever is set: {worst}"
    if assessment is None:
        return Action.WAIT_FOR_STOP, f"whether the instance is still in its init is not known yet; {worst}"
    if risk is RasRisk.AFTER_STOP_CONFIRMED and not assessment.stop_confirmed:
        seen = assessment.reason.rstrip(".")
        return Action.DECLINE, f"not asked, since no stop is confirmed ({seen}); ras_risk=always asks anyway; {worst}"
    if not dumped:
        return Action.WAIT_FOR_DUMPS, f"the dumps are not taken yet, which come first: {worst}"
    why = "its stop is confirmed" if assessment.stop_confirmed else "ras_risk=always wants it"
    return Action.ASK, f"asked after the dumps, since {why}, in spite of this: {worst}"


def _names(candidates: tuple[Span, ...]) -> str:
    return " or ".join(dict.fromkeys(map(str, candidates))) or "of an unknown release"
