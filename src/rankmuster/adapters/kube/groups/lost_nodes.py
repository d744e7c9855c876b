"""Pods that do not end although they were told to: whether their node answers, and who can end them if it does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankmuster.adapters.kube.api import NODES, Api, KubeError, NotThere
from rankmuster.adapters.kube.nodes import node_view
from rankmuster.collect.deadline import Deadline
from rankmuster.model.kube import PodView

UNREACHABLE = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready", "node.kubernetes.io/out-of-service")

LOOK_SECONDS = 2.0
"""For one node."""


def lost_nodes(api: Api, pods: Sequence[PodView], deadline: Deadline) -> Mapping[str, str]:
    """Node -> why nothing on it can be ended by the API. A node that cannot be looked at is not among them: it is not
    known to be lost."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(pod.node for pod in pods if pod.node is not None):
        try:
            node = node_view(api.get(NODES, name, None, deadline.within(LOOK_SECONDS)))
        except NotThere:
            found[name] = "is not in the cluster any more"
        except (KubeError, ValueError):
            continue
        else:
            taints = [one.key for one in node.taints if one.key in UNREACHABLE]
            if not node.ready or taints:
                found[name] = f"does not answer ({taints[0] if taints else 'not Ready'})"
    return found


def only_people(node: str, pods: Sequence[PodView]) -> str:
    """What a person may do, once it is known that nothing runs there."""
    first = pods[0]
    return (
        f"if {node} is known to be off, only a person may say so: kubectl taint nodes {node} "
        "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute, or kubectl delete pod -n "
        f"{first.namespace} {first.name} --force. If its processes still run, that would put two groups on one model"
    )
