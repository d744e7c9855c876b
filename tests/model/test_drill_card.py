"""A drill's score card: what it comes to, and that nothing else than what a drill wrote is read as one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drill_cards import card, control, fault, quiet_controls, row
from rankmuster.model import drill_card
from rankmuster.model.digest import ascii_digest
from rankmuster.model.drill_card import SCHEMA, DrillRun, ScoreCard
from rankmuster.model.drill_score import (
    CONTROLS,
    DETECTED_SECONDS,
    NAMED_SECONDS,
    back_in_time,
    bars,
    in_time,
    named_in_time,
)


def resealed(document: dict[str, Any]) -> str:
    plain = {key: value for key, value in document.items() if key != "seal"}
    return json.dumps({**plain, "seal": ascii_digest(plain)})


def test_a_card_is_read_as_it_was_written() -> None:
    made = card(fault(why="gar\u00e7on \U0001f600", wrongs=("a", "b")), *quiet_controls())
    text = made.to_json()
    assert drill_card.read(text) == drill_card.read(text.encode()) == made
    assert text.isascii()
    assert text == made.to_json()
    assert json.loads(text)["schema"] == SCHEMA


def test_all_as_it_should_be_passes() -> None:
    made = card()
    assert (made.passed, made.reasons) == (True, ())


@pytest.mark.parametrize(
    ("runs", "says"),
    [
        (
            (fault(detected_seconds=DETECTED_SECONDS + 0.1),),
            "0 of 1 faults were told within 15 s, and 95% must be: not freeze",
        ),
        ((fault(detected=False, detected_seconds=None),), "were told within 15 s"),
        ((fault(named_seconds=NAMED_SECONDS + 0.1),), "class and culprit were right within 20 s for 0 of 1 faults"),
        ((fault(class_right=False),), "class and culprit were right"),
        ((fault(culprit_right=False, culprits=()),), "class and culprit were right"),
        (
            (*[fault() for _ in range(30)], fault("skip", culprit_wrong=True)),
            "a wrong culprit was named: skip",
        ),
        ((fault(evidence_first=False),), "not before the group was ended: freeze"),
        ((fault(evidence_saved=False, bundle=None, again=None),), "the evidence was not saved"),
        ((fault(service_back=False),), "service was not back within the runbook's budget: freeze"),
        ((fault(back_seconds=771.0),), "service was not back within"),
        ((fault(again=False),), "diagnosed again, the bundle gives another verdict: freeze"),
        ((fault(), control("bursty", alarms=("slow after 3 s",), wrongs=("told",))), "controls were not quiet: bursty"),
        ((fault(), control("bursty", incidents=1)), "controls were not quiet: bursty"),
        ((fault(), control("bursty", wrongs=("the watch said nothing",))), "controls were not quiet: bursty"),
    ],
)
def test_what_is_below_its_bar_fails_with_its_reason(runs: tuple[Any, ...], says: str) -> None:
    made = card(*runs, *quiet_controls())
    assert made.passed is False
    assert any(says in reason for reason in made.reasons), made.reasons


TWENTY = tuple(fault() for _ in range(20))


@pytest.mark.parametrize(
    ("odd", "says"),
    [
        (fault("kill", detected_seconds=-3.0), "kill: detected 3.0 s before the fault"),
        (fault("kill", named_seconds=-0.5), "kill: named 0.5 s before the fault"),
        (fault("kill", back_seconds=-1.0), "kill: back 1.0 s before the fault"),
        (fault("kill", alarms=("slow after 3 s",)), "kill: told before the fault: slow after 3 s"),
        (fault("kill", incidents=3), "kill: 3 incidents were opened for one fault"),
        (
            fault("kill", incidents=2, wrongs=("2 incidents were opened for one fault", "2 request(s) had no answer")),
            "kill: 2 incidents were opened for one fault; 2 request(s) had no answer",
        ),
        (
            fault(
                "slow", most_seconds=120.0, wrongs=("it was slow and served, and the group was rebuilt all the same",)
            ),
            "slow: it was slow and served",
        ),
        (fault("kill", wrongs=("named after 3 incidents",)), "kill: named after 3 incidents"),
        (fault("kill", wrongs=("a" * 10_000,)), f"kill: {'a' * 300}..."),
    ],
)
def test_what_must_not_be_is_excused_by_no_share(odd: DrillRun, says: str) -> None:
    made = card(*TWENTY, odd, *quiet_controls())
    assert made.passed is False
    assert made.numbers.odd == 1
    assert any(reason.startswith(says) for reason in made.reasons), made.reasons


def test_seconds_before_the_fault_are_never_in_time() -> None:
    assert not in_time(fault(detected_seconds=-0.1))
    assert not named_in_time(fault(named_seconds=-0.1))
    assert not back_in_time(fault(back_seconds=-0.1))
    assert not back_in_time(fault(back_seconds=-0.1, budget_seconds=None))
    assert not back_in_time(fault(back_seconds=None, budget_seconds=None))
    assert in_time(fault(detected_seconds=0.0))


def test_what_a_share_judges_is_not_counted_again() -> None:
    late = fault("loop", detected_seconds=16.0, named_seconds=21.5)
    late = replace(late, wrongs=bars(late))
    other = fault("stop", class_right=False, said_class="inconclusive", culprit_right=False, culprits=())
    other = replace(other, wrongs=bars(other))
    assert (len(late.wrongs), len(other.wrongs)) == (2, 2)
    made = card(*TWENTY, late, other, *quiet_controls())
    assert (made.passed, made.numbers.odd, made.reasons) == (True, 0, ())


@pytest.mark.parametrize(
    ("lacking", "says"),
    [
        (
            {"evidence_saved": None, "bundle": None, "again": None},
            "of kill it is not known whether its evidence was saved",
        ),
        ({"evidence_first": None}, "of kill it is not known whether that was before the group was ended"),
        ({"bundle": None, "again": None}, "of kill it is not known where its bundle is"),
        ({"service_back": None, "back_seconds": None}, "of kill it is not known whether service came back"),
        (
            {"evidence_first": None, "service_back": None},
            "of kill it is not known whether that was before the group was ended, whether service came back",
        ),
        ({"again": None}, "bundles were not diagnosed again: kill"),
    ],
)
def test_what_is_not_known_of_one_fault_among_many_does_not_pass(lacking: dict[str, Any], says: str) -> None:
    made = card(*TWENTY, fault("kill", **lacking), *quiet_controls())
    assert made.passed is None
    assert any(reason.startswith(says) for reason in made.reasons), made.reasons


def test_of_a_fault_that_rebuilds_nothing_nothing_of_a_rebuild_need_be_known() -> None:
    slow = fault("slow", most_seconds=120.0, evidence_first=None, service_back=None, back_seconds=None)
    assert card(*TWENTY, slow, *quiet_controls()).passed is True


def test_the_card_of_a_real_drill_is_read_and_passes() -> None:
    kept = Path(__file__).parents[2] / "docs" / "measured" / "drill-cpu.json"
    made = drill_card.read(kept.read_bytes())
    assert (made.passed, made.reasons) == (True, ())
    assert made.to_json() == kept.read_text()


def test_one_late_alarm_in_twenty_is_what_a_busy_host_may_cost() -> None:
    nineteen = tuple(fault() for _ in range(19))
    assert card(*nineteen, fault(detected_seconds=16.0, named_seconds=18.0), *quiet_controls()).passed is True
    assert card(*nineteen[:18], fault(detected_seconds=16.0), *quiet_controls()).passed is False


def test_a_fault_that_is_slow_by_nature_has_its_own_time_and_stands_apart() -> None:
    late = fault("slow", most_seconds=120.0, detected_seconds=60.0, named_seconds=60.0, service_back=None)
    made = card(fault(), late, *quiet_controls())
    assert made.passed is True
    assert (made.numbers.faults, made.numbers.late, made.numbers.detected) == (2, 1, 1.0)
    assert made.numbers.late_detected == 1.0
    assert made.numbers.detected_p95 == 10.0
    missed = card(fault(), fault("slow", most_seconds=120.0, detected_seconds=121.0), *quiet_controls())
    assert missed.passed is False
    assert any("take longer by nature" in reason for reason in missed.reasons)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (card(complete=False), "ended before all of it was done"),
        (card(fault(culprit_wrong=True), complete=False), "ended before all of it was done"),
        (card(fault()), "no controls were run"),
        (card(fault(), *(control(name) for name in CONTROLS[:-1])), "were not run: restart"),
        (card(*quiet_controls()), "no fault was made"),
        (card(fault(made=False, wrongs=("the engine did not start",)), *quiet_controls()), "something broke before"),
        (
            card(fault(), *quiet_controls()[1:], control("healthy", made=False, wrongs=("the engine did not start",))),
            "something broke before these could be judged: healthy",
        ),
        (card(row("left_out", "memlock", why="no RDMA"), *quiet_controls()), "no fault was made"),
        (card(fault(again=None), *quiet_controls()), "bundles were not diagnosed again"),
        (card(fault(service_back=None), *quiet_controls()), "whether service came back"),
        (
            card(fault(evidence_saved=None, bundle=None, again=None), *quiet_controls()),
            "whether its evidence was saved",
        ),
    ],
)
def test_too_little_is_no_pass_and_no_failure(made: ScoreCard, says: str) -> None:
    assert made.passed is None
    assert any(says in reason for reason in made.reasons), made.reasons


def test_a_job_of_a_users_own_is_not_idled_or_restarted_for_a_drill() -> None:
    assert card(fault(backend="own"), control("healthy"), target="llm-0").passed is True
    assert card(fault(backend="own"), target="llm-0").passed is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no whole JSON"),
        ("[]", "no object"),
        ("{}", "its schema is 'None'"),
        (b"\xff\xfe\x00", "no whole JSON"),
        ("[" * 100_000, "no whole JSON"),
        ('{"schema": NaN}', "no whole JSON"),
        ('{"schema": "a", "schema": "b"}', "stands in it twice"),
        ('{"schema": "rankmuster.verdict/1"}', "a score card's is rankmuster.drill/1"),
        ('{"schema": "rankmuster.drill/2"}', "a later version of rankmuster wrote"),
        ('{"schema": "rankmuster.drill/0"}', "a score card's is rankmuster.drill/1"),
        ('{"schema": "rankmuster.drill/x"}', "a score card's is rankmuster.drill/1"),
        ('{"schema": "rankmuster.drill/1"}', "no seal"),
        ('{"schema": "rankmuster.drill/1", "seal": 3}', "no seal"),
    ],
)
def test_what_is_no_card_is_refused_with_the_reason(text: str | bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        drill_card.read(text)


def test_a_card_that_is_too_long_is_not_even_parsed() -> None:
    with pytest.raises(ValueError, match="MiB"):
        drill_card.read(b" " * (drill_card.MOST_BYTES + 1))


@pytest.mark.parametrize(
    ("key", "value"), [("made_at", 1.0), ("complete", False), ("target", "llm-0"), ("artefact", "sha256:00")]
)
def test_what_was_changed_is_seen(key: str, value: object) -> None:
    document = json.loads(card().to_json())
    document[key] = value
    with pytest.raises(ValueError, match="changed after it was written"):
        drill_card.read(json.dumps(document))


def test_a_number_of_a_run_that_was_changed_is_seen() -> None:
    document = json.loads(card(fault(detected_seconds=40.0), *quiet_controls()).to_json())
    document["runs"][0]["detected_seconds"] = 4.0
    with pytest.raises(ValueError, match="changed after it was written"):
        drill_card.read(json.dumps(document))


@pytest.mark.parametrize("key", ["made_at", "runs", "fingerprint", "complete", "settings"])
def test_a_card_without_a_field_is_refused_though_its_seal_is_right(key: str) -> None:
    document = json.loads(card().to_json())
    del document[key]
    with pytest.raises(ValueError, match=f"it has no {key}"):
        drill_card.read(resealed(document))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("made_at", "yesterday"),
        ("complete", 1),
        ("runs", {}),
        ("fingerprint", {"class_hash": 3}),
        ("settings", {"A": None}),
    ],
)
def test_a_field_of_another_type_is_refused_with_its_place(key: str, value: object) -> None:
    document = json.loads(card().to_json())
    document[key] = value
    with pytest.raises(ValueError, match=key):
        drill_card.read(resealed(document))


@pytest.mark.parametrize(
    ("key", "value"), [("kind", "rumour"), ("detected", "yes"), ("culprits", [True]), ("planes", []), ("naming", None)]
)
def test_a_field_of_a_run_too(key: str, value: object) -> None:
    document = json.loads(card().to_json())
    document["runs"][0][key] = value
    with pytest.raises(ValueError, match=rf"runs\[0\]\.{key}"):
        drill_card.read(resealed(document))


def test_what_a_later_version_adds_is_passed_over() -> None:
    document = json.loads(card().to_json())
    document["weather"] = "rain"
    assert drill_card.read(resealed(document)) == card()


@given(st.integers(min_value=0), st.binary(max_size=3))
def test_a_torn_card_never_reads_as_another(at: int, put: bytes) -> None:
    whole = card().to_json().encode()
    at %= len(whole)
    torn = whole[:at] + put
    try:
        assert drill_card.read(torn) == card()
    except ValueError:
        return
