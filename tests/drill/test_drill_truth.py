from __future__ import annotations

import json
from typing import Any

import pytest

from rankmuster.drill.result import DrillResult, table
from rankmuster.drill.truth import Naming, Truth, culprits_of, differences
from rankmuster.model.fault import FaultClass, Progress, Subkind

STOP = Truth((FaultClass.COLLECTIVE_DESYNC,), Naming.MUST, (Subkind.MISSING_ENTER,), (Progress.STOPPED,))


def verdict(culprits: tuple[int, ...] = (2,), **fields: Any) -> dict[str, Any]:
    suspects = [{"rank": rank, "role": "culprit"} for rank in culprits]
    suspects += [{"rank": 0, "role": "victim"}, {"rank": 1, "role": "suspect"}, {"rank": None, "role": "culprit"}]
    answer = {"class": "collective_desync", "subclass": "missing_enter", "progress": "stopped", "suspects": suspects}
    return {**answer, **fields}


def test_a_right_verdict_differs_in_nothing() -> None:
    assert differences(verdict(), STOP, 2, 4) == ()


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        (verdict(**{"class": "healthy"}), "class healthy, not collective_desync"),
        (verdict(subclass=None), "subclass None, not missing_enter"),
        (verdict(progress="advancing"), "progress advancing, not stopped"),
        (verdict((0,)), "culprits [0], not [2]"),
        (verdict((1, 2)), "culprits [1, 2], not [2]"),
        (verdict(()), "culprits [], not [2]"),
        ({"class": "collective_desync", "subclass": "missing_enter", "progress": "stopped"}, "culprits [], not [2]"),
    ],
)
def test_each_difference_is_told(said: dict[str, Any], wrong: str) -> None:
    assert differences(said, STOP, 2, 4) == (wrong,)


def test_fields_that_are_left_open_may_be_anything() -> None:
    loose = Truth((FaultClass.COLLECTIVE_DESYNC, FaultClass.INCONCLUSIVE), Naming.MAY)
    assert differences(verdict((), progress="unknown", subclass=None), loose, 2, 4) == ()
    assert differences(verdict((2,)), loose, 2, 4) == ()
    assert differences(verdict((0,)), loose, 2, 4) == ("culprits [0], not [2] or []",)


def test_nobody_is_to_be_named_in_health() -> None:
    healthy = Truth((FaultClass.HEALTHY,), Naming.NOBODY)
    assert differences(verdict((), **{"class": "healthy"}), healthy, 2, 4) == ()
    assert differences(verdict((2,), **{"class": "healthy"}), healthy, 2, 4) == ("culprits [2], not []",)


def test_culprits_are_ranks_and_each_once() -> None:
    assert culprits_of(verdict((3, 1, 3))) == (1, 3)


GOOD = DrillResult(
    "stop",
    "gloo",
    3,
    "ras_risk=never",
    "…",
    2,
    "collective_desync: missing_enter",
    (2,),
    seconds={"collect": 7.25, "diagnose": 0.5},
)
BAD = DrillResult("kill", "gloo", 3, "", "…", 1, wrongs=("collect: nothing came",), seconds={"collect": 35.0})


def test_the_table_shows_who_was_named_and_what_is_wrong() -> None:
    lines = table([GOOD, BAD]).splitlines()
    assert lines[1].split() == [
        "stop",
        "ras_risk=never",
        "collective_desync:",
        "missing_enter",
        "2",
        "2",
        "7.2",
        "0.5",
        "right",
    ]
    assert lines[2].split() == ["kill", "-", "-", "-", "1", "35.0", "-", "WRONG"]
    assert lines[3].strip() == "collect: nothing came"
    assert lines[4] == "1 of 2 named what happened"


def test_a_result_is_one_line_of_json() -> None:
    assert "\n" not in BAD.to_json()
    told = json.loads(BAD.to_json())
    assert told["right"] is False
    assert told["wrongs"] == ["collect: nothing came"]
    assert json.loads(GOOD.to_json())["right"] is True


def test_no_results_are_a_table_too() -> None:
    assert "0 of 0" in table([])


def test_of_two_ranks_nobody_is_odd_where_the_majority_tells() -> None:
    alike = Truth((FaultClass.COLLECTIVE_DESYNC,), Naming.MUST, majority=True)
    assert differences(verdict((), subclass="op_mismatch"), alike, 0, 2) == ()
    assert differences(verdict((0,), subclass="op_mismatch"), alike, 0, 2) == ()
    assert differences(verdict((1,), subclass="op_mismatch"), alike, 0, 2) == ("culprits [1], not [0] or []",)
    assert differences(verdict((), subclass="op_mismatch"), alike, 0, 3) == ("culprits [], not [0]",)
