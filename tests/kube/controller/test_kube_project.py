"""What `kubectl` shows of an incident is the journal's, and people's words in it come into the journal once."""

from __future__ import annotations

from typing import Any

import pytest

from rankmuster.incident.memory_journal import MemoryJournal
from rankmuster.kube.controller.operator_words import words_of
from rankmuster.kube.controller.project import name_of, status_of
from rankmuster.kube.crd.incident import MOST_TIMELINE, IncidentStatus
from rankmuster.model.fault import Progress
from rankmuster.model.incident import Ending, Event, EventKind, OpenedBy, Opening, Step
from rankmuster.report.incident_account import Account, account

OPENING = Opening(
    instance="prod.llm.0",
    incarnation="uid-1",
    by=OpenedBy.STOPPED,
    progress=Progress.STOPPED,
    at=1_000.0,
    reason="stands",
)


class Story:
    def __init__(self) -> None:
        self.journal = MemoryJournal(lambda: 0.0)
        self.incident, _ = self.journal.open_incident(OPENING, "us")
        lease = self.journal.take_lease("prod.llm.0", "us", 1e9)
        assert lease is not None
        self.lease, self.now = lease, 1_000.0

    def write(self, kind: EventKind, **more: Any) -> None:
        self.now += 1.0
        self.journal.append(self.incident, self.lease, Event(kind=kind, at=self.now, **more))

    def tell(self, event: Event) -> None:
        self.journal.tell(self.incident, event)

    def account(self) -> Account:
        return account(self.incident, self.journal.events(self.incident))

    def wait_for_approval(self) -> None:
        steps = [{"step": "approve", "after": [], "seconds": 900.0, "needed": False}]
        self.write(EventKind.PLANNED, data={"steps": steps, "total_seconds": 700.0})
        self.write(EventKind.STEP_BEGUN, step=Step.APPROVE, data={"deadline_at": self.now + 900})


def status(story: Story, before: dict[str, Any] | None = None) -> dict[str, Any]:
    made = status_of(story.account(), now=story.now, before=before or {}, generation=2)
    IncidentStatus.model_validate(made)  # what the definition allows
    return made


def conditions(made: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in made["conditions"]}


def test_an_open_incident_says_what_it_waits_for() -> None:
    story = Story()
    made = status(story)
    assert made["phase"] == "Open"
    assert conditions(made)["Open"] == ("True", "Running")
    assert conditions(made)["EvidenceSaved"] == ("Unknown", "NotYet")
    story.wait_for_approval()
    made = status(story, made)
    assert conditions(made)["WaitsForApproval"] == ("True", "Waiting")
    assert made["timeline"][0]["what"] == "opened"


def test_the_time_of_a_transition_stays_while_the_status_stays() -> None:
    story = Story()
    first = status(story)
    story.write(EventKind.NOTED, note="something")
    second = status(story, first)
    assert first["conditions"][0]["lastTransitionTime"] == second["conditions"][0]["lastTransitionTime"]


def test_a_closed_one_says_how_and_where_the_evidence_is() -> None:
    story = Story()
    steps = [{"step": "evidence", "after": [], "seconds": 20.0, "needed": False}]
    story.write(EventKind.PLANNED, data={"steps": steps, "total_seconds": 700.0})
    story.write(EventKind.STEP_BEGUN, step=Step.EVIDENCE, data={"deadline_at": 1_100.0})
    story.write(EventKind.STEP_ENDED, step=Step.EVIDENCE, ending=Ending.DONE, note="saved", data={"bundle": "/b/1"})
    story.write(EventKind.CLOSED, note="it serves again", data={"outcome": "recovered"})
    made = status_of(story.account(), now=story.now, before={}, generation=1, uploaded="s3://b/1")
    IncidentStatus.model_validate(made)
    assert (made["phase"], made["outcome"], made["bundle"], made["uploaded"]) == (
        "Closed",
        "recovered",
        "/b/1",
        "s3://b/1",
    )
    assert conditions(made)["Recovered"] == ("True", "Recovered")
    assert conditions(made)["EvidenceSaved"] == ("True", "Done")


def test_a_long_story_keeps_its_beginning_and_its_end() -> None:
    story = Story()
    for number in range(400):
        story.write(EventKind.NOTED, note=f"note {number} " + "ö\x1b[31m" * 300)
    made = status(story)
    assert len(made["timeline"]) == MOST_TIMELINE
    assert made["leftOut"] == 401 - MOST_TIMELINE
    assert "note 399" in made["timeline"][-1]["note"]
    assert made["timeline"][0]["what"] == "opened"
    assert "\x1b" not in str(made)


def test_its_name_is_one_that_kubernetes_takes() -> None:
    assert name_of("20261130-101112.003-Ab12cd") == "incident-20261130-101112.003-ab12cd"


def test_an_approval_counts_while_one_is_waited_for_and_once() -> None:
    story = Story()
    spec = {"approve": {"boundary": "process_group", "by": "ada", "reason": "go"}}
    assert words_of(spec, 2, story.account(), story.now, 1) == ((), "")
    story.wait_for_approval()
    for asked in (None, 2):
        events, problem = words_of(spec, 2, story.account(), story.now + 1, asked)
        assert (events, "write it anew" in problem) == ((), True)
    (event,), problem = words_of(spec, 2, story.account(), story.now + 1, 1)
    assert (event.kind, event.by, event.data["boundary"], problem) == (EventKind.APPROVED, "ada", "process_group", "")
    story.tell(event)
    assert words_of(spec, 2, story.account(), story.now + 2, 1) == ((), "")
    assert words_of(spec, 3, story.account(), story.now + 2, 1) == ((), "")


def test_an_abort_is_told_once_and_not_of_what_is_closed() -> None:
    story = Story()
    spec = {"abort": {"by": "ada"}}
    (event,), _ = words_of(spec, 2, story.account(), story.now, 1)
    assert event.kind is EventKind.ABORTED
    story.tell(event)
    assert words_of(spec, 2, story.account(), story.now, 1) == ((), "")
    story.write(EventKind.CLOSED, data={"outcome": "aborted"})
    assert words_of(spec, 5, story.account(), story.now, 1) == ((), "")


@pytest.mark.parametrize(
    "spec",
    [
        {"approve": "yes"},
        {"approve": {"boundary": "planet", "by": "ada"}},
        {"approve": {"boundary": "node"}},
        {"abort": {"by": "ada", "more": 1}},
    ],
)
def test_a_word_that_nobody_understands_is_refused_with_its_place(spec: dict[str, Any]) -> None:
    story = Story()
    story.wait_for_approval()
    events, problem = words_of(spec, 2, story.account(), story.now, 1)
    assert events == ()
    assert problem.startswith("spec.")
    assert words_of("nothing", 2, story.account(), story.now, 1) == ((), "")
