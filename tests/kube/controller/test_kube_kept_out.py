"""Pods that a runbook has started and not seen serve get no traffic by being new."""

from __future__ import annotations

import pytest

from rankmuster.incident.memory_journal import MemoryJournal
from rankmuster.kube.controller.kept_out import kept_out
from rankmuster.model.fault import Progress
from rankmuster.model.incident import Ending, Event, EventKind, OpenedBy, Opening, Step

OPENING = Opening(instance="prod.llm.0", incarnation="old", by=OpenedBy.STOPPED, progress=Progress.STOPPED, at=1.0)


def journal(outcome: str | None) -> MemoryJournal:
    made = MemoryJournal(lambda: 0.0)
    incident, _ = made.open_incident(OPENING, "us")
    lease = made.take_lease("prod.llm.0", "us", 1e9)
    assert lease is not None
    steps = [{"step": "start", "after": [], "seconds": 30.0, "needed": True}]
    rest = [
        Event(kind=EventKind.PLANNED, at=2.0, data={"steps": steps, "total_seconds": 700.0}),
        Event(kind=EventKind.STEP_BEGUN, at=3.0, step=Step.START, data={"deadline_at": 33.0}),
        Event(kind=EventKind.STEP_ENDED, at=4.0, step=Step.START, ending=Ending.DONE, data={"incarnation": "new"}),
    ]
    if outcome is not None:
        rest.append(Event(kind=EventKind.CLOSED, at=5.0, data={"outcome": outcome}))
    for one in rest:
        made.append(incident, lease, one)
    return made


@pytest.mark.parametrize(
    ("outcome", "incarnation", "kept"),
    [
        ("failed", "new", True),
        ("gave_up", "new", True),
        ("aborted", "new", True),
        ("failed", "newer", False),  # somebody has started it anew
        ("failed", None, False),
        ("recovered", "new", False),
        (None, "new", False),  # while it is open its runbook says
    ],
)
def test_what_was_started_and_not_seen_to_serve_is_kept_out(
    outcome: str | None, incarnation: str | None, kept: bool
) -> None:
    assert (kept_out(journal(outcome), "prod.llm.0", incarnation) is not None) is kept
    assert kept_out(journal(outcome), "prod.other.0", incarnation) is None
