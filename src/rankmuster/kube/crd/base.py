"""What all our resources have in common: camel case as Kubernetes writes it, and keys that nobody knows are refused."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

LabelKey = Annotated[
    str, Field(max_length=317, pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-\w.]*[A-Za-z0-9])?$")
]
LabelValue = Annotated[str, Field(max_length=63, pattern=r"^([A-Za-z0-9]([-\w.]*[A-Za-z0-9])?)?$")]
Seconds = Annotated[float, Field(gt=0, le=86_400)]


class Shape(BaseModel):
    """One object of a resource."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, use_enum_values=False
    )


class Condition(Shape):
    """A condition of Kubernetes' own form (metav1.Condition)."""

    type: Annotated[str, Field(max_length=316)]
    status: Literal["True", "False", "Unknown"]
    reason: Annotated[str, Field(max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    message: Annotated[str, Field(max_length=32_768)] = ""
    last_transition_time: str
    observed_generation: Annotated[int, Field(ge=0)] | None = None


class Expression(Shape):
    """One line of `matchExpressions`."""

    key: LabelKey
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[LabelValue, ...] = ()


class Selector(Shape):
    """A label selector; an empty one fits nothing here, since what it acts on ends processes."""

    match_labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    match_expressions: tuple[Expression, ...] = ()
