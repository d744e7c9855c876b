"""Metrics of incidents from a real journal: they rise with what happens, once, and never fall with what is removed."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from incident_story import (
    DECISION,
    OPENING,
    RUNNER,
    Story,
    crashed,
    gave_up,
    recovered,
    until_decided,
    waiting,
    written,
)
from rankmuster.metrics.incident import ALL
from rankmuster.metrics.incident_counts import IncidentMetrics
from rankmuster.metrics.registry import Registry
from rankmuster.metrics.scrape import page
from rankmuster.model.fault import Progress
from rankmuster.model.incident import EventKind, Outcome, RetestEnding, Step

pytest.importorskip("sqlalchemy")
pytest.importorskip("prometheus_client")
from rankmuster.store.journal import Journal

BEFORE = OPENING.at - 60.0
"""When the process began: before everything that the stories tell."""

PROMTOOL = shutil.which("promtool")


class Exporter:
    """A process that serves the metrics of one journal."""

    def __init__(self, place: str) -> None:
        self.journal = Journal.open(place)
        self.registry = Registry()
        self.metrics = IncidentMetrics(self.registry, self.journal)

    def look(self, now: float = BEFORE) -> dict[str, float]:
        self.metrics.read(now)
        found = {}
        for line in page(self.registry).decode("utf-8").splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                found[name.removeprefix("rankmuster_incident_")] = float(value)
        return found


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "incidents.db")


@pytest.fixture
def exporter(place: str) -> Exporter:
    made = Exporter(place)
    made.look()
    return made


OF = 'llm_instance="llm-0"'


def test_a_whole_incident_is_counted_once(exporter: Exporter, place: str) -> None:
    written(place, recovered())
    for _ in range(3):
        seen = exporter.look()
    assert seen[f'opened_total{{by="stopped",{OF}}}'] == 1
    assert seen[f'closed_total{{{OF},outcome="recovered"}}'] == 1
    assert seen[f'closed_total{{{OF},outcome="gave_up"}}'] == 0
    assert seen[f'rebuilds_total{{ending="done",{OF}}}'] == 1
    assert seen[f'isolations_total{{ending="done",{OF}}}'] == 1
    assert seen[f"requests_hit_total{{{OF}}}"] == 4
    assert seen[f"drain_seconds_count{{{OF}}}"] == 1
    assert seen[f"evidence_seconds_sum{{{OF}}}"] == pytest.approx(14.42, abs=0.1)
    assert seen[f"terminated_seconds_sum{{{OF}}}"] == pytest.approx(23.0, abs=0.2)
    assert seen[f"restored_seconds_sum{{{OF}}}"] == pytest.approx(54.7, abs=0.2)
    assert seen['steps_total{ending="done",step="terminate"}'] == 1
    assert seen[f"traffic_stopped{{{OF}}}"] == 0
    assert f'open{{{OF},state="working"}}' not in seen
    assert seen["breaker_open"] == 0


def test_it_rises_event_by_event_as_the_incident_goes(exporter: Exporter, place: str) -> None:
    story = recovered()
    with Journal.open(place) as journal:
        incident, _ = journal.open_incident(story.opening, RUNNER)
        lease = journal.take_lease("llm-0", RUNNER, 60.0)
        assert lease is not None
        before: dict[str, float] = {}
        for event in story.events[1:]:
            journal.append(incident, lease, event)
            seen = exporter.look()
            for name, value in before.items():
                if "_total" in name or "_count" in name:
                    assert seen[name] >= value, name
            before = seen
    whole = Exporter(place)
    assert before[f"requests_hit_total{{{OF}}}"] == 4
    assert before[f'rebuilds_total{{ending="done",{OF}}}'] == 1
    assert whole.look()["breaker_open"] == 0


@pytest.mark.parametrize("result", [RetestEnding.PASS, RetestEnding.FAIL])
def test_retests_quarantines_and_lifts(exporter: Exporter, place: str, result: RetestEnding) -> None:
    written(place, recovered(result))
    seen = exporter.look()
    passed = result is RetestEnding.PASS
    assert seen[f'retests_total{{{OF},result="{result.value}"}}'] == 1
    assert seen[f"quarantines_total{{{OF}}}"] == (0 if passed else 1)
    assert seen[f"let_in_total{{{OF}}}"] == (1 if passed else 0)


def test_counters_do_not_fall_when_old_incidents_are_removed(exporter: Exporter, place: str) -> None:
    written(place, recovered(RetestEnding.PASS))
    before = exporter.look()
    assert exporter.journal.forget(OPENING.at + 1e7) == 1
    after = exporter.look()
    assert {name: value for name, value in after.items() if "_total" in name} == {
        name: value for name, value in before.items() if "_total" in name
    }
    later = replace(OPENING, at=OPENING.at + 2e6, since=None)
    story = Story(later).runner()
    written(place, story)
    assert exporter.look()[f'opened_total{{by="stopped",{OF}}}'] == 2


def test_a_new_process_begins_at_zero_and_knows_what_is_open(place: str) -> None:
    written(place, gave_up())
    written(place, Story(replace(OPENING, instance="llm-1")).runner())
    seen = Exporter(place).look(OPENING.at + 1e5)
    assert f'opened_total{{by="stopped",{OF}}}' not in seen
    assert seen.get('opened_total{by="stopped",llm_instance="llm-1"}', 0) == 0
    assert seen[f"traffic_stopped{{{OF}}}"] == 1
    assert seen['open{llm_instance="llm-1",state="unattended"}'] == 1


def test_one_that_was_closed_before_and_is_opened_again_counts_what_comes(place: str) -> None:
    story = gave_up()
    incident = written(place, story)
    exporter = Exporter(place)
    exporter.look(story.at + 1)
    story.put(EventKind.REOPENED, after=60.0)
    with Journal.open(place) as journal:
        journal.tell(incident, story.events[-1])
        assert exporter.look()[f'open{{{OF},state="unattended"}}'] == 1
        lease = journal.take_lease("llm-0", RUNNER, 60.0)
        assert lease is not None
        known = len(story.events)
        story.runner().plan(Step.START).act(Step.START, "supervisor:start").close(Outcome.RECOVERED)
        for event in story.events[known:]:
            journal.append(incident, lease, event)
    seen = exporter.look()
    assert seen[f'rebuilds_total{{ending="done",{OF}}}'] == 1
    assert seen[f'closed_total{{{OF},outcome="recovered"}}'] == 1
    assert seen[f'closed_total{{{OF},outcome="gave_up"}}'] == 0


def test_who_waits_and_who_works(exporter: Exporter, place: str) -> None:
    incident = written(place, waiting())
    assert exporter.look()[f'open{{{OF},state="unattended"}}'] == 1
    with Journal.open(place) as journal:
        assert journal.take_lease("llm-0", RUNNER, 60.0) is not None
        seen = exporter.look()
        assert seen[f'open{{{OF},state="waiting"}}'] == 1
        assert seen[f'open{{{OF},state="unattended"}}'] == 0
        assert incident
        journal.open_breaker("the switch", OPENING.at)
    assert exporter.look()["breaker_open"] == 1


def test_what_limits_held_and_runners_that_took_over(exporter: Exporter, place: str) -> None:
    held = replace(DECISION, waits_for_limits=True, held="5 instances at once", fence=())
    written(place, until_decided(Story(), held))
    written(place.replace(".db", "-2.db"), crashed())
    assert exporter.look()[f"refused_by_limits_total{{{OF}}}"] == 1
    other = Exporter(place.replace(".db", "-2.db"))
    other.metrics.read(BEFORE)
    assert f"runners_resumed_total{{{OF}}}" not in other.look()  # it was closed before this process began


def test_hostile_names_and_answers_break_nothing(exporter: Exporter, place: str) -> None:
    for number in range(80):
        opening = replace(OPENING, instance=f'x"{number}\n\\', progress=Progress.STOPPED)
        story = Story(opening).runner().plan(Step.CUT, Step.RETEST).begin(Step.CUT)
        story.intend(Step.CUT, "a:cut").result(Step.CUT, "a:cut", requests=1e300).end(Step.CUT, requests="many")
        story.begin(Step.RETEST).end(Step.RETEST, results=[{"node": 3}, {"ending": "pass"}, "x", None])
        written(place, story)
    seen = exporter.look()
    assert sum(name.startswith("opened_total") for name in seen) == 65
    assert seen['requests_hit_total{llm_instance="other"}'] == 0
    assert not any(name.startswith("retests_total") for name in seen)


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is in Debian's package prometheus")
def test_promtool_finds_nothing_wrong_with_the_page(exporter: Exporter, place: str) -> None:
    written(place, recovered())
    exporter.look()
    text = page(exporter.registry).decode("utf-8")
    done = subprocess.run(
        [str(PROMTOOL), "check", "metrics"], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_metric_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    for metric in ALL:
        assert f"### `{metric.name}`" in text
        assert metric.text in text
