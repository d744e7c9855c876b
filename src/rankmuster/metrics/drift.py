"""Drift as metrics, for node_exporter's textfile collector: who drifts, how far, and whether to stop the rollout.

A file of one look replaces that of the look before, so that what no longer drifts is gone from it. No label is a
sentence; a class is its hash's first digits.
"""

from __future__ import annotations

from rankmuster.metrics.declared import Kind, Label, Metric
from rankmuster.metrics.registry import Registry
from rankmuster.model.drift import DriftFinding, DriftKind, DriftReport, DriftScope

HASH_DIGITS = 12
"""Of a class's hash: enough to tell a fleet's classes apart, and what reports show."""

MOST_HOSTS = 4096
"""Nodes with metrics of their own: those that drift, of a fleet."""

HOST = Label("host", "the node, by its host's name (not `node`, which Kubernetes' discovery sets)", most=MOST_HOSTS)
CLASS = Label("class", f"the first {HASH_DIGITS} digits of the class's hash, or `unknown`", most=256)
_KIND = Label("kind", "what drifted", tuple(one.value for one in DriftKind))
_SCOPE = Label("scope", "`systematic`: many nodes of a class at once", tuple(one.value for one in DriftScope))


def _gauge(name: str, text: str, *labels: Label) -> Metric:
    return Metric(f"rankmuster_drift_{name}", Kind.GAUGE, text, labels)


CHECKED = _gauge("last_check_timestamp_seconds", "Unix time of the comparison that these are from.")
EXAMINED = _gauge("nodes_examined", "Nodes that were compared with their stored fingerprint and history.")
NODES = _gauge("nodes", "Nodes that drifted, counted by the store where a whole class moved.", CLASS, _KIND, _SCOPE)
CHANGE = _gauge(
    "change_ratio",
    "The worst relative change of a node that drifted: -0.1 is a tenth slower or narrower; absent where none is known.",
    HOST,
    _KIND,
)
STOP = _gauge("stop_rollout", "1 where many nodes of a class lost something at once: stop what is being rolled out.")
APPLIES = _gauge("baseline_applies", "0 where a change made the old baseline of some node not applicable.")
REGENERATE = _gauge("baselines_to_regenerate", "Classes and profiles whose baseline has to be measured anew.")
UNKNOWN = _gauge("parts_not_compared", "Parts that could not be compared, and leave the answer open.")

OF_DRIFT = (CHECKED, EXAMINED, NODES, CHANGE, STOP, APPLIES, REGENERATE, UNKNOWN)


def fill_drift(registry: Registry, report: DriftReport, *, now: float) -> None:
    """Sets all of them anew. `now`: unix seconds."""
    with registry.together():
        for metric in (NODES, CHANGE):
            registry.gauge(metric).clear()
        registry.gauge(CHECKED).set(now)
        registry.gauge(EXAMINED).set(report.nodes)
        registry.gauge(STOP).set(float(report.stop_rollout))
        registry.gauge(APPLIES).set(float(report.baseline_applies))
        registry.gauge(REGENERATE).set(len(report.regenerate))
        registry.gauge(UNKNOWN).set(len(report.unknown))
        for (class_, kind, scope), number in sorted(_counts(report).items()):
            registry.gauge(NODES).set(number, **{"class": class_, "kind": kind, "scope": scope})
        for (host, kind), size in sorted(_worst(report).items()):
            registry.gauge(CHANGE).set(size, host=host, kind=kind)


def short_class(class_hash: str) -> str:
    """The label of a class."""
    return class_hash.removeprefix("sha256:")[:HASH_DIGITS]


def _counts(report: DriftReport) -> dict[tuple[str, str, str], int]:
    names: dict[tuple[str, str, str], set[str]] = {}
    least: dict[tuple[str, str, str], int] = {}
    for one in report.findings:
        key = (short_class(one.class_hash), one.kind.value, one.scope.value)
        names.setdefault(key, set()).update(one.nodes)
        if one.point is not None and not one.nodes:
            least[key] = max(least.get(key, 0), one.point.nodes)
    return {key: max(len(found), least.get(key, 0)) for key, found in names.items()}


def _worst(report: DriftReport) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for one in report.findings:
        for host in one.nodes:
            _keep(found, one, host)
    return found


def _keep(found: dict[tuple[str, str], float], one: DriftFinding, host: str) -> None:
    key = (host, one.kind.value)
    if one.size is not None and (key not in found or one.size < found[key]):
        found[key] = one.size
