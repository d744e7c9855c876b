"""What of the catalogue can be made on this machine, and in words why not: before anything is started."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.node.nvml_session import listed
from rankmuster.drill.fault_needs import Machine, obstacle
from rankmuster.drill.faults import FAULTS, Deed, Fault, When, fault_named
from rankmuster.drill.plan import Backend
from rankmuster.drill.truth import Truth
from rankmuster.model.fault import FaultClass

EXTRAS = {"torch": "bench", "sqlalchemy": "history", "alembic": "history"}
"""What a drill imports besides, and the extra that brings it."""
NVML_SECONDS = 10.0
"""For the list of GPUs: a driver without persistence mode takes seconds to load."""
ALL = "all"
OWN = ("kill", "freeze")
"""Faults that are a signal and nothing else: all that a user's own job can have."""

PACE = (Deed.SLOW, Deed.TAIL)
"""What a rank does that stops nothing."""


class CannotDrill(ValueError):
    """What was asked for cannot be drilled here; the message says why, and what can."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What is to be made, and what of `all` cannot be here: (fault, why)."""

    faults: tuple[Fault, ...]
    left_out: tuple[tuple[Fault, str], ...] = ()


def catalogue() -> tuple[Fault, ...]:
    """The faults of a drill. That nothing is wrong, or to do, is none: those are controls."""
    return tuple(fault for fault in FAULTS.values() if fault.when is not When.NEVER and fault.deed is not Deed.REST)


def classes_of(fault: Fault, truth: Truth) -> tuple[FaultClass, ...]:
    """The classes that are right to say of it in a whole drill. Of a loss of speed one look of `collect` need not know;
    the watch does."""
    return (FaultClass.PERFORMANCE_DEGRADATION,) if fault.deed in PACE else truth.classes


def why_not(fault: Fault, backend: Backend, machine: Machine | None = None) -> str:
    """Why the fault cannot be made here with this backend; empty when it can. `machine`: None for this one."""
    if backend not in fault.truths:
        able = ", ".join(sorted(one.value for one in fault.truths))
        return f"{fault.name} cannot be made with {backend.value}; it can with {able}"
    return obstacle(fault, machine)


def chosen(names: Sequence[str], backend: Backend) -> Choice:
    """Of the built-in instance. Raises CannotDrill for a name that is no fault, or one that cannot be made here."""
    known = {fault.name for fault in catalogue()}
    if not names:
        raise CannotDrill(f"name the faults to make, or {ALL}: there are {', '.join(sorted(known))}")
    for name in names:
        if name != ALL and name not in known:
            raise CannotDrill(_unknown(name, sorted(known)))
    machine = Machine.here()
    if ALL in names:
        found = [(fault, why_not(fault, backend, machine)) for fault in catalogue()]
        return Choice(
            tuple(fault for fault, why in found if not why), tuple((fault, why) for fault, why in found if why)
        )
    faults = tuple(fault_named(name) for name in dict.fromkeys(names))
    for fault in faults:
        if why := why_not(fault, backend, machine):
            raise CannotDrill(why)
    return Choice(faults)


def chosen_own(names: Sequence[str]) -> tuple[Fault, ...]:
    """Of a user's own job. Raises CannotDrill for what is no signal."""
    known = {fault.name for fault in catalogue()}
    if not names:
        raise CannotDrill(f"name the faults to make: {' or '.join(OWN)}")
    for name in names:
        if name != ALL and name not in known:
            raise CannotDrill(_unknown(name, OWN))
        if name != ALL and name not in OWN:
            raise CannotDrill(
                f"{name} is made within a rank, which only the built-in instance has: a job of your own can have "
                f"{' and '.join(OWN)}, which are signals"
            )
    wanted = OWN if ALL in names else dict.fromkeys(names)
    return tuple(fault_named(name) for name in wanted)


def missing_extras() -> tuple[str, ...]:
    """Modules that the built-in instance and its runbook need, and that are not installed."""
    return tuple(name for name in EXTRAS if importlib.util.find_spec(name) is None)


def missing_words(missing: Sequence[str]) -> str:
    """The same for people, with what to do."""
    extras = ",".join(dict.fromkeys(EXTRAS[name] for name in missing))
    return f"a drill needs {', '.join(missing)}, not installed here: pip install 'rankmuster[{extras}]'"


def gpus() -> int:
    """How many GPUs the driver shows; 0 without one."""
    said = listed(Deadline.after(NVML_SECONDS).remaining())
    return 0 if said is None else len(said.gpus)


def no_gpus(count: int, ranks: int = 2) -> str:
    """Why NCCL cannot be drilled with so many GPUs; empty when it can."""
    if count >= ranks:
        return ""
    there = f"the driver shows {count}" if count else "no NVIDIA driver answers here"
    return f"nccl takes a GPU for each of {ranks} ranks, and {there}"


def _unknown(name: str, known: Sequence[str]) -> str:
    if name in FAULTS:
        return f"{name} is no fault: that nothing is wrong is what the controls are for (--controls)"
    return f"there is no fault named {name[:60]!r}; there are {', '.join(known)}"
