"""One admission from the first look to the sealed record."""

from __future__ import annotations

from rankmuster.admission.plan import Outcome, Plan, Sources


def admit(plan: Plan, sources: Sources) -> Outcome:
    """Being built."""
    raise NotImplementedError
