"""Metrics of a cluster's controller: what it sees, what waits, and what it asks of the API server."""

from __future__ import annotations

from rankmuster.metrics.declared import Kind, Label, Metric
from rankmuster.model.fault import Progress

_OBJECTS = Label("object", "what is held in memory", ("pods", "workloads", "nodes", "policies", "instances"))
_QUEUE = Label("queue", "of what is to be brought into line", ("policies", "resources"))
_PROGRESS = Label("progress", "as its sidecars say; unknown where none was heard", tuple(one.value for one in Progress))
_VERB = Label("verb", "of the API", ("get", "list", "create", "apply", "patch", "delete", "log", "execute"))
_RESOURCE = Label("resource", "with its group and subresource")
_OUTCOME = Label("outcome", "`ok`, the status of a refusal, `none` where no answer came", most=16)

LEADS = Metric("rankmuster_kube_leads", Kind.GAUGE, "1 where this controller leads; the others wait.")
OBJECTS = Metric("rankmuster_kube_objects", Kind.GAUGE, "Objects known to the controller.", (_OBJECTS,))
INSTANCES = Metric("rankmuster_kube_instances", Kind.GAUGE, "Instances that a policy governs.", (_PROGRESS,))
QUEUE = Metric("rankmuster_kube_queue", Kind.GAUGE, "Keys that wait in a queue.", (_QUEUE,))
CALLS = Metric(
    "rankmuster_kube_calls_total",
    Kind.COUNTER,
    "Calls of the API server, repeated ones too; not those of the watches.",
    (_VERB, _RESOURCE, _OUTCOME),
)

ALL = (LEADS, OBJECTS, INSTANCES, QUEUE, CALLS)
