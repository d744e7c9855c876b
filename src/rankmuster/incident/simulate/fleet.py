"""The simulated fleet: instances, the incidents that are handled for them, and simulated time. One thread, one seed.

What a runner does is done here at once: it asks the machine what is due, draws how long a step takes and how it ends,
and writes both into the journal. Every judgement is the program's own.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random

from rankmuster.incident.budget import Budget
from rankmuster.incident.decide import DecideSettings, Facts, decide
from rankmuster.incident.machine.due import due, wake_at
from rankmuster.incident.machine.due_kinds import Abandon, Begin, Close, Due, Finish, PassDeadline, Skip
from rankmuster.incident.machine.fold import BOUNDS, advance, fold
from rankmuster.incident.machine.plan import next_plan, plan_after, planned_event
from rankmuster.incident.machine.state import Incident
from rankmuster.incident.memory_journal import MemoryJournal
from rankmuster.incident.simulate.faults import Cause, Fault
from rankmuster.incident.simulate.plan import SimPlan
from rankmuster.incident.within_limits import allowed_now, count_resumed, give_back_unused, within_limits
from rankmuster.model.fault import FaultClass, Progress
from rankmuster.model.incident import Course, Decision, Ending, Event, EventKind, Lease, Opening, Outcome, Step, UseKind
from rankmuster.model.plain_json import to_plain

BUDGET = Budget()

SETTINGS = DecideSettings(undecided="rebuild")

FOREVER = 1e9
"""Seconds of a lease: runners do not die here (the crash tests are real)."""

REPAIR = 86_400.0
"""Seconds until a fenced node is back."""

WAITS = (Step.APPROVE, Step.RECOVER)

ACTS = (Step.SHED, Step.STOP_TRAFFIC, Step.FENCE, Step.CUT, Step.TERMINATE, Step.START, Step.RESTORE, Step.SETTLE)


@dataclass(slots=True)
class Instance:
    """`serves`: whether it answers now. `fault`: what is wrong, None where nothing is."""

    number: int
    name: str
    nodes: tuple[str, ...]
    on_outage: bool = False
    serves: bool = True
    fault: Fault | None = None
    starts: int = 0


@dataclass(slots=True)
class Case:
    """One open incident. `turn`: of its last wake-up that still counts."""

    instance: Instance
    incident: Incident
    lease: Lease
    fault: Fault
    woken: float = -1.0


@dataclass(slots=True)
class Record:
    """What the report is made from. Times are simulated seconds."""

    rebuilds: list[tuple[float, str]] = field(default_factory=list)  # TERMINATE begun: (when, cause)
    struck: list[Fault] = field(default_factory=list)
    broken_starts: int = 0
    fenced: list[tuple[float, str, Cause]] = field(default_factory=list)
    recovered: list[tuple[Fault, float]] = field(default_factory=list)
    outcomes: dict[str, int] = field(default_factory=dict)
    breaker: list[tuple[float, str]] = field(default_factory=list)
    most_at_once: int = 0
    opened: int = 0
    twice_open: int = 0


class Fleet:
    """`start`: unix seconds of simulated second 0."""

    def __init__(self, plan: SimPlan, random: Random, start: float) -> None:
        self.plan, self.random, self.start = plan, random, start
        self.now = 0.0
        self.journal = MemoryJournal(lambda: self.now)
        self.record = Record()
        self.instances = [
            Instance(number, f"llm-{number:04d}", tuple(f"node-{number:04d}-{at}" for at in range(plan.nodes_each)))
            for number in range(plan.instances)
        ]
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._cases: dict[str, Case] = {}
        self._rebuilding: set[str] = set()
        self._by_operator: set[str] = set()
        self._breaker_open = False
        self._suspected: dict[str, str] = {}
        self._held: set[str] = set()

    # -- time

    def at(self, when: float, what: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (when, self._count, what))

    def run(self, until: float) -> None:
        while self._queue and self._queue[0][0] <= until:
            when, _, what = heapq.heappop(self._queue)
            self.now = max(self.now, when)
            what()

    @property
    def unix(self) -> float:
        return self.start + self.now

    def fabric_broken(self, instance: Instance) -> bool:
        outage = self.plan.outage
        return outage is not None and instance.on_outage and outage.at <= self.now < outage.at + outage.seconds

    # -- faults and incidents

    def strike(self, fault: Fault) -> None:
        """Something breaks. What has stopped already stays as it is; what is slow stops."""
        instance = self.instances[fault.instance]
        if instance.fault is not None and (instance.fault.cause is not Cause.DRIFT or fault.cause is Cause.DRIFT):
            return
        self.record.struck.append(fault)
        instance.fault = fault
        instance.serves = fault.progress is not Progress.STOPPED
        case = self._cases.get(instance.name)
        if case is not None:
            case.fault = fault
            self._write(case, EventKind.SEEN, data={"progress": fault.progress.value})
            self._pump(case)
        if instance.name not in self._cases:
            self._open(instance, fault)

    def _open(self, instance: Instance, fault: Fault) -> None:
        opening = Opening(
            instance=instance.name,
            incarnation=f"{instance.name}-{instance.starts}",
            by=fault.opened_by,
            progress=fault.progress,
            at=self.unix,
        )
        name, new = self.journal.open_incident(opening, "simulation")
        if not new:
            return  # a second incident beside an open one is what the journal prevents
        self.record.opened += 1
        lease = self.journal.take_lease(instance.name, "simulation", FOREVER)
        assert lease is not None
        self.record.twice_open += instance.name in self._cases
        self._cases[instance.name] = Case(instance, fold(name, self.journal.events(name)), lease, fault)
        self._pump(self._cases[instance.name])

    def resume(self, case: Case) -> None:
        """An operator, some time after it was closed without success."""
        name = case.incident.id
        if case.instance.serves or case.instance.name in self._cases:
            return
        self.journal.tell(name, Event(kind=EventKind.REOPENED, at=self.unix, by="operator"))
        # another incident of the instance may have come and gone since
        lease = self.journal.take_lease(case.instance.name, "simulation", FOREVER)
        assert lease is not None
        again = Case(case.instance, fold(name, self.journal.events(name)), lease, case.fault)
        if again.incident.group_touched:
            self._by_operator.add(case.instance.name)
        self._cases[case.instance.name] = again
        self._pump(again)

    def ask_limits(self) -> None:
        """All that wait for limits ask again, the oldest first; the first one that the fleet refuses ends it."""
        waiting = [
            case
            for case in self._cases.values()
            if case.incident.decision is not None
            and case.incident.decision.waits_for_limits
            and any(one.step is Step.APPROVE for one in case.incident.running)
        ]
        for case in waiting:
            permit = allowed_now(
                self.journal, case.incident.id, case.lease, case.instance.name, self.plan.limits, self.unix
            )
            self._see_breaker()
            if permit.allowed:
                self._write(case, EventKind.APPROVED, by="limits", note=permit.why, data={"by_limits": True})
                self._pump(case)
            elif "was rebuilt" not in permit.why:
                break
        self.at(self.now + self.plan.ask_limits_seconds, self.ask_limits)

    # -- one incident

    def _write(self, case: Case, kind: EventKind, **values: object) -> None:
        event = Event(kind=kind, at=self.unix, **values)  # type: ignore[arg-type]  # the fields of an event
        self._keep(case, event)

    def _keep(self, case: Case, event: Event) -> None:
        made = self.journal.append(case.incident.id, case.lease, event)
        case.incident = advance(case.incident, made)

    def _pump(self, case: Case) -> None:
        """Does what is due until nothing is, then sleeps until the machine wants to be asked again."""
        while case.incident.closed is None:
            if case.incident.needs_plan:
                plan = next_plan(case.incident, BUDGET)
                self._keep(
                    case,
                    planned_event(plan, at=self.unix, by="simulation", budget=BUDGET, free_undecided=True),
                )
                count_resumed(self.journal, case.incident, case.lease, self.plan.limits, self.unix)
                continue
            asked = due(case.incident, self.unix)
            if not asked:
                break
            for one in asked:
                self._do(case, one)
        if case.incident.closed is not None:
            self._closed(case)
            return
        wake = wake_at(case.incident, self.unix)
        if wake is not None and wake - self.start != case.woken:
            case.woken = wake - self.start
            self.at(case.woken + 1e-3, lambda: self._wake(case))

    def _wake(self, case: Case) -> None:
        if self._cases.get(case.instance.name) is case:
            case.woken = -1.0
            self._pump(case)

    def _do(self, case: Case, one: Due) -> None:
        if isinstance(one, Begin):
            self._begin(case, one)
        elif isinstance(one, Skip):
            self._write(case, EventKind.STEP_ENDED, step=one.step, ending=Ending.SKIPPED, note=one.why)
        elif isinstance(one, (Abandon, Finish)):
            self._end(case, one.step, one.ending, one.why)
        elif isinstance(one, PassDeadline):
            self._write(case, EventKind.DEADLINE, note=one.why)
        elif isinstance(one, Close):
            self._write(case, EventKind.CLOSED, note=one.note, data={"outcome": one.outcome.value})

    def _begin(self, case: Case, one: Begin) -> None:
        step = one.step
        self._write(case, EventKind.STEP_BEGUN, step=step, data={"deadline_at": one.deadline_at})
        if step in ACTS:
            self._write(case, EventKind.INTENT, step=step, action="it", data={"safe": True})
        if step is Step.TERMINATE:
            self.record.rebuilds.append((self.now, case.fault.cause.value))
            self._rebuilding.add(case.instance.name)
            by_limits = len(self._rebuilding - self._by_operator)
            self.record.most_at_once = max(self.record.most_at_once, by_limits)
        if step in WAITS:
            return
        seconds, ending = self._draw(case, step)
        if seconds is None:
            return
        begun = case.incident.sequence
        self.at(self.now + seconds, lambda: self._done(case, step, begun, ending))

    def _draw(self, case: Case, step: Step) -> tuple[float | None, Ending]:
        """(how long it takes, None where it hangs, how it ends)."""
        least, most = self.plan.step_seconds[step]
        seconds = self.random.uniform(least, most)
        chance = self.random.random()
        if step in ACTS and chance < self.plan.hangs:
            return None, Ending.TIMED_OUT
        if step in ACTS and chance < self.plan.hangs + self.plan.fails:
            return seconds, Ending.FAILED
        if step is Step.VERIFY and self.fabric_broken(case.instance):
            self.record.broken_starts += 1
            return None, Ending.TIMED_OUT
        return seconds, Ending.DONE

    def _done(self, case: Case, step: Step, begun: int, ending: Ending) -> None:
        state = case.incident.step(step)
        mine = self._cases.get(case.instance.name) is case
        if mine and state is not None and state.running and state.begun <= begun:
            self._end(case, step, ending, "")
            self._pump(case)

    def _end(self, case: Case, step: Step, ending: Ending, note: str) -> None:
        state = case.incident.step(step)
        for action in () if state is None else state.actions:
            if action.open:
                self._write(case, EventKind.RESULT, step=step, action=action.name, ending=ending)
        if step is Step.DECIDE and ending is Ending.DONE:
            self._decide(case)
        if step is Step.FENCE and ending is Ending.DONE:
            self.record.fenced += [(self.now, node, case.fault.cause) for node in case.incident.to_fence]
        if step is Step.VERIFY and ending is Ending.DONE:
            case.instance.starts += 1
        if step is Step.RESTORE and ending is Ending.DONE and case.incident.group_touched:
            self._serves(case)
        self._write(case, EventKind.STEP_ENDED, step=step, ending=ending, note=note)

    def _decide(self, case: Case) -> None:
        drift = self.plan.drift
        told = drift is not None and drift.told_after is not None and self.now >= drift.at + drift.told_after
        facts = Facts(
            progress=case.incident.progress,
            suspected_before={} if case.incident.id in self._held else dict(self._suspected),
            systematic="the class has drifted since its last change" if told else None,
        )
        made = decide(case.fault.verdict, case.incident.opening, facts, SETTINGS)
        found = self._limited(case, made)
        self._remember(case, found)
        self._write(case, EventKind.DECIDED, step=Step.DECIDE, data=to_plain(found, BOUNDS))
        plan = plan_after(found, case.incident, BUDGET)
        self._keep(case, planned_event(plan, at=self.unix, by="simulation", budget=BUDGET))

    def _remember(self, case: Case, decided: Decision) -> None:
        """As `past_suspects` and `steps.decide_course` do: what limits have held convicts nobody."""
        if decided.waits_for_limits:
            self._held.add(case.incident.id)
        if decided.class_ is FaultClass.TRANSPORT_STALL and case.incident.id not in self._held:
            self._suspected.update(dict.fromkeys(decided.suspects, case.incident.id))

    def _limited(self, case: Case, made: Decision) -> Decision:
        if made.course is not Course.REBUILD:
            return made
        found = within_limits(
            self.journal, case.incident.id, case.lease, made, case.instance.name, self.plan.limits, self.unix
        )
        self._see_breaker()
        return found

    def _serves(self, case: Case) -> None:
        case.instance.serves = True
        case.instance.fault = None
        self.record.recovered.append((case.fault, self.now))

    def _closed(self, case: Case) -> None:
        outcome = case.incident.closed
        assert outcome is not None
        self._rebuilding.discard(case.instance.name)
        self._by_operator.discard(case.instance.name)
        self.record.outcomes[outcome.value] = self.record.outcomes.get(outcome.value, 0) + 1
        del self._cases[case.instance.name]
        give_back_unused(self.journal, case.incident, self.unix)
        for use in self.journal.uses(case.incident.id):
            if use.ended_at is None and use.kind is UseKind.FENCE and case.fault.cause is Cause.SINGLE:
                # Repaired and tested, a day later.
                self.at(self.now + REPAIR, partial(self._repaired, case.incident.id, use.subject))
        if outcome in (Outcome.HELD, Outcome.FAILED, Outcome.GAVE_UP) and not case.instance.serves:
            self.at(self.now + self.plan.resume_after, lambda: self.resume(case))

    def _repaired(self, incident: str, node: str) -> None:
        self.journal.end_use(incident, UseKind.FENCE, node, self.unix)

    def _see_breaker(self) -> None:
        breaker = self.journal.breaker()
        is_open = breaker is not None and breaker.closed_at is None
        if is_open is not self._breaker_open:
            self._breaker_open = is_open
            self.record.breaker.append((self.now, "opened" if is_open else "closed"))
