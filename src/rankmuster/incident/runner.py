"""Runs the runbook of one instance: asks the state machine what is due, does it, writes it down, and asks again.

All judgement is the machine's and the decision's; this holds threads, deadlines and the lease. A step that does not
come back is left behind. An operator's word and the watch's are read between two turns.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.incident import at_close, dry_run, leave
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
from rankmuster.incident.past import BOUND, Past
from rankmuster.incident.permits import Permits
from rankmuster.incident.record import Record, Stopped
from rankmuster.incident.running import RunningStep, begin
from rankmuster.incident.seen import Seen
from rankmuster.incident.steady_time import SteadyTime
from rankmuster.incident.steps import group as groups
from rankmuster.incident.steps.scene import Setting
from rankmuster.incident.tools import ToolRole, Tools
from rankmuster.model.incident import Ending, Event, EventKind, GroupLook, GroupState, Opening, Outcome, Step
from rankmuster.model.verdict import Verdict

POLL_SECONDS = 0.2
"""Between two turns: an operator's word is obeyed within it, and one read of new events costs a millisecond."""

PEOPLE_SECONDS = 1.0
"""The same while nothing but people is waited for, which may be hours, and of many incidents at once."""

LOOK_SECONDS = 3.0
"""Of the look that binds an incident to an incarnation."""

MOST_ILLEGAL = 20
"""Turns in a row in which nothing legal could be written: then something is wrong that waiting does not mend."""


class Refused(Exception):
    """Nothing was touched; the message says why, and what to do."""


class Taken(Exception):
    """Another runner works on this instance; nothing was done."""


def nothing(_: object) -> None:
    """Told, and not listened to."""


class Runner:
    """Of one instance. `holder`: this runner's name, the same after a restart of its service. `seen`: what the watch
    says now. `folder`: of evidence; None for the settings' own. `reached`: told of every event that was written and of
    every call that came back. `told`: gets every event. `late_patience`: seconds for calls that were left behind."""

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
    ) -> None:
        self._config, self._instance, self._tools, self._journal = config, instance, tools, journal
        self._clock, self._host_time, self._holder, self._facts = clock, unix_now, holder, facts
        self._unix_now = SteadyTime(unix_now, clock)
        self._seen, self._sleep, self._host = seen, sleep, host
        self._folder = folder or config.folder or Path("incidents")
        self._lease_seconds, self._late_patience = lease_seconds, late_patience
        self._reached, self._told = reached, told
        self._budget = Budget(config.budget, config.total_seconds)
        self._slots = Slots(clock)
        self._threads: dict[Step, RunningStep] = {}
        self._illegal = 0
        self._stopping = threading.Event()
        self._news = threading.Event()
        self._must_be_ready()

    def open(self, opening: Opening) -> str:
        """The id of the incident: a new one, or the one of this instance that is open. Raises Refused."""
        if opening.instance != self._instance:
            raise Refused(f"the opening is of {opening.instance}; this runs {self._instance}")
        look = self._look()
        why = groups.changed(opening, look) if look is not None else None
        if why is not None:
            raise Refused(f"nothing was touched: {why}")
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
        self._threads = {}
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
            for thread in self._threads.values():
                thread.leave()
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
        permits = Permits(self._journal, record, self._config, self._tools, self._unix_now)
        while True:
            try:
                incident = self._turn(record, permits)
                self._illegal = 0
            except IllegalTransition:
                # an operator's word came in between; what is due now is asked anew
                self._illegal += 1
                if self._illegal >= MOST_ILLEGAL:
                    raise
            if incident.closed is not None:
                return incident
            if self._stopping.is_set() and self._may_leave():
                return incident
            waits = {one.step for one in incident.running}
            if waits and waits <= set(PEOPLE) and not wait_for_people and not due(incident, self._unix_now()):
                return incident
            if not self._comes_at_once(record):
                self._news.wait(PEOPLE_SECONDS if waits and waits <= set(PEOPLE) else POLL_SECONDS)
            self._news.clear()

    def _comes_at_once(self, record: Record) -> bool:
        """Whether something is due already; what is only waited for (a step that was asked to end) is not."""
        now = due(record.incident, self._unix_now())
        return any(not isinstance(one, Abandon) for one in now)

    def _turn(self, record: Record, permits: Permits) -> Incident:
        record.refresh()
        self._write_seen(record)
        self._collect_ends(record)
        if record.incident.needs_plan and not self._plan(record):
            return record.incident
        self._take_over(record, permits)
        if self._stopping.is_set():
            return record.incident
        permits.while_waiting()
        for one in due(record.incident, self._unix_now()):
            if not self._do(record, permits, one):
                break
        return record.incident

    def _do(self, record: Record, permits: Permits, one: Due) -> bool:
        """Does what is due; False where everything is to be asked anew."""
        if isinstance(one, Begin):
            asked = self._clock()
            record.write(EventKind.STEP_BEGUN, step=one.step, data={"deadline_at": one.deadline_at})
            self._start(record, permits, one.step, one.deadline_at, self._clock() - asked)
        elif isinstance(one, Skip):
            record.write(EventKind.STEP_ENDED, step=one.step, ending=Ending.SKIPPED, note=one.why)
        elif isinstance(one, Finish):
            record.write(EventKind.STEP_ENDED, step=one.step, ending=one.ending, note=one.why)
            return False
        elif isinstance(one, Abandon):
            return self._abandon(record, one)
        elif isinstance(one, PassDeadline):
            record.write(EventKind.DEADLINE, note=one.why)
            return False
        elif isinstance(one, Close):
            return self._close(record, permits, one)
        return True

    # -- parts of a turn

    def _plan(self, record: Record) -> bool:
        """Binds it to an incarnation, then plans. False where it was closed instead, with nothing touched."""
        incident = record.incident
        past = Past(record.events)
        if not past.is_bound:
            look = self._look()
            why = groups.changed(incident.opening, look) if look is not None else None
            if why is not None:
                note = f"nothing was touched: {why}"
                record.write(EventKind.CLOSED, note=note, data={"outcome": Outcome.RESTORED.value})
                return False
            known = look.incarnation if look is not None and look.state is not GroupState.UNKNOWN else None
            bound = known or incident.opening.incarnation
            words = groups.told(look) if look is not None else "there is no actuator for the process group"
            record.write(
                EventKind.NOTED, note=f"bound to incarnation {bound or 'unknown'}: {words}", data={BOUND: bound}
            )
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

    def _take_over(self, record: Record, permits: Permits) -> None:
        """Steps that an earlier runner began and did not end."""
        for state in record.incident.running:
            if state.step not in PEOPLE and state.step not in self._threads and state.deadline_at is not None:
                self._start(record, permits, state.step, state.deadline_at)

    def _start(self, record: Record, permits: Permits, step: Step, deadline_at: float, lost: float = 0.0) -> None:
        if step in PEOPLE:
            return
        setting = Setting(
            config=self._config,
            tools=self._tools,
            budget=self._budget,
            facts=self._facts,
            seen=self._told_by_watch,
            clock=self._clock,
            unix_now=self._unix_now,
            folder=self._folder / record.incident.id,
            permits=permits,
        )
        left = deadline_at - self._unix_now()
        self._threads[step] = begin(
            setting,
            record,
            self._slots,
            step,
            Deadline.after(max(left, 0.0), self._clock),
            reached=self._reached,
            over=self._news.set,
            lost=lost,
        )

    def _collect_ends(self, record: Record) -> None:
        for step, thread in list(self._threads.items()):
            if not thread.over:
                continue
            del self._threads[step]
            ended = thread.ended
            thread.leave()
            if thread.stopped is not None:
                raise thread.stopped
            state = record.incident.step(step)
            if state is not None and state.running:
                leave.end(record, step, ended.ending, ended.note, ended.data)

    def _abandon(self, record: Record, one: Abandon) -> bool:
        """Asks it to end, waits a little where something is under way, then leaves it behind."""
        thread = self._threads.get(one.step)
        ordinary = record.incident.aborted is None and record.incident.deadline is None
        if thread is not None and thread.makes_up and ordinary:
            return True
        if thread is not None:
            thread.ask_to_end()
            if not thread.patience_over(one.step):
                return True
            if thread.over:
                self._collect_ends(record)
                return False
            thread.leave()
            del self._threads[one.step]
        leave.end(record, one.step, one.ending, one.why, {})
        return False

    def _close(self, record: Record, permits: Permits, one: Close) -> bool:
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
        permits.give_back_unused()
        note = ". ".join((one.note, *notes.said)) if one.note else ". ".join(notes.said)
        record.write(EventKind.CLOSED, note=note, data={"outcome": one.outcome.value})
        return False

    def _write_seen(self, record: Record) -> None:
        """What the watch says, where it has changed."""
        seen = self._told_by_watch()
        if seen is None or seen.at < record.incident.opening.at:
            return
        now = (seen.progress.value, seen.incarnation)
        last = next((one for one in reversed(record.events) if one.kind is EventKind.SEEN), None)
        if last is None or (last.data.get("progress"), last.data.get("incarnation")) != now:
            record.write(EventKind.SEEN, note=seen.reason, data={"progress": now[0], "incarnation": now[1]})

    def _told_by_watch(self) -> Seen | None:
        """The watch is another process's file: whatever is wrong with it is not a runbook's trouble."""
        try:
            seen, of = self._seen(), self._unix_now.of
            if seen is None:
                return None
            return replace(seen, at=of(seen.at), since=None if seen.since is None else of(seen.since))
        except Exception:
            return None

    def _look(self) -> GroupLook | None:
        group = self._tools.group
        if group is None:
            return None
        return groups.look_at(group, Deadline.after(LOOK_SECONDS, self._clock), lambda: False)

    def _may_leave(self) -> bool:
        """Whether no action is under way that would be left without a result."""
        return not any(one.acts for one in self._threads.values())

    def _who(self, incident: str) -> str:
        heads = self._journal.incidents(instance=self._instance, open_only=True, limit=1)
        lease = heads[0].lease if heads else None
        return lease or f"see `rankmuster incident show {incident}`"

    def _must_be_ready(self) -> None:
        """What could never work is refused before anything is touched."""
        there = {
            ToolRole.TRAFFIC: bool(self._tools.traffic),
            ToolRole.GROUP: self._tools.group is not None,
            ToolRole.NODE: bool(self._tools.nodes),
            ToolRole.RETEST: self._tools.retest is not None,
        }
        for role, exists in there.items():
            if not exists and f"{self._instance}/{role.value}" in self._config.enable:
                raise Refused(
                    f"{self._instance}/{role.value} is enabled and no such actuator is configured: add one under "
                    f"instances.{self._instance}, or take it out of `enable`"
                )
        for step, seconds in self._config.budget.items():
            if not seconds > 0:
                raise Refused(f"the budget gives {step.value} {seconds:g} s: a step needs some time")
        if self._config.total_seconds is not None and not self._config.total_seconds > 0:
            raise Refused(f"total_seconds is {self._config.total_seconds:g}: a runbook needs some time")


__all__ = ["InstanceConfig", "Refused", "Runner", "Stopped", "Taken"]
