"""A verdict that somebody names is acted on only where it can be about this stop."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from incident_world import GPU_LOST, INSTANCE, Memory, World, opening
from rankmuster.incident.config import IncidentConfig
from rankmuster.incident.given_verdict import objection
from rankmuster.model.incident import Outcome, Step
from rankmuster.model.verdict import Verdict, Window
from rankmuster.model.verdict_json import verdict_to_plain
from run_incident import QUICK, Rig

AT = 1_790_000_000.0
STOPPED = replace(opening(), at=AT, since=AT - 10)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (replace(GPU_LOST, instance="llm-1"), "it is about llm-1"),
        (replace(GPU_LOST, incarnation="last week's"), "incarnation last week's"),
        (replace(GPU_LOST, window=Window(start=AT - 9_000, end=AT - 8_000)), "ends 7990 s before this stop began"),
    ],
)
def test_what_is_about_something_else_is_objected_to(found: Verdict, said: str) -> None:
    assert said in (objection(found, STOPPED, "as the group calls it") or "")


@pytest.mark.parametrize(
    "found",
    [
        GPU_LOST,
        replace(GPU_LOST, instance=None, incarnation=None),
        replace(GPU_LOST, incarnation="as the group calls it"),
        replace(GPU_LOST, window=Window(start=None, end=AT - 30)),
    ],
)
def test_what_may_be_about_it_is_not(found: Verdict) -> None:
    assert objection(found, STOPPED, "as the group calls it") is None


def test_names_of_incarnations_that_cannot_be_compared_speak_against_nothing() -> None:
    assert objection(replace(GPU_LOST, incarnation="x"), replace(STOPPED, incarnation=None), "y") is None


def test_nothing_is_ended_or_fenced_on_a_bundle_of_another_instance(tmp_path: Path) -> None:
    rig = Rig(tmp_path, World(Memory(), elsewhere=True, found=replace(GPU_LOST, instance="llm-1")))
    rig.config = IncidentConfig(budget={**QUICK, Step.APPROVE: 0.2})
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "manifest.json").write_text(json.dumps({}))

    ran = rig.run(opening=opening(bundle=str(bundle)))

    assert ran.incident.closed is Outcome.HELD, ran.notes()
    assert rig.world.state["terminated"] == []
    assert f"it is about llm-1, and the incident about {INSTANCE}" in ran.notes()


def test_in_place_of_a_verdict_of_another_instance_the_evidence_of_now_decides(tmp_path: Path) -> None:
    rig = Rig(tmp_path, World(Memory(), elsewhere=True))

    ran = rig.run(opening=opening(verdict=verdict_to_plain(replace(GPU_LOST, instance="llm-1"))))

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert rig.world.state["fenced"] == [], "that was the other one's node"
    assert ran.ended(Step.DIAGNOSE).data["verdict"]
    assert "it is about llm-1" in ran.notes()


def test_a_verdict_that_is_none_is_made_anew(tmp_path: Path) -> None:
    ran = Rig(tmp_path).run(opening=opening(verdict={"schema": "rankmuster.verdict/1", "class": 7}))

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert "diagnosed anew" in ran.notes()
