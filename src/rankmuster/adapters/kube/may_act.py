"""Whether what is enabled is so still, asked by actuators before they change what cannot be taken back."""

from __future__ import annotations

from collections.abc import Callable

from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer

Objection = Callable[[Deadline], "Answer | None"]
"""The answer to give instead of acting; None: nobody objects."""


def nobody_objects(_: Deadline) -> Answer | None:
    """For who acts by hand."""
    return None
