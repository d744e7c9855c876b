"""One event of an incident in one line, for those who follow it as it goes."""

from __future__ import annotations

from rankmuster.model.incident import Event, EventKind
from rankmuster.report.inert import plain
from rankmuster.report.words import clock

MOST_NOTE = 400

_WORDS = {
    EventKind.OPENED: "opened",
    EventKind.RUNNER: "a runner takes it",
    EventKind.PLANNED: "planned",
    EventKind.STEP_BEGUN: "begins",
    EventKind.STEP_ENDED: "ends",
    EventKind.INTENT: "is about to do",
    EventKind.RESULT: "did",
    EventKind.DECIDED: "decided",
    EventKind.SEEN: "the watch says",
    EventKind.APPROVED: "approved",
    EventKind.ABORTED: "aborted",
    EventKind.DEADLINE: "the total deadline has passed",
    EventKind.NOTED: "note",
    EventKind.CLOSED: "closed",
    EventKind.REOPENED: "reopened",
}


def event_text(event: Event, said: str = "") -> str:
    """`21:08:20.120Z stop_traffic ends done: …`, ending with \\n. `said`: of the line before about this step, whose
    words are not repeated."""
    parts = [clock(event.at)]
    if event.step is not None:
        parts.append(event.step.value)
    parts.append(_WORDS[event.kind])
    if event.action:
        parts.append(plain(event.action, 100))
    parts += _what(event)
    if event.by and event.kind not in (EventKind.STEP_BEGUN, EventKind.STEP_ENDED, EventKind.INTENT, EventKind.RESULT):
        parts.append(f"by {plain(event.by, 100)}")
    note = f": {plain(event.note, MOST_NOTE)}" if event.note and event.note != said else ""
    return f"{' '.join(parts)}{note}\n"


def _what(event: Event) -> list[str]:
    if event.ending is not None:
        return [event.ending.value.replace("_", " ")]
    keys = {
        EventKind.DECIDED: ("course", "boundary", "class"),
        EventKind.SEEN: ("progress",),
        EventKind.APPROVED: ("boundary",),
        EventKind.CLOSED: ("outcome",),
    }.get(event.kind, ())
    return [plain(event.data[key], 60).replace("_", " ") for key in keys if event.data.get(key)]
