"""Captures of stops through the real look and model: who is at fault is named where the planes of a watch can tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankmuster.evidence.bundle import load
from rankmuster.model.fault import Role, SuspectKind
from rankmuster.model.plane import Plane
from rankmuster.model.verdict import Suspect
from rankmuster.watch.progress.model import Event
from rankmuster.watch.replay.run import captured, replay

CASES = Path(__file__).parents[2] / "cases"
BOTH = frozenset({Plane.ENGINE, Plane.HARDWARE})


def suspects(name: str) -> tuple[Suspect, ...]:
    """Of the one stop that the capture holds."""
    judged = list(replay(captured(load(CASES / name / "input.tar.zst")), BOTH))
    assert [one.judgement.event for one in judged if one.judgement.event is not None] == [Event.STOPPED]
    return judged[-1].judgement.suspects


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("python-loop", 1),
        ("rank-frozen", 2),
        ("collect-freeze", 2),
        ("tp2-freeze", 0),
        ("pp-freeze", 1),
        ("tp2-graph-freeze", 1),
        ("graph-replay-stops", 2),
        ("tp2-graph-replay-stops", 0),
        ("stop-before-send", 1),
        ("stop-before-recv", 3),
        ("pp-stop", 0),
        ("rank-stops-calling", 2),
        ("graph-kill", 1),
    ],
)
def test_the_rank_at_fault_is_the_culprit(name: str, rank: int) -> None:
    assert [one.rank for one in suspects(name) if one.role is Role.CULPRIT] == [rank]


def test_of_a_cut_link_the_path_and_its_ends_are_suspects_and_no_rank_is_the_culprit() -> None:
    found = suspects("link-cut-two-nodes")
    assert {one.kind for one in found if one.role is Role.SUSPECT} == {SuspectKind.LINK, SuspectKind.NODE}
    assert not [one for one in found if one.role is Role.CULPRIT]


@pytest.mark.parametrize("name", ["gpu-busy-before-collective", "tp2-busy", "wrong-size"])
def test_where_the_planes_of_a_watch_cannot_tell_nobody_is_named(name: str) -> None:
    assert not [one for one in suspects(name) if one.role is Role.CULPRIT]
