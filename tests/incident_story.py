"""Incidents for tests, as the events that a runner writes: what a journal gives back, in its order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rankmuster.model.fault import (
    Boundary,
    Confidence,
    FaultClass,
    Progress,
    Role,
    Subkind,
    SuspectKind,
)
from rankmuster.model.incident import (
    Course,
    Decision,
    Ending,
    Event,
    EventKind,
    OpenedBy,
    Opening,
    Outcome,
    RetestEnding,
    Step,
)
from rankmuster.model.plain_json import Bounds, to_plain
from rankmuster.model.plane import Plane, PlaneState
from rankmuster.model.verdict import PlaneRecord, Recovery, Suspect, Verdict
from rankmuster.model.verdict_json import verdict_to_plain

T0 = 1_795_986_500.0
"""2026-11-29T21:08:20Z."""

ID = "20261129T210820-llm-0-4f2a"

BOUNDS = Bounds(text=1 << 16, members=1 << 12)

OPENING = Opening(
    instance="llm-0",
    incarnation="1795980000.25",
    by=OpenedBy.STOPPED,
    progress=Progress.STOPPED,
    at=T0,
    since=T0 - 12.0,
    reason="4 requests run and no token came for 12 s",
    host="h-1",
    deployment="v42",
    pids=(100, 101, 102, 103),
)

VERDICT = Verdict(
    instance="llm-0",
    progress=Progress.STOPPED,
    class_=FaultClass.COLLECTIVE_DESYNC,
    subclass=Subkind.MISSING_ENTER,
    confidence=Confidence.CONFIRMED,
    summary="rank 2 did not enter all_reduce #751 of default_pg, in which ranks 0, 1 and 3 wait",
    suspects=(
        Suspect(kind=SuspectKind.RANK, rank=2, host="h-2", pid=102, gpu=2, role=Role.CULPRIT, why="never entered #751"),
    ),
    suspect_hosts=("h-2",),
    planes=(
        PlaneRecord(plane=Plane.FLIGHT, state=PlaneState.SPOKE, note="4 dumps"),
        PlaneRecord(plane=Plane.RAS, state=PlaneState.SILENT, note="no answer from 10.0.0.7:28028"),
        PlaneRecord(plane=Plane.KERNEL, state=PlaneState.BLIND, note="software hangs leave nothing there"),
    ),
    recovery=Recovery(boundary=Boundary.PROCESS_GROUP),
)

DECISION = Decision(
    course=Course.REBUILD,
    boundary=Boundary.NODE,
    table=Boundary.PROCESS_GROUP,
    class_=FaultClass.COLLECTIVE_DESYNC,
    subclass=Subkind.MISSING_ENTER,
    confidence=Confidence.CONFIRMED,
    progress=Progress.STOPPED,
    suspects=("h-2",),
    fence=("h-2",),
    retest=("h-2",),
    elsewhere=True,
    why=("h-2 was suspected 2 days ago too",),
)

PLAN = {
    Step.STOP_TRAFFIC: 5.0,
    Step.DRAIN: 20.0,
    Step.EVIDENCE: 22.0,
    Step.DIAGNOSE: 10.0,
    Step.DECIDE: 2.0,
    Step.FENCE: 5.0,
    Step.CUT: 3.0,
    Step.TERMINATE: 30.0,
    Step.START: 30.0,
    Step.VERIFY: 600.0,
    Step.RESTORE: 5.0,
    Step.RETEST: 1200.0,
    Step.SETTLE: 10.0,
}

REBUILD = tuple(step for step in PLAN if list(PLAN).index(step) > list(PLAN).index(Step.DECIDE))

RUNNER = "h-1:4242"


class Story:
    """Events one after the other. `at`: the time of the next, which the calls move on."""

    def __init__(self, opening: Opening = OPENING) -> None:
        self.events: list[Event] = []
        self.at = opening.at
        self.opening = opening
        self.put(EventKind.OPENED, data={**to_plain(opening, BOUNDS), "total_seconds": 757.0}, by=RUNNER)

    def put(self, kind: EventKind, *, after: float = 0.0, **rest: Any) -> Story:
        """Adds an event `after` seconds."""
        self.at += after
        event = Event(kind=kind, at=self.at, sequence=len(self.events) + 1, **({"by": RUNNER} | rest))
        self.events.append(event)
        return self

    def runner(self, by: str = RUNNER, *, resumed: bool = False, after: float = 0.1) -> Story:
        host, _, pid = by.partition(":")
        return self.put(EventKind.RUNNER, after=after, by=by, data={"host": host, "pid": int(pid), "resumed": resumed})

    def plan(self, *steps: Step) -> Story:
        listed = [{"step": s.value, "after": [], "seconds": PLAN.get(s, 900.0), "needed": False} for s in steps or PLAN]
        return self.put(EventKind.PLANNED, data={"steps": listed, "total_seconds": 757.0})

    def begin(self, step: Step, after: float = 0.01) -> Story:
        data = {"deadline_at": self.at + after + PLAN.get(step, 900.0)}
        return self.put(EventKind.STEP_BEGUN, after=after, step=step, data=data)

    def end(self, step: Step, ending: Ending = Ending.DONE, note: str = "", after: float = 0.1, **data: Any) -> Story:
        return self.put(EventKind.STEP_ENDED, after=after, step=step, ending=ending, note=note, data=data)

    def intend(self, step: Step, action: str, after: float = 0.01) -> Story:
        data = {
            "safe": True,
            "enabled": True,
            "incarnation": self.opening.incarnation,
            "operation": f"{ID}/{step.value}/{action}",
        }
        return self.put(EventKind.INTENT, after=after, step=step, action=action, data=data)

    def result(
        self, step: Step, action: str, ending: Ending = Ending.DONE, note: str = "", after: float = 0.3, **data: Any
    ) -> Story:
        return self.put(EventKind.RESULT, after=after, step=step, action=action, ending=ending, note=note, data=data)

    def act(
        self, step: Step, action: str, ending: Ending = Ending.DONE, note: str = "", took: float = 0.3, **data: Any
    ) -> Story:
        """A whole step of one action."""
        self.begin(step).intend(step, action).result(step, action, ending, note, took, **data)
        return self.end(step, ending, note, after=0.01, **data)

    def close(self, outcome: Outcome, note: str = "", after: float = 0.05) -> Story:
        return self.put(EventKind.CLOSED, after=after, note=note, data={"outcome": outcome.value})


def until_decided(story: Story, decision: Decision = DECISION, verdict: Verdict | None = VERDICT) -> Story:
    """From the opening to the decision, as a runner goes through it."""
    story.runner().plan(Step.STOP_TRAFFIC, Step.DRAIN, Step.EVIDENCE, Step.DIAGNOSE, Step.DECIDE)
    story.begin(Step.STOP_TRAFFIC).intend(Step.STOP_TRAFFIC, "haproxy-0:stop_new").begin(Step.EVIDENCE)
    story.intend(Step.EVIDENCE, "collect:collect")
    story.result(Step.STOP_TRAFFIC, "haproxy-0:stop_new", note="llm/a is in drain at 1 of 1 sockets", after=0.2)
    story.end(Step.STOP_TRAFFIC)
    story.begin(Step.DRAIN).end(Step.DRAIN, note="progress is stopped: nothing can drain", after=0.02)
    story.result(Step.EVIDENCE, "collect:collect", after=14.0, bundle="/evidence/b1", digest="sha256:" + "ab" * 32)
    story.end(Step.EVIDENCE, note="4 of 4 ranks left a dump")
    story.begin(Step.DIAGNOSE).intend(Step.DIAGNOSE, "collect:diagnose")
    story.result(Step.DIAGNOSE, "collect:diagnose", after=1.5, verdict="/evidence/d1/verdict.json")
    story.end(Step.DIAGNOSE, note="collective_desync", verdict="/evidence/d1/verdict.json")
    held = {"verdict": verdict_to_plain(verdict)} if verdict else {}
    story.begin(Step.DECIDE).put(EventKind.DECIDED, after=0.01, data={**to_plain(decision, BOUNDS), **held})
    rest = (Step.APPROVE, *REBUILD) if decision.held else REBUILD
    return story.plan(*rest).end(Step.DECIDE)


def rebuilt(story: Story) -> Story:
    """From the decision until traffic is back."""
    story.act(Step.FENCE, "slurm_drain-0:fence:h-2", note="h-2 drained", node="h-2")
    story.act(Step.CUT, "haproxy-0:cut", note="4 sessions were shut", requests=4)
    story.act(Step.TERMINATE, "supervisor:terminate", took=6.0, note="4 processes are gone, 4 GPUs are free")
    story.act(Step.START, "supervisor:start", note="a new incarnation", incarnation="1795986530.5")
    story.begin(Step.VERIFY).end(Step.VERIFY, after=31.0, note="a token came")
    return story.act(Step.RESTORE, "haproxy-0:restore", note="llm/a is ready")


def recovered(retest: RetestEnding = RetestEnding.FAIL) -> Story:
    """All of it: a rank that skipped, the group rebuilt elsewhere, the node tested again."""
    story = rebuilt(until_decided(Story()))
    nodes = [
        {"node": "h-2", "ending": retest.value, "note": "busbw 71 % of its class", "record": "sha256:" + "cd" * 32}
    ]
    story.act(Step.RETEST, "admit:retest", took=200.0, results=nodes)
    if retest is RetestEnding.PASS:
        story.act(Step.SETTLE, "slurm_drain-0:lift:h-2", node="h-2")
    else:
        story.begin(Step.SETTLE)
        story.end(Step.SETTLE, note="1 quarantined", lifted=[], quarantined=["h-2"], left=[])
    return story.close(Outcome.RECOVERED)


def waiting() -> Story:
    """Nothing is sure enough: an operator is waited for."""
    held = "the verdict is only possible, and least_confidence is likely"
    story = until_decided(Story(), replace(DECISION, course=Course.HOLD, held=held, fence=(), retest=()))
    return story.begin(Step.APPROVE)


def observed() -> Story:
    """Nothing is enabled."""
    story = Story()
    story.runner().plan()
    would = ["echo 'set server llm/a state drain' | /run/haproxy.sock"]
    off = "is not enabled; it would: "
    story.act(Step.STOP_TRAFFIC, "haproxy-0:stop_new", Ending.OBSERVED, f"{off}{would[0]}", would=would)
    ends = ["SIGTERM to 100, 101, 102, 103", "then SIGKILL"]
    story.act(Step.TERMINATE, "supervisor:terminate", Ending.OBSERVED, f"{off}{'; '.join(ends)}", would=ends)
    return story.close(Outcome.OBSERVED)


def gave_up() -> Story:
    """The engine never came up."""
    story = until_decided(Story())
    story.act(Step.CUT, "haproxy-0:cut", requests=2).act(Step.TERMINATE, "supervisor:terminate")
    story.act(Step.START, "supervisor:start").begin(Step.VERIFY)
    story.put(EventKind.DEADLINE, after=700.0, note="757 s are over")
    story.end(Step.VERIFY, Ending.TIMED_OUT, "no token in 700 s")
    story.act(Step.TERMINATE, "supervisor:terminate")
    for step in (Step.FENCE, Step.RESTORE, Step.RETEST, Step.SETTLE):
        story.end(step, Ending.SKIPPED, "the total deadline has passed")
    return story.close(Outcome.GAVE_UP, "VERIFY did not end well in 757 s")


def crashed() -> Story:
    """The first runner died between an intent and its result; the second found it done."""
    story = until_decided(Story())
    story.begin(Step.TERMINATE).intend(Step.TERMINATE, "supervisor:terminate")
    story.runner("h-3:77", resumed=True, after=16.0)
    story.result(Step.TERMINATE, "supervisor:terminate", note="nothing of it runs", after=0.2, found=True)
    story.end(Step.TERMINATE).act(Step.START, "supervisor:start")
    story.begin(Step.VERIFY).end(Step.VERIFY, after=30.0)
    return story.act(Step.RESTORE, "haproxy-0:restore").close(Outcome.RECOVERED)


STORIES = {
    "recovered": recovered,
    "waiting": waiting,
    "observed": observed,
    "gave_up": gave_up,
    "crashed": crashed,
}


def written(place: str, story: Story) -> str:
    """Into a journal, as a runner and an operator write it; the incident's id."""
    from rankmuster.store.journal import Journal

    operators = (EventKind.APPROVED, EventKind.ABORTED, EventKind.REOPENED)
    with Journal.open(place) as journal:
        incident, _ = journal.open_incident(story.opening, RUNNER)
        lease = journal.take_lease(story.opening.instance, RUNNER, 60.0)
        assert lease is not None
        for event in story.events[1:]:
            if event.kind in operators:
                journal.tell(incident, event)
            else:
                journal.append(incident, lease, event)
        journal.release(lease)
    return incident
