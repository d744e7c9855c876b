"""What becomes of models that a structural schema can say, and that those which it cannot are refused by place."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from rankmuster.kube.crd.structural import MOST_CHARACTERS, MOST_DESCRIPTION, MOST_ITEMS, NotStructural, structural


class Colour(str, Enum):
    """What is seen."""

    RED = "red"
    BLUE = "blue"


class Inner(BaseModel):
    """An inner one. `colour`: of the inside; `size`, `weight`: of all of it."""

    colour: Colour = Colour.RED
    size: int = 3
    weight: float = 0


class Condition(BaseModel):
    type: str
    status: str
    lastTransitionTime: str  # noqa: N815  # as Kubernetes has it


class Whole(BaseModel):
    """All of it. `inner`: what it holds."""

    inner: Inner
    maybe: Inner | None = None
    colour: Colour | None = None
    kind: Literal["x"] = "x"
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    names: tuple[str, ...] = ()
    few: Annotated[tuple[Colour, ...], Field(max_length=5)] = ()
    by_colour: dict[Colour, float] = Field(default_factory=dict)
    by_name: dict[Annotated[str, Field(pattern="^a", max_length=5)], str] = Field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    opened_at: str | None = None
    startedAt: str | None = None  # noqa: N815


PROPERTIES: dict[str, Any] = structural(Whole)["properties"]


def test_what_is_referred_to_stands_where_it_is_used() -> None:
    text = str(structural(Whole))
    assert not any(word in text for word in ("$ref", "$defs", "anyOf", "patternProperties", "propertyNames", "const"))
    assert PROPERTIES["inner"]["properties"]["size"]["type"] == "integer"


def test_what_may_be_none_may_be_null_except_where_an_enum_would_have_to_name_it() -> None:
    assert PROPERTIES["maybe"]["nullable"] is True
    assert PROPERTIES["colour"] == {"description": "What is seen.", "type": "string", "enum": ["red", "blue"]}


def test_nothing_grows_without_bound() -> None:
    assert PROPERTIES["names"]["maxItems"] == MOST_ITEMS
    assert PROPERTIES["names"]["items"]["maxLength"] == MOST_CHARACTERS
    assert PROPERTIES["few"]["maxItems"] == 5
    assert PROPERTIES["by_name"]["maxProperties"] == MOST_ITEMS


def test_limits_that_are_out_themselves_are_said_as_openapi_3_0_has_it() -> None:
    share = PROPERTIES["share"]
    assert (share["minimum"], share["exclusiveMinimum"]) == (0, True)
    assert (share["maximum"], share["exclusiveMaximum"]) == (1, True)


def test_a_map_whose_keys_are_an_enum_has_their_names() -> None:
    assert PROPERTIES["by_colour"]["properties"] == {"red": {"type": "number"}, "blue": {"type": "number"}}
    assert PROPERTIES["by_name"]["additionalProperties"] == {"type": "string", "maxLength": MOST_CHARACTERS}


def test_a_constant_is_an_enum_of_one() -> None:
    assert PROPERTIES["kind"]["enum"] == ["x"]


def test_conditions_are_a_map_by_type_and_other_lists_belong_to_one_manager() -> None:
    assert PROPERTIES["conditions"]["x-kubernetes-list-map-keys"] == ["type"]
    assert PROPERTIES["names"]["x-kubernetes-list-type"] == "atomic"


def test_times_are_told_by_their_name() -> None:
    assert PROPERTIES["startedAt"]["format"] == "date-time"
    assert PROPERTIES["conditions"]["items"]["properties"]["lastTransitionTime"]["format"] == "date-time"
    assert "format" not in PROPERTIES["inner"]["properties"]["colour"]


def test_descriptions_come_from_the_docstring_with_the_default() -> None:
    inner = PROPERTIES["inner"]
    assert inner["description"] == "What it holds."
    assert inner["properties"]["colour"]["description"] == "Of the inside. Default: red."
    assert inner["properties"]["size"]["description"] == "Of all of it. Default: 3."
    assert PROPERTIES["maybe"]["description"] == "An inner one."


def test_no_default_is_written_into_objects() -> None:
    def keys(value: Any) -> set[str]:
        if isinstance(value, dict):
            return set(value) | {one for part in value.values() for one in keys(part)}
        return {one for part in value for one in keys(part)} if isinstance(value, list) else set()

    assert "default" not in keys(structural(Whole))


def test_a_long_description_ends_with_a_sentence() -> None:
    class Long(BaseModel):
        pass

    Long.__doc__ = "One sentence is here. " * 30
    said = structural(Long)
    assert len(said["description"]) <= MOST_DESCRIPTION
    assert said["description"].endswith("is here.")


class Several(BaseModel):
    one: int | str


class Anything(BaseModel):
    one: Any


class Uneven(BaseModel):
    one: tuple[int, str]


class Endless(BaseModel):
    below: tuple[Endless, ...] = ()


class Open(BaseModel, extra="allow"):
    one: int


class OfAnything(BaseModel):
    one: dict[str, Any]


@pytest.mark.parametrize("model", [Several, Anything, Uneven, Endless, Open, OfAnything])
def test_what_has_no_structural_form_is_refused_with_its_place(model: type[BaseModel]) -> None:
    with pytest.raises(NotStructural, match=r"^(\w+\.(one|below)|Open)"):
        structural(model)
