"""Fills the metrics of incidents from a journal, look by look.

Counters begin at zero with the process and rise with the events that come after: they never fall when old incidents are
removed from the journal, and never rise for what another process counted before. Gauges are of now.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from rankmuster.metrics.declared import OTHER
from rankmuster.metrics.incident import (
    ALL,
    BREAKER,
    CLOSED,
    DRAIN,
    EVIDENCE,
    ISOLATIONS,
    LET_IN,
    OPEN,
    OPENED,
    QUARANTINES,
    READ_AT,
    REBUILDS,
    REFUSED,
    REQUESTS,
    RESTORED,
    RESUMED,
    RETESTS,
    STEPS,
    TERMINATED,
    TRAFFIC_STOPPED,
)
from rankmuster.metrics.registry import Registry
from rankmuster.model.incident import Breaker, Ending, Event, EventKind, IncidentHead, Outcome, Step
from rankmuster.report.incident_account import Account, account, number
from rankmuster.report.incident_impact import impact
from rankmuster.report.incident_nodes import FENCES, LIFT, retests_in, verb
from rankmuster.report.incident_standing import TrafficNow, traffic_now

RECENT = 500
"""Newest incidents that are looked at besides the open ones: what opens and closes between two looks is among them."""

LIMITS = "held by limits"
"""How the note of a plan begins that limits have put an approval into (`incident.permits`)."""

MOST_KNOWN = 20_000
"""Incidents of which it is kept up to where they are counted: one may be opened again after days."""

MOST_REQUESTS = 1e9
"""That one cut may hit; a gateway that says more is wrong."""


class ReadJournal(Protocol):
    """What is asked of a journal; `store.journal.Journal` is one."""

    def incidents(
        self, *, instance: str | None = None, open_only: bool = False, limit: int | None = None
    ) -> tuple[IncidentHead, ...]: ...

    def events(self, incident: str, after: int = 0) -> tuple[Event, ...]: ...

    def breaker(self) -> Breaker | None: ...


class IncidentMetrics:
    """Of one journal. Not for several threads at once; the registry is."""

    def __init__(self, registry: Registry, journal: ReadJournal) -> None:
        self._registry = registry
        self._journal = journal
        self._begun_at: float | None = None
        self._sequence: dict[str, int] = {}  # up to which events are counted
        self._events: dict[str, list[Event]] = {}  # of those that were open at the last look
        self._closed: dict[str, tuple[str, TrafficNow]] = {}  # instance -> its newest incident, where it is closed
        registry.register(*ALL)

    def read(self, now: float) -> None:
        """Counts what has come. `now`: unix seconds. Raises what the journal raises; nothing is counted twice."""
        first = self._begun_at is None
        self._begun_at = now if self._begun_at is None else self._begun_at
        recent = self._journal.incidents(limit=RECENT)
        still_open = self._journal.incidents(open_only=True)
        heads = {head.id: head for head in (*still_open, *recent)}
        breaker = self._journal.breaker()
        for head in heads.values():
            self._take(head, first)
        for gone in [incident for incident in self._events if incident not in heads]:
            del self._events[gone]
        if len(self._sequence) > MOST_KNOWN:
            self._sequence = {incident: last for incident, last in self._sequence.items() if incident in heads}
        newest = _newest(heads.values())
        with self._registry.together():
            self._gauges(newest, still_open)
            is_open = breaker is not None and breaker.closed_at is None
            self._registry.gauge(BREAKER).set(float(is_open))
            self._registry.gauge(READ_AT).set(now)

    def _take(self, head: IncidentHead, first: bool) -> None:
        """New events of one incident. One that was closed before the first look has none."""
        over = head.closed_at is not None
        if over and first:
            self._sequence[head.id] = -1
            return
        known = self._sequence.get(head.id, 0)
        if over and head.id not in self._events and known != 0:
            return
        held = self._events.get(head.id)
        if held is None:
            held = list(self._read(head.id, 0))
            fresh = held if known == 0 else [event for event in held if event.sequence > known]
            if known == -1 or (known == 0 and first):  # what it was before this process is another one's to count
                fresh = [event for event in held if self._begun_at is not None and event.at >= self._begun_at]
        else:
            fresh = list(self._read(head.id, held[-1].sequence if held else 0))
            held += fresh
        self._sequence[head.id] = held[-1].sequence if held else known
        told = account(head.id, held)
        with self._registry.together():
            self._appear(head.instance)
            for event in fresh:
                self._count(head.instance, event, told)
        if over:
            self._events.pop(head.id, None)
            self._closed[head.instance] = (head.id, traffic_now(told))
        else:
            self._events[head.id] = held

    def _read(self, incident: str, after: int) -> tuple[Event, ...]:
        try:
            return self._journal.events(incident, after)
        except KeyError:  # removed at this moment
            return ()

    def _appear(self, instance: str) -> None:
        """At zero before they rise, so that the first rise shows as one."""
        for outcome in Outcome:
            self._registry.counter(CLOSED).add(0, llm_instance=instance, outcome=outcome.value)
        for metric in (QUARANTINES, LET_IN, REQUESTS, REFUSED, RESUMED):
            self._registry.counter(metric).add(0, llm_instance=instance)
        self._registry.counter(REBUILDS).add(0, llm_instance=instance, ending=Ending.DONE.value)
        self._registry.counter(ISOLATIONS).add(0, llm_instance=instance, ending=Ending.DONE.value)

    def _gauges(self, newest: dict[str, IncidentHead], still_open: Iterable[IncidentHead]) -> None:
        leases = {head.instance: head for head in still_open}
        self._registry.gauge(OPEN).clear()
        self._registry.gauge(TRAFFIC_STOPPED).clear()
        for instance, head in leases.items():
            state = self._state(head)
            self._registry.gauge(OPEN).choose("state", state, llm_instance=instance)
        for instance, head in newest.items():
            stopped = False
            if head.closed_at is not None:
                known = self._closed.get(instance)
                if known is None or known[0] != head.id:
                    known = (head.id, traffic_now(account(head.id, self._read(head.id, 0))))
                    self._closed[instance] = known
                stopped = known[1] in (TrafficNow.STOPPED, TrafficNow.UNCLEAR)
            self._registry.gauge(TRAFFIC_STOPPED).set(float(stopped), llm_instance=instance)

    def _state(self, head: IncidentHead) -> str:
        if head.lease is None:
            return "unattended"
        approve = account(head.id, self._events.get(head.id, ())).of(Step.APPROVE)
        waits = approve is not None and approve.begun_at is not None and approve.ending is None
        return "waiting" if waits else "working"

    def _count(self, instance: str, event: Event, told: Account) -> None:
        registry = self._registry
        if event.kind is EventKind.OPENED:
            by = told.opening.by.value if told.opening else OTHER
            registry.counter(OPENED).add(by=by, llm_instance=instance)
        elif event.kind is EventKind.CLOSED:
            registry.counter(CLOSED).add(outcome=str(event.data.get("outcome")), llm_instance=instance)
            cost = impact(told)
            if cost.served_at is not None:
                took = max(0.0, cost.served_at - cost.detected_at)
                registry.histogram(RESTORED).observe(took, llm_instance=instance)
        elif event.kind is EventKind.RUNNER and event.data.get("resumed") is True:
            registry.counter(RESUMED).add(llm_instance=instance)
        elif _held_by_limits(event):
            registry.counter(REFUSED).add(llm_instance=instance)
        elif event.kind is EventKind.STEP_ENDED and event.step is not None and event.ending is not None:
            self._step(instance, event, event.step, event.ending, told)
        elif event.kind is EventKind.RESULT and event.step is not None and event.ending is not None:
            self._result(instance, event, event.step, event.ending)

    def _step(self, instance: str, event: Event, step: Step, ending: Ending, told: Account) -> None:
        registry = self._registry
        registry.counter(STEPS).add(step=step.value, ending=ending.value)
        stage = next((one for one in told.stages if one.step is step and one.ended_at == event.at), None)
        took = stage.took if stage is not None else None
        if took is not None and step in (Step.DRAIN, Step.EVIDENCE) and ending is not Ending.OBSERVED:
            registry.histogram(DRAIN if step is Step.DRAIN else EVIDENCE).observe(took, llm_instance=instance)
        if step is Step.TERMINATE and ending is Ending.DONE:
            opened = told.opening.at if told.opening else told.opened_at
            registry.histogram(TERMINATED).observe(max(0.0, event.at - opened), llm_instance=instance)
        if step in (Step.RETEST, Step.SHORT_RETEST):
            for _, result, _, _ in retests_in(event.data):
                registry.counter(RETESTS).add(result=result.value, llm_instance=instance)
        if step is Step.SETTLE:
            failed = event.data.get("quarantined")
            count = len(failed) if isinstance(failed, (list, tuple)) else 0
            registry.counter(QUARANTINES).add(count, llm_instance=instance)

    def _result(self, instance: str, event: Event, step: Step, ending: Ending) -> None:
        registry, what = self._registry, verb(event.action or "")
        if step is Step.START:
            registry.counter(REBUILDS).add(ending=ending.value, llm_instance=instance)
        if what in FENCES:
            registry.counter(ISOLATIONS).add(ending=ending.value, llm_instance=instance)
        if what == LIFT and ending is Ending.DONE:
            registry.counter(LET_IN).add(llm_instance=instance)
        hit = number(event.data, "requests")
        if step is Step.CUT and hit is not None and 0 <= hit < MOST_REQUESTS:
            registry.counter(REQUESTS).add(hit, llm_instance=instance)


def _held_by_limits(event: Event) -> bool:
    if event.kind is EventKind.PLANNED:
        return event.note.startswith(LIMITS)
    return event.kind is EventKind.DECIDED and event.data.get("waits_for_limits") is True


def _newest(heads: Iterable[IncidentHead]) -> dict[str, IncidentHead]:
    """Instance -> its newest incident."""
    found: dict[str, IncidentHead] = {}
    for head in heads:
        held = found.get(head.instance)
        if held is None or (head.opened_at, head.id) > (held.opened_at, held.id):
            found[head.instance] = head
    return found
