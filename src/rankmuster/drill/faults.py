"""The faults that can be made on purpose, by name. Their values stand in `faults_*`; `register` adds others."""

from __future__ import annotations

from rankmuster.drill.fault_kinds import Deed, Fault, Need, Place, When
from rankmuster.drill.faults_calls import CALLS
from rankmuster.drill.faults_lost import LOST
from rankmuster.drill.faults_pace import PACE, WELL
from rankmuster.drill.faults_start import START

__all__ = ["FAULTS", "Deed", "Fault", "Need", "Place", "When", "fault_named", "register"]

FAULTS: dict[str, Fault] = {}
"""All faults by name."""


def register(fault: Fault) -> Fault:
    """Adds a fault. Raises ValueError when the name is taken, or when nothing or two things would make it."""
    if fault.name in FAULTS:
        raise ValueError(f"there is a fault named {fault.name} already ({FAULTS[fault.name].summary})")
    if not fault.makeable:
        raise ValueError(f"{fault.name}: made {fault.when.value}, by {fault.makers}")
    FAULTS[fault.name] = fault
    return fault


def fault_named(name: str) -> Fault:
    """Raises ValueError, with the names there are."""
    if name not in FAULTS:
        raise ValueError(f"there is no fault named {name!r}; there are {', '.join(FAULTS)}")
    return FAULTS[name]


for _fault in (*WELL, *CALLS, *LOST, *START, *PACE):
    register(_fault)
