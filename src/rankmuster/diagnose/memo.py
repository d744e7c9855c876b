"""What several detectors ask of one context is worked out once: pure functions of it, remembered with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar, cast


class Remembers(Protocol):
    """A frozen value with a place for what was worked out from it."""

    @property
    def memo(self) -> dict[Callable[..., Any], Any]: ...


Source = TypeVar("Source", bound=Remembers)
Answer = TypeVar("Answer")


def once(function: Callable[[Source], Answer]) -> Callable[[Source], Answer]:
    """`function`, called at the first question only; callers share its answer and must not change it."""

    @wraps(function)
    def remembered(source: Source) -> Answer:
        if function not in source.memo:
            source.memo[function] = function(source)
        return cast(Answer, source.memo[function])

    return remembered
