"""A whole StatefulSet as one group: all of its pods are deleted, the first one last.

A pod's name is free again only when the old pod is gone. On a node that does not answer it never goes: then the answer
is NODE, and a person has to say that the node is off. It is never deleted by force here: processes that still run
there would join the new group's rendezvous under the same name.
"""

from __future__ import annotations

from rankmuster.adapters.kube.groups.base import PodGroup


class StatefulSetGroup(PodGroup):
    """Needs delete of pods."""
