"""A pod of a Deployment, or all of them, as one group: the ReplicaSet makes another one at once, under another name.

Which pod came in the place of which Kubernetes does not say: the youngest one stands for it (`find`).
"""

from __future__ import annotations

from rankmuster.adapters.kube.groups.base import PodGroup


class DeploymentGroup(PodGroup):
    """Needs delete of pods."""
