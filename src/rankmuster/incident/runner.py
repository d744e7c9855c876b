"""Runs the runbook of one instance: asks the state machine what is due, does it, writes it down, and asks again.

All judgement is the machine's and the decision's; this holds threads, deadlines and the lease. A step that does not
come back is left behind. An operator's word and the watch's are read between two turns.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rankmuster.collect.deadline import Clock
from rankmuster.incident import at_close, binding, dry_run
from rankmuster.incident.bounded_call import Slots
from rankmuster.incident.budget import Budget
from rankmuster.incident.config import IncidentConfig, InstanceConfig
from rankmuster.incident.facts import FactsOf
from rankmuster.incident.journal import Journal
from rankmuster.incident.lease_keeper import LEASE_SECONDS, LeaseKeeper
from rankmuster.incident.machine.due import Abandon, Begin, Close, Due, Finish, PassDeadline, Skip, due
from rankmuster.incident.machine.fold import IllegalTransition
from rankmuster.incident.machine.plan import next_plan, planned_event
from rankmuster.incident.machine.state import PEOPLE, Incident
from rankmuster.incident.permits import Permits
from rankmuster.incident.record import Record, Stopped
from rankmuster.incident.refusals import Refused, Taken, must_be_ready
from rankmuster.incident.seen import Seen
from rankmuster.incident.steady_time import SteadyTime
from rankmuster.incident.steps.scene import Setting
from rankmuster.incident.tools import ToolRole, Tools
from rankmuster.incident.under_way import UnderWay
from rankmuster.incident.watched import Watched
from rankmuster.model.incident import Ending, Event, EventKind, Opening
from rankmuster.model.verdict import Verdict

POLL_SECONDS = 0.2
"""Between two turns: an operator's word is obeyed within it, and one read of new events costs a millisecond."""

PEOPLE_SECONDS = 1.0
"""The same while nothing but people is waited for, which may be hours, and of many incidents at once."""

MOST_ILLEGAL = 20
"""Turns in a row in which nothing legal could be written: then something is wrong that waiting does not mend."""


def nothing(_: object) -> None:
    """Told, and not listened to."""


@dataclass(frozen=True, slots=True)
class _Work:
    """On one incident, from when its lease was taken."""

    record: Record
    permits: Permits
    watched: Watched
    under_way: UnderWay


class Runner:
    """Of one instance. `holder`: this runner's name, the same after a restart of its service. `seen`: what the watch
    says now. `folder`: of evidence; None for the settings' own. `reached`: told of every event that was written and of
    every call that came back. `told`: gets every event. `late_patience`: seconds for calls that were left behind.
    `followed`: whether a watch follows what is started, by other ways than the settings' `watch`."""

    def __init__(
        self,
        config: IncidentConfig,
        instance: str,
        tools: Tools,
        journal: Journal,
        *,
        clock: Clock = time.monotonic,
        unix_now: Callable[[], float] = time.time,
        holder: str,
        facts: FactsOf,
        seen: Callable[[], Seen | None] = lambda: None,
        sleep: Callable[[float], object] = time.sleep,
        folder: Path | None = None,
        host: str = "",
        lease_seconds: float = LEASE_SECONDS,
        late_patience: float = at_close.LATE_PATIENCE,
        reached: Callable[[str], None] = nothing,
        told: Callable[[Event], None] = nothing,
        followed: Callable[[], bool] = lambda: False,
    ) -> None:
        self._config, self._instance, self._tools, self._journal = config, instance, tools, journal
        self._clock, self._host_time, self._holder, self._facts = clock, unix_now, holder, facts
        self._unix_now = SteadyTime(unix_now, clock)
        self._seen, self._sleep, self._host = seen, sleep, host
        self._folder = folder or config.folder or Path("incidents")
        self._lease_seconds, self._late_patience = lease_seconds, late_patience
        self._reached, self._told, self._followed = reached, told, followed
        self._budget = Budget(config.budget, config.total_seconds)
        self._slots = Slots(clock)
        self._illegal = 0
        self._stopping = threading.Event()
        self._news = threading.Event()
        must_be_ready(config, instance, tools)

    def open(self, opening: Opening) -> str:
        """The id of the incident: a new one, or the one of this instance that is open. Raises Refused."""
        if opening.instance != self._instance:
            raise Refused(f"the opening is of {opening.instance}; this runs {self._instance}")
        why = binding.objection(opening, self._tools, self._clock)
        if why is not None:
            raise Refused(why)
        incident, _ = self._journal.open_incident(opening, self._holder)
        return incident

    def dry_run(self, opening: Opening, verdict: Verdict | None = None) -> tuple[str, ...]:
        """Exactly what would be done, one line each. Asks nobody, writes nothing, and says the same every time."""
        return dry_run.lines(self._config, self._tools, self._budget, self._facts, opening, verdict, self._folder)

    def run(self, incident: str, *, wait_for_people: bool = True) -> Incident:
        """Drives it until it is closed; without `wait_for_people`, until only people are waited for.

        Raises Taken, Stopped (nothing more is done; the message says who has it, or what is wrong with the journal) and
        KeyError.
        """
        self._unix_now = SteadyTime(self._host_time, self._clock)
        keeper = LeaseKeeper(self._journal, self._instance, self._holder, self._clock, self._lease_seconds)
        if not keeper.take():
            raise Taken(f"another runner has {self._instance}: {self._who(incident)}")
        try:
            record = Record(
                self._journal,
                keeper,
                incident,
                self._holder,
                clock=self._clock,
                unix_now=self._unix_now,
                pause=self._sleep,
                reached=self._reached,
                told=self._told,
            )
            return self._drive(record, wait_for_people)
        finally:
            keeper.close()

    def stop(self) -> None:
        """`run` returns soon, between two actions; what it was about goes on with `run` again. From any thread."""
        self._stopping.set()
        self._news.set()

    # -- one turn after the other

    def _drive(self, record: Record, wait_for_people: bool) -> Incident:
        incident = record.refresh()
        if incident.opening.instance != self._instance:
            raise Refused(f"{incident.id} is an incident of {incident.opening.instance}, not of {self._instance}")
        if incident.closed is not None:
            return incident
        resumed = incident.runners > 0
        record.write(EventKind.RUNNER, data={"host": self._host, "pid": os.getpid(), "resumed": resumed})
        work = self._work_on(record)
        try:
            return self._until_closed(work, wait_for_people)
        finally:
            work.under_way.leave_all()

    def _work_on(self, record: Record) -> _Work:
        permits = Permits(self._journal, record, self._config, self._tools, self._unix_now)
        watched = Watched(self._seen, self._unix_now)
        setting = Setting(
            config=self._config,
            tools=self._tools,
            budget=self._budget,
            facts=self._facts,
            seen=watched.now,
            clock=self._clock,
            unix_now=self._unix_now,
            folder=self._folder / record.incident.id,
            permits=permits,
            followed=self._followed(),
        )
        return _Work(record, permits, watched, UnderWay(record, setting, self._slots, self._reached, self._news.set))

    def _until_closed(self, work: _Work, wait_for_people: bool) -> Incident:
        while True:
            try:
                incident = self._turn(work)
                self._illegal = 0
            except IllegalTransition:
                # an operator's word came in between; what is due now is asked anew
                self._illegal += 1
                if self._illegal >= MOST_ILLEGAL:
                    raise
                incident = work.record.incident
            if incident.closed is not None:
                return incident
            if self._stopping.is_set() and not work.under_way.acts:
                return incident
            waits = {one.step for one in incident.running}
            people = bool(waits) and waits <= set(PEOPLE)
            if people and not wait_for_people and not due(incident, self._unix_now()):
                return incident
            if not self._comes_at_once(work.record):
                self._news.wait(PEOPLE_SECONDS if people else POLL_SECONDS)
            self._news.clear()

    def _comes_at_once(self, record: Record) -> bool:
        """Whether something is due already; what is only waited for (a step that was asked to end) is not."""
        now = due(record.incident, self._unix_now())
        return any(not isinstance(one, Abandon) for one in now)

    def _turn(self, work: _Work) -> Incident:
        record = work.record
        record.refresh()
        work.watched.write(record)
        work.under_way.collect_ends()
        if record.incident.needs_plan and not self._plan(record):
            return record.incident
        work.under_way.take_over()
        if self._stopping.is_set():
            return record.incident
        work.permits.while_waiting()
        for one in due(record.incident, self._unix_now()):
            if not self._do(work, one):
                break
        return record.incident

    def _do(self, work: _Work, one: Due) -> bool:
        """Does what is due; False where everything is to be asked anew."""
        record = work.record
        if isinstance(one, Begin):
            asked = self._clock()
            record.write(EventKind.STEP_BEGUN, step=one.step, data={"deadline_at": one.deadline_at})
            work.under_way.start(one.step, one.deadline_at, self._clock() - asked)
        elif isinstance(one, Skip):
            record.write(EventKind.STEP_ENDED, step=one.step, ending=Ending.SKIPPED, note=one.why)
        elif isinstance(one, Finish):
            record.write(EventKind.STEP_ENDED, step=one.step, ending=one.ending, note=one.why)
            return False
        elif isinstance(one, Abandon):
            return work.under_way.abandon(one)
        elif isinstance(one, PassDeadline):
            record.write(EventKind.DEADLINE, note=one.why)
            return False
        elif isinstance(one, Close):
            return self._close(work, one)
        return True

    # -- parts of a turn

    def _plan(self, record: Record) -> bool:
        """Binds it to an incarnation, then plans. False where it was closed instead, with nothing touched."""
        if not binding.bind(record, self._tools, self._clock):
            return False
        event = planned_event(
            next_plan(record.incident, self._budget, self._config.approve),
            at=self._unix_now(),
            by=self._holder,
            budget=self._budget,
            free_undecided=self._config.undecided == "rebuild" and self._tools.acts(ToolRole.GROUP),
            can_elsewhere=self._tools.group is not None and self._tools.group.elsewhere,
        )
        record.write(EventKind.PLANNED, note=event.note, data=event.data)
        return True

    def _close(self, work: _Work, one: Close) -> bool:
        record = work.record
        notes = at_close.put_right(
            record,
            one,
            tools=self._tools,
            slots=self._slots,
            clock=self._clock,
            unix_now=self._unix_now,
            budget=self._budget,
            patience=self._late_patience,
        )
        if notes.again:
            return False
        work.permits.give_back_unused()
        note = ". ".join((one.note, *notes.said)) if one.note else ". ".join(notes.said)
        record.write(EventKind.CLOSED, note=note, data={"outcome": one.outcome.value})
        return False

    def _who(self, incident: str) -> str:
        heads = self._journal.incidents(instance=self._instance, open_only=True, limit=1)
        lease = heads[0].lease if heads else None
        return lease or f"see `rankmuster incident show {incident}`"


__all__ = ["InstanceConfig", "Refused", "Runner", "Stopped", "Taken"]
