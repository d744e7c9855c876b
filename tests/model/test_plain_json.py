"""Dataclasses as JSON and back: what was written is read as the same, and what is wrong is refused with its place."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Literal

import pytest

from rankmuster.model.plain_json import Bounds, NotPlain, called, from_plain, keys, to_plain

BOUNDS = Bounds(text=8, members=3)


class Colour(str, Enum):
    RED = "red"


@dataclass(frozen=True)
class Run:
    kind: Literal["run"] = "run"
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Post:
    url: str
    kind: Literal["post"] = "post"


@dataclass(frozen=True)
class Whole:
    start: float | None = field(default=None, metadata=called("from"))
    class_: Colour = Colour.RED
    rate: float = 0.0
    count: int = 1
    yes: bool = False
    place: Path | None = None
    gpu: int | str | None = None
    many: dict[str, tuple[int, ...]] = field(default_factory=dict)
    hooks: tuple[Run | Post, ...] = ()


FULL = Whole(1.5, Colour.RED, 2.5, 3, True, Path("/a"), "0:1", {"*": (1, 2)}, (Run(words=("x",)), Post("u")))


@pytest.mark.parametrize("value", [FULL, Whole(), replace(FULL, gpu=7), replace(FULL, gpu=None)])
def test_what_was_written_is_read_as_the_same(value: Whole) -> None:
    assert from_plain(Whole, json.loads(json.dumps(to_plain(value, BOUNDS))), BOUNDS) == value


def test_names_are_those_of_the_schema_in_order() -> None:
    assert keys(Whole)[:2] == ("from", "class")
    assert tuple(to_plain(FULL, BOUNDS)) == keys(Whole)
    assert to_plain(FULL, BOUNDS)["hooks"] == [{"kind": "run", "words": ["x"]}, {"url": "u", "kind": "post"}]


def test_numbers_are_finite_and_long_ones_are_cut() -> None:
    said = to_plain(replace(FULL, start=math.nan, rate=math.inf, gpu="123456789", hooks=(Run(),) * 5), BOUNDS)
    assert (said["from"], said["rate"], said["gpu"], len(said["hooks"])) == (None, 0.0, "12345678", 3)


def test_keys_of_a_later_version_are_passed_over_and_missing_ones_are_the_defaults() -> None:
    assert from_plain(Whole, {"count": 4, "later": [1]}, BOUNDS) == Whole(count=4)


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ([], "the whole is list, not an object"),
        ({"from": "soon"}, "from is 'soon', not a number"),
        ({"from": math.nan}, "from is nan"),
        ({"from": True}, "from is True"),
        ({"count": 1.0}, "count is 1.0"),
        ({"count": True}, "count is True"),
        ({"count": 10**400}, "count is 1000"),
        ({"rate": 10**400}, "rate is 1000"),
        ({"rate": None}, "rate is None"),
        ({"yes": 1}, "yes is 1, not true or false"),
        ({"class": "blue"}, "class is 'blue', not one of red"),
        ({"class": {}}, "class is dict"),
        ({"place": 3}, "place is 3"),
        ({"gpu": True}, "gpu is True, not int or str"),
        ({"gpu": []}, "gpu is list"),
        ({"many": {"*": [1, "2"]}}, "many.*[1] is '2'"),
        ({"many": []}, "many is list"),
        ({"many": {key: [] for key in "abcd"}}, "many is dict, not an object with at most 3"),
        ({"hooks": {}}, "hooks is dict, not a list"),
        ({"hooks": [{}] * 4}, "a list of at most 3"),
        ({"hooks": ["run"]}, "hooks[0].kind is None, not one of run, post"),
        ({"hooks": [{"kind": ["run"]}]}, "hooks[0].kind is list"),
        ({"hooks": [{"kind": "post"}]}, "it has no hooks[0].url"),
    ],
)
def test_what_has_the_wrong_type_is_refused_with_its_place(raw: object, told: str) -> None:
    with pytest.raises(NotPlain) as refused:
        from_plain(Whole, raw, BOUNDS)
    assert told in str(refused.value)
