"""Limits, as one runbook meets them: asked when it decides, asked again while only they are in the way.

Only what is really done is counted: of an actuator that observes nothing is used up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.incident.as_found import left_by
from rankmuster.incident.config import IncidentConfig
from rankmuster.incident.fences_over import is_over
from rankmuster.incident.journal import Journal
from rankmuster.incident.judge_limits import allow_anyway, horizon, judge
from rankmuster.incident.machine.fold import IllegalTransition, fold
from rankmuster.incident.record import Record
from rankmuster.incident.tools import ToolRole, Tools
from rankmuster.incident.within_limits import allowed_now, give_back_unused, within_limits
from rankmuster.model.incident import Course, Decision, Event, EventKind, FleetView, Permit, Step, UseKind

AGAIN_SECONDS = 30.0
"""Between two questions whether limits allow by now what they have refused: a thousand that wait ask a server 30 times
a second, and the fabric that they wait for takes minutes to be mended."""

LOOK_SECONDS = 1.0
"""Of all looks at nodes whose fences still count: it is half of what a decision may take."""

EARLIER = 3
"""Incidents of an instance among which the one before this one is."""

BY_LIMITS = "by_limits"
"""Key of an APPROVED event's data: no operator, limits allow it now."""


class Permits:
    """Of one incident. Raises what `Record` raises."""

    def __init__(
        self, journal: Journal, record: Record, config: IncidentConfig, tools: Tools, unix_now: Callable[[], float]
    ) -> None:
        self._journal, self._record = journal, record
        self._config, self._tools, self._unix_now = config, tools, unix_now
        self._clock: Clock = time.monotonic
        self._asked_at = float("-inf")

    def within(self, decision: Decision) -> Decision:
        """What limits leave of it. An operator's word stands above them, and is counted."""
        if not self._tools.acts(ToolRole.GROUP) or self._tools.group is None:
            return decision
        fences = self._tools.acts(ToolRole.NODE) and bool(self._tools.nodes)
        asked = decision if fences else replace(decision, fence=())
        incident = self._record.incident
        approval = incident.approval
        if asked.course is Course.REBUILD and asked.fence:
            self._end_fences_that_are_over()
        found: Decision = self._record.asked(
            lambda: within_limits(
                self._journal,
                incident.id,
                self._record.lease,
                asked,
                incident.opening.instance,
                self._config.limits,
                self._unix_now(),
                approved=approval is not None and not approval.by_limits,
            )
        )
        return found if fences else replace(found, fence=decision.fence)

    def while_waiting(self) -> None:
        """Asks again, now and then, where an approval is waited for only because of limits."""
        incident, now = self._record.incident, self._unix_now()
        approve, decision = incident.step(Step.APPROVE), incident.decision
        waits = approve is not None and approve.running and incident.approval is None
        if not waits or decision is None or not decision.waits_for_limits or now - self._asked_at < AGAIN_SECONDS:
            return
        first, self._asked_at = self._asked_at == float("-inf"), now
        if first:
            return
        permit = self._record.asked(
            lambda: allowed_now(
                self._journal,
                incident.id,
                self._record.lease,
                incident.opening.instance,
                self._config.limits,
                now,
            )
        )
        if permit.allowed:
            self._record.write(EventKind.APPROVED, note=f"limits allow it now: {permit.why}", data={BY_LIMITS: True})

    def fence_more(self, nodes: Sequence[str]) -> str | None:
        """Why these may not be fenced besides; None where they may, or where nothing acts on nodes."""
        if not self._tools.nodes or not self._tools.acts(ToolRole.NODE):
            return None
        incident, now, limits = self._record.incident.id, self._unix_now(), self._config.limits
        wanted = [(UseKind.FENCE, node) for node in nodes]
        self._end_fences_that_are_over()

        def judged(view: FleetView) -> Permit:
            return judge(view, wanted, limits, now, incident)

        permit = self._record.asked(
            lambda: self._journal.reserve(incident, self._record.lease, wanted, judged, horizon(limits), now)
        )
        return None if permit.allowed else permit.why

    def count_resumed(self) -> None:
        """Before a group is ended: a rebuild that an operator has resumed, with no second decision, is counted too."""
        incident, now, limits = self._record.incident, self._unix_now(), self._config.limits
        rebuilds = any(one.step is Step.START for one in incident.waiting)
        if incident.round > 1 and rebuilds and self._tools.acts(ToolRole.GROUP):
            wanted = [(UseKind.REBUILD, incident.opening.instance)]
            self._record.asked(
                lambda: self._journal.reserve(
                    incident.id, self._record.lease, wanted, allow_anyway, horizon(limits), now
                )
            )

    def _end_fences_that_are_over(self) -> None:
        incident, now = self._record.incident.id, self._unix_now()
        deadline = Deadline.after(LOOK_SECONDS, self._clock)
        places = {one.name: one for one in self._tools.nodes}
        view = self._record.asked(lambda: self._journal.fleet(horizon(self._config.limits), now))
        still_open = {one.id for one in self._record.asked(lambda: self._journal.incidents(open_only=True))}
        for use in view.uses:
            if use.kind is not UseKind.FENCE or use.ended_at is not None or use.incident in {incident, *still_open}:
                continue
            try:
                events = self._record.asked(partial(self._journal.events, use.incident))
            except KeyError:
                continue  # forgotten: nobody knows any more where it was fenced
            if is_over(use, events, places, deadline):
                self._record.asked(partial(self._journal.end_use, use.incident, use.kind, use.subject, now))

    def found_earlier(self) -> dict[str, Any] | None:
        """What the incident before this one had found at the gateways, where that one left traffic lowered or stopped;
        None where it did not, or is not known."""
        incident = self._record.incident

        def earlier() -> Sequence[Event]:
            heads = self._journal.incidents(instance=incident.opening.instance, limit=EARLIER)
            before = next((one for one in heads if one.id != incident.id and one.closed_at is not None), None)
            return () if before is None else self._journal.events(before.id)

        events: Sequence[Event] = self._record.asked(earlier)
        try:
            touched = bool(events) and fold("earlier", events).traffic_touched
        except IllegalTransition:
            return None
        return left_by(events) if touched else None

    def give_back_unused(self) -> None:
        """Before it is closed: fences that were allowed and never made would count for ever."""
        incident, now = self._record.incident, self._unix_now()
        self._record.asked(lambda: give_back_unused(self._journal, incident, now))

    def lifted(self, node: str) -> None:
        """A fence is over."""
        incident, now = self._record.incident.id, self._unix_now()
        self._record.asked(lambda: self._journal.end_use(incident, UseKind.FENCE, node, now))
