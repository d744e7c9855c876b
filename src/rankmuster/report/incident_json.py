"""An incident as JSON, schema `rankmuster.incident/1` (docs/incident.md): fields may be added, never renamed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rankmuster.model.incident import SCHEMA, Breaker, Event, IncidentHead
from rankmuster.model.plain_json import to_plain
from rankmuster.model.verdict_json import verdict_to_plain
from rankmuster.report.incident_account import BOUNDS, Account, Did, Stage
from rankmuster.report.incident_impact import impact, saved
from rankmuster.report.incident_nodes import node_accounts
from rankmuster.report.incident_standing import standing


def render(incident: Account, *, now: float, lease: str | None = "") -> str:
    """The whole incident. ASCII only (any host name, any pipe), ending with \\n."""
    return _text(incident_plain(incident, now=now, lease=lease))


def incident_plain(incident: Account, *, now: float, lease: str | None = "") -> dict[str, Any]:
    """As plain values. `lease`: as in `standing`."""
    told = standing(incident, now, lease)
    cost = impact(incident)
    return {
        "schema": SCHEMA,
        "id": incident.id,
        "instance": incident.instance,
        "incarnation": incident.opening.incarnation if incident.opening else None,
        "opened_at": incident.opened_at,
        "closed_at": incident.closed.at if incident.closed else None,
        "outcome": incident.outcome.value if incident.outcome else None,
        "lease": lease or None,
        "state": told.state,
        "todo": list(told.todo),
        "traffic": told.traffic.value,
        "total_seconds": incident.total_seconds,
        "impact": {
            "fault_at": cost.fault_at,
            "detected_at": cost.detected_at,
            "terminated_at": cost.terminated_at,
            "served_at": cost.served_at,
            "down_seconds": cost.down_seconds,
            "drain_seconds": cost.drain_seconds,
            "evidence_seconds": cost.evidence_seconds,
            "requests_hit": cost.requests,
        },
        "opening": to_plain(incident.opening, BOUNDS) if incident.opening else None,
        "decision": to_plain(incident.decision, BOUNDS) if incident.decision else None,
        "verdict": verdict_to_plain(incident.verdict) if incident.verdict else None,
        "steps": [_stage(stage) for stage in incident.stages],
        "nodes": [
            {
                "node": one.node,
                "state": one.state.name.lower(),
                "retest": one.retest.value if one.retest else None,
                "note": one.note,
                "record": one.record,
            }
            for one in node_accounts(incident)
        ],
        "evidence": [{"path": one.path, "digest": one.digest or None} for one in saved(incident)],
        "events": [event_plain(event) for event in incident.events],
    }


def event_plain(event: Event) -> dict[str, Any]:
    """One row of the journal."""
    return {
        "sequence": event.sequence,
        "kind": event.kind.value,
        "at": event.at,
        "step": event.step.value if event.step else None,
        "action": event.action,
        "ending": event.ending.value if event.ending else None,
        "note": event.note,
        "by": event.by,
        "data": dict(event.data),
    }


def event_line(event: Event) -> str:
    """One row as a line of JSON, for those who follow."""
    return json.dumps(_finite(event_plain(event)), default=str, allow_nan=False) + "\n"


def list_json(heads: Sequence[IncidentHead], breaker: Breaker | None) -> str:
    """A list of incidents, and the breaker."""
    return _text(
        {
            "schema": SCHEMA,
            "incidents": [to_plain(head, BOUNDS) for head in heads],
            "breaker": to_plain(breaker, BOUNDS) if breaker else None,
        }
    )


def breaker_json(breaker: Breaker | None) -> str:
    """The breaker alone."""
    return _text({"schema": SCHEMA, "breaker": to_plain(breaker, BOUNDS) if breaker else None})


def _stage(stage: Stage) -> dict[str, Any]:
    return {
        "step": stage.step.value,
        "seconds": stage.seconds,
        "begun_at": stage.begun_at,
        "deadline_at": stage.deadline_at,
        "ended_at": stage.ended_at,
        "took": stage.took,
        "ending": stage.ending.value if stage.ending else None,
        "note": stage.note,
        "actions": [_did(did) for did in stage.actions],
    }


def _did(did: Did) -> dict[str, Any]:
    return {
        "action": did.name,
        "begun_at": did.begun_at,
        "ended_at": did.ended_at,
        "took": did.took,
        "ending": did.ending.value if did.ending else None,
        "note": did.note,
        "found": did.found,
        "again": did.again,
        "would": list(did.would),
        "data": dict(did.data),
    }


def _text(document: dict[str, Any]) -> str:
    return json.dumps(_finite(document), indent=1, default=str, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    """What an actuator answered may hold numbers that JSON has not; they become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, (list, tuple)) else value
