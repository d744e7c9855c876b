"""How reports name people, places and times."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from rankmuster.model.fault import FaultClass, Role, SuspectKind
from rankmuster.model.ranks_text import rank_ranges
from rankmuster.model.verdict import Suspect, Verdict
from rankmuster.report.words import accused, class_name, clock, named, rate_kib, span, story, who


def test_ranks_are_folded_to_ranges() -> None:
    assert rank_ranges([0, 1, 3, 2, 8]) == "0-3, 8"
    assert rank_ranges([]) == ""


def test_a_suspect_without_a_rank_is_named_by_its_place() -> None:
    node = Suspect(kind=SuspectKind.NODE, host="10.0.0.7", role=Role.CULPRIT, why="")
    assert who(node) == "node (host 10.0.0.7)"


def test_many_culprits_are_told_as_ranges_and_hosts() -> None:
    many = [
        Suspect(kind=SuspectKind.RANK, rank=rank, host=f"10.0.0.{rank // 8}", role=Role.CULPRIT, why="")
        for rank in range(16)
    ]
    assert named(many) == "ranks 0-15 (on 2 hosts: 10.0.0.0, 10.0.0.1)"
    assert named(many[:8]) == "ranks 0-7 (on 10.0.0.0)"


def test_suspects_are_never_called_culprits() -> None:
    suspect = Suspect(kind=SuspectKind.RANK, rank=1, role=Role.SUSPECT, why="")
    verdict = Verdict(class_=FaultClass.COLLECTIVE_DESYNC, suspects=(suspect,))
    assert accused(verdict) == "suspect rank 1, no culprit"


@pytest.mark.parametrize("seconds", [None, math.nan, math.inf, 1e300])
def test_a_time_that_no_clock_shows_is_unknown(seconds: float | None) -> None:
    assert clock(seconds) == "unknown"


def test_units_fit_the_size() -> None:
    assert clock(0.25, date=True) == "1970-01-01 00:00:00.250Z"
    assert [span(value) for value in (2e-5, 0.0223, 9.84, 200, 7500)] == [
        "20 us",
        "22 ms",
        "9.8 s",
        "3 min 20 s",
        "2 h 5 min",
    ]
    assert [rate_kib(value) for value in (0, 2048, 3 * 1024**2)] == ["0 KiB/s", "2.0 MiB/s", "3.0 GiB/s"]


def test_a_link_is_named() -> None:
    link = Suspect(kind=SuspectKind.LINK, link="10.77.0.1 - 10.77.0.2", role=Role.SUSPECT, why="the path in question")
    assert who(link) == "link 10.77.0.1 - 10.77.0.2"


def test_the_story_does_not_repeat_the_headline(verdict: Verdict) -> None:
    told = replace(verdict, summary=f"{class_name(verdict)}: rank 2 went home")
    assert story(told) == "rank 2 went home"
    assert story(verdict) == verdict.summary
