"""Our Job is made and taken away: each is done once or found done, and one of that name that is another's is left."""

from __future__ import annotations

import contextlib

from rankmuster.adapters.kube.api import JOBS, SERVICES, Api, Conflict
from rankmuster.adapters.kube.fields import text
from rankmuster.adapters.kube.job_manifest import FOR, JobOrder, job, service
from rankmuster.adapters.kube.job_shape import JobShape
from rankmuster.collect.deadline import Deadline


def ensure(api: Api, order: JobOrder, shape: JobShape, deadline: Deadline) -> bool:
    """False where a Job of that name is not of what `order` belongs to. Raises KubeError."""
    try:
        made = api.create(JOBS, job(order, shape), order.namespace, deadline)
    except Conflict:
        made = api.get(JOBS, order.name, order.namespace, deadline)
        if text(made, "metadata", "annotations", FOR) != order.belongs_to:
            return False
    uid = text(made, "metadata", "uid")
    if order.pair and uid is not None:
        with contextlib.suppress(Conflict):
            api.create(SERVICES, service(order, uid), order.namespace, deadline)
    return True


def remove(api: Api, name: str, namespace: str, belongs_to: str, deadline: Deadline) -> None:
    """Where it is of `belongs_to`. Raises KubeError, NotThere among them."""
    found = api.get(JOBS, name, namespace, deadline)
    uid = text(found, "metadata", "uid")
    if uid is not None and text(found, "metadata", "annotations", FOR) == belongs_to:
        api.delete(JOBS, name, namespace, deadline, uid=uid)
