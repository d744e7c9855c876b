"""A Job's record, judged by the history of the fleet, which the Job does not know.

A pod on a node that nobody knows yet holds no password of a database. So it measures and checks, and whoever started
it compares: the same rules as `rankmuster admit` (`admission.run`), over the runs and checks of the record. What the
new record says of its origin lets a second look find it again instead of comparing a node with itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rankmuster.adapters.kube.job_look import Payload
from rankmuster.adapters.kube.job_record import FINGERPRINT, record_of
from rankmuster.adapters.kube.job_words import NotSaid
from rankmuster.admission.belongs import SAME_NODE, SAME_VERSIONS
from rankmuster.admission.compare import Compared, compare, differing_settings
from rankmuster.admission.completeness import SAME_MEASUREMENT, whole_regimes
from rankmuster.admission.contention import contended, contention_check
from rankmuster.admission.decide import Decided, decide
from rankmuster.admission.explain import explanations
from rankmuster.admission.floor_input import floor_input
from rankmuster.admission.made_from import NotMadeOfAPath, path_of
from rankmuster.admission.nccl_choices import choice_checks
from rankmuster.admission.past import Past
from rankmuster.admission.plan import Plan
from rankmuster.admission.profile_checks import profile_checks
from rankmuster.admission.topology import topology_checks
from rankmuster.admission.unchanged import SETTINGS
from rankmuster.bench.record import NoHistory, history_run
from rankmuster.evidence.fingerprint_file import FingerprintRefused, read_fingerprint
from rankmuster.kube.admission.result import Result
from rankmuster.model import benchmark_document
from rankmuster.model.admission import AdmissionRecord, Check, CheckState, Decision, Kinship
from rankmuster.model.benchmark import BenchmarkRun, HistoryRun, Profile, RunState
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.judgement import RegimeJudgement, Standing
from rankmuster.model.plain_json import Bounds, NotPlain, from_plain
from rankmuster.model.unknown import Unknown
from rankmuster.report.admission_json import seal
from rankmuster.report.inert import plain

MEASURED_AS = "measured as "
"""Begins the note that names the record of the Job."""

_BOUNDS = Bounds(text=8_192, members=100_000)
_OTHER = (SAME_NODE, SAME_VERSIONS, SETTINGS, SAME_MEASUREMENT)
_BY_HISTORY = ("choices", "setting-differs", "slow-rank", "topology", "regime")
"""Names of checks that are made anew, since what they say depends on the history."""


def judged(payload: Payload, node: str, profile: Profile, past: Past, *, known_node: str | None = None) -> Result:
    """`known_node`: node hash that the node's agent has read, None where it does not say.

    Raises NotSaid where the record is none, or of something else; and what the history raises."""
    document = record_of(payload, node)
    fingerprint = _fingerprint(payload, node)
    own = fingerprint.node_hash
    if known_node is not None and isinstance(own, str) and own != known_node:
        raise NotSaid(
            f"the Job on {node} saw other GPUs or NICs than the node's agent ({own[:19]}..., {known_node[:19]}...)"
        )
    measured, checks = _measured(document, node)
    plan = Plan(profile, runs=len(measured), retests=0)
    compared = _compared(measured, checks, fingerprint, plan, past)
    complete = _complete(measured)
    kept = [one for one in checks if one.name not in _BY_HISTORY]
    siblings = _siblings(fingerprint, past)
    kept += topology_checks(fingerprint, siblings)
    for run in complete:
        kept += [one for one in choice_checks(run, compared.choices) if one not in kept]
    foreign = contended(measured, {}, compared.history)
    if any(one.name == "contention" for one in kept) or (foreign is not None and (foreign.certain or _below(compared))):
        kept += [contention_check(foreign)] if foreign is not None and not _named(kept, "contention") else []
        compared = replace(compared, judgements=())
    elif _below(compared):
        kept += _explained(complete, compared, fingerprint)
    kept += profile_checks(compared.judgements, compared.against)
    decided = decide(kept, compared.judgements, compared.kinship, compared.why)
    if document["decision"] == Decision.ERROR.value and decided.decision in (Decision.PASS, Decision.PROVISIONAL):
        # whatever went wrong there and left no check: what was not decided is no pass here
        reasons = document.get("reasons")
        first = plain(reasons[0], 400) if isinstance(reasons, list) and reasons else "the record does not say why"
        decided = Decided(Decision.ERROR, (f"the Job decided nothing: {first}",))
    alone = compared.of_one_node(own)
    if alone and decided.decision is Decision.PASS:
        decided = replace(decided, reasons=(*decided.reasons, alone))
    started = _number(document, "started_at")
    runs, lost = _history_runs(measured, fingerprint, profile, decided, compared, started)
    history = compared.history
    record = AdmissionRecord(
        decision=decided.decision,
        reasons=decided.reasons,
        nodes=(node,),
        started_at=started,
        ended_at=_number(document, "ended_at"),
        fingerprint=_hashes(fingerprint),
        profile=plain(document.get("profile", ""), 200),
        compared_with=compared.class_hash,
        kinship=compared.kinship,
        history_runs=len(history.records) if history is not None else 0,
        history_nodes=len(set(history.nodes)) if history is not None else 0,
        checks=tuple(kept),
        judgements=compared.judgements,
        runs=measured,
        notes=(f"{MEASURED_AS}{document['hash']} in a Job, and compared here", *compared.why, *lost),
    )
    return Result(seal(record), fingerprint, runs)


def measured_as(document: bytes) -> str | None:
    """Of a stored record: the hash of the Job's record that it was made of."""
    try:
        notes = json.loads(document)["notes"]
        found = next(str(one) for one in notes if str(one).startswith(MEASURED_AS))
    except (ValueError, KeyError, TypeError, StopIteration, RecursionError):
        return None
    return found.removeprefix(MEASURED_AS).partition(" ")[0]


def _fingerprint(payload: Payload, node: str) -> Fingerprint:
    try:
        found = read_fingerprint(payload.parts.get(FINGERPRINT, b""))
    except FingerprintRefused as error:
        raise NotSaid(f"the fingerprint of {node}: {error}") from None
    if found.host != node:
        raise NotSaid(f"the fingerprint is of {plain(found.host, 200)}, and {node} was asked for")
    return found


def _measured(document: Mapping[str, Any], node: str) -> tuple[tuple[BenchmarkRun, ...], list[Check]]:
    try:
        runs = tuple(benchmark_document.of_plain(one) for one in document["runs"])
        checks = [from_plain(Check, one, _BOUNDS) for one in document["checks"]]
    except (NotPlain, KeyError, TypeError, AttributeError) as error:
        raise NotSaid(f"the record of {node} cannot be read: {plain(error, 200)}") from None
    return runs, checks


def _compared(
    runs: Sequence[BenchmarkRun], checks: Sequence[Check], fingerprint: Fingerprint, plan: Plan, past: Past
) -> Compared:
    """No judgement where what was measured is not what the fingerprint names."""
    complete = _complete(runs)
    other = any(one.state is CheckState.ERROR and one.name in _OTHER for one in checks)
    if not complete or other:
        return Compared((), Kinship.NONE)
    try:
        path = path_of(fingerprint)
    except NotMadeOfAPath as error:
        raise NotSaid(f"the fingerprint cannot be read: {error}") from None
    try:
        found = compare(complete, fingerprint, plan, past, floor_input(path, complete))
    except ValueError as error:
        raise NotSaid(f"its runs cannot be compared: {error}") from None
    return replace(found, judgements=whole_regimes(found.judgements, complete, plan.profile))


def _complete(runs: Sequence[BenchmarkRun]) -> list[BenchmarkRun]:
    return [run for run in runs if run.state is RunState.COMPLETE and run.measurements]


def _explained(complete: Sequence[BenchmarkRun], compared: Compared, fingerprint: Fingerprint) -> list[Check]:
    slower = any(_refuses(one) and one.floor is None for one in compared.judgements)
    others = compared.settings if compared.kinship is not Kinship.CLASS and slower else {}
    differ = differing_settings(fingerprint, others) if others else {}
    return explanations(complete, compared.choices, differ)


def _siblings(fingerprint: Fingerprint, past: Past) -> Mapping[str, int]:
    model, count = fingerprint.gpu_model, fingerprint.gpu_count
    if isinstance(model, Unknown) or isinstance(count, Unknown):
        return {}
    return past.topologies(model, count)


def _history_runs(
    runs: Sequence[BenchmarkRun],
    fingerprint: Fingerprint,
    profile: Profile,
    decided: Decided,
    compared: Compared,
    started: float,
) -> tuple[tuple[HistoryRun, ...], tuple[str, ...]]:
    """Runs of a node that was refused, or that is between the thresholds, stay outside the baseline (admission.run)."""
    between = compared.kinship is Kinship.CLASS and any(
        one.can_refuse and one.standing in (Standing.BORDERLINE, Standing.BELOW) for one in compared.judgements
    )
    enters = decided.decision in (Decision.PASS, Decision.PROVISIONAL) and not between
    kept: list[HistoryRun] = []
    lost: dict[str, None] = {}
    for run in runs:
        if not run.measurements:
            continue
        try:
            made = history_run(run, fingerprint, profile, started_at=started if run.started_at is None else None)
        except NoHistory as error:
            lost[f"a run was not kept in the history: {error}"] = None
            continue
        if made.state is RunState.COMPLETE and not enters:
            foreign = next((one for one in decided.reasons if one.startswith("contention")), None)
            state = RunState.CONTENDED if foreign is not None else RunState.REFUSED
            why = foreign or f"the node was not admitted ({decided.decision.value}): {decided.reasons[0]}"
            made = replace(made, state=state, reason=why[:500])
        kept.append(made)
    return tuple(kept), tuple(lost)


def _hashes(fingerprint: Fingerprint) -> dict[str, str]:
    found = {}
    for name in ("class_hash", "kin_hash", "node_hash", "topology_hash"):
        value = getattr(fingerprint, name)
        found[name] = f"unknown: {value.reason}" if isinstance(value, Unknown) else value
    return found


def _refuses(one: RegimeJudgement) -> bool:
    return one.can_refuse and one.standing is Standing.BELOW


def _below(compared: Compared) -> bool:
    return any(_refuses(one) for one in compared.judgements)


def _named(checks: Sequence[Check], name: str) -> bool:
    return any(one.name == name for one in checks)


def _number(document: Mapping[str, Any], name: str) -> float:
    value = document.get(name)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    raise NotSaid(f"the record has no {name}")
