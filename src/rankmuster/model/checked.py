"""Settings that are checked where a file of them is read, and cost nothing where they are not.

What checks them (pydantic) is imported by the reader alone: a process that runs for days gets them as plain values.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar


class Check:
    """A constraint in the words of pydantic's `Field`, which is imported where a file is checked and nowhere else."""

    def __init__(self, **constraint: Any) -> None:
        self._constraint = constraint

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic import Field

        return handler.generate_schema(Annotated[source, Field(**self._constraint)])


class Part:
    """What all parts of a configuration have in common: keys that nobody knows are refused."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
