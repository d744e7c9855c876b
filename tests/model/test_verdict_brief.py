"""A verdict in brief fits a journal's row, reads back, and still names whom it named."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from incident_story import VERDICT
from rankmuster.model.fault import Role, SuspectKind
from rankmuster.model.plane import Plane, PlaneState
from rankmuster.model.verdict import FindingRecord, FirstDivergence, PlaneRecord, Suspect
from rankmuster.model.verdict_brief import MOST_CHARACTERS, brief
from rankmuster.model.verdict_json import verdict_from_plain


def test_a_small_one_keeps_who_is_named_and_which_planes_were_blind() -> None:
    found = verdict_from_plain(brief(VERDICT))
    assert (found.class_, found.subclass, found.confidence) == (VERDICT.class_, VERDICT.subclass, VERDICT.confidence)
    assert (found.suspects, found.planes, found.summary) == (VERDICT.suspects, VERDICT.planes, VERDICT.summary)


@pytest.mark.parametrize("ranks", [1, 512, 20_000])
def test_a_large_one_is_cut_and_culprits_stay_before_victims(ranks: int) -> None:
    victim = Suspect(kind=SuspectKind.RANK, rank=0, host="h", role=Role.VICTIM, why="w" * 5_000)
    culprit = replace(VERDICT.suspects[0], why="\u2028" * 50_000)
    big = replace(
        VERDICT,
        summary="s" * 100_000,
        suspects=(victim,) * ranks + (culprit,) * ranks,
        suspect_hosts=("h" * 60,) * ranks,
        findings=(FindingRecord(detector="d", statement="x" * 9_000, led_to_verdict=True, evidence=("e" * 99,) * 99),)
        * 99,
        planes=(PlaneRecord(plane=Plane.RAS, state=PlaneState.BLIND, note="n" * 9_000),) * 8,
        first_divergence=FirstDivergence(members=tuple(range(ranks)), entered=tuple(range(ranks))),
        unread=("u" * 200,) * ranks,
    )
    plain = brief(big)
    assert len(json.dumps(plain)) <= MOST_CHARACTERS
    found = verdict_from_plain(plain)
    assert {one.role for one in found.suspects} == {Role.CULPRIT}
    assert found.planes[0].state is PlaneState.BLIND
    assert found.unread == ()
