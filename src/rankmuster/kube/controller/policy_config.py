"""A policy as the incident engine's own settings, for one instance. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rankmuster.adapters.kube.gateways import objections as gateway_objections
from rankmuster.incident.config import AdmitRetest, IncidentConfig, InstanceConfig, RecoveryRow, Slow
from rankmuster.incident.config_objections import objections
from rankmuster.incident.config_read import APPROVABLE
from rankmuster.incident.limits import Limits
from rankmuster.kube.controller.settings import ControllerSettings
from rankmuster.kube.crd.policy import PolicySpec

MOST_SAID = 5


class PolicyRefused(Exception):
    """The policy cannot be used; the message says where it is wrong."""


def read_policy(raw: object) -> PolicySpec:
    """A policy's spec. Raises PolicyRefused: an API server lets through what a newer or older definition allowed."""
    try:
        spec = PolicySpec.model_validate(raw)
    except ValidationError as error:
        told = "; ".join(_told(one) for one in error.errors()[:MOST_SAID])
        raise PolicyRefused(told) from error
    wrong = [step.value for step in spec.approve if step not in APPROVABLE]
    if wrong:
        may = ", ".join(one.value for one in APPROVABLE)
        raise PolicyRefused(f"spec.approve: {', '.join(wrong)} need no approval; those that may wait are {may}")
    if not spec.selector.match_labels and not spec.selector.match_expressions:
        raise PolicyRefused(
            "spec.selector: it is empty, and an empty selector would take every workload of the namespace; "
            "name the labels of those that are meant"
        )
    return spec


def config_of(
    spec: PolicySpec, settings: ControllerSettings, instance: str, nodes: Mapping[str, str]
) -> IncidentConfig:
    """The engine's settings for one instance. `nodes`: host and pod names -> node names. Raises PolicyRefused."""
    allowed = () if settings.dry_run else tuple(one for one in spec.enable if one in settings.enable)
    deaf = gateways_that_ignore_it(spec)
    if allowed and deaf:
        raise PolicyRefused(f"spec.traffic: requests would go on while the group is ended: {deaf}")
    config = IncidentConfig(
        folder=settings.folder / "incidents",
        enable=allowed,
        approve=spec.approve,
        undecided=spec.undecided,
        least_confidence=spec.least_confidence,
        incident_profile=spec.incident_profile,
        recovery=tuple(
            RecoveryRow(
                class_=row.fault,
                subclass=row.subclass,
                confidence=row.confidence,
                progress=row.progress,
                boundary=row.boundary,
                reason=row.reason,
            )
            for row in spec.recovery
        ),
        budget=dict(spec.deadlines.steps),
        total_seconds=spec.deadlines.total,
        limits=limits_of(spec, settings.limits),
        slow=Slow(percent=spec.slow_percent),
        # of the re-test only who is known to be good is read here: by what it is done, the actuators say
        instances={instance: InstanceConfig(nodes=dict(nodes), retest=AdmitRetest(good=settings.admission.good))},
        hooks=settings.hooks,
    )
    wrong = objections(replace(config, enable=()))  # of files: which actuators there are stands nowhere in them here
    if wrong:
        raise PolicyRefused("; ".join(wrong[:MOST_SAID]))
    return config


def gateways_that_ignore_it(spec: PolicySpec) -> str:
    """Which of the named gateways would send requests all the same, and what to set; empty where none would."""
    traffic = spec.traffic
    return "; ".join(gateway_objections(traffic.gateways, traffic.readiness_gate, traffic.pool_label))


def limits_of(spec: PolicySpec, limits: Limits) -> Limits:
    """The fleet's, with the policy's own budgets per instance and node."""
    own: dict[str, Any] = {key: value for key, value in spec.limits.model_dump().items() if value is not None}
    return replace(limits, **own)


def evidence_folder(settings: ControllerSettings, spec: PolicySpec | None) -> Path:
    """Of the incidents whose copies go to one place: after a restart what was not copied yet is found there."""
    where = spec.evidence.upload if spec is not None else None
    name = "kept" if where is None else f"to-{hashlib.sha256(where.encode()).hexdigest()[:12]}"
    return settings.folder / "incidents" / name


def _told(one: Any) -> str:
    place = ".".join(str(part) for part in one["loc"])
    if one["type"] == "extra_forbidden":
        return f"spec.{place}: this version knows no such field; was the policy written for a newer one?"
    return f"spec.{place}: {str(one['msg']).replace('Input should', 'it should')}"
