"""Metrics of incidents: what was rebuilt, isolated and tested again, what it cost, who waits (`incident_counts`)."""

from __future__ import annotations

from rankmuster.metrics.declared import INSTANCE, Kind, Label, Metric
from rankmuster.model.incident import Ending, OpenedBy, Outcome, RetestEnding, Step

STATES = ("working", "waiting", "unattended")

DRAIN_BUCKETS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0)
"""Seconds. A drain has 20 s by default, and ends at once where nothing can drain."""

EVIDENCE_BUCKETS = (1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 60.0, 120.0)
"""Seconds. Evidence has 22 s by default."""

TERMINATED_BUCKETS = (5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 300.0, 1200.0)
"""Seconds. By the default budget the GPUs are free after 77 s at the latest, without waiting for people."""

RESTORED_BUCKETS = (10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0)
"""Seconds. An engine loads its weights in one to ten minutes."""

_BY = Label("by", "why it was opened", tuple(one.value for one in OpenedBy))
_OUTCOME = Label("outcome", "how it was closed", tuple(one.value for one in Outcome))
_STATE = Label(
    "state",
    "`waiting`: for an operator's approval; `unattended`: no runner has its lease",
    STATES,
)
_ENDING = Label("ending", "how it ended; `observed`: it is not enabled", tuple(one.value for one in Ending))
_STEP = Label("step", "of the runbook", tuple(one.value for one in Step))
_RESULT = Label("result", "of the re-test", tuple(one.value for one in RetestEnding))


def _gauge(name: str, text: str, *labels: Label) -> Metric:
    return Metric(f"rankmuster_incident_{name}", Kind.GAUGE, text, labels)


def _counter(name: str, text: str, *labels: Label) -> Metric:
    return Metric(f"rankmuster_incident_{name}_total", Kind.COUNTER, text, labels)


def _histogram(name: str, text: str, buckets: tuple[float, ...]) -> Metric:
    return Metric(f"rankmuster_incident_{name}", Kind.HISTOGRAM, text, (INSTANCE,), buckets)


OPEN = _gauge(
    "open", "1 for the state that the instance's open incident is in; absent where none is open.", INSTANCE, _STATE
)
TRAFFIC_STOPPED = _gauge(
    "traffic_stopped",
    "1 where the newest incident is closed and left the instance without traffic, or nobody knows.",
    INSTANCE,
)
BREAKER = _gauge("breaker_open", "1 while the circuit breaker is open: nothing is rebuilt or fenced unasked.")
READ_AT = _gauge("last_read_timestamp_seconds", "Unix time at which the journal was last read.")
OPENED = _counter("opened", "Incidents opened.", INSTANCE, _BY)
CLOSED = _counter("closed", "Incidents closed.", INSTANCE, _OUTCOME)
STEPS = _counter("steps", "Steps of runbooks that ended.", _STEP, _ENDING)
REBUILDS = _counter("rebuilds", "Starts of a whole process group by a runbook.", INSTANCE, _ENDING)
ISOLATIONS = _counter("isolations", "Fences of nodes by a runbook.", INSTANCE, _ENDING)
RETESTS = _counter("retests", "Nodes tested again by a runbook.", INSTANCE, _RESULT)
QUARANTINES = _counter("quarantines", "Nodes that failed their re-test and stay out.", INSTANCE)
LET_IN = _counter("let_in", "Nodes whose fence was lifted after they passed.", INSTANCE)
REQUESTS = _counter("requests_hit", "Requests ended by a runbook, as far as gateways say.", INSTANCE)
REFUSED = _counter("refused_by_limits", "Rebuilds and fences that limits held back for an operator.", INSTANCE)
RESUMED = _counter("runners_resumed", "Times that a runner took over from one that had ended.", INSTANCE)
DRAIN = _histogram("drain_seconds", "How long running requests were waited for.", DRAIN_BUCKETS)
EVIDENCE = _histogram("evidence_seconds", "How long saving the evidence took.", EVIDENCE_BUCKETS)
TERMINATED = _histogram(
    "terminated_seconds", "From the opening until the old process group was gone.", TERMINATED_BUCKETS
)
RESTORED = _histogram("restored_seconds", "From the opening until traffic was back.", RESTORED_BUCKETS)

ALL = (
    *(OPEN, TRAFFIC_STOPPED, BREAKER, READ_AT, OPENED, CLOSED, STEPS, REBUILDS, ISOLATIONS, RETESTS, QUARANTINES),
    *(LET_IN, REQUESTS, REFUSED, RESUMED, DRAIN, EVIDENCE, TERMINATED, RESTORED),
)
