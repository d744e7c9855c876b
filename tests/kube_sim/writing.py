"""create, update, patch, delete and deletecollection over the network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kube_sim.call import Answer, Call, answer_of, encoded
from kube_sim.problems import ApiProblem, bad_request
from kube_sim.reading import selected
from kube_sim.store import PatchKind, Store

_PATCHES: dict[str, PatchKind] = {
    "application/merge-patch+json": "merge",
    "application/json-patch+json": "json",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
    "application/apply-patch+json": "apply",
}


def _check(call: Call) -> str:
    found = call.query.get("fieldValidation") or "Warn"
    if found not in ("Ignore", "Warn", "Strict"):
        raise ApiProblem(422, "Invalid", f'fieldValidation: Unsupported value: "{found}"')
    return found


def need_namespace(store: Store, call: Call) -> None:
    """Raises ApiProblem 404: nothing is created where there is no namespace for it."""
    if call.target.info.namespaced:
        if call.target.namespace is None:
            raise bad_request("an empty namespace may not be set during creation")
        store.row("namespaces", None, call.target.namespace)


def create(store: Store, call: Call) -> Answer:
    given = call.object()
    need_namespace(store, call)
    store.warnings()
    made = store.create(
        given,
        user=call.user,
        dry_run=call.dry_run,
        manager=call.manager,
        keep_status=False,
        check=_check(call),
    )
    return answer_of(made, call.target, 201, tuple(store.warnings()))


def update(store: Store, call: Call) -> Answer:
    given = call.object()
    store.warnings()
    made = store.update(
        given,
        subresource=call.target.subresource or None,
        user=call.user,
        dry_run=call.dry_run,
        manager=call.manager,
        check=_check(call),
    )
    return answer_of(made, call.target, 200, tuple(store.warnings()))


def patch_kind(call: Call) -> PatchKind:
    """Raises ApiProblem 415."""
    kind = _PATCHES.get(call.content_type.partition(";")[0].strip())
    if kind is None:
        raise ApiProblem(
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: " + ", ".join(_PATCHES),
        )
    return kind


def patch(store: Store, call: Call, may_create: Callable[[], None]) -> Answer:
    """`may_create`: raises ApiProblem 403; asked where an apply would create the object."""
    kind, target = patch_kind(call), call.target
    body = call.body()
    there = True
    if kind == "apply":
        try:
            store.row(target.info.key, target.namespace, target.name or "")
        except ApiProblem:
            there = False
            if not target.subresource:
                may_create()
                need_namespace(store, call)
        if isinstance(body, dict) and body.get("apiVersion") and body["apiVersion"] != target.api_version:
            raise bad_request(
                f"the API version in the data ({body['apiVersion']}) does not match the expected API version "
                f"({target.api_version})"
            )
    elif call.query.get("force"):
        raise ApiProblem(
            422,
            "Invalid",
            'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch',
        )
    store.warnings()
    made = store.patch(
        target.info.key,
        target.namespace,
        target.name or "",
        body,
        kind=kind,
        subresource=target.subresource or None,
        manager=call.query.get("fieldManager") if kind == "apply" else call.manager,
        force=call.query.get("force") == "true",
        user=call.user,
        dry_run=call.dry_run,
        check=_check(call),
    )
    return answer_of(made, target, 200 if there else 201, tuple(store.warnings()))


def _options(call: Call) -> dict[str, Any]:
    """DeleteOptions, of the body and of the query."""
    body = call.body() if call.given.strip() else {}
    if not isinstance(body, dict):
        raise bad_request("the DeleteOptions are no object")
    conditions = body.get("preconditions") or {}
    policy = body.get("propagationPolicy") or call.query.get("propagationPolicy")
    orphan = body.get("orphanDependents")
    if policy is None and orphan is not None:
        policy = "Orphan" if orphan else "Background"
    if policy is None:
        # batch/v1 keeps what the first version of Jobs did: whoever names no policy leaves the pods behind
        policy = "Orphan" if call.target.info.key == "jobs.batch" else "Background"
    if policy not in ("Orphan", "Background", "Foreground"):
        raise ApiProblem(422, "Invalid", f'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: "{policy}"')
    grace = body.get("gracePeriodSeconds", call.query.get("gracePeriodSeconds"))
    dry = body.get("dryRun") or ([call.query["dryRun"]] if call.query.get("dryRun") else [])
    return {
        "uid": conditions.get("uid"),
        "resource_version": conditions.get("resourceVersion"),
        "propagation": policy,
        "grace": None if grace in (None, "") else int(grace),
        "dry_run": dry == ["All"],
    }


def delete(store: Store, call: Call) -> Answer:
    """A Status where it is gone, the object where something holds it; of a pod always the pod."""
    target = call.target
    options = _options(call)
    made = store.delete(target.info.key, target.namespace, target.name or "", **options)
    try:
        held = (
            store.row(target.info.key, target.namespace, target.name or "")["metadata"]["uid"]
            == made["metadata"]["uid"]
        )
    except ApiProblem:
        held = False
    if target.info.key == "pods" or (held and not options["dry_run"]):
        return answer_of(made, target)
    details = {"name": target.name, "kind": target.info.plural, "uid": made["metadata"]["uid"]}
    if target.info.group:
        details["group"] = target.info.group
    return Answer(
        encoded({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
    )


def delete_many(store: Store, call: Call) -> Answer:
    target, options = call.target, _options(call)
    rows = selected(store, call)
    for one in rows:
        try:
            store.delete(target.info.key, one["metadata"].get("namespace"), one["metadata"]["name"], **options)
        except ApiProblem as problem:
            if problem.status != 404:
                raise
    head = {"kind": f"{target.info.kind}List", "apiVersion": target.api_version}
    return Answer(encoded({**head, "metadata": {"resourceVersion": str(store.resource_version)}, "items": rows}))
