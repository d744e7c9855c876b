"""What the server itself writes into objects, and what it does not let others change: metadata, status against the
rest, generation, the immutable fields that matter here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from kube_sim.kinds import KindInfo
from kube_sim.problems import ApiProblem, bad_request, conflict, invalid, stale
from kube_sim.values import copied, stamp

Object = dict[str, Any]
SERVERS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAMED_FREELY = {"roles", "clusterroles", "rolebindings", "clusterrolebindings"}
POD_MAY_CHANGE = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates")


def check_name(info: KindInfo, name: str) -> None:
    """Raises ApiProblem 422 for what is no DNS name."""
    if info.plural in _NAMED_FREELY or (_NAME.fullmatch(name) and len(name) <= 253):
        return
    raise invalid(
        info.kind,
        info.group,
        name,
        [
            (
                "metadata.name",
                "FieldValueInvalid",
                f'Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric '
                "characters, '-' or '.', and must start and end with an alphanumeric character",
            )
        ],
    )


def new_metadata(info: KindInfo, obj: Object, namespace: str, name: str, uid: str, now: float) -> None:
    """Fills in, in place, what the server gives a new object."""
    metadata = obj["metadata"]
    for key in (*SERVERS, "resourceVersion"):
        metadata.pop(key, None)
    metadata["name"] = name
    metadata.pop("namespace", None)
    if info.namespaced:
        metadata["namespace"] = namespace
    metadata["uid"], metadata["creationTimestamp"] = uid, stamp(now)
    if info.counted:
        metadata["generation"] = 1


def new_status(info: KindInfo, obj: Object) -> None:
    """Status of what somebody creates over the network: it is the controllers', not theirs."""
    if not info.status:
        return
    obj.pop("status", None)
    if info.key == "pods":
        obj["status"] = {"phase": "Pending", "qosClass": "BestEffort"}


def defaults(info: KindInfo, obj: Object) -> None:
    """The few of Kubernetes' defaults that something here looks at."""
    spec = obj.get("spec")
    if info.key == "namespaces":
        obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
        obj.setdefault("status", {}).setdefault("phase", "Active")
    if not isinstance(spec, dict):
        return
    if info.key == "pods":
        spec.setdefault("restartPolicy", "Always")
        spec.setdefault("terminationGracePeriodSeconds", 30)
        spec.setdefault("schedulerName", "default-scheduler")
        obj.setdefault("status", {}).setdefault("phase", "Pending")
    elif info.key in ("deployments.apps", "replicasets.apps", "statefulsets.apps"):
        spec.setdefault("replicas", 1)
    elif info.key == "jobs.batch":
        for name, value in (("backoffLimit", 6), ("completionMode", "NonIndexed"), ("suspend", False)):
            spec.setdefault(name, value)
        if spec.get("completions") is None and spec.get("parallelism") is None:
            spec["completions"] = 1
        if spec.get("parallelism") is None:
            spec["parallelism"] = 1


def check_versions(info: KindInfo, live: Object, given: Mapping[str, Any], *, put: bool) -> None:
    """resourceVersion and UID, where the caller gives them. Raises ApiProblem 409, and 422 as the real one does."""
    metadata, mine = given.get("metadata") or {}, live["metadata"]
    version, uid = metadata.get("resourceVersion"), metadata.get("uid")
    if version not in (None, "", "0") and str(version) != mine["resourceVersion"]:
        raise stale(info.plural, info.group, mine["name"])
    if put and info.custom and not version:
        raise invalid(
            info.kind,
            info.group,
            mine["name"],
            [("metadata.resourceVersion", "FieldValueInvalid", "Invalid value: 0x0: must be specified for an update")],
        )
    if uid in (None, "", mine["uid"]):
        return
    if put:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {mine['uid']}"
        raise conflict(info.plural, info.group, mine["name"], why)
    raise invalid(
        info.kind,
        info.group,
        mine["name"],
        [("metadata.uid", "FieldValueInvalid", f'Invalid value: "{uid}": field is immutable')],
    )


def written(info: KindInfo, live: Object, given: Object, subresource: str | None) -> Object:
    """What is to be stored: of `given` only what this way of writing may change. `subresource` "open": all but the
    status, immutable fields too, for subresources with rules of their own."""
    if subresource == "status":
        after = copied(live)
        if "status" in given:
            after["status"] = given["status"]
        else:
            after.pop("status", None)
        if not info.custom:
            after["metadata"] = given["metadata"]
    else:
        after = given
        if info.status:
            after.pop("status", None)
            if "status" in live:
                after["status"] = copied(live["status"])
    metadata, mine = after["metadata"], live["metadata"]
    for key in SERVERS:
        metadata.pop(key, None)
        if key in mine:
            metadata[key] = mine[key]
    metadata["name"], metadata["resourceVersion"] = mine["name"], mine["resourceVersion"]
    if info.namespaced:
        metadata["namespace"] = mine["namespace"]
    _check_finalizers(info, live, after)
    if subresource is None:
        _check_immutable(info, live, after)
    if info.counted and _counts(info, live) != _counts(info, after):
        metadata["generation"] = mine.get("generation", 1) + 1
    return after


def _counts(info: KindInfo, obj: Mapping[str, Any]) -> Object:
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}


def _check_finalizers(info: KindInfo, live: Object, after: Object) -> None:
    if "deletionTimestamp" not in live["metadata"]:
        return
    had = live["metadata"].get("finalizers") or []
    more = [one for one in after["metadata"].get("finalizers") or [] if one not in had]
    if more:
        raise invalid(
            info.kind,
            info.group,
            live["metadata"]["name"],
            [
                (
                    "metadata.finalizers",
                    "FieldValueForbidden",
                    "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
                    f"{more!r}",
                )
            ],
        )


def _forbidden(info: KindInfo, live: Object, field: str, why: str) -> ApiProblem:
    return invalid(
        info.kind, info.group, live["metadata"]["name"], [(field, "FieldValueForbidden", f"Forbidden: {why}")]
    )


def _fixed_of_pod(spec: Mapping[str, Any]) -> Object:
    kept = {key: value for key, value in spec.items() if key not in POD_MAY_CHANGE}
    for name in ("containers", "initContainers"):
        kept[name] = [{key: value for key, value in one.items() if key != "image"} for one in spec.get(name) or ()]
    return kept


def _check_immutable(info: KindInfo, live: Object, after: Object) -> None:
    was, now = live.get("spec") or {}, after.get("spec") or {}
    if was == now:
        return
    if info.key == "pods":
        fixed, other = _fixed_of_pod(was), _fixed_of_pod(now)
        if not was.get("nodeName"):
            other.pop("nodeName", None)  # the scheduler's word: pods/binding does the same
        if fixed != other:
            raise _forbidden(
                info,
                live,
                "spec",
                "pod updates may not change fields other than "
                "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
                "`spec.tolerations` (only additions to existing tolerations),"
                "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
            )
    elif info.key == "jobs.batch":
        if was.get("template") != now.get("template") and not was.get("suspend"):
            raise invalid(
                info.kind,
                info.group,
                live["metadata"]["name"],
                [("spec.template", "FieldValueInvalid", "Invalid value: field is immutable")],
            )
    elif info.key in ("deployments.apps", "statefulsets.apps", "daemonsets.apps") and (
        was.get("selector") != now.get("selector")
    ):
        raise invalid(
            info.kind,
            info.group,
            live["metadata"]["name"],
            [("spec.selector", "FieldValueInvalid", "Invalid value: field is immutable")],
        )


def check_preconditions(info: KindInfo, live: Object, uid: str | None, version: str | None) -> None:
    """Of a delete. Raises ApiProblem 409."""
    mine = live["metadata"]
    if uid and uid != mine["uid"]:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({mine['uid']}). The object might "
            "have been deleted and then recreated"
        )
        raise conflict(info.plural, info.group, mine["name"], why)
    if version and version != mine["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
            f"({mine['resourceVersion']}). The object might have been modified"
        )
        raise conflict(info.plural, info.group, mine["name"], why)


def grace_of(info: KindInfo, live: Object, asked: int | None) -> int:
    """Seconds that a pod which is deleted gets; 0 for all else, and for pods that no kubelet has or that have ended."""
    if info.key != "pods":
        return 0
    spec, status = live.get("spec") or {}, live.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    seconds = spec.get("terminationGracePeriodSeconds", 30) if asked is None else asked
    return max(0, int(seconds))


def marked(live: Object, now: float, grace: int, finalizers: list[str] | None = None) -> Object:
    """The object with its deletion written into it. `now`: of the server."""
    after: Object = copied(live)
    metadata = after["metadata"]
    if finalizers is not None:
        metadata["finalizers"] = finalizers
    if "deletionTimestamp" in metadata:
        grace = min(grace, int(metadata.get("deletionGracePeriodSeconds", grace)))
    metadata["deletionTimestamp"] = stamp(now + grace)
    metadata["deletionGracePeriodSeconds"] = grace
    if "generation" in metadata and "deletionTimestamp" not in live["metadata"]:
        metadata["generation"] += 1
    return after


Numbers = Callable[[], str]


def parsed(body: Any) -> Object:
    """An object as it may be stored. Raises ApiProblem 400."""
    if not isinstance(body, Mapping):
        raise bad_request("the object provided is unrecognized (must be of type Object): couldn't get version/kind")
    obj: Object = copied(body)
    metadata = obj.setdefault("metadata", {})
    if metadata is None:
        metadata = obj["metadata"] = {}
    if not isinstance(metadata, dict):
        raise bad_request("json: cannot unmarshal into Go struct field .metadata of type v1.ObjectMeta")
    for name in ("labels", "annotations", "finalizers", "ownerReferences", "managedFields"):
        if metadata.get(name, ...) in (None, {}, []):
            del metadata[name]
    return obj
