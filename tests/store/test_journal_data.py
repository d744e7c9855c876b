"""What actuators answer may be anything: the journal keeps what JSON can hold, within a size, and says what it cut."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from journal_made import START, begun, noted, opening
from rankmuster.model.incident import Ending, Event, EventKind, Step
from rankmuster.store.errors import Refused
from rankmuster.store.journal import Journal
from rankmuster.store.journal_data import CUT, MOST_DATA, json_of


@pytest.fixture
def journal(url: str) -> Iterator[Journal]:
    with Journal.open(url) as opened:
        yield opened


def result(**data: Any) -> Event:
    return Event(kind=EventKind.RESULT, at=START, step=Step.CUT, action="front:cut", ending=Ending.DONE, data=data)


def kept(**data: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json_of(data))
    return found


def test_plain_values_come_back_equal(journal: Journal) -> None:
    data = {"pids": [1, 2], "nested": {"ü": [None, True, 2.5, "x\n\x00y", 1 << 63]}, "empty": {}, "text": "z" * 60_000}
    name, lease = begun(journal)
    made = journal.append(name, lease, result(**data))
    assert (made,) == journal.events(name, after=1)
    assert replace(made, sequence=0) == result(**data)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (float("nan"), None),
        (float("-inf"), None),
        ("nod\udcff", "nod\\udcff"),
        (Ending.DONE, "done"),
        (Path("/a/b"), "/a/b"),
        ((1, 2), [1, 2]),
        (b"\xff", "b'\\xff'"),
        ([10**5000], [None]),
        ({1: {"x": float("inf")}}, {"1": {"x": None}}),
    ],
)
def test_what_json_has_not_is_kept_as_what_it_has(value: object, stored: object) -> None:
    assert kept(value=value) == {"value": stored}


def test_the_largest_parts_of_what_is_too_large_are_left_out(journal: Journal) -> None:
    name, lease = begun(journal)
    huge = result(requests=3, output="é" * 1_000_000, listed=list(range(40_000)), operation="x/cut/front")
    made = journal.append(name, lease, huge)
    assert (made.data["requests"], made.data["operation"]) == (3, "x/cut/front")
    assert made.data["output"] == "é" * 4_000
    assert "listed" not in made.data
    assert made.data[CUT].startswith("it had ")
    assert made.data[CUT].endswith("left out or shortened: output, listed")
    assert (made,) == journal.events(name, after=1)


@pytest.mark.parametrize(
    "data",
    [
        {"list": list(range(1_000_000))},
        {str(number): number for number in range(200_000)},
        {"x" * 1_000_000: 1, "y": "z"},
        {f"😀{number}" * 20: "😀" * 1_000_000 for number in range(20)},
    ],
)
def test_whatever_its_shape_it_is_within_the_size(data: dict[str, Any]) -> None:
    deep: Any = 1
    for _ in range(5_000):
        deep = [deep]
    assert len(json_of({**data, "bottomless": deep})) <= MOST_DATA


def test_what_contains_itself_ends() -> None:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    assert len(json_of({"loop": loop})) <= MOST_DATA


def test_texts_of_any_bytes_and_size_can_be_read_again(journal: Journal) -> None:
    odd = "l\udcff\x00m" + "x" * 10_000
    name, new = journal.open_incident(opening(odd[:20], reason=odd, incarnation=odd[:10], host=odd), odd)
    assert new
    assert journal.open_incident(opening(odd[:20]), "runner-a") == (name, False)
    lease = journal.take_lease(odd[:20], odd[:9], 60)
    assert lease is not None
    assert journal.append(name, lease, noted(odd)) == journal.events(name)[-1]
    assert journal.renew(lease, 60).token == lease.token
    assert journal.incidents(instance=odd[:20])[0].lease == "l\\udcff\\x00mxxxxx"
    journal.release(lease)
    assert journal.take_lease(odd[:20], "runner-b", 60) is not None


def test_a_password_in_an_address_is_not_kept(journal: Journal) -> None:
    name, _ = journal.open_incident(opening(metrics_url="http://user:hunter2@node:8000/metrics"), "runner-a")
    (event,) = journal.events(name)
    assert event.data["metrics_url"] == "http://user:***@node:8000/metrics"


@pytest.mark.parametrize(
    "event",
    [
        Event(kind=EventKind.NOTED, at=float("nan")),
        Event(kind=EventKind.CLOSED, at=START, data={"outcome": "victory"}),
        Event(kind=EventKind.CLOSED, at=START),
        Event(kind=EventKind.DECIDED, at=START, data={"class": "gremlins"}),
    ],
)
def test_an_event_that_says_nothing_sound_is_not_written(journal: Journal, event: Event) -> None:
    name, lease = begun(journal)
    with pytest.raises(Refused, match="cannot be written"):
        journal.append(name, lease, event)
    assert len(journal.events(name)) == 1
    assert journal.incidents(open_only=True)
