"""One result of a calibration."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Grounds(str, Enum):
    """MEASURED: from these bundles. CONSTANT: from a measured constant of this program. FLOOR: the least that is
    sensible, as the measurement lies below. UNDECIDED: what was given does not say."""

    MEASURED = "measured"
    CONSTANT = "constant"
    FLOOR = "floor"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Value:
    """One result. `number` None: undecided. `basis`: how it came about, with the number of samples; `cost`: what it
    costs. `variables`: what to set, (name, value) each. `missing`: for undecided ones, what would decide. `to_set`: it
    is a setting; False: it only says what something costs."""

    name: str
    number: float | None
    unit: str
    grounds: Grounds
    basis: str
    samples: int = 0
    cost: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    missing: str = ""
    to_set: bool = True
