"""Drift as people and programs read it: the answer first, a fleet on one screen, and all of it in JSON."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from rankmuster.model.benchmark import Cell, Operation
from rankmuster.model.drift import SCHEMA, DriftFinding, DriftKind, DriftReport, DriftScope
from rankmuster.model.fingerprint import Change
from rankmuster.model.history import ChangePoint, ChangeState
from rankmuster.report.drift_json import as_json
from rankmuster.report.drift_text import render
from rankmuster.report.drift_words import Outcome, headline, outcome

CLASS = "sha256:" + "ab" * 32

QUIET = DriftReport(
    nodes=1000,
    classes=(CLASS,),
    findings=(),
    baseline_applies=True,
    regenerate=(),
    why=(),
    unknown=(),
    stop_rollout=False,
)


def single(number: int) -> DriftFinding:
    return DriftFinding(
        kind=DriftKind.BANDWIDTH,
        scope=DriftScope.NODE,
        class_hash=CLASS,
        nodes=(f"gpu-{number:04d}.example",),
        statement=f"all_reduce at plateau sizes is {3 + number / 10:.1f} % slower since 2026-11-03 04:00 UTC",
        effect="test it",
        size=-(0.03 + number / 1000),
        since=1.79e9,
    )


ROLLOUT = DriftFinding(
    kind=DriftKind.BANDWIDTH,
    scope=DriftScope.SYSTEMATIC,
    class_hash=CLASS,
    nodes=tuple(f"gpu-{number:04d}.example" for number in range(37)),
    statement="all_reduce at plateau sizes is 8.1 % slower; all 37 nodes with driver 580.2, none of the 900 with 580.1",
    effect="stop the rollout",
    size=-0.081,
    since=1.79e9,
    change=Change("driver", "580.1", "580.2", "another driver", False),
    point=ChangePoint(
        CLASS, "p@1", Cell(Operation.ALL_REDUCE, 1 << 28, "float"), 1.79e9, 338.0, 310.0, 37, ChangeState.OPEN
    ),
)

WIDE = replace(
    QUIET,
    findings=(ROLLOUT, *map(single, range(60))),
    baseline_applies=False,
    regenerate=("class 0123, profile p@1: 4 of 30 runs so far, 37 nodes to measure on",),
    why=("driver: 580.1 -> 580.2 (on 37 nodes)",),
    unknown=tuple(f"gpu-{number:04d}.example: the history has no results of it; measure it" for number in range(400)),
    stop_rollout=True,
)


def shown(report: DriftReport, width: int) -> str:
    paper = io.StringIO()
    render(report, Console(file=paper, width=width, highlight=False))
    return paper.getvalue()


@pytest.mark.parametrize(
    ("report", "kind", "words"),
    [
        (QUIET, Outcome.NONE, "no drift: 1,000 nodes as the baseline"),
        (replace(QUIET, nodes=0), Outcome.CANNOT_TELL, "cannot tell: no node to compare"),
        (
            replace(QUIET, unknown=("a: b",)),
            Outcome.CANNOT_TELL,
            "cannot tell: nothing is seen to drift on 1,000 nodes",
        ),
        (replace(QUIET, findings=(single(1), single(2))), Outcome.DRIFT, "drift of single nodes: 2 of 1,000"),
        (replace(QUIET, nodes=1, findings=(single(1),)), Outcome.DRIFT, "drift of the node"),
        (WIDE, Outcome.DRIFT, "systematic drift on 60 nodes of 1,000: stop the rollout"),
        (replace(WIDE, nodes=1), Outcome.DRIFT, "systematic drift on 60 nodes, this one among them: stop the rollout"),
        (
            replace(WIDE, findings=(replace(ROLLOUT, nodes=()),)),
            Outcome.DRIFT,
            "systematic drift of a whole class: stop the rollout",
        ),
        (
            replace(QUIET, findings=(replace(ROLLOUT, kind=DriftKind.VERSION, size=None),)),
            Outcome.DRIFT,
            "systematic change on 37 nodes of 1,000, and no loss is seen to come of it",
        ),
    ],
)
def test_the_first_line_is_the_answer(report: DriftReport, kind: Outcome, words: str) -> None:
    assert outcome(report) is kind
    assert headline(report).startswith(words)
    assert shown(report, 80).startswith(words)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_fleet_fits_the_screen_in_both_directions(width: int) -> None:
    lines = shown(WIDE, width).splitlines()
    assert all(len(line) <= width for line in lines[1:])
    assert len(lines) < 100
    assert all(line == line.rstrip() for line in lines)


def test_of_many_single_nodes_the_worst_are_shown_and_all_are_counted() -> None:
    text = shown(WIDE, 120)
    assert "bandwidth 60" in text
    assert "gpu-0059.example" in text
    assert "and 48 more (bandwidth 48); JSON has them" in text
    assert text.index("gpu-0059") < text.index("gpu-0050")


def test_what_could_not_be_compared_is_grouped_by_reason() -> None:
    text = " ".join(shown(WIDE, 100).split())
    assert "400 nodes (gpu-0000.example, gpu-0001.example, gpu-0002.example, gpu-0003.example, ...)" in text
    assert text.count("the history has no results of it") == 1


def test_json_has_all_of_it() -> None:
    answer = json.loads(as_json(WIDE))
    assert answer["schema"] == SCHEMA == "rankmuster.drift/1"
    assert len(answer["findings"]) == 61
    assert len(answer["unknown"]) == 400
    first = answer["findings"][0]
    assert len(first["nodes"]) == 37
    assert first["change"]["part"] == "driver"
    assert first["point"]["state"] == "open"
    assert first["point"]["cell"]["operation"] == "all_reduce"
    assert first["point"]["cell"]["size_bytes"] == 1 << 28


def test_names_of_hosts_cannot_act_on_the_terminal() -> None:
    hostile = replace(single(1), nodes=("\x1b[2Jgpu\u202e",), statement="\x1b]0;title\x07slow")
    text = shown(replace(QUIET, findings=(hostile,), unknown=("\x1b[31mx: y",)), 80)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert json.loads(as_json(replace(QUIET, findings=(hostile,))))["findings"][0]["nodes"] == ["\x1b[2Jgpu\u202e"]


def test_numbers_that_are_none_do_not_break_json() -> None:
    odd = replace(single(1), size=float("nan"), since=float("inf"))
    answer = json.loads(as_json(replace(QUIET, findings=(odd,))))
    assert answer["findings"][0]["size"] is None
    assert answer["findings"][0]["since"] is None
