"""What is measured of a drilled incident, from timelines that were written down."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rankmuster.drill.engine_folder import EngineFolder, FaultOrder, Incarnation
from rankmuster.drill.engine_record import Record, Recorded, What, read
from rankmuster.drill.incident_load import Attempt, How
from rankmuster.drill.incident_result import IncidentResult, bars, summary, summary_text, table
from rankmuster.drill.incident_times import Timeline, hit, timeline
from rankmuster.model.incident import Ending, Event, EventKind, Step


def begun(step: Step, at: float) -> Event:
    return Event(kind=EventKind.STEP_BEGUN, step=step, at=at)


def ended(step: Step, at: float, ending: Ending = Ending.DONE) -> Event:
    return Event(kind=EventKind.STEP_ENDED, step=step, at=at, ending=ending)


def intent(step: Step, at: float) -> Event:
    return Event(kind=EventKind.INTENT, step=step, at=at, action="group")


EVENTS = (
    Event(kind=EventKind.OPENED, at=111.0),
    begun(Step.STOP_TRAFFIC, 111.1),
    begun(Step.EVIDENCE, 111.1),
    ended(Step.STOP_TRAFFIC, 111.3),
    begun(Step.DRAIN, 111.3),
    ended(Step.DRAIN, 111.4),
    ended(Step.EVIDENCE, 119.1),
    ended(Step.DIAGNOSE, 119.8),
    Event(kind=EventKind.DECIDED, at=119.9, data={"course": "rebuild"}),
    intent(Step.TERMINATE, 120.0),
    ended(Step.TERMINATE, 120.5),
    intent(Step.START, 120.6),
    ended(Step.START, 120.7),
    ended(Step.VERIFY, 125.0, Ending.FAILED),
    ended(Step.VERIFY, 125.2),
    ended(Step.RESTORE, 125.3),
)
SICK = (
    Recorded(50.0, What.READY, {}),
    Recorded(99.0, What.RECEIVED, {"number": 1, "name": "0-0-0"}),
    Recorded(111.31, What.RECEIVED, {"number": 2, "name": "1-0-0"}),
)
RENEWED = (Recorded(124.7, What.READY, {}), Recorded(125.0, What.RECEIVED, {"number": 1, "name": ""}))
ATTEMPTS = (
    Attempt("0-0-0", True, 5, 99.0, How.BROKEN, ended_at=120.3, first_at=99.2, tokens=2, incarnation=1),
    Attempt("1-0-0", False, 5, 111.29, How.TURNED, ended_at=120.3, status=503, retry_after=1.0, reason="ended"),
    Attempt("2-0-0", False, 5, 111.5, How.TURNED, ended_at=111.5, status=503, retry_after=1.0),
    Attempt("2-0-1", False, 5, 125.4, How.FULL, ended_at=125.9, first_at=125.9, tokens=5, incarnation=2),
    Attempt("0-1-0", True, 5, 125.4, How.FULL, ended_at=125.8, first_at=125.5, tokens=5, incarnation=2),
    Attempt("3-0-0", True, 5, 20.0, How.BROKEN, ended_at=21.0, incarnation=1),
)


def measured(events: tuple[Event, ...] = EVENTS) -> Timeline:
    return timeline(
        events,
        fault_at=100.0,
        evidence_at=119.0,
        engine_from=120.65,
        renewed=RENEWED,
        attempts=ATTEMPTS,
        incarnation=2,
    )


def test_the_parts_are_measured_and_the_overhead_is_what_is_left_of_the_whole() -> None:
    found = measured()
    assert found.detection == pytest.approx(11.0)
    assert found.evidence == pytest.approx(8.0)
    assert found.engine == pytest.approx(4.05)
    assert found.total == pytest.approx(25.5)
    assert found.overhead == pytest.approx(25.5 - 11.0 - 8.0 - 4.05)
    assert found.evidence_first is True
    assert found.seconds["terminate"] == pytest.approx(0.5)
    assert found.seconds["verify"] == pytest.approx(0.5)
    assert found.plain()["restored_at"] == 125.3


def test_what_did_not_happen_is_not_measured() -> None:
    found = measured(EVENTS[:7])
    assert found.kill_at is None
    assert found.evidence_first is None
    assert found.seconds["decide"] is None
    nothing = timeline((), fault_at=None, evidence_at=None, engine_from=None, renewed=(), attempts=(), incarnation=2)
    assert set(nothing.seconds.values()) == {None}
    assert nothing.overhead is None


def test_evidence_that_is_written_after_the_kill_is_found() -> None:
    assert replace(measured(), evidence_at=120.01).evidence_first is False


def test_clients_are_counted_by_what_they_were_told_and_only_while_it_lasted() -> None:
    found = hit(measured(), ATTEMPTS, SICK)
    assert found.by == {"broken": 1, "turned": 1, "turned (ended)": 1}
    assert found.lost == 0
    # received after the stop, and sent before it: it was on its way
    assert found.after_stop == 0


def test_a_request_that_was_sent_after_the_stop_and_reached_the_sick_group_is_found() -> None:
    late = (*SICK, Recorded(112.0, What.RECEIVED, {"number": 3, "name": "2-0-0"}))
    assert hit(measured(), ATTEMPTS, late).after_stop == 1
    nameless = (*SICK, Recorded(112.0, What.RECEIVED, {"number": 3, "name": ""}))
    assert hit(measured(), ATTEMPTS, nameless).after_stop == 1


def test_no_answer_and_no_error_is_lost_whenever_it_was() -> None:
    lost = (*ATTEMPTS, Attempt("4-0-0", True, 5, 20.0, How.LOST, ended_at=170.0))
    assert hit(measured(), lost, SICK).lost == 1


RIGHT = IncidentResult(
    fault="skip",
    backend="gloo",
    ranks=4,
    graph=False,
    run=0,
    expected="collective_desync",
    folder="/f",
    outcome="recovered",
    said="collective_desync: missing_enter",
    moments=measured().plain(),
    seconds=measured().seconds,
    evidence_first=True,
    requests=40,
    hit={"turned": 2},
)


def test_a_run_within_its_bars_has_nothing_to_say() -> None:
    assert bars(RIGHT) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"seconds": {**RIGHT.seconds, "detection": 15.2}}, "detection took 15.2 s, not at most 15 s"),
        ({"seconds": {**RIGHT.seconds, "evidence": 21.0}}, "evidence took 21.0 s"),
        ({"seconds": {**RIGHT.seconds, "overhead": 5.4}}, "overhead took 5.4 s"),
        ({"seconds": {**RIGHT.seconds, "overhead": None}}, "overhead: not measured"),
        ({"evidence_first": None}, "not on disk before"),
        ({"evidence_first": False}, "not on disk before"),
        ({"lost": 1}, "1 request(s) had no answer and no error"),
        ({"after_stop": 2}, "2 request(s) reached the sick group"),
    ],
)
def test_every_bar_that_is_missed_is_said(change: dict[str, object], says: str) -> None:
    (wrong,) = bars(replace(RIGHT, **change))  # type: ignore[arg-type]
    assert says in wrong


def test_all_runs_are_summed_beside_the_budget() -> None:
    slow = replace(RIGHT, run=1, seconds={**RIGHT.seconds, "detection": 14.0}, hit={"broken": 3}, lost=1, wrongs=("a",))
    numbers = summary([RIGHT, slow])
    assert numbers["seconds"]["detection"] == {
        "runs": 2,
        "median": pytest.approx(12.5),
        "worst": pytest.approx(14.0),
        "budget": 15.0,
    }
    assert numbers["seconds"]["terminate"]["budget"] == 30.0
    assert numbers["seconds"]["total"]["budget"] is None
    assert numbers["hit"] == {"broken": 3, "turned": 2}
    assert (numbers["runs"], numbers["right"], numbers["lost"], numbers["requests"]) == (2, 1, 1, 80)
    assert numbers["by_fault"] == {"skip": {"runs": 2, "right": 1}}
    assert "1 of 2 right" in summary_text(numbers)
    assert "overhead" in summary_text(numbers)
    shown = table([RIGHT, slow])
    assert "right" in shown
    assert "WRONG\n    a\n" in shown
    assert json.loads(slow.to_json())["right"] is False


def test_an_empty_day_has_a_summary() -> None:
    assert summary([])["runs"] == 0
    assert "0 of 0 right" in summary_text(summary([]))


def test_the_folder_keeps_incarnations_apart(tmp_path: Path) -> None:
    folder = EngineFolder(tmp_path)
    folder.order(FaultOrder("skip", 2))
    assert folder.new() == (1, tmp_path / "incarnations" / "0001")
    assert folder.about(1) is None
    folder.tell(Incarnation(1, "llm", 77, 5.5, (1, 2), 3, 8000, "name"))
    assert folder.about(1) == Incarnation(1, "llm", 77, 5.5, (1, 2), 3, 8000, "name")
    number, second = EngineFolder(tmp_path).new()
    assert number == 2
    assert (tmp_path / "current").resolve() == second
    assert folder.ordered(1) == FaultOrder("skip", 2)
    assert folder.ordered(2) is None
    assert EngineFolder(tmp_path / "other").ordered(1) is None


def test_a_record_that_was_cut_off_is_read_to_its_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "front.jsonl"
    assert list(read(path)) == []
    record = Record(path)
    record.write(What.RECEIVED, number=1, name="a")
    record.write(What.TOKENS, step=1, good=True, came=[1])
    record.close()
    path.write_bytes(path.read_bytes() + b'{"at": 1.0, "wh')
    first, second = read(path)
    assert (first.what, first.more) == (What.RECEIVED, {"number": 1, "name": "a"})
    assert (second.what, second.more["came"]) == (What.TOKENS, [1])
