"""An admission's decision as metrics, for node_exporter's textfile collector."""

from __future__ import annotations

from collections import Counter

from rankmuster.metrics.declared import Kind, Label, Metric
from rankmuster.metrics.drift import HOST
from rankmuster.metrics.registry import Registry
from rankmuster.model.admission import AdmissionRecord, CheckGroup, CheckState, Decision
from rankmuster.model.benchmark import Operation
from rankmuster.model.judgement import Regime, RegimeJudgement, Standing

PROFILE = Label("profile", "the benchmark's profile, `name@digest`", most=64)
_DECISION = Label("decision", "of the admission", tuple(one.value for one in Decision))
_GROUP = Label("group", "what the checks are about", tuple(one.value for one in CheckGroup))
_STATE = Label("state", "how they ended", tuple(one.value for one in CheckState))
_OPERATION = Label("operation", "that was measured", tuple(one.value for one in Operation))
_REGIME = Label("regime", "sizes that one mechanism rules", tuple(one.value for one in Regime))
_LAUNCH = Label("launch", "`graph`: replayed from a CUDA graph", ("eager", "graph"))
_STANDING = Label("standing", "of the results among those of their class", tuple(one.value for one in Standing))


def _gauge(name: str, text: str, *labels: Label) -> Metric:
    return Metric(f"rankmuster_admission_{name}", Kind.GAUGE, text, labels)


DECISION = _gauge("decision", "1 for the decision about a node, 0 for the others.", HOST, PROFILE, _DECISION)
ENDED = _gauge("last_timestamp_seconds", "Unix time at which the node's admission ended.", HOST, PROFILE)
DURATION = _gauge("duration_seconds", "How long the admission took.", HOST, PROFILE)
CHECKS = _gauge("checks", "Checks of the admission, by what they are about and how they ended.", HOST, _GROUP, _STATE)
RATIO = _gauge(
    "result_ratio",
    "Results by the median of their class: 1 is as the class, below is worse. Absent without a history.",
    HOST,
    PROFILE,
    _OPERATION,
    _REGIME,
    _LAUNCH,
)
REFUSED_BELOW = _gauge(
    "refused_below_ratio",
    "The ratio below which the results refuse a node; absent where they refuse nobody.",
    HOST,
    PROFILE,
    _OPERATION,
    _REGIME,
    _LAUNCH,
)
STANDINGS = _gauge("standings", "Operations and regimes by how their results stand.", HOST, PROFILE, _STANDING)
RUNS = _gauge("history_runs", "Runs of the class that the results were compared with.", HOST, PROFILE)
RETESTS = _gauge("retests", "Times that borderline results were measured again.", HOST, PROFILE)

OF_ADMISSION = (DECISION, ENDED, DURATION, CHECKS, RATIO, REFUSED_BELOW, STANDINGS, RUNS, RETESTS)


def fill_admission(registry: Registry, record: AdmissionRecord) -> None:
    """Sets all of them for each node of the record; a further record of the same node replaces it."""
    checks = Counter((one.group.value, one.state.value) for one in record.checks)
    standings = Counter(one.standing.value for one in record.judgements)
    with registry.together():
        for host in record.nodes:
            registry.forget(HOST.name, host)
            of = {"host": host, "profile": record.profile}
            registry.gauge(DECISION).choose("decision", record.decision.value, **of)
            registry.gauge(ENDED).set(record.ended_at, **of)
            registry.gauge(DURATION).set(max(0.0, record.ended_at - record.started_at), **of)
            registry.gauge(RUNS).set(record.history_runs, **of)
            registry.gauge(RETESTS).set(record.retests, **of)
            for (group, state), number in sorted(checks.items()):
                registry.gauge(CHECKS).set(number, host=host, group=group, state=state)
            for standing, number in sorted(standings.items()):
                registry.gauge(STANDINGS).set(number, standing=standing, **of)
            for one in _worst_first(record.judgements):
                lane = {"operation": one.operation.value, "regime": one.regime.value, "launch": _launch(one), **of}
                registry.gauge(RATIO).set(one.statistic, **lane)
                registry.gauge(REFUSED_BELOW).set(one.refuse_below if one.can_refuse else None, **lane)


def _launch(one: RegimeJudgement) -> str:
    return "graph" if one.graph else "eager"


def _worst_first(judgements: tuple[RegimeJudgement, ...]) -> list[RegimeJudgement]:
    """In place and not are one label set here: the worse of the two stands last, and is what is seen."""
    return sorted(judgements, key=lambda one: -(one.statistic if one.statistic is not None else float("inf")))
