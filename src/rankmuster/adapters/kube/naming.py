"""What instances, their incarnations and the objects that belong to them are called. Pure: same pods, same names.

An instance is `NAMESPACE.WORKLOAD`, or `NAMESPACE.WORKLOAD.INDEX`. A namespace has no dots. A name that would be too
long, or that another workload could have as well (its own has dots, or an instance of another kind is called so), ends
in a sum over what it stands for.
"""

from __future__ import annotations

import hashlib

from rankmuster.adapters.kube.pods import engines
from rankmuster.model.kube import InstanceView, WorkloadKind

MOST_NAME = 253
"""Characters of a name in Kubernetes (RFC 1123)."""

_SUM = 8


def instance_name(namespace: str, workload: str, index: str | None = None, *, kind: WorkloadKind | None = None) -> str:
    """`kind`: only where an instance of another kind has the plain name."""
    plain = ".".join([namespace, workload, *([] if index is None else [index])])
    if len(plain) <= MOST_NAME and "." not in workload and kind is None:
        return plain
    whole = "/".join([namespace, kind.value if kind is not None else "", workload, index or ""])
    return _summed(plain, whole)


def profile_config_map(workload: str) -> str:
    """The ConfigMap, in the workload's namespace, from which the containers of its pods take variables for one start
    (`envFrom`, optional). One a workload, since a pod template cannot name one that differs by group; the workload's
    name alone, since `kube inject` has nothing else. A variable that stands in `env` of the container wins over it."""
    plain = f"rankmuster-{workload}"
    return plain if len(plain) <= MOST_NAME else _summed(plain, plain)


def steady_config_map(workload: str) -> str:
    """The ConfigMap of the profile between incidents, as `kube inject --incident-profile` writes it. The dot: the one
    above of a workload that is called `steady-NAME` must not be it."""
    plain = f"rankmuster.steady-{workload}"
    return plain if len(plain) <= MOST_NAME else _summed(plain, plain)


def incarnation_of(view: InstanceView, container: str | None = None) -> str | None:
    """The start that its anchor stands for: its UID, and `.rN` where its containers were restarted N times in place.
    `container`: the engine's; none: those that ask for GPUs, else all but ours. None where there is no anchor."""
    if view.anchor is None:
        return None
    restarts = sum(one.restarts for one in engines(view.anchor, container))
    return f"{view.anchor.uid}.r{restarts}" if restarts else view.anchor.uid


def anchor_uid(incarnation: str) -> str:
    """The UID in it."""
    uid, _, restarts = incarnation.rpartition(".r")
    return uid if uid and restarts.isdecimal() else incarnation


def _summed(plain: str, whole: str) -> str:
    ending = hashlib.sha256(whole.encode()).hexdigest()[:_SUM]
    return f"{plain[: MOST_NAME - _SUM - 1].rstrip('-.')}-{ending}"
