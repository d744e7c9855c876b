"""A NodeAdmission as the API server has it, and what is written of one. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from rankmuster.adapters.kube.api import ADMISSIONS, NODES, Object
from rankmuster.adapters.kube.fields import identity, moment, part, text, whole
from rankmuster.kube.admission.begin import Begun
from rankmuster.kube.admission.names import AFTER, FACTS, SERVED, TRUSTED
from rankmuster.kube.admission.seen import Admission
from rankmuster.kube.crd.admission import AdmissionSpec, AdmissionStatus
from rankmuster.report.inert import plain


class NotRead(ValueError):
    """The object is none that this version knows; the message says why. It is left alone."""


def admission_of(raw: Mapping[str, Any]) -> Admission:
    """Raises NotRead."""
    try:
        _, name, uid = identity(raw, namespaced=False)
    except ValueError as error:
        raise NotRead(str(error)) from None
    try:
        spec = AdmissionSpec.model_validate(part(raw, "spec"))
        status = AdmissionStatus.model_validate(part(raw, "status"))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(one) for one in first["loc"])
        words = f"{where}: {first['msg']}; was it written by a newer version?"
        raise NotRead(f"NodeAdmission {plain(name, 253)} is left alone: {plain(words, 300)}") from None
    annotations = part(raw, "metadata", "annotations")
    return Admission(
        name=name,
        uid=uid,
        resource_version=text(raw, "metadata", "resourceVersion") or "",
        generation=whole(raw, "metadata", "generation") or 0,
        created=moment(raw, "metadata", "creationTimestamp") or 0.0,
        node=spec.node,
        node_uid=spec.node_uid,
        watched=spec.watched,
        trigger=spec.trigger,
        again=spec.again,
        release=spec.release,
        facts=_facts(annotations.get(FACTS)),
        after=text(annotations, AFTER) or "",
        served=annotations.get(SERVED) == "true",
        trusted=annotations.get(TRUSTED) == "true",
        status=status,
    )


def begun(one: Begun) -> Object:
    """To be created. It goes with its node."""
    annotations = {FACTS: facts_text(one.facts)}
    annotations |= {AFTER: one.after} if one.after else {}
    annotations |= {SERVED: "true"} if one.served else {}
    annotations |= {TRUSTED: "true"} if one.trusted else {}
    owner = {"apiVersion": NODES.api_version, "kind": NODES.kind, "name": one.node, "uid": one.node_uid}
    spec = AdmissionSpec(node=one.node, node_uid=one.node_uid, watched=one.watched, trigger=one.trigger[:1024])
    return {
        "apiVersion": ADMISSIONS.api_version,
        "kind": ADMISSIONS.kind,
        "metadata": {"name": one.name, "annotations": annotations, "ownerReferences": [owner]},
        "spec": spec.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


def status_patch(admission: Admission, status: AdmissionStatus) -> Object:
    """A merge patch of the status, bound to what was read."""
    return {
        "metadata": {"resourceVersion": admission.resource_version},
        "status": status.model_dump(mode="json", by_alias=True),
    }


def facts_text(facts: Mapping[str, str]) -> str:
    """As the annotation has it."""
    return json.dumps(dict(facts), sort_keys=True, separators=(",", ":"))


def owner_reference(admission: Admission) -> Object:
    """By which a Job goes with its NodeAdmission."""
    return {
        "apiVersion": ADMISSIONS.api_version,
        "kind": ADMISSIONS.kind,
        "name": admission.name,
        "uid": admission.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def _facts(said: object) -> dict[str, str]:
    try:
        found = json.loads(said) if isinstance(said, str) else {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: value for key, value in found.items() if isinstance(value, str)}
