"""Label and field selectors as lists and watches take them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from kube_sim.problems import bad_request

Test = Callable[[Mapping[str, Any]], bool]
_SET = re.compile(r"^\s*(\S+)\s+(in|notin)\s*\(([^)]*)\)\s*$")
_EQUAL = re.compile(r"^\s*([^\s=!]+)\s*(==|=|!=)\s*([^\s]*)\s*$")


def labels_fit(selector: str | Mapping[str, str] | None) -> Test:
    """Whether an object's labels fit. Raises ApiProblem 400."""
    if not selector:
        return lambda _: True
    if isinstance(selector, Mapping):
        wanted = dict(selector)
        return lambda obj: all((obj["metadata"].get("labels") or {}).get(key) == wanted[key] for key in wanted)
    tests = [_label_test(one) for one in re.split(r",(?![^(]*\))", selector) if one.strip()]
    return lambda obj: all(test(obj["metadata"].get("labels") or {}) for test in tests)


def _label_test(text: str) -> Test:
    if found := _SET.match(text):
        key, operator, values = found[1], found[2], {one.strip() for one in found[3].split(",")}
        if operator == "in":
            return lambda labels: key in labels and labels[key] in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUAL.match(text):
        key, operator, value = found[1], found[2], found[3]
        if operator == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    key = text.strip()
    if not re.fullmatch(r"!?\s*[A-Za-z0-9][-A-Za-z0-9_./]*", key):
        raise bad_request(f"unable to parse requirement: found '{key}', expected: identifier")
    if key.startswith("!"):
        absent = key[1:].strip()
        return lambda labels: absent not in labels
    return lambda labels: key in labels


SELECTABLE: Mapping[str, tuple[str, ...]] = {
    "pods": (
        *("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork"),
        *("status.phase", "status.podIP", "status.nominatedNodeName"),
    ),
    "nodes": ("spec.unschedulable",),
    "events": (
        *("involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid"),
        *("involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath"),
        *("reason", "reportingComponent", "source", "type"),
    ),
    "secrets": ("type",),
    "namespaces": ("status.phase",),
    "jobs.batch": ("status.successful",),
    "replicasets.apps": ("status.replicas",),
}
"""What a field selector may name beside metadata.name and metadata.namespace; the real server refuses anything else."""


def fields_fit(selector: str | None, key: str) -> Test:
    """Whether an object's fields fit, of the resource `key`. Raises ApiProblem 400 for a field that has no index."""
    if not selector:
        return lambda _: True
    tests = []
    for text in selector.split(","):
        found = _EQUAL.match(text)
        if found is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
        path, operator, value = found[1], found[2], found[3]
        if path not in ("metadata.name", "metadata.namespace", *SELECTABLE.get(key, ())):
            raise bad_request(
                f'Unable to find "{key}" that match label selector "", field selector "{selector}": '
                f"field label not supported: {path}"
            )
        tests.append((tuple(path.split(".")), operator != "!=", value))
    return lambda obj: all((_text(obj, path) == value) is same for path, same, value in tests)


def _text(obj: Any, path: tuple[str, ...]) -> str:
    for part in path:
        obj = obj.get(part) if isinstance(obj, Mapping) else None
    if isinstance(obj, bool):
        return "true" if obj else "false"
    if isinstance(obj, Mapping):
        return str(obj.get("component", ""))
    if obj is None:
        return "false" if path[-1] in ("unschedulable", "hostNetwork") else ""
    return str(obj)


def selector_fits(selector: Mapping[str, Any] | None) -> Test:
    """A LabelSelector object (matchLabels, matchExpressions). An empty one fits everything, None nothing."""
    if selector is None:
        return lambda _: False
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for one in selector.get("matchExpressions") or ():
        operator, values = one["operator"], ",".join(one.get("values") or ())
        parts.append(
            {
                "In": f"{one['key']} in ({values})",
                "NotIn": f"{one['key']} notin ({values})",
                "Exists": one["key"],
                "DoesNotExist": f"!{one['key']}",
            }[operator]
        )
    return labels_fit(",".join(parts))
