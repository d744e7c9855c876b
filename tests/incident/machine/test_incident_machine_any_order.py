"""Whatever happens in whatever order: what must never be, and that it always comes to an end."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from machine_driver import ACTS, START, WAITS, Driver, decision, opening
from rankmuster.incident.budget import FREE_GPUS, Budget
from rankmuster.incident.machine.due import total_deadline_at, wake_at
from rankmuster.incident.machine.due_kinds import Abandon, Begin, Close, Finish, PassDeadline
from rankmuster.incident.machine.fold import fold
from rankmuster.model.fault import Boundary, Progress
from rankmuster.model.incident import Course, Ending, EventKind, OpenedBy, Outcome, Step

ENDINGS = st.sampled_from(
    [Ending.DONE] * 6
    + [
        Ending.PARTIAL,
        Ending.FAILED,
        Ending.TIMED_OUT,
        Ending.SKIPPED,
        Ending.OBSERVED,
        Ending.REFUSED,
        Ending.NODE,
        Ending.UNKNOWN,
    ]
)

DECISIONS = st.builds(
    lambda course, fence, retest, elsewhere, limits: decision(
        course,
        boundary=Boundary.NODE if fence else Boundary.PROCESS_GROUP,
        fence=("node-1",) if fence else (),
        retest=("node-1",) if retest else (),
        elsewhere=elsewhere,
        held="why not" if course is Course.HOLD else None,
        waits_for_limits=limits and course is Course.HOLD,
    ),
    st.sampled_from([Course.REBUILD] * 4 + list(Course)),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


class AnyOrder(RuleBasedStateMachine):
    @initialize(
        by=st.sampled_from(list(OpenedBy)),
        progress=st.sampled_from([Progress.STOPPED, Progress.STOPPED, Progress.SLOW, Progress.UNKNOWN]),
        total=st.sampled_from([None, 20.0, 60.0]),
        approve=st.sampled_from(
            [(), (), (Step.TERMINATE,), (Step.STOP_TRAFFIC,), (Step.FENCE, Step.START), (Step.SHED,)]
        ),
        elsewhere=st.booleans(),
        free=st.booleans(),
    )
    def opened(self, by, progress, total, approve, elsewhere, free) -> None:
        self.driver = Driver(
            opening(by, progress),
            budget=Budget(total_seconds=total),
            approve=approve,
            elsewhere=elsewhere,
            free_undecided=free,
        )
        self.asked: set[tuple[int, str]] = set()

    @property
    def incident(self):
        return self.driver.incident

    def open(self) -> bool:
        return hasattr(self, "driver") and self.incident.closed is None

    @precondition(lambda self: self.open() and self.incident.needs_plan)
    @rule()
    def plan(self) -> None:
        self.driver.plan()

    @precondition(lambda self: self.open() and not self.incident.needs_plan)
    @rule(pick=st.integers(0, 5), several=st.booleans())
    def do_what_is_due(self, pick, several) -> None:
        asked = self.driver.due()
        for one in asked if several else asked[pick : pick + 1]:
            if isinstance(one, Begin):
                self._begin(one)
            else:
                self.driver.do(one)
            if self.incident.closed is not None:
                return

    def _begin(self, one: Begin) -> None:
        before = self.incident
        if one.step is Step.TERMINATE:
            evidence = before.step(Step.EVIDENCE)
            assert evidence is None or evidence.ended, "the group is ended while evidence is saved"
        if one.step is Step.START:
            assert before.deadline is None
            assert before.aborted is None
        if before.deadline is not None and before.aborted is None:
            assert one.step in (*FREE_GPUS, Step.FENCE)
        if before.aborted is not None:
            assert one.step is Step.RESTORE
        self.driver.begin(one)

    @precondition(lambda self: self.open() and any(one.step in ACTS for one in self.incident.running))
    @rule(pick=st.integers(0, 3))
    def intend(self, pick) -> None:
        ready = [one.step for one in self.incident.running if one.step in ACTS and not one.actions]
        if ready:
            self.driver.intend(ready[pick % len(ready)])

    @precondition(lambda self: self.open() and any(one.step not in WAITS for one in self.incident.running))
    @rule(pick=st.integers(0, 3), ending=ENDINGS, made=DECISIONS)
    def end(self, pick, ending, made) -> None:
        ready = [one.step for one in self.incident.running if one.step not in WAITS]
        step = ready[pick % len(ready)]
        if step in ACTS and not self.incident.step(step).actions and ending is Ending.DONE:
            self.driver.intend(step)
        self.driver.decisions = [made]
        self.driver.end(step, ending)

    @precondition(lambda self: self.open())
    @rule(progress=st.sampled_from(list(Progress)))
    def see(self, progress) -> None:
        self.driver.see(progress)

    @precondition(lambda self: self.open())
    @rule(seconds=st.sampled_from([0.0, 0.5, 3.0, 30.0, 700.0, 7000.0]))
    def time_passes(self, seconds) -> None:
        self.driver.now += seconds

    @precondition(lambda self: self.open())
    @rule()
    def runner_dies_and_another_takes_over(self) -> None:
        self.driver.incident = fold("i-1", self.driver.events)
        self.driver.write(EventKind.RUNNER, by="r2", data={"resumed": True})

    @precondition(lambda self: hasattr(self, "driver"))
    @rule(
        kind=st.sampled_from([EventKind.APPROVED, EventKind.APPROVED, EventKind.NOTED, EventKind.ABORTED]),
        boundary=st.sampled_from([None, Boundary.PROCESS_GROUP, Boundary.NODE]),
        limits=st.booleans(),
    )
    def operator_says(self, kind, boundary, limits) -> None:
        data = {} if boundary is None else {"boundary": boundary.value}
        self.driver.tell(kind, **data, **({"by_limits": True} if limits else {}))

    @precondition(lambda self: hasattr(self, "driver") and self.incident.closed is not None)
    @rule()
    def resume(self) -> None:
        before = self.incident
        self.driver.tell(EventKind.REOPENED)
        if before.closed in (Outcome.RECOVERED, Outcome.RESTORED, Outcome.OBSERVED):
            assert self.incident.closed is before.closed, "what is over is not opened again"

    @invariant()
    def what_is_written_folds_to_what_is(self) -> None:
        if hasattr(self, "driver"):
            assert fold("i-1", self.driver.events) == self.incident

    @invariant()
    def nothing_is_asked_twice(self) -> None:
        if not self.open() or self.incident.needs_plan:
            return
        asked = self.driver.due()
        steps = [one.step for one in asked if not isinstance(one, (PassDeadline, Close))]
        assert len(steps) == len(set(steps))
        for one in asked:
            if isinstance(one, Begin):
                state = self.incident.step(one.step)
                assert state is None or not state.running
            if isinstance(one, (Abandon, Finish)):
                assert self.incident.step(one.step).running
        if any(isinstance(one, Close) for one in asked):
            assert len(asked) == 1
            assert not self.incident.running

    @invariant()
    def there_is_always_something_that_comes_next(self) -> None:
        """Nothing runs and nothing waits for a clock or for people: then something has to be due."""
        if not self.open() or self.incident.needs_plan:
            return
        if not self.driver.due() and not self.incident.running:
            raise AssertionError(f"nothing is due and nothing runs: {self.incident.steps}")
        if any(one.deadline_at is not None for one in self.incident.running):
            assert wake_at(self.incident, self.driver.now) is not None or all(
                one.deadline_at <= self.driver.now for one in self.incident.running
            )

    @invariant()
    def the_group_is_whole_or_gone(self) -> None:
        """START comes after a TERMINATE that ended well, of the same or an earlier round, and none between."""
        if hasattr(self, "driver"):
            _check_log(self.driver)

    @invariant()
    def traffic_comes_back_to_what_serves(self) -> None:
        if not hasattr(self, "driver") or not self.incident.group_touched:
            return
        log = self.driver.events
        for number, event in enumerate(log):
            if event.kind is EventKind.STEP_BEGUN and event.step is Step.RESTORE:
                before = fold("i-1", log[:number])
                if before.group_touched:
                    verify = before.step(Step.VERIFY)
                    assert verify is not None
                    assert verify.ending in (Ending.DONE, Ending.OBSERVED)

    def teardown(self) -> None:
        """Time passes and everything that runs hangs: it is closed within a bounded number of rounds."""
        if not hasattr(self, "driver"):
            return
        self.driver.endings = dict.fromkeys(Step)
        for _ in range(120):
            if self.incident.closed is not None:
                return
            self.driver.run()
            self.driver.now += 25_000.0
        raise AssertionError(f"it never closes: {self.driver.due()} {total_deadline_at(self.incident)}")


def _check_log(driver: Driver) -> None:
    ended_well = False
    closed = False
    for event in driver.events:
        if event.kind is EventKind.CLOSED:
            assert not closed
            closed = True
        elif event.kind is EventKind.REOPENED and driver.events[event.sequence - 2 :]:
            closed = False
        if event.step is Step.TERMINATE and event.kind is EventKind.STEP_ENDED:
            ended_well = event.ending in (Ending.DONE, Ending.OBSERVED) or (
                event.ending is Ending.NODE and driver.elsewhere
            )
        if event.step is Step.START and event.kind is EventKind.INTENT:
            assert ended_well, "a group is started beside an old one"
            ended_well = False


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(
    max_examples=150, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
assert START
