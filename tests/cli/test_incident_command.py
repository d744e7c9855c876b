"""`rankmuster incident` as a command: what an operator sees, says and gets back, and every exit status."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from command_run import Run, runner
from incident_story import (
    DECISION,
    OPENING,
    RUNNER,
    Story,
    crashed,
    gave_up,
    observed,
    recovered,
    until_decided,
    waiting,
    written,
)
from rankmuster.cli.incident import app
from rankmuster.model.fault import Boundary
from rankmuster.model.incident import Course, Ending, Event, EventKind, Outcome, Step

pytest.importorskip("sqlalchemy")
from rankmuster.store.journal import Journal


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The journal that the command finds by itself."""
    monkeypatch.delenv("RANKMUSTER_JOURNAL", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return str(tmp_path / "state" / "rankmuster" / "incidents.db")


@pytest.fixture
def do(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "160")  # test runners set it to the width of their own

    return runner(app, capsys)


def events_of(place: str, incident: str) -> tuple[Event, ...]:
    with Journal.open(place, create=False) as journal:
        return journal.events(incident)


@pytest.mark.parametrize("form", ["terminal", "json"])
def test_without_a_journal_the_list_is_friendly_and_makes_none(do: Run, place: str, form: str) -> None:
    status, out, _ = do("list", "--format", form)
    assert status == 0
    assert json.loads(out)["incidents"] == [] if form == "json" else "no incident yet" in out
    assert do("breaker") == (0, do("breaker")[1], "")
    assert not Path(place).exists()


def test_a_journal_that_was_named_and_is_not_there_is_no_answer(
    do: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that was mistyped must not say that nothing is open."""
    monkeypatch.delenv("RANKMUSTER_JOURNAL", raising=False)
    gone = tmp_path / "gone.db"
    for command in ("list", "breaker"):
        status, _, err = do(command, "--journal", gone)
        assert status == 3
        assert f"no journal at {gone}" in err
    monkeypatch.setenv("RANKMUSTER_JOURNAL", str(gone))
    assert do("list")[0] == 3
    assert not gone.exists()


def test_old_incidents_are_counted_and_then_removed(do: Run, place: str) -> None:
    long_ago, now = (replace(OPENING, at=time.time() - ago, since=None) for ago in (40 * 86_400, 60))
    old = written(place, Story(long_ago).runner().close(Outcome.HELD))
    new = written(place, Story(now).runner().close(Outcome.OBSERVED))
    status, _, err = do("forget", "--older-than", "30d")
    assert status == 0
    assert "1 incident closed before" in err
    assert "give --yes" in err
    assert do("show", old)[0] == 1
    assert "removed 1 incident" in do("forget", "--older-than", "30d", "--yes")[2]
    assert do("show", old)[0] == 3
    assert do("show", new)[0] == 2
    assert do("forget", "--older-than", "0d", "--yes")[0] == 3
    assert do("forget", "--older-than", "soon")[0] == 3


def test_a_journal_without_incidents_says_so(do: Run, place: str) -> None:
    Journal.open(place).close()
    assert do("list")[:2] == (0, f"{place} holds no incident\n")
    assert do("list", "--open")[1] == f"{place} holds no such incident\n"
    assert "none at all" in do("show", "llm-0")[2]


def test_the_list_has_the_newest_first_and_its_status_says_whether_one_is_open(do: Run, place: str) -> None:
    first = written(place, recovered())
    later = replace(OPENING, at=OPENING.at + 5_000, since=OPENING.at + 4_990)
    second = written(place, Story(later).runner())
    status, out, _ = do("list")
    assert status == 1
    assert out.index(second) < out.index(first)
    assert "nobody" in out
    assert do("list", "--limit", 1)[1].count("20261129-") == 1
    assert "older ones are not listed" in do("list", "--limit", 1)[1]
    assert do("list", "--instance", "llm-9")[0] == 0
    heads = json.loads(do("list", "--format", "json")[1])["incidents"]
    assert [(head["id"], head["outcome"]) for head in heads] == [(second, None), (first, "recovered")]


@pytest.mark.parametrize(
    ("story", "status", "first"),
    [
        (recovered, 0, "RECOVERED: llm-0 is served again"),
        (waiting, 2, "OPEN, and nobody works on it"),
        (observed, 2, "OBSERVED: nothing was done for llm-0"),
        (gave_up, 1, "GAVE UP at the total deadline"),
        (crashed, 0, "RECOVERED"),
    ],
)
def test_show_begins_with_the_state_and_its_status_says_it_too(
    do: Run, place: str, story: Callable[[], Story], status: int, first: str
) -> None:
    written(place, story())
    got, out, _ = do("show", "llm-0")
    assert got == status
    assert out.startswith(first)


def test_an_instance_s_open_incident_is_meant_before_a_newer_closed_one(do: Run, place: str) -> None:
    closed = written(place, recovered())
    earlier = replace(OPENING, at=OPENING.at - 500, since=None)
    open_ = written(place, Story(earlier).runner())
    assert do("list")[1].index(closed) < do("list")[1].index(open_)
    assert do("abort", "llm-0")[0] == 0
    assert events_of(place, open_)[-1].kind is EventKind.ABORTED


def test_an_incident_is_named_by_its_beginning_or_its_instance(do: Run, place: str) -> None:
    first = written(place, recovered())
    later = replace(OPENING, at=OPENING.at + 90_000, since=None)
    second = written(place, Story(later).runner())
    assert json.loads(do("show", first[:12], "--format", "json")[1])["id"] == first
    assert json.loads(do("show", "llm-0", "--format", "json")[1])["id"] == second
    assert "not one incident but 2" in do("show", "2026")[2]
    for name in ("nobody", "", "\x1b[31m"):
        status, _, err = do("show", name)
        assert status == 3
        assert "no incident or instance" in err


def test_show_as_json_has_the_documented_schema(do: Run, place: str) -> None:
    incident = written(place, recovered())
    found = json.loads(do("show", incident, "--format", "json")[1])
    assert (found["schema"], found["id"], found["outcome"]) == ("rankmuster.incident/1", incident, "recovered")
    assert found["impact"]["requests_hit"] == 4
    assert found["nodes"][0] | {"note": ""} == {
        "node": "h-2",
        "state": "quarantined",
        "retest": "fail",
        "note": "",
        "record": "sha256:" + "cd" * 32,
    }
    assert found["steps"][0]["actions"][0]["took"] == pytest.approx(0.22, abs=0.01)


def test_follow_goes_on_until_it_is_closed(do: Run, place: str) -> None:
    story = until_decided(Story())
    incident = written(place, story)
    known = len(story.events)
    story.act(Step.TERMINATE, "supervisor:terminate").close(Outcome.FAILED, "it did not come up")

    def runner() -> None:
        time.sleep(0.3)
        with Journal.open(place) as journal:
            lease = journal.take_lease("llm-0", RUNNER, 60.0)
            assert lease is not None
            for event in story.events[known:]:
                journal.append(incident, lease, event)

    thread = threading.Thread(target=runner)
    thread.start()
    status, out, _ = do("show", "llm-0", "--follow")
    thread.join()
    assert status == 1
    lines = out.splitlines()
    assert any("terminate ends done" in line for line in lines)
    assert any(line.startswith("FAILED: llm-0 does not serve") for line in lines)


def test_follow_as_json_is_a_line_an_event(do: Run, place: str) -> None:
    written(place, recovered())
    _, out, _ = do("show", "llm-0", "--follow", "--format", "json")
    events = [json.loads(line) for line in out.splitlines()]
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["kind"] == "closed"
    assert do("show", "llm-0", "--follow", "--output", "x")[0] == 3


def test_approve_is_written_with_who_and_why(do: Run, place: str) -> None:
    incident = written(place, waiting())
    status, _, err = do("approve", incident, "--boundary", "node", "--by", "mia", "--reason", "seen that before")
    assert status == 0
    assert "approved by mia" in err
    assert f"rankmuster incident resume {incident}" in err
    event = events_of(place, incident)[-1]
    assert (event.kind, event.by, event.note, event.data) == (
        EventKind.APPROVED,
        "mia",
        "seen that before",
        {"boundary": "node"},
    )
    assert "approved already, by mia" in do("approve", incident)[2]


def test_what_an_operator_says_is_kept_inert_and_within_a_size(do: Run, place: str) -> None:
    incident = written(place, waiting())
    said = "a\n\x07" + "b" * 90_000
    _, _, err = do("approve", incident, "--boundary", "node", "--by", "\x1b[31mmia", "--reason", said)
    assert "\x1b" not in err
    event = events_of(place, incident)[-1]
    assert event.by == "mia"
    assert event.note.startswith("a \\x07bb")
    assert len(event.note) < 1_100
    assert do("abort", incident)[0] == 0
    assert "@" in events_of(place, incident)[-1].by


def test_approve_wants_a_boundary_where_none_follows(do: Run, place: str) -> None:
    held = replace(DECISION, course=Course.HOLD, boundary=Boundary.NONE, held="undecided", fence=(), retest=())
    incident = written(place, until_decided(Story(), held).begin(Step.APPROVE))
    assert "name it, --boundary process_group" in do("approve", incident)[2]
    assert do("approve", incident, "--boundary", "process_group")[0] == 0


@pytest.mark.parametrize(
    ("story", "said"),
    [
        (recovered, "is closed (recovered) and waits for nobody"),
        (lambda: until_decided(Story()).begin(Step.TERMINATE), "does not wait for an approval now: it is at terminate"),
        (lambda: waiting().end(Step.APPROVE, Ending.TIMED_OUT), "(approve ended timed_out)"),
    ],
)
def test_what_waits_for_nobody_cannot_be_approved(do: Run, place: str, story: Callable[[], Story], said: str) -> None:
    incident = written(place, story())
    status, _, err = do("approve", incident, "--boundary", "node")
    assert status == 3
    assert said in err
    assert EventKind.APPROVED not in {event.kind for event in events_of(place, incident)}


def test_abort_is_written_once_and_a_closed_one_refuses(do: Run, place: str) -> None:
    incident = written(place, waiting())
    assert do("abort", "llm-0", "--reason", "I am at it")[0] == 0
    event = events_of(place, incident)[-1]
    assert (event.kind, event.note) == (EventKind.ABORTED, "I am at it")
    assert event.by
    assert "aborted before" in do("abort", "llm-0")[2]
    closed = written(place.replace("incidents.db", "other.db"), recovered())
    status, _, err = do("abort", closed, "--journal", place.replace("incidents.db", "other.db"))
    assert status == 3
    assert "nothing to abort" in err


def test_resume_opens_again_what_did_not_end_well_and_nothing_else(do: Run, place: str, tmp_path: Path) -> None:
    incident = written(place, gave_up())
    status, _, err = do("resume", incident, "--by", "mia", "--reason", "the disk is free again")
    assert status == 0
    assert "is open again, by mia" in err
    assert "incident serve" in err
    assert events_of(place, incident)[-1].kind is EventKind.REOPENED
    assert do("show", incident)[0] == 2
    well = str(tmp_path / "well.db")
    done = written(well, recovered())
    assert "nothing to go on with" in do("resume", done, "--journal", well)[2]
    assert "resume" not in do("approve", done, "--journal", well)[2]
    assert do("resume", done, "--journal", well)[0] == 3


def test_resume_with_settings_that_cannot_be_used_opens_nothing(do: Run, place: str, tmp_path: Path) -> None:
    incident = written(place, gave_up())
    bad = tmp_path / "bad.yaml"
    bad.write_text("instances: {llm-0: {grup: {kind: supervisor}}}\n", encoding="utf-8")
    status, _, err = do("resume", incident, "--config", bad)
    assert status == 3
    assert "grup" in err
    assert events_of(place, incident)[-1].kind is EventKind.CLOSED


def test_a_runner_that_works_on_it_is_left_to_it(do: Run, place: str) -> None:
    incident = written(place, waiting())
    with Journal.open(place) as journal:
        assert journal.take_lease("llm-0", "h-7:99", 60.0) is not None
        resumed = do("resume", incident)[2]
        assert "h-7:99 works on it" in resumed
        assert f"it waits for an approval: rankmuster incident approve {incident}" in resumed
        assert do("show", incident)[1].startswith("WAITING FOR YOU")
        assert "resume" not in do("approve", incident, "--boundary", "node")[2]


@pytest.mark.parametrize("form", ["md", "html"])
def test_the_report_is_written_whole_to_a_file(do: Run, place: str, tmp_path: Path, form: str) -> None:
    written(place, recovered())
    path = tmp_path / f"post-mortem.{form}"
    status, out, err = do("report", "llm-0", "--format", form, "--output", path)
    assert (status, out) == (0, "")
    assert f"wrote {path}" in err
    text = path.read_text(encoding="utf-8")
    assert "quarantined" in text
    assert text.startswith("# Incident of llm-0" if form == "md" else "<!doctype html>")
    assert do("report", "llm-0", "--output", "/nowhere/x")[0] == 3


def test_the_recovery_table_shows_what_your_rows_change(do: Run, tmp_path: Path) -> None:
    status, out, _ = do("recovery")
    assert status == 0
    assert "missing_enter" in out
    settings = tmp_path / "incident.yaml"
    settings.write_text(
        "recovery:\n"
        "- {class: collective_desync, boundary: node, reason: our image has a known bug}\n"
        "- {class: transport_stall, confidence: likely, boundary: none}\n",
        encoding="utf-8",
    )
    _, out, _ = do("recovery", "--config", settings)
    assert "our image has a known bug" in out
    row = next(line for line in out.splitlines() if "missing_enter" in line)
    assert "node (row 1)" in row
    assert any("path_lost" in line and "it depends (row 2)" in line for line in out.splitlines())
    table = json.loads(do("recovery", "--config", settings, "--format", "json")[1])["table"]
    assert {"class": "healthy", "subclass": None, "table": "none", "boundary": "none", "own": []} in table
    settings.write_text("recovery: [{boundary: rack}]\n", encoding="utf-8")
    assert do("recovery", "--config", settings)[0] == 3
    assert do("recovery", "--config", tmp_path / "absent.yaml")[0] == 3


def test_the_breaker_is_opened_with_a_reason_and_closed_by_name(do: Run, place: str) -> None:
    assert do("breaker", "open")[0] == 3
    status, out, _ = do("breaker", "open", "--reason", "the switch is being replaced", "--by", "mia")
    assert status == 1
    assert "IS OPEN" in out
    assert "the switch is being replaced (opened by mia)" in out
    assert do("breaker")[0] == 1
    assert "IS OPEN" in do("list")[1]
    status, out, _ = do("breaker", "close", "--by", "tom")
    assert status == 0
    assert "by tom" in out
    assert "closed already" in do("breaker", "close")[2]
    assert json.loads(do("breaker", "--format", "json")[1])["breaker"]["closed_by"] == "tom"


def test_a_damaged_or_foreign_journal_is_said_and_nothing_else(do: Run, tmp_path: Path) -> None:
    foreign = tmp_path / "notes.txt"
    foreign.write_text("not a database, and long enough to be one " * 40, encoding="utf-8")
    for arguments in (("list",), ("show", "x"), ("approve", "x"), ("breaker",), ("report", "x"), ("resume", "x")):
        status, _, err = do(*arguments, "--journal", foreign)
        assert status == 3
        assert str(foreign) in err
    status, _, err = do("list", "--journal", "mysql://user:secret@host/db")
    assert status == 3
    assert "secret" not in err
