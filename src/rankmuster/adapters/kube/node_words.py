"""What a fence of ours looks like on a node, as values: taint, label, cordon, and the annotation that says whose it is.

The annotation names the node's UID: a node that was made anew under the same name has no fence of ours, whatever was
copied to it. Taints are one list that is replaced whole; those of others go back exactly as they were read.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rankmuster.adapters.kube.fields import at, flag, part, parts, stamp, text
from rankmuster.adapters.own_words import fit_reason
from rankmuster.evidence.json_fields import unix_seconds
from rankmuster.model.kube import FENCE_TAINT, FENCED_BY, FENCED_LABEL

_SHORT = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_UNFIT = re.compile(r"[^-A-Za-z0-9_.]+")
_NODE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """`value`, `effect`: of the taint. `label`, `cordon`: whether we have set them. `at`: unix seconds, 0 where it does
    not say."""

    incident: str
    node_uid: str
    value: str
    effect: str
    reason: str = ""
    at: float = 0.0
    label: bool = False
    cordon: bool = False


def node_name_objection(node: str) -> str:
    """Why this is no name of a node; empty where it is one."""
    return "" if _NODE.fullmatch(node) else f"{node[:80]!r} is no name of a node"


def short(incident: str) -> str:
    """An incident's id as a taint's value: itself where it fits, else its beginning and a sum over all of it."""
    if _SHORT.fullmatch(incident):
        return incident
    plain = _UNFIT.sub("-", incident).strip("-_.")[:40].strip("-_.") or "incident"
    return f"{plain}-{zlib.crc32(incident.encode()):08x}"


def written(fence: Fence) -> str:
    """The annotation."""
    value = {
        "incident": fence.incident,
        "nodeUid": fence.node_uid,
        "reason": fit_reason(fence.reason),
        "at": stamp(fence.at),
        "taint": {"value": fence.value, "effect": fence.effect},
        "label": fence.label,
        "cordon": fence.cordon,
    }
    return json.dumps(value, sort_keys=True)


def fence_of(node: Mapping[str, Any]) -> Fence | None:
    """Our fence on this node as its annotation has it; None where there is none, or it is none of ours: another node's
    UID, or words that nobody understands. Whether the taint still stands is another question (`stands`)."""
    try:
        value = json.loads(text(node, "metadata", "annotations", FENCED_BY) or "null")
    except (ValueError, RecursionError):
        return None
    incident, uid = text(value, "incident"), text(value, "nodeUid")
    taint, effect = text(value, "taint", "value"), text(value, "taint", "effect")
    if not (incident and taint and effect) or not uid or uid != text(node, "metadata", "uid"):
        return None
    return Fence(
        incident=incident,
        node_uid=uid,
        value=taint,
        effect=effect,
        reason=text(value, "reason") or "",
        at=unix_seconds(at(value, "at")) or 0.0,
        label=flag(value, "label"),
        cordon=flag(value, "cordon"),
    )


def our_taints(node: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Taints with our key, whoever has set them."""
    return tuple(one for one in parts(node, "spec", "taints") if text(one, "key") == FENCE_TAINT)


def stands(node: Mapping[str, Any], fence: Fence) -> bool:
    """Whether the taint is there as the annotation says."""
    return any(_is(one, fence) for one in our_taints(node))


def cordoned(node: Mapping[str, Any]) -> bool:
    """By whomever."""
    return flag(node, "spec", "unschedulable")


def with_fence(node: Mapping[str, Any], fence: Fence, *, cordon: bool) -> tuple[dict[str, Any], Fence]:
    """The patch that sets it, and the fence as the annotation has it then: a label or cordon that is there already is
    not ours, but for what an annotation of ours says, whose taint somebody has taken away."""
    had = fence_of(node)
    labelled = text(node, "metadata", "labels", FENCED_LABEL) is not None
    made = replace(
        fence,
        label=not labelled or (had is not None and had.label),
        cordon=(cordon and not cordoned(node)) or (had is not None and had.cordon and cordoned(node)),
    )
    others = [dict(one) for one in parts(node, "spec", "taints") if not (had is not None and _is(one, had))]
    spec: dict[str, Any] = {"taints": [*others, {"key": FENCE_TAINT, "value": fence.value, "effect": fence.effect}]}
    if made.cordon:
        spec["unschedulable"] = True
    metadata: dict[str, Any] = {"annotations": {FENCED_BY: written(made)}}
    if made.label:
        metadata["labels"] = {FENCED_LABEL: fence.value}
    return {"metadata": metadata, "spec": spec}, made


def without_fence(node: Mapping[str, Any], fence: Fence) -> dict[str, Any]:
    """The patch that takes away what the fence says it has set, and nothing else."""
    spec: dict[str, Any] = {
        "taints": [dict(one) for one in parts(node, "spec", "taints") if not _is(one, fence)] or None
    }
    if fence.cordon and cordoned(node):
        spec["unschedulable"] = None
    metadata: dict[str, Any] = {"annotations": {FENCED_BY: None}}
    if fence.label and text(node, "metadata", "labels", FENCED_LABEL) == fence.value:
        metadata["labels"] = {FENCED_LABEL: None}
    return {"metadata": metadata, "spec": spec}


def annotated(node: Mapping[str, Any]) -> bool:
    """Whether our annotation is there, whatever it says."""
    return FENCED_BY in part(node, "metadata", "annotations")


def _is(taint: Mapping[str, Any], fence: Fence) -> bool:
    return (text(taint, "key"), text(taint, "value"), text(taint, "effect")) == (
        FENCE_TAINT,
        fence.value,
        fence.effect,
    )
