"""Holds the deletion of a policy while an incident under it is open, and never for long.

Without the policy nobody could go on with the runbook: pods would stay out of their Service, nodes fenced. So a policy
that is deleted has its open incidents aborted first. The finalizer is there only while an incident is open, and goes
after `HOLD_SECONDS` whatever became of it. Where no controller runs any more, `rankmuster kube release` takes it away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rankmuster.adapters.kube.api import POLICIES, Api, NotThere, Object
from rankmuster.collect.deadline import Deadline
from rankmuster.incident.journal import Journal
from rankmuster.kube.controller.matching import PolicyView
from rankmuster.model.incident import Event, EventKind, IncidentHead
from rankmuster.model.kube import DOMAIN, FINALIZER

HOLD_SECONDS = 300.0
"""An aborted incident is closed within seconds; a controller that was away for a while gets its chance."""

CALL_SECONDS = 10.0

BY = "deletion of the policy"

DELETED = "the policy that governs the instance was deleted: nothing new is begun"
ALONE = "no policy governs the instance any more, or it is not there: nothing new is begun"


def hold(api: Api, namespace: str, name: str, held: bool, deadline: Deadline) -> None:
    """Sets our finalizer, or takes it away; nobody else's. Raises KubeError; nothing where the policy is gone."""
    body: dict[str, Any] = {
        "apiVersion": POLICIES.api_version,
        "kind": POLICIES.kind,
        "metadata": {"name": name, "namespace": namespace, "finalizers": [FINALIZER] if held else []},
    }
    try:
        before = api.get(POLICIES, name, namespace, deadline)
        if has(before) == held:
            return
        if held and (before.get("metadata") or {}).get("deletionTimestamp"):
            return  # too late: nothing can be added to what is being deleted
        api.apply(POLICIES, body, deadline, manager=f"{DOMAIN}-finalizer")
    except NotThere:
        return


def has(raw: Object) -> bool:
    """Whether an object has it."""
    metadata = raw.get("metadata")
    return isinstance(metadata, dict) and FINALIZER in (metadata.get("finalizers") or ())


def wanted(policy: PolicyView, opened: Sequence[IncidentHead], now: float) -> bool:
    """Whether it is to be there. `opened`: the open incidents of its instances; `now`: unix seconds."""
    if policy.deleting_since is not None and now - policy.deleting_since >= HOLD_SECONDS:
        return False
    return bool(opened)


def abort(journal: Journal, opened: Sequence[IncidentHead], now: float, note: str = DELETED) -> None:
    """Each once. Raises what the journal raises."""
    for head in opened:
        events = journal.events(head.id)
        if any(one.kind is EventKind.ABORTED and one.by == BY for one in events):
            continue
        journal.tell(head.id, Event(kind=EventKind.ABORTED, at=now, note=note, by=BY))
