"""One admission from the first look to the sealed record.

Look, measure, judge, measure again in fresh processes while a regime is borderline, look again, check, decide. A
contended benchmark is not judged, and neither is a node that changed on the way: what was measured would count for
something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rankmuster.admission.belongs import SAME_NODE, SAME_VERSIONS, belonging_checks
from rankmuster.admission.checks import node_checks
from rankmuster.admission.compare import Compared, compare, differing_settings
from rankmuster.admission.completeness import SAME_MEASUREMENT, completeness_checks, whole_regimes
from rankmuster.admission.contention import contended, contention_check
from rankmuster.admission.decide import Decided, decide
from rankmuster.admission.explain import explanations
from rankmuster.admission.floor_input import floor_input
from rankmuster.admission.nccl_choices import choice_checks, transport_checks
from rankmuster.admission.plan import Outcome, Plan, Sources, Taken
from rankmuster.admission.profile_checks import profile_checks
from rankmuster.admission.topology import topology_checks
from rankmuster.admission.unchanged import SETTINGS, same_settings_checks, unchanged_check
from rankmuster.bench.record import NoHistory, history_run
from rankmuster.model.admission import AdmissionRecord, Check, CheckState, Decision, Kinship
from rankmuster.model.benchmark import BenchmarkRun, HistoryRun, RunState
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.judgement import RegimeJudgement, Standing
from rankmuster.model.unknown import Unknown
from rankmuster.report.admission_json import seal

_OTHER = (SAME_NODE, SAME_VERSIONS, SETTINGS, SAME_MEASUREMENT)
"""Checks whose error means that something else was measured than the fingerprint names."""

JUDGED = (RunState.COMPLETE,)
"""Other runs are kept in the record and judged by nobody."""


@dataclass(slots=True)
class _Measured:
    """`at`: when each run began, unix seconds, for those that do not say."""

    runs: list[BenchmarkRun] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    retests: int = 0
    compared: Compared | None = None

    @property
    def complete(self) -> list[BenchmarkRun]:
        return [run for run in self.runs if run.state in JUDGED and run.measurements]

    @property
    def goes_on(self) -> bool:
        return len(self.complete) == len(self.runs)


def admit(plan: Plan, sources: Sources) -> Outcome:
    """Asks every source once, the benchmark as often as the plan says. Raises what the history raises."""
    started = sources.now()
    before = sources.take()
    measured = _Measured()
    if _may_measure(before):
        _measure(plan, sources, before, measured)
    after = sources.take()
    facts = sources.facts()
    checks = node_checks(before, after, facts, measured.runs)
    checks.append(unchanged_check(before.fingerprint, after.fingerprint))
    checks += belonging_checks(measured.runs, after, plan)
    checks += same_settings_checks(measured.runs, after.fingerprint)
    checks += completeness_checks(measured.complete, plan.profile)
    compared = _believed(measured, checks)
    compared = replace(compared, judgements=whole_regimes(compared.judgements, measured.complete, plan.profile))
    foreign = contended(measured.runs, facts.load, compared.history)
    siblings = _siblings(after.fingerprint, sources)
    checks += topology_checks(after.fingerprint, siblings)
    for run in measured.complete:
        seen = [*transport_checks(run, after.path), *choice_checks(run, compared.choices)]
        checks += [check for check in seen if check not in checks]
    if foreign is not None and (foreign.certain or _below(compared)):
        checks.append(contention_check(foreign))
        compared = replace(compared, judgements=())
    elif _below(compared):
        slower = any(_refuses(judged) and judged.floor is None for judged in compared.judgements)
        others = compared.settings if compared.kinship is not Kinship.CLASS and slower else {}
        differ = differing_settings(after.fingerprint, others) if others else {}
        checks += explanations(measured.complete, compared.choices, differ)
    checks += profile_checks(compared.judgements, compared.against)
    decided = decide(checks, compared.judgements, compared.kinship, compared.why)
    alone = compared.of_one_node(after.fingerprint.node_hash)
    if alone:
        reasons = (*decided.reasons, alone) if decided.decision is Decision.PASS else decided.reasons
        decided, compared = replace(decided, reasons=reasons), replace(compared, why=(*compared.why, alone))
    return _outcome(plan, sources, started, after, measured, checks, compared, decided)


def _may_measure(taken: Taken) -> bool:
    """Nothing is started on a machine without GPUs, or on GPUs that do not answer."""
    return taken.path is None or (not isinstance(taken.path.gpus, Unknown) and bool(taken.path.gpus))


def _measure(plan: Plan, sources: Sources, before: Taken, measured: _Measured) -> None:
    """The first runs, then one more at a time while a regime is borderline. A run that did not end well ends it."""
    for _ in range(max(plan.runs, 1)):
        _once(plan, sources, measured)
        if not measured.goes_on:
            break
    while measured.complete:
        floor = floor_input(before.path, measured.complete)
        measured.compared = compare(measured.complete, before.fingerprint, plan, sources.past, floor)
        borderline = any(
            judged.can_refuse and judged.standing is Standing.BORDERLINE for judged in measured.compared.judgements
        )
        if _below(measured.compared):
            return  # refused by a single process already: no other one can change that
        if not borderline or measured.retests >= plan.retests or not measured.goes_on:
            return
        measured.retests += 1
        _once(plan, sources, measured)


def _once(plan: Plan, sources: Sources, measured: _Measured) -> None:
    measured.at.append(sources.now())
    measured.runs.append(sources.measure(plan.profile, len(measured.runs)))


def _believed(measured: _Measured, checks: Sequence[Check]) -> Compared:
    """No judgement where what was measured is not what the fingerprint names."""
    compared = measured.compared
    changed = any(check.state is CheckState.ERROR and check.name in _OTHER for check in checks)
    if compared is None or changed:
        return Compared((), Kinship.NONE)
    return compared


def _below(compared: Compared) -> bool:
    return any(_refuses(judged) for judged in compared.judgements)


def _refuses(judged: RegimeJudgement) -> bool:
    return judged.can_refuse and judged.standing is Standing.BELOW


def _siblings(fingerprint: Fingerprint, sources: Sources) -> dict[str, int]:
    model, count = fingerprint.gpu_model, fingerprint.gpu_count
    if isinstance(model, Unknown) or isinstance(count, Unknown):
        return {}
    return dict(sources.past.topologies(model, count))


def _outcome(
    plan: Plan,
    sources: Sources,
    started: float,
    after: Taken,
    measured: _Measured,
    checks: Sequence[Check],
    compared: Compared,
    decided: Decided,
) -> Outcome:
    fingerprint = after.fingerprint
    kept, lost = _history_runs(plan, measured, fingerprint, decided, compared)
    history = compared.history
    record = AdmissionRecord(
        decision=decided.decision,
        reasons=decided.reasons,
        nodes=(fingerprint.host or "unnamed host",),
        started_at=started,
        ended_at=sources.now(),
        fingerprint={
            name: f"unknown: {value.reason}" if isinstance(value, Unknown) else value
            for name, value in (
                ("class_hash", fingerprint.class_hash),
                ("kin_hash", fingerprint.kin_hash),
                ("node_hash", fingerprint.node_hash),
                ("topology_hash", fingerprint.topology_hash),
            )
        },
        profile=plan.profile.key,
        compared_with=compared.class_hash,
        kinship=compared.kinship,
        history_runs=len(history.records) if history is not None else 0,
        history_nodes=len(set(history.nodes)) if history is not None else 0,
        checks=tuple(checks),
        judgements=compared.judgements,
        runs=tuple(measured.runs),
        retests=measured.retests,
        notes=(*compared.why, *lost),
        settings=dict(plan.settings),
    )
    return Outcome(seal(record), fingerprint, kept, history)


def _history_runs(
    plan: Plan, measured: _Measured, fingerprint: Fingerprint, decided: Decided, compared: Compared
) -> tuple[tuple[HistoryRun, ...], tuple[str, ...]]:
    """The runs under the state that the history keeps them in, and notes on those that it cannot keep.

    A whole run enters the baseline only of a node that passed, or about which too little is known and nothing bad: a
    refused or an undecided node would drag the class's level towards its own.
    """
    own_class_open = compared.kinship is Kinship.CLASS and any(
        judged.can_refuse and judged.standing in (Standing.BORDERLINE, Standing.BELOW) for judged in compared.judgements
    )
    enters = decided.decision in (Decision.PASS, Decision.PROVISIONAL) and not own_class_open
    contended_words = next((reason for reason in decided.reasons if reason.startswith("contention")), None)
    kept: list[HistoryRun] = []
    lost: dict[str, None] = {}
    for run, at in zip(measured.runs, measured.at, strict=True):
        if not run.measurements:
            continue
        try:
            made = history_run(run, fingerprint, plan.profile, started_at=at if run.started_at is None else None)
        except NoHistory as error:
            lost[f"a run was not kept in the history: {error}"] = None
            continue
        if made.state is RunState.COMPLETE and not enters:
            state = RunState.CONTENDED if contended_words is not None else RunState.REFUSED
            why = contended_words or f"the node was not admitted ({decided.decision.value}): {decided.reasons[0]}"
            made = replace(made, state=state, reason=why[:500])
        kept.append(made)
    return tuple(kept), tuple(lost)
