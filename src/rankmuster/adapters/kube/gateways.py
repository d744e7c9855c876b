"""Which gateways heed what an actuator of Kubernetes' own does to pods, and what works where they do not. A table.

Read in the sources named with each row; a gateway that takes its backends from a static list or an API of its own heeds
neither, whatever stands here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gateway:
    """`readiness`: a pod that is not Ready because of a gate gets no new requests. `label`: neither does one that has
    lost the label of the gateway's selector. `instead`: what works. `source`: where that was read."""

    name: str
    title: str
    readiness: bool
    label: bool
    instead: str
    source: str


GATEWAYS: tuple[Gateway, ...] = (
    Gateway(
        "service",
        "a Service",
        readiness=True,
        label=False,  # unless its selector has it, which nobody promises
        instead="set traffic.readinessGate, and inject with --gate",
        source="EndpointSlice: ready follows the pod's Ready (kubernetes.io, Services; pod readiness gates)",
    ),
    Gateway(
        "inference_pool",
        "an InferencePool",
        readiness=True,
        label=True,
        instead="set traffic.readinessGate, or traffic.poolLabel to a label of its selector",
        source="gateway-api-inference-extension, pod_reconciler: Ready and the selector's labels; llm-d has the same",
    ),
    Gateway(
        "production_stack",
        "the router of production-stack",
        readiness=False,
        label=True,
        instead="set traffic.poolLabel to a label of its --k8s-label-selector (it looks at its containers, not at "
        "readiness gates)",
        source="vllm-project/production-stack, service_discovery.py: _check_pod_ready, DELETED of a watch by selector",
    ),
    Gateway(
        "sglang",
        "sgl-model-gateway",
        readiness=False,
        label=False,
        instead="name it as a gateway of kind sglang_router in the incident's own configuration, which takes the "
        "worker out through its API (its discovery removes pods when they are deleted; main also 60 s after a label "
        "went)",
        source="sgl-model-gateway 0.3.2 and main, service_discovery.rs: handle_pod_event, reconcile_pods",
    ),
    Gateway(
        "vllm_router",
        "vllm-router",
        readiness=False,
        label=False,
        instead="name it as a gateway of kind vllm_router in the incident's own configuration, which takes the worker "
        "out through its API (its discovery removes pods only when they are deleted)",
        source="vllm-project/router, src/service_discovery.rs: handle_pod_ports, should_include",
    ),
)

_BY_NAME = {one.name: one for one in GATEWAYS}


def objections(gateways: Sequence[str], readiness_gate: bool, pool_label: str | None) -> tuple[str, ...]:
    """Why traffic would go on at some of these gateways although it was said to be stopped; empty where it would not.
    A gateway of which nothing is known is objected to."""
    found = []
    for name in dict.fromkeys(gateways):
        gateway = _BY_NAME.get(name)
        if gateway is None:
            found.append(f"nobody knows what {name} heeds")
            continue
        if (readiness_gate and gateway.readiness) or (pool_label and gateway.label):
            continue
        given = [
            word
            for word, there in (("a readiness gate", readiness_gate), ("the pool's label", bool(pool_label)))
            if there
        ]
        why = f"does not heed {' or '.join(given)}" if given else "would not be told"
        found.append(f"{gateway.title} {why}: {gateway.instead}")
    return tuple(found)
